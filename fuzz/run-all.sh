#!/bin/sh
# Runs every fuzz target in turn, SECONDS each (default 20), and prints one line for each.
# Usage: fuzz/run-all.sh [SECONDS [TARGET...]]. Exits 1 if any target found something.
set -u
cd "$(dirname "$0")/.." || exit 2
seconds=${1:-20}
[ $# -gt 0 ] && shift
# Sanitizers are unstable options; this lets the stable compiler take them.
export RUSTC_BOOTSTRAP=1
# cargo-fuzz rebuilds with its own flags: keep that apart from ordinary builds.
unset CARGO_TARGET_DIR
python3 fuzz/seeds.py || exit 2
cargo fuzz build || exit 2
[ $# -gt 0 ] || set -- $(cargo fuzz list)
# Run what was just built: `cargo fuzz run` would build again if a source changed meanwhile.
binaries=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release
export ASAN_OPTIONS=detect_odr_violation=0
failed=0
for target in "$@"; do
    log=$(mktemp)
    mkdir -p "fuzz/corpus/$target" "fuzz/artifacts/$target"
    if nice -n 10 "$binaries/$target" -artifact_prefix="fuzz/artifacts/$target/" -max_total_time="$seconds" \
        -max_len=9000 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 "fuzz/corpus/$target" >"$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "$target: ok, $runs runs in $seconds s"
        rm -f "$log"
    else
        echo "$target: FAILED, see $log and fuzz/artifacts/$target"
        failed=1
    fi
done
exit $failed
