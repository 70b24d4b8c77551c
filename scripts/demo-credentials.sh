#!/usr/bin/env bash
# The story of logins that change while clients go on, on a control plane, a Postgres and a Redis of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh
exec "${CARGO_TARGET_DIR:-target}/debug/leasehold-dev" demo-credentials
