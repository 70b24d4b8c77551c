#!/usr/bin/env bash
# The story of partitions that pods hand to each other, on a control plane of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
exec "${CARGO_TARGET_DIR:-target}/debug/leasehold-dev" demo-partitions
