#!/usr/bin/env bash
# Fails if a generated, committed file differs from what would be generated now. Changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh --xtask
"${CARGO_TARGET_DIR:-target}/debug/xtask" crds --check
e2e/control-plane/build.sh --verify
cargo metadata --locked --format-version 1 >/dev/null
