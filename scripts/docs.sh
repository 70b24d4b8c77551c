#!/usr/bin/env bash
# API documentation of the libraries in target/doc; a broken link is an error.
set -euo pipefail
cd "$(dirname "$0")/.."

# The same features as in lint.sh (the example makes cargo select them), so that dependencies are read once.
RUSTDOCFLAGS="-D warnings" exec cargo doc --quiet --workspace --no-deps --all-features --lib --example leader
