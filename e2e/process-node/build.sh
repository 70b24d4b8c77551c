#!/bin/sh
# Builds process-node once into the user's cache and prints the path of the
# binary, and only that, on standard output.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
say() { echo "process-node: $*" >&2; }
die() { say "$*"; exit 1; }

[ $# -eq 0 ] || die "unknown argument '$1': expected none"
if ! command -v go >/dev/null 2>&1; then
	case $(uname -m) in aarch64 | arm64) arch=arm64 ;; *) arch=amd64 ;; esac
	say "Go is not installed (needed to build the node that runs pods as processes). Install it with:"
	say "  curl -fsSL https://go.dev/dl/go1.26.8.linux-$arch.tar.gz | tar -C /usr/local -xz && export PATH=\$PATH:/usr/local/go/bin"
	exit 1
fi

# Settings of whoever calls must not change what is built.
export CGO_ENABLED=0 GOWORK=off GOFLAGS=

# Tests are no part of the program, so they do not change its key.
sources=$(find "$here" -maxdepth 1 -name '*.go' ! -name '*_test.go' | LC_ALL=C sort)
# shellcheck disable=SC2086 # a list of paths of ours
key=$({ cat "$here/build.sh" "$here/go.mod" "$here/go.sum" $sources; go env GOOS GOARCH; } | sha256sum | cut -c1-12)
cache=${LEASEHOLD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/leasehold}/process-node
out=$cache/$key/process-node

if [ ! -x "$out" ]; then
	mkdir -p "$cache/$key"
	# Builders queue on a file lock, so two test runs never build twice.
	exec 9>"$cache/$key.lock"
	flock 9
	if [ ! -x "$out" ]; then
		start=$(date +%s)
		say "building (about three minutes on two cores, the first time only)"
		(cd "$here" && go build -mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false \
			-ldflags "-s -w" -o "$out.new.$$" . >&2 9>&-) || { rm -f "$out.new.$$"; die "the build failed (see above)"; }
		mv "$out.new.$$" "$out"
		say "built in $(($(date +%s) - start)) s, $(($(wc -c <"$out") / 1000000)) MB"
	fi
	exec 9>&-
fi
echo "$out"
