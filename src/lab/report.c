/* report.c: a report in a format, and the words that all formats share. */
#include "report.h"
#include <math.h>
#include <string.h>

const char *rep_outcome(lab_outcome o) {
    static const char *const names[] = {"win", "loss", "within noise", "underpowered", "refused"};
    return names[o];
}

const char *rep_active(lab_active a) {
    return a == LAB_ACTIVE_YES ? "proven" : a == LAB_ACTIVE_NO ? "refuted" : "not told";
}

const char *rep_unit(const lab_verdict *v) {
    return v->unit && *v->unit ? v->unit : v->metric;
}

bool rep_refused(const lab_verdict *v) {
    return v->outcome == LAB_REFUSED;
}

int rep_samples(const lab_verdict *v) {
    return v->samples ? lab_samples_count(v->samples) : 0;
}

const lab_sample *rep_sample(const lab_verdict *v, int i, int *arm) {
    const lab_sample *s = lab_samples_at(v->samples, i);
    if (!s->arm || !s->metric || strcmp(s->metric, v->metric)) return NULL;
    if (v->run && s->run && strcmp(s->run, v->run)) return NULL;
    for (*arm = 0; *arm < v->arm_count; ++*arm)
        if (!strcmp(v->arms[*arm].name, s->arm)) return s;
    return NULL;
}

cadre_err lab_report_write(const lab_report *r, lab_format format, char **text, size_t *len, cadre_fail *why) {
    static void (*const writers[])(const rep_page *, rep_text *) = {
        [LAB_TEXT] = rep_write_text, [LAB_MARKDOWN] = rep_write_markdown, [LAB_HTML] = rep_write_html};
    rep_text out = {0};
    rep_page p = {0};
    cadre_err err;
    if (format == LAB_JSON)
        err = rep_write_json(r, &out, why);
    else {
        err = rep_page_make(r, &p, why);
        if (!err) writers[format](&p, &out);
        rep_page_done(&p);
    }
    if (!err && out.failed) err = cadre_fail_set(why, CADRE_NOMEM, "out of memory for the report");
    if (err) {
        mem_free(out.text);
        return err;
    }
    *text = out.text;
    *len = out.len;
    return CADRE_OK;
}

cadre_err lab_verdict_evidence(const lab_verdict *v, char **text, cadre_fail *why) {
    lab_report r = {.verdict = v};
    rep_page p = {.report = &r, .verdict = v};
    rep_text out = {0};
    rep_add_evidence(&p);
    rep_write_blocks(&p, &out);
    while (out.len && out.text[out.len - 1] == '\n') out.text[--out.len] = 0;
    bool failed = p.failed || p.words.failed || out.failed;
    rep_page_done(&p);
    if (failed) mem_free(out.text);
    if (failed) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the report");
    *text = out.text;
    return CADRE_OK;
}
