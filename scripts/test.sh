#!/usr/bin/env bash
# Everything that proves this project: see the test ladder in CONTRIBUTING.md.
# Arguments go to `cargo test`, e.g. scripts/test.sh --test sim.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh --candidate

# The Go programs' own tests, with the options of their builds: their dependencies are compiled already.
if [ $# -eq 0 ]; then
	e2e/control-plane/build.sh --test
	(cd e2e/process-node && CGO_ENABLED=0 GOWORK=off GOFLAGS='' go test -vet=off \
		-mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false ./...)
fi

# Built above, so no test builds it again with other features.
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
export LEASEHOLD_OPERATOR_PROGRAM=$target/debug/leasehold-operator

# The features are the ones of scripts/build.sh: another selection would compile every dependency again.
exec cargo test --workspace --all-features "$@"
