#!/usr/bin/env bash
# Our election beside client-go's on one control plane, both in release. Arguments go to leasehold-bench (--help lists them).
set -euo pipefail
cd "$(dirname "$0")/.."

e2e/control-plane/build.sh >/dev/null
e2e/control-plane/build.sh --candidate >/dev/null
e2e/process-node/build.sh >/dev/null
# As it ships: without the features that only tests need.
cargo build --release -p leasehold-e2e -p leasehold-operator --bins
exec "${CARGO_TARGET_DIR:-target}/release/leasehold-bench" "$@"
