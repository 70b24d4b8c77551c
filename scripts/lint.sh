#!/usr/bin/env bash
# Format, clippy on every feature set, and the house rules. Fails on the first finding of each.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all -- --check

unformatted=$(gofmt -l e2e)
[ -z "$unformatted" ] || { echo "lint: run gofmt -w on: $unformatted" >&2; exit 1; }

# Each feature of the libraries compiles alone; the whole workspace compiles with all of them.
clippy() { cargo clippy --quiet "$@" -- -D warnings; }
clippy -p leasehold-core --lib
clippy -p leasehold --lib
for feature in kubernetes metrics testing; do
	clippy -p leasehold --lib --features "$feature"
done
clippy --workspace --all-targets --all-features

cargo xtask tidy
