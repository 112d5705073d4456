#!/bin/sh
# Runs every test program of a build folder and ends with one line of totals. Usage: tests/run.sh BUILD
build=$1
# No table of the user changes what tests see.
export XDG_CONFIG_HOME="${PWD}/$build/tests/none"
out=$build/tests/output.txt
passed=0 failed=0 skipped=0 status=0
for test in $(find "$build/tests" -type f -perm -u+x | sort); do
    CADRE_BUILD=$build "$test" >"$out" 2>&1
    rc=$?
    p=$(grep -c '^\[ *OK *\]' "$out")
    grep -a '^vector \|^field \|^skipped' "$out"
    # cmocka lists a failed and a skipped test twice: where it happens and in the summary.
    s=$(grep -a '^\[ *SKIPPED *\] ' "$out" | grep -av 'test(s)' | sort -u | wc -l)
    f=$(grep -a '^\[ *FAILED *\] ' "$out" | grep -av 'test(s)' | sort -u | wc -l)
    [ $rc -ne 0 ] && [ "$f" -eq 0 ] && f=1
    [ $rc -ne 0 ] && { cat "$out"; echo "$test: exit $rc"; status=1; }
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    echo "${test#"$build"/tests/}: $p passed, $f failed, $s skipped"
done
rm -f "$out"
[ $((passed + failed)) -eq 0 ] && echo "no test ran" && status=1
echo "$passed passed, $failed failed, $skipped skipped"
exit $status
