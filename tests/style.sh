#!/bin/sh
# One home for each effect, one grep each; formatting; file lengths. Prints what breaks a rule and fails.
cd "$(dirname "$0")/.." || exit 2
bad=0
# only PATTERN WHERE...: the pattern may occur in these files alone.
only() {
    pattern=$1 && shift
    skip=""
    for f in "$@"; do skip="$skip :!$f"; done
    # shellcheck disable=SC2086
    if git grep -nE "$pattern" -- 'src/*.c' 'src/*.h' 'cmd/*.c' $skip | grep -vE '^[^:]*:[0-9]+: *(/\*|\*)'; then
        echo "^ has its home in: $*"
        bad=1
    fi
}
only '\b(fopen|open|openat|mmap|rename)\(' src/base/file.c src/base/mem.c
only '\bgetenv\(' cmd/opts.c
only '\b(exit|abort|_exit)\(' 'cmd/*' src/base/err.c
only '\b(printf|puts|putchar|fputs|fwrite|fprintf)\(' 'cmd/*' src/base/err.c
only '\b(clock_gettime|gettimeofday|time)\(' src/base/clock.c
only '\bpthread_create\(' src/base/pool.c
only '\b(v?fork|exec[lv][a-z]*|wait(pid|id|4)?|kill|posix_spawnp?|system|popen)\(' src/base/process.c
only '\benviron\b' src/base/process.c
only '\b(malloc|calloc|realloc|aligned_alloc|posix_memalign)\(' src/base/mem.c
only '\b(expf?|logf?|sinf?|cosf?|powf?|rsqrtf?|tanhf?)\(' src/base/math.c
only '\bdl(open|sym|error|info)\(' src/dev/library.c
only '\b(cu[A-Z]|nvrtc[A-Z])[A-Za-z]+\(|# *include <(cuda|nvrtc)' 'src/dev/*'
if command -v clang-format >/dev/null 2>&1; then
    # shellcheck disable=SC2046
    clang-format --dry-run --Werror $(git ls-files '*.c' '*.h') || bad=1
fi
for f in $(git ls-files 'src/*.c' 'src/*.h' 'cmd/*.c'); do
    n=$(wc -l <"$f")
    [ "$n" -gt 600 ] && echo "$f has $n lines, more than 600" && bad=1
done
[ $bad = 0 ] && echo "style ok"
exit $bad
