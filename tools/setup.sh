#!/bin/sh
# Installs what cadre builds with, from Debian or Ubuntu packages; says the exact line when it may not.
need=""
have() { printf '#include <%s>\n' "$1" | ${CC:-cc} -E -x c - >/dev/null 2>&1; }
command -v "${CC:-cc}" >/dev/null 2>&1 || need="$need gcc libc6-dev"
command -v make >/dev/null 2>&1 || need="$need make"
printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <pcre2.h>\n' | ${CC:-cc} -E -x c - >/dev/null 2>&1 || need="$need libpcre2-dev"
have utf8proc.h || need="$need libutf8proc-dev"
printf '#include <stdarg.h>\n#include <stddef.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <cmocka.h>\n' |
    ${CC:-cc} -E -x c - >/dev/null 2>&1 || need="$need libcmocka-dev"
# Tests compile device text as C++, by the same compiler; clang needs no more than itself.
printf '#include <math.h>\n' | ${CC:-cc} -x c++ -c - -o /dev/null 2>/dev/null || need="$need g++"
[ -z "$need" ] && exit 0
line="apt-get install -y --no-install-recommends$need"
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "cadre: installing$need" >&2
    apt-get update -qq >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive $line >/dev/null 2>&1 && exit 0
    echo "cadre: '$line' failed; run it by hand to see why" >&2
    exit 2
fi
echo "cadre: please run: sudo $line" >&2
exit 2
