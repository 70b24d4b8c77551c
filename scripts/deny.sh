#!/usr/bin/env bash
# Supply-chain policy of deny.toml. Advisories need the network and are checked at night (ADVISORIES=1).
set -euo pipefail
cd "$(dirname "$0")/.."

cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
checks=(licenses bans sources)
[ -z "${ADVISORIES:-}" ] || checks+=(advisories)
cargo deny --all-features check "${checks[@]}"
