#!/usr/bin/env bash
# Makes sure that what a build and a test run need is there. Costs about 0.1 s when nothing is missing.
# Debian packages are installed when run as root; for everything else the exact command is printed.
# --without-servers: what is enough to build and for the demos.
set -euo pipefail
cd "$(dirname "$0")/.."

RUST=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
GO=1.26.8

missing=()
say() { echo "tools: $*" >&2; }

# need COMMAND PACKAGE: remember the Debian package of a command that is not there.
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }

need cc gcc           # links Rust programs; builds the assembly of `ring`
need git git          # names the source in builds; lists files for `tidy`
need make make
need curl curl        # readiness in scripts
need flock util-linux # one builder at a time in the cache
need python3 python3  # reads the wire format as its page says
need unshare util-linux # pods as processes have their own mount and UTS namespaces
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
[ -d /etc/ssl/certs ] || missing+=(ca-certificates)

case ${1:-} in
"")
	# Tests start their own, in folders of their own.
	need redis-server redis-server
	[ -x /usr/sbin/pgbouncer ] || need pgbouncer pgbouncer
	# Debian has the programs of each version in a folder of its own, out of PATH.
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || need initdb postgresql
	;;
--without-servers) ;;
*) say "unknown argument '$1': expected --without-servers"; exit 2 ;;
esac

# install PACKAGE…: for root. A server that comes with a package is neither started now nor at the next boot, and
# Postgres makes no database; what was installed before is left alone.
install() (
	export DEBIAN_FRONTEND=noninteractive
	policy=/usr/sbin/policy-rc.d
	cluster=/etc/postgresql-common/createcluster.d/leasehold-tools.conf
	redis=$(command -v redis-server || true)
	remove=()
	trap 'rm -f "${remove[@]}"; rmdir --ignore-fail-on-non-empty "${cluster%/*}"' EXIT
	if [ ! -e $policy ]; then
		remove+=("$policy")
		printf '#!/bin/sh\nexit 101\n' >$policy
		chmod +x $policy
	fi
	mkdir -p "${cluster%/*}"
	remove+=("$cluster")
	echo 'create_main_cluster = false' >"$cluster"
	apt-get update -q
	apt-get install -yq --no-install-recommends "$@"
	if [ -z "$redis" ] && command -v redis-server >/dev/null && command -v systemctl >/dev/null; then
		systemctl disable --quiet redis-server || say "redis-server may start at the next boot"
	fi
)

if [ ${#missing[@]} -gt 0 ]; then
	packages=$(printf '%s\n' "${missing[@]}" | sort -u | tr '\n' ' ')
	if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
		say "installing ${packages% }"
		# shellcheck disable=SC2086 # a list of packages
		install $packages </dev/null >&2
	else
		say "missing: ${packages% }. Install with:"
		say "  sudo apt-get install --no-install-recommends ${packages% }"
		exit 1
	fi
fi

failed=0
if ! command -v cargo >/dev/null 2>&1; then
	say "Rust is not installed (needs $RUST). Install it with:"
	say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --default-toolchain $RUST -c clippy,rustfmt && . ~/.cargo/env"
	failed=1
elif ! found=$(cargo --version 2>&1); then
	say "Rust $RUST (rust-toolchain.toml) is not installed: ${found%%$'\n'*}. Install it with:"
	say "  rustup toolchain install $RUST --component clippy --component rustfmt"
	failed=1
fi

if ! command -v go >/dev/null 2>&1; then
	arch=amd64
	[ "$(uname -m)" = x86_64 ] || arch=arm64
	say "Go is not installed (needs $GO, to build the Kubernetes control plane). Install it with:"
	say "  curl -fsSL https://go.dev/dl/go$GO.linux-$arch.tar.gz | tar -C /usr/local -xz && export PATH=\$PATH:/usr/local/go/bin"
	failed=1
else
	# 1.21 and newer fetch the toolchain that go.mod asks for by themselves.
	version=$(go env GOVERSION)
	minor=${version#go1.}
	minor=${minor%%[!0-9]*}
	if [ "${minor:-99}" -lt 21 ]; then
		say "Go: found ${version#go}, needed 1.21 or newer (which fetches $GO by itself), or $GO. See https://go.dev/dl/"
		failed=1
	fi
fi
exit $failed
