/* err.c: error codes as text, and the one line that travels with them. */
#include "err.h"
#include "utf8.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *cadre_err_text(cadre_err code) {
    static const char *const text[] = {
#define X(name, text) text,
        CADRE_ERRORS(X)
#undef X
    };
    if ((unsigned)code >= sizeof text / sizeof text[0]) return "unknown error";
    return text[code];
}

const char *cadre_version(void) {
    return CADRE_VERSION;
}

void err_one_line(char *text) {
    unsigned char *p = (unsigned char *)text, *end = p + strlen(text);
    for (int n; p < end; p += n) {
        bool bad = utf8_decode(p, end, &n) == UTF8_BAD;
        if (bad || *p < 32 || *p == 127) memset(p, '?', (size_t)n);
    }
}

cadre_err cadre_fail_set(cadre_fail *why, cadre_err code, const char *format, ...) {
    if (!why) return code;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(why->text, sizeof why->text, format, args);
    va_end(args);
    why->code = code;
    if (n < 0) why->text[0] = 0;
    err_one_line(why->text);
    return code;
}

#ifdef CADRE_CHECKS
void cadre_assert_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "cadre: %s:%d: this must hold: %s\n", file, line, condition);
    abort();
}
#endif
