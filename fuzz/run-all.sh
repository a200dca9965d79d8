#!/bin/sh
# Runs each fuzz target for SECONDS (default 20), one after the other, and prints a line for each.
# Usage: fuzz/run-all.sh [SECONDS [TARGET...]]. Exits with 1 if a target found a failure.
set -u
cd "$(dirname "$0")/.." || exit 2
seconds=${1:-20}
[ $# -gt 0 ] && shift
# Sanitizers are unstable options. This makes the stable compiler accept them.
export RUSTC_BOOTSTRAP=1
# cargo-fuzz builds with its own flags: keep its output apart from ordinary builds.
unset CARGO_TARGET_DIR
python3 fuzz/seeds.py || exit 2
cargo fuzz build || exit 2
[ $# -gt 0 ] || set -- $(cargo fuzz list)
# Run the binaries directly: `cargo fuzz run` would build again if a source file changed meanwhile.
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
