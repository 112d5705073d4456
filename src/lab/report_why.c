/* report_why.c: what a refused difference was refused for: outputs, acceptance, activation and order, by arm and visit.
 */
#include "report.h"
#include <math.h>
#include <string.h>

/* ---- samples by arm and visit ---- */

static bool failed(const lab_verdict *v, const char *gate) {
    for (int i = 0; i < v->gate_count; i++)
        if (!strcmp(v->gates[i].name, gate)) return !v->gates[i].ok;
    return false;
}

/* Adds a sample to the row of its arm, visit and text; a new row when it is the first of these. */
static rep_visit *row_of(rep_visit *rows, int *count, int arm, const lab_sample *s, const char *text, bool whole) {
    for (int i = *count - 1; i >= 0; i--)
        if (rows[i].arm == arm && rows[i].first->visit == s->visit && (whole || rows[i].first->active == s->active) &&
            !strcmp(rows[i].text, text))
            return &rows[i];
    rows[*count] = (rep_visit){arm, 0, s, text, NAN, NAN, NAN, NAN};
    return &rows[(*count)++];
}

/* NaN stays until something is told: what no sample tells is not 0. */
static void add(double *sum, double v) {
    if (isfinite(v)) *sum = isfinite(*sum) ? *sum + v : v;
}

rep_visit *rep_visits(rep_page *p, rep_by by, int *count) {
    const lab_verdict *v = p->verdict;
    int arm, n = rep_samples(v);
    rep_visit *rows = n ? mem_new_array((size_t)n, sizeof *rows) : NULL;
    *count = 0;
    if (n && !rows) p->failed = true;
    for (int i = 0; rows && i < n; i++) {
        const lab_sample *s = rep_sample(v, i, &arm);
        if (!s || (s->warmup && by != REP_BY_VISIT)) continue;
        const char *text = by == REP_BY_FAMILY ? s->family : by == REP_BY_WHY ? s->why : NULL;
        rep_visit *row = row_of(rows, count, arm, s, text ? text : "", by == REP_BY_VISIT);
        row->samples++;
        add(&row->accepted, s->accepted);
        add(&row->drafts, s->drafts);
        add(&row->tokens, s->tokens);
        add(&row->failed, s->failed);
    }
    return rows;
}

static void table_families(rep_page *p, const rep_visit *rows, int count) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER];
    rep_table(p, "lrlrrr", "Outputs by arm and visit: arms of different families wrote different tokens",
              "arm|visit|family|samples|tokens|failed requests");
    for (int i = 0; i < count; i++) {
        rep_cell(p, "%s", v->arms[rows[i].arm].name);
        rep_cell(p, "%d", rows[i].first->visit);
        rep_cell(p, "%.16s", *rows[i].text ? rows[i].text : "not told");
        rep_cell(p, "%d", rows[i].samples);
        rep_cell(p, "%s", rep_number(text, rows[i].tokens, 0));
        rep_cell(p, "%s", rep_number(text, rows[i].failed, 0));
    }
}

/* ---- requests ---- */

enum { REQUESTS_SHOWN = 12, REQUESTS_READ = 1000 };

static bool same_id(const json *a, const json *b) {
    if (!a || !b || a->kind != b->kind) return false;
    return a->kind == JSON_TEXT ? !strcmp(a->text, b->text) : a->number == b->number;
}

/* The digest of a request of this id; NULL: not there, or null. */
static const char *digest_of(const json *requests, const json *id) {
    int n = 0;
    for (const json *r = requests ? requests->child : NULL; r && n < REQUESTS_READ; r = r->next, n++) {
        const json *sha = json_get(r, "sha256");
        if (same_id(json_get(r, "id"), id)) return sha && sha->kind == JSON_TEXT ? sha->text : NULL;
    }
    return NULL;
}

static const json *requests_of(const rep_page *p, int arm) {
    const lab_verdict *v = p->verdict;
    int of;
    for (int i = 0; i < rep_samples(v); i++) {
        const lab_sample *s = rep_sample(v, i, &of);
        if (s && of == arm && !s->warmup && s->requests) return s->requests;
    }
    return NULL;
}

static void row_of_request(rep_page *p, const json *id, const char *a, const char *b) {
    char name[64];
    json_describe(id, name, sizeof name);
    if (id->kind == JSON_TEXT) snprintf(name, sizeof name, "%.60s", id->text);
    rep_cell(p, "%s", name);
    rep_cell(p, "%.16s", a ? a : "-");
    rep_cell(p, "%.16s", b ? b : "-");
}

