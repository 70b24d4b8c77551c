#!/usr/bin/env bash
# Format, the house rules, and clippy. Fails on the first finding of each.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all -- --check

unformatted=$(gofmt -l e2e)
[ -z "$unformatted" ] || { echo "lint: run gofmt -w on: $unformatted" >&2; exit 1; }

scripts/build.sh --xtask
"${CARGO_TARGET_DIR:-target}/debug/xtask" tidy

# The whole workspace with all features; and what people depend on, as it is without any.
cargo clippy --quiet --workspace --all-targets --all-features -- -D warnings
cargo clippy --quiet -p leasehold -p leasehold-core --lib -- -D warnings
