#!/usr/bin/env bash
# The long runs: half an hour of chaos each for an election and for partitions; beside the first, which waits
# most of the time, client-go's faults with leases of 15 s and ten settled minutes of an operator that must
# write nothing; last its thousand services. CHAOS_MINUTES and LEASEHOLD_QUIET_SECONDS set other lengths.
set -euo pipefail
cd "$(dirname "$0")/.."

export LEASEHOLD_QUIET_SECONDS=${LEASEHOLD_QUIET_SECONDS:-600}
scripts/test.sh --no-run

scripts/chaos.sh --minutes "${CHAOS_MINUTES:-30}" &
chaos=$!
trap 'kill $chaos 2>/dev/null || true' EXIT
LEASEHOLD_FAULTS=long scripts/test.sh --test faults_client_go
scripts/test.sh --test operator_behaviour a_settled_operator_writes_nothing
wait $chaos
scripts/chaos.sh --partitions --minutes "${CHAOS_MINUTES:-30}"
scripts/test.sh --test operator_behaviour a_thousand_services -- --ignored --nocapture
