#!/bin/sh
# Runs every GPU test of a build folder, as it was built, and ends with one line of totals.
# Usage: tests/gpu/run.sh BUILD [name=value ...]      switches, such as nvrtc=/path/libnvrtc.so.13
build=$1
shift
passed=0 failed=0 skipped=0 status=0 out=$(mktemp)
for test in "$build"/gpu/*; do
    [ -f "$test" ] && [ -x "$test" ] || continue
    echo "# ${test##*/}"
    "$test" "$@" >"$out" 2>&1
    rc=$?
    cat "$out"
    totals=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$out" | tail -1)
    p=${totals%% passed*} f=${totals#*passed, } f=${f%% failed*} s=${totals#*failed, } s=${s%% skipped*}
    [ -n "$totals" ] || { p=0 f=1 s=0 && echo "${test##*/}: exit $rc, no totals"; }
    [ $rc -ne 0 ] && [ "$f" -eq 0 ] && f=1
    [ "$f" -eq 0 ] || status=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
rm -f "$out"
[ $((passed + failed + skipped)) -eq 0 ] && echo "no GPU test in $build/gpu: make build-gpu-tests" && status=1
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