/* Those of an arm's first sample whose outputs are not the reference's. */
static void table_requests(rep_page *p, int arm) {
    const lab_verdict *v = p->verdict;
    const json *ours = requests_of(p, 0), *theirs = requests_of(p, arm);
    int all = 0, differ = 0;
    for (const json *r = ours && theirs ? ours->child : NULL; r && all < REQUESTS_READ; r = r->next, all++) {
        const json *id = json_get(r, "id");
        const char *a = id ? digest_of(ours, id) : NULL, *b = id ? digest_of(theirs, id) : NULL;
        if (!id || (a && b ? !strcmp(a, b) : a == b)) continue;
        if (!differ++) {
            rep_table(p, "lll", "Requests whose outputs differ", "request");
            rep_cell(p, "%s", v->arms[0].name);
            rep_cell(p, "%s", v->arms[arm].name);
        }
        if (differ <= REQUESTS_SHOWN) row_of_request(p, id, a, b);
    }
    if (differ > REQUESTS_SHOWN)
        rep_line(p, "%d of %d requests differ; the first %d are shown.", differ, all, REQUESTS_SHOWN);
    else if (differ)
        rep_line(p, "%d of %d requests differ.", differ, all);
}

/* ---- the other tables ---- */

static void table_accepted(rep_page *p, const rep_visit *rows, int count) {
    const lab_verdict *v = p->verdict;
    char text[REP_NUMBER];
    rep_table(p, "lrrrr", "Acceptance by arm and visit", "arm|visit|drafts|accepted|acceptance length");
    for (int i = 0; i < count; i++) {
        const rep_visit *r = &rows[i];
        rep_cell(p, "%s", v->arms[r->arm].name);
        rep_cell(p, "%d", r->first->visit);
        rep_cell(p, "%s", rep_number(text, r->drafts, 0));
        rep_cell(p, "%s", rep_number(text, r->accepted, 0));
        rep_cell(p, "%s", rep_number(text, r->drafts > 0 ? 1 + r->accepted / r->drafts : NAN, 3));
    }
}

static void table_active(rep_page *p, const rep_visit *rows, int count) {
    const lab_verdict *v = p->verdict;
    rep_table(p, "lrlrl", "Was what the arm is about at work?", "arm|visit|activation|samples|what was not met");
    for (int i = 0; i < count; i++) {
        rep_cell(p, "%s", v->arms[rows[i].arm].name);
        rep_cell(p, "%d", rows[i].first->visit);
        rep_cell(p, "%s", rep_active(rows[i].first->active));
        rep_cell(p, "%d", rows[i].samples);
        rep_cell(p, "%s", rows[i].text);
    }
}

static void table_order(rep_page *p, const rep_visit *rows, int count) {
    rep_table(p, "rlrl", "Visits in the order of the file", "order|arm|visit|started");
    for (int i = 0; i < count; i++) {
        const lab_sample *s = rows[i].first;
        rep_cell(p, "%d", s->order);
        rep_cell(p, "%s", s->arm);
        rep_cell(p, "%d", s->visit);
        rep_cell(p, "%s", s->started ? s->started : "");
    }
}

/* What is different between the arms stands under Scope: a failed gate "protocol" points there. */
void rep_add_evidence(rep_page *p) {
    const lab_verdict *v = p->verdict;
    bool family = failed(v, "family") || failed(v, "tokens") || failed(v, "failed");
    bool accepted = failed(v, "acceptance"), active = failed(v, "activation"), order = failed(v, "interleaved");
    int count;
    if (!family && !accepted && !active && !order) return;
    rep_heading(p, "Why no difference is told");
    rep_visit *rows = rep_visits(p, REP_BY_FAMILY, &count);
    if (rows && family) table_families(p, rows, count);
    if (rows && accepted) table_accepted(p, rows, count);
    mem_free(rows);
    for (int arm = 1; arm < p->verdict->arm_count && family; arm++) table_requests(p, arm);
    rows = rep_visits(p, REP_BY_WHY, &count);
    if (rows && active) table_active(p, rows, count);
    mem_free(rows);
    rows = rep_visits(p, REP_BY_VISIT, &count);
    if (rows && order) table_order(p, rows, count);
    mem_free(rows);
}
