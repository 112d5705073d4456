#!/bin/sh
# Runs every GPU test of a build folder, as it was built, and ends with one line of totals.
# Usage: tests/gpu/run.sh BUILD [name=value ...]      switches, such as nvrtc=/path/libnvrtc.so.13
# ONLY="moe count"       these alone
# PARTS=16               compile with so many processes first, where compiling is what takes long; into the cache
# SANITIZER=memcheck     under NVIDIA's compute-sanitizer (racecheck, initcheck, synccheck are the others), with few
#                        cases: it is many times slower. COMPUTE_SANITIZER=/path/compute-sanitizer names the tool.
build=$1
shift
passed=0 failed=0 skipped=0 status=0 out=$(mktemp) rc=$(mktemp)
under=
if [ -n "$SANITIZER" ]; then
    tool=${COMPUTE_SANITIZER:-compute-sanitizer}
    command -v "$tool" >/dev/null || { echo "$tool is not there: it comes with the CUDA toolkit" && exit 2; }
    # The tests provoke errors of calls; 9: it found something.
    under="$tool --tool $SANITIZER --error-exitcode 9 --report-api-errors no --print-limit 20"
    set -- few "$@"
fi
for name in $ONLY; do
    [ ! -d "$build/gpu" ] || [ -x "$build/gpu/$name" ] && continue
    echo "no GPU test is called '$name' (ONLY); there are: $(cd "$build/gpu" && echo *)" && exit 2
done
part=0
case " ${ONLY:-moe} " in *" moe "*) ;; *) PARTS=0 ;; esac
while [ $part -lt "${PARTS:-0}" ] && [ -z "$SANITIZER" ]; do
    "$build/gpu/moe" "compile=$part/$PARTS" "$@" >/dev/null 2>&1 &
    part=$((part + 1))
done
wait
for test in "$build"/gpu/*; do
    [ -f "$test" ] && [ -x "$test" ] || continue
    case " ${ONLY:-${test##*/}} " in *" ${test##*/} "*) ;; *) continue ;; esac
    echo "# ${test##*/}${SANITIZER:+ under $SANITIZER}"
    {
        $under "$test" "$@" 2>&1
        echo $? >"$rc"
    } | tee "$out"
    code=$(cat "$rc")
    totals=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$out" | tail -1)
    p=${totals%% passed*} f=${totals#*passed, } f=${f%% failed*} s=${totals#*failed, } s=${s%% skipped*}
    [ -n "$totals" ] || { p=0 f=1 s=0 && echo "${test##*/}: exit $code, no totals"; }
    [ "$code" -eq 9 ] && [ -n "$under" ] && f=$((f + 1)) && echo "not ok - ${test##*/}: $SANITIZER found what is above"
    [ "$code" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    [ "$f" -eq 0 ] || status=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
rm -f "$out" "$rc"
[ $((passed + failed + skipped)) -eq 0 ] && echo "no GPU test in $build/gpu: make build-gpu-tests" && status=1
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
