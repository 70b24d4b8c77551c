#!/usr/bin/env bash
# Builds what the demo and the tests run, and says before a long build how long it takes.
# --candidate: client-go's candidate too. --xtask: xtask and nothing else.
#
# Whoever wants one of our programs builds it here, with the features that `cargo test` selects, so that
# demo, tests and checks share one set of artefacts. Naming an example is what makes cargo select them.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(--bins)
case ${1:-} in
"") ;;
--candidate) e2e/control-plane/build.sh --candidate >/dev/null ;;
--xtask) programs=(--bin xtask) ;;
*) echo "build: unknown argument '$1': expected --candidate or --xtask" >&2; exit 2 ;;
esac

if [ "${programs[0]}" = --bins ]; then
	e2e/control-plane/build.sh >/dev/null
	e2e/process-node/build.sh >/dev/null
fi
if ! compgen -G "${CARGO_TARGET_DIR:-target}/debug/deps/libkube-*" >/dev/null; then
	echo "build: compiling the Rust programs (about five minutes on two idle cores, the first time only)" >&2
fi
exec cargo build --quiet --workspace --all-features "${programs[@]}" --example leader
