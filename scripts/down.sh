#!/usr/bin/env bash
# Ends what `make up` left running. What was never built never ran.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${CARGO_TARGET_DIR:-target}/debug/leasehold-dev
[ -x "$program" ] || { echo "Nothing to end: nothing was built here yet"; exit 0; }
exec "$program" down
