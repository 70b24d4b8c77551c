#!/usr/bin/env bash
# The long runs: half an hour of chaos (MINUTES= changes that), ten settled minutes of the operator
# in which it must write nothing, and its thousand services.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/chaos.sh --minutes "${MINUTES:-30}"
LEASEHOLD_QUIET_SECONDS=600 scripts/test.sh --test operator_behaviour a_settled_operator_writes_nothing -- --nocapture
exec scripts/bench-election.sh --only operator_rss --services 1000 --json target/bench/operator-1000.json
