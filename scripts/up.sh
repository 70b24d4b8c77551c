#!/usr/bin/env bash
# Control plane, operator and example, left running; prints the line that points kubectl at them.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
exec "${CARGO_TARGET_DIR:-target}/debug/leasehold-dev" up
