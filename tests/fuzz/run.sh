#!/bin/sh
# Replays every fuzz corpus against its target. Usage: tests/fuzz/run.sh BUILD. The targets are built by `make fuzz-replay`.
build=$1
passed=0 failed=0
for target in "$build"/fuzz-replay/*; do
    [ -x "$target" ] || continue
    name=$(basename "$target")
    corpus=tests/fuzz/corpus/$name
    if [ -d "$corpus" ] && "$target" "$corpus"/* >/dev/null 2>"$build/fuzz-replay/$name.log"; then
        passed=$((passed + 1))
    else
        cat "$build/fuzz-replay/$name.log"
        echo "fuzz replay of $name failed"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
