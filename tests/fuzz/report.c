/* report: any lines of samples either are refused in one line, or give a verdict whose report is whole in every format:
 * UTF-8, no control characters, JSON that parses, one script in the HTML, no markup from names. */
#include "base/base.h"
#include "lab/lab.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool c) {
    if (!c) abort();
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part)) n++;
    return n;
}

static void check(lab_format format, const char *text, size_t len) {
    json_doc *doc = NULL;
    must(strlen(text) == len && utf8_valid(text, len));
    for (size_t i = 0; i < len; i++) must((unsigned char)text[i] >= 32 || text[i] == '\n');
    if (format == LAB_JSON) {
        must(!json_parse("report", text, len, &doc, NULL));
        json_free(doc);
    }
    if (format == LAB_HTML) must(count_of(text, "<script") == 1 && count_of(text, "<img") == 0);
}

static void write_all(const lab_verdict *v) {
    const lab_report r = {.verdict = v, .command = "cadre ab report"};
    for (lab_format f = LAB_TEXT; f <= LAB_HTML; f++) {
        char *text;
        size_t len;
        must(!lab_report_write(&r, f, &text, &len, NULL));
        check(f, text, len);
        mem_free(text);
    }
    for (int i = 0; i + 1 < v->arm_count; i++) {
        char text[300];
        lab_verdict_say(v, i, text, sizeof text);
        must(*text && strlen(text) < sizeof text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lab_samples *s = NULL;
    lab_verdict *v = NULL;
    lab_question q = lab_question_default();
    cadre_fail why = {0};
    if (lab_samples_parse("in", (const char *)data, size, &s, &why)) {
        must(*why.text && utf8_valid(why.text, strlen(why.text)));
        return 0;
    }
    q.resamples = 100;
    q.blocks_allowed = size & 1;
    q.unproven_allowed = size & 2;
    q.per_token = size & 4;
    if (!lab_verdict_new(s, &q, &v, &why))
        write_all(v);
    else
        must(*why.text && utf8_valid(why.text, strlen(why.text)));
    lab_verdict_free(v);
    lab_samples_free(s);
    return 0;
}

#include "replay.h"
