#!/usr/bin/env bash
# Mutation test of the deciding code. Result in target/mutants/mutants.out; survivors are listed at the end.
# MUTANTS="--file runtime-lib/core/src/lease/timing.rs" narrows it down.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo mutants --version >/dev/null 2>&1 || cargo install --locked cargo-mutants
# A sixteenth of the random cases: a mutant is built and judged in seconds.
export PROPTEST_CASES="${PROPTEST_CASES:-16}"
# shellcheck disable=SC2086 # MUTANTS is a list of arguments
cargo mutants --package leasehold-core --all-features --output target/mutants ${MUTANTS:-}
