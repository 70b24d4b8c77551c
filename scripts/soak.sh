#!/usr/bin/env bash
# The long runs: half an hour of chaos each for an election and for partitions, client-go's faults with
# leases of 15 s, ten settled minutes of an operator that must write nothing, and its thousand services.
# CHAOS_MINUTES and LEASEHOLD_QUIET_SECONDS set other lengths.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/chaos.sh --minutes "${CHAOS_MINUTES:-30}"
scripts/chaos.sh --partitions --minutes "${CHAOS_MINUTES:-30}"
LEASEHOLD_FAULTS=long scripts/test.sh --test faults_client_go
export LEASEHOLD_QUIET_SECONDS=${LEASEHOLD_QUIET_SECONDS:-600}
scripts/test.sh --test operator_behaviour a_settled_operator_writes_nothing
scripts/test.sh --test operator_behaviour a_thousand_services -- --ignored --nocapture
