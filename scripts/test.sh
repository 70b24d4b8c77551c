#!/usr/bin/env bash
# Everything that proves this project: see the test ladder in CONTRIBUTING.md.
# Arguments go to `cargo test`, e.g. scripts/test.sh --test sim. Without any, all test programs run, in lanes
# beside each other: most of those on a control plane wait most of the time. The output of each is in
# target/test, and is shown if it fails. LANES=1 runs them one after the other.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/build.sh --candidate

# Built above, so no test builds it again with other features.
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
export LEASEHOLD_OPERATOR_PROGRAM=$target/debug/leasehold-operator

# The features are the ones of scripts/build.sh: another selection would compile every dependency again.
cargo=(cargo test --workspace --all-features)
[ $# -eq 0 ] || exec "${cargo[@]}" "$@"

"${cargo[@]}" --quiet --no-run
logs=$target/test
rm -rf "$logs"
mkdir -p "$logs"
start=$SECONDS

# run NAME COMMAND…: one test program, or several of one kind.
run() {
	local name=$1 begun=$SECONDS log=$logs/$1.log result=passed
	shift
	"$@" >"$log" 2>&1 || result=FAILED
	{
		flock 9
		[ $result = passed ] || { cat "$log" && touch "$logs/failed"; }
		awk -v name="$name" -v result=$result -v seconds=$((SECONDS - begun)) '
			/^test result:/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^(passed|ignored);$/) count[$(i + 1)] += $i }
			END {
				tests = count["passed;"] ? ", " count["passed;"] " tests" : ""
				ignored = count["ignored;"] ? ", " count["ignored;"] " left out" : ""
				printf "test: %-24s %s in %d s%s%s\n", name, result, seconds, tests, ignored
			}' "$log"
	} 9>"$logs/lock"
}

# lane NAME…: the cluster tests of these names, one after the other.
lane() {
	for name in "$@"; do run "$name" "${cargo[@]}" --test "$name"; done
}

# programs FOLDER…: the test programs of these crates, one after the other.
programs() {
	local folder name path
	for folder in "$@"; do
		for path in "$folder"/tests/{*.rs,*/main.rs}; do
			[ -e "$path" ] || continue
			name=${path%/main.rs}
			name=$(basename "$name" .rs)
			run "$name" "${polite[@]}" "${cargo[@]}" --test "$name"
		done
	done
}

# Simulations and models look at no clock: they take what the others leave.
pure() {
	local polite=(nice -n 19)
	programs runtime-lib/core
}

computing() {
	local polite=()
	run unit "${cargo[@]}" --lib --bins
	programs crds operator runtime-lib xtask
	run documentation "${cargo[@]}" --doc
	# The Go programs' own tests, with the options of their builds: their dependencies are compiled already.
	run control-plane-go e2e/control-plane/build.sh --test
	run process-node-go env -C e2e/process-node CGO_ENABLED=0 GOWORK=off GOFLAGS='' go test -vet=off \
		-mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false ./...
}

long=(operator_behaviour)
chaos=(chaos_short chaos_partitions_short demo)
# These keep servers as busy as they can: they come when nothing has to answer in time.
busy=(postgres_logins redis_logins)
loaded=(binding credentials)
rest=()
for path in e2e/tests/*.rs; do
	name=$(basename "$path" .rs)
	[[ " ${long[*]} ${chaos[*]} ${busy[*]} ${loaded[*]} " == *" $name "* ]] || rest+=("$name")
done

if [ "${LANES:-}" = 1 ]; then
	pure
	computing
	lane "${long[@]}" "${chaos[@]}" "${rest[@]}" "${busy[@]}" "${loaded[@]}"
else
	# Each lane is a process group of its own, so that an interrupt can end all that runs in it.
	lanes=()
	trap 'for it in "${lanes[@]}"; do kill -- "-$it" 2>/dev/null || true; done; exit 130' INT TERM
	set -m
	pure </dev/null & pure=$!
	lanes+=($pure)
	lane "${long[@]}" </dev/null & lanes+=($!)
	lane "${chaos[@]}" </dev/null & lanes+=($!)
	lane "${rest[@]}" </dev/null & lanes+=($!)
	wait "${lanes[@]:1}"
	lanes=($pure)
	computing </dev/null & lanes+=($!)
	lane "${busy[@]}" </dev/null & lanes+=($!)
	lane "${loaded[@]}" </dev/null & lanes+=($!)
	wait
fi
if [ -e "$logs/failed" ]; then
	echo "test: FAILED after $((SECONDS - start)) s; the output of each program is in $logs" >&2
	exit 1
fi
echo "test: all passed in $((SECONDS - start)) s"
