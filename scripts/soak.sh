#!/usr/bin/env bash
# The long runs: half an hour of chaos (MINUTES= changes that), then ten settled minutes of the operator
# in which it must write nothing, and its thousand services.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/chaos.sh --minutes "${MINUTES:-30}"

# The settled runs are tests, marked as ignored for their length.
exec scripts/test.sh --test operator_settled -- --include-ignored --nocapture
