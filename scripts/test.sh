#!/usr/bin/env bash
# Everything that proves this project: see the test ladder in CONTRIBUTING.md.
# Arguments go to `cargo test`, e.g. scripts/test.sh -p leasehold-core.
set -euo pipefail
cd "$(dirname "$0")/.."

# Built once into the user's cache; the harness asks the same scripts for the paths.
e2e/control-plane/build.sh >/dev/null
e2e/control-plane/build.sh --candidate >/dev/null
e2e/process-node/build.sh >/dev/null

cargo test --workspace --all-features "$@"
