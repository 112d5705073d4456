/* pattern.c: patterns over text, by PCRE2, with limits: a pattern that takes too much is an error, never a wait. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "find.h"
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 10000000, HEAP_KIB = 64 << 10, PATTERN_MAX = 16 << 10 };

struct lab_pattern {
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
};

static void *take(size_t n, void *unused) {
    (void)unused;
    return mem_new(n);
}

static void give(void *p, void *unused) {
    (void)unused;
    mem_free(p);
}

void lab_pattern_free(lab_pattern *p) {
    if (!p) return;
    pcre2_match_context_free(p->context);
    pcre2_match_data_free(p->data);
    pcre2_code_free(p->code);
    pcre2_general_context_free(p->memory);
    mem_free(p);
}

static cadre_err compile(lab_pattern *p, const char *regex, char what[200]) {
    uint32_t options = PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    char message[120];
    int code = 0;
    size_t offset = 0;
    p->memory = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *c = p->memory ? pcre2_compile_context_create(p->memory) : NULL;
    if (!c) return CADRE_NOMEM;
    pcre2_set_newline(c, PCRE2_NEWLINE_LF);
    pcre2_set_max_pattern_length(c, PATTERN_MAX);
    p->code = pcre2_compile((PCRE2_SPTR)regex, strlen(regex), options, &code, &offset, c);
    pcre2_compile_context_free(c);
    if (!p->code && code != PCRE2_ERROR_HEAP_FAILED) {
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        snprintf(what, 200, "does not compile: %s (at byte %zu)", message, offset);
        return CADRE_FORMAT;
    }
    if (p->code) p->data = pcre2_match_data_create_from_pattern(p->code, p->memory);
    if (p->code) p->context = pcre2_match_context_create(p->memory);
    return p->data && p->context ? CADRE_OK : CADRE_NOMEM;
}

cadre_err lab_pattern_new(const char *regex, lab_pattern **out, char what[200]) {
    lab_pattern *p = mem_new(sizeof *p);
    cadre_err err = p ? compile(p, regex, what) : CADRE_NOMEM;
    if (err == CADRE_NOMEM) snprintf(what, 200, "out of memory");
    if (err)
        lab_pattern_free(p);
    else
        *out = p;
    return err;
}

static cadre_err too_much(int rc, cadre_fail *why) {
    char message[120];
    if (rc == PCRE2_ERROR_NOMEMORY) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a pattern");
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)message, sizeof message);
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "a pattern can't cope with this text: %s", message);
}

cadre_err lab_pattern_next(lab_pattern *p, const char *text, size_t len, size_t *at, const char **hit, size_t *n,
                           bool *found, cadre_fail *why) {
    uint64_t steps = STEPS + 16 * (uint64_t)len;
    *found = false;
    if (*at > len) return CADRE_OK;
    pcre2_set_match_limit(p->context, steps > UINT32_MAX ? UINT32_MAX : (uint32_t)steps);
    pcre2_set_heap_limit(p->context, HEAP_KIB);
    int rc = pcre2_match(p->code, (PCRE2_SPTR)text, len, *at, 0, p->data, p->context);
    if (rc == PCRE2_ERROR_NOMATCH) return CADRE_OK;
    if (rc < 0) return too_much(rc, why);
    const size_t *v = pcre2_get_ovector_pointer(p->data);
    int group = pcre2_get_ovector_count(p->data) > 1 && rc > 1 && v[2] != PCRE2_UNSET ? 1 : 0;
    *hit = text + v[2 * group];
    *n = v[2 * group + 1] - v[2 * group];
    *at = v[1] > v[0] ? v[1] : v[1] + 1; /* an empty match does not come again */
    *found = true;
    return CADRE_OK;
}

cadre_err lab_pattern_in(const char *regex, const char *text, size_t len, bool *found, cadre_fail *why) {
    lab_pattern *p;
    char what[200];
    const char *hit;
    size_t at = 0, n;
    cadre_err err = lab_pattern_new(regex, &p, what);
    if (err) return cadre_fail_set(why, err, "'%.100s' %s", regex, what);
    err = lab_pattern_next(p, text, len, &at, &hit, &n, found, why);
    lab_pattern_free(p);
    return err;
}
