/* report_scope.c: what the manifests say: what differs between the arms, the conditions, and the scope of the result.
 *
 * A manifest is JSON of any shape. It is laid flat into facts, "device.name = H200"; a fact that all arms share can be
 * part of the scope, one that differs between arms is what the experiment is about, or a mistake. */
#include "report.h"
#include <math.h>
#include <string.h>

enum { FACTS_MOST = 400, PATH = 160, VALUE = 1200, ARMS_MOST = 64 };

typedef struct fact {
    char path[PATH];
    int arm;
    char value[VALUE];
} fact;

typedef struct facts {
    fact *all; /* [count], one for each value that an arm has of a path */
    int count, cap, more, visits, without;
    bool failed;
} facts;

/* ---- laying flat ---- */

/* A value that is too long ends in its digest, so that two of them still differ. */
static void keep(const char *full, size_t len, char text[VALUE]) {
    sha256 h;
    char hex[65];
    snprintf(text, VALUE, "%s", full);
    if (len < VALUE) return;
    sha256_init(&h);
    sha256_add(&h, full, len);
    sha256_hex(&h, hex);
    snprintf(text + VALUE - 40, 40, "... (sha256 %.16s)", hex);
}

/* Texts as they are, the rest as JSON; the texts of a list side by side. False: out of memory. */
static bool describe(const json *v, char text[VALUE]) {
    rep_text words = {0};
    json_out o = {0};
    bool list = v->kind == JSON_ARRAY && v->count;
    for (const json *c = v->child; c && list; c = c->next) list = c->kind == JSON_TEXT;
    if (v->kind == JSON_TEXT)
        rep_put(&words, v->text);
    else if (!list)
        json_put_value(&o, NULL, v);
    for (const json *c = v->child; c && list; c = c->next) {
        rep_put(&words, c->text);
        if (c->next) rep_put(&words, " ");
    }
    if (o.text)
        keep(o.text, o.len, text);
    else
        keep(words.text ? words.text : "", words.len, text);
    bool fine = !o.failed && !words.failed;
    json_out_free(&o);
    mem_free(words.text);
    return fine;
}

static void add(facts *f, const char *path, int arm, const char *value) {
    for (int i = 0; i < f->count; i++)
        if (f->all[i].arm == arm && !strcmp(f->all[i].path, path) && !strcmp(f->all[i].value, value)) return;
    if (f->count == FACTS_MOST) {
        f->more++;
        return;
    }
    if (f->count == f->cap) {
        int cap = f->cap ? f->cap * 2 : 16;
        fact *grown = mem_resize(f->all, (size_t)f->cap * sizeof *grown, (size_t)cap * sizeof *grown);
        if (!grown) {
            f->failed = true;
            return;
        }
        f->all = grown;
        f->cap = cap;
    }
    fact *x = &f->all[f->count++];
    snprintf(x->path, sizeof x->path, "%s", path);
    snprintf(x->value, sizeof x->value, "%s", value);
    x->arm = arm;
}

static void flatten(facts *f, const json *v, const char *path, int arm) {
    char deeper[PATH], value[VALUE];
    if (v->kind == JSON_OBJECT && v->child) {
        for (const json *c = v->child; c; c = c->next) {
            snprintf(deeper, sizeof deeper, "%.80s%s%.70s", path, *path ? "." : "", c->key);
            flatten(f, c, deeper, arm);
        }
        return;
    }
    if (describe(v, value))
        add(f, path, arm, value);
    else
        f->failed = true;
}

static bool gather(rep_page *p, facts *f) {
    int count;
    rep_visit *rows = rep_visits(p, REP_BY_VISIT, &count);
    *f = (facts){0};
    for (int i = 0; i < count; i++) {
        const json *m = rows[i].first->manifest;
        f->visits++;
        if (m && m->kind == JSON_OBJECT && m->child)
            flatten(f, m, "", rows[i].arm);
        else
            f->without++;
    }
    mem_free(rows);
    if (f->failed) p->failed = true;
    return !f->failed;
}

/* ---- asking the facts ---- */

static bool same_path(const fact *a, const fact *b) {
    return !strcmp(a->path, b->path);
}

/* What belongs to a visit and not to its arm. */
static bool of_visit(const char *path) {
    return !strncmp(path, "visit.", 6) || !strcmp(path, "role") || !strncmp(path, "others", 6);
}

static bool first_of_path(const facts *f, int i) {
    if (of_visit(f->all[i].path)) return false;
    for (int j = 0; j < i; j++)
        if (same_path(&f->all[i], &f->all[j])) return false;
    return true;
}

/* How many values an arm has of the path of fact i; *value: the first. */
static int values_of(const facts *f, int i, int arm, const char **value) {
    int n = 0;
    for (int j = i; j < f->count; j++) {
        if (f->all[j].arm != arm || !same_path(&f->all[i], &f->all[j])) continue;
        if (!n++) *value = f->all[j].value;
    }
    return n;
}

/* Arms differ when their sets of values do. */
static bool differs(const facts *f, int i, int arms) {
    const char *first = NULL, *value = NULL;
    int n = values_of(f, i, 0, &first);
    for (int arm = 1; arm < arms; arm++) {
        if (values_of(f, i, arm, &value) != n) return true;
        for (int j = i; j < f->count; j++) {
            bool found = false;
            if (f->all[j].arm != arm || !same_path(&f->all[i], &f->all[j])) continue;
            for (int k = i; k < f->count && !found; k++)
                found =
                    !f->all[k].arm && same_path(&f->all[i], &f->all[k]) && !strcmp(f->all[j].value, f->all[k].value);
            if (!found) return true;
        }
    }
    return false;
}

static bool space(char c) {
    return !c || c == ' ';
}

/* The words that all arms' values of the path begin and end with, in bytes; one word of each stays for context. */
static void common(const facts *f, int i, int arms, size_t *head, size_t *tail) {
    const char *first = NULL, *value = NULL;
    *head = *tail = 0;
    if (values_of(f, i, 0, &first) != 1) return;
    size_t h = strlen(first), t = h;
    for (int arm = 1; arm < arms; arm++) {
        if (values_of(f, i, arm, &value) != 1) return;
        size_t n = strlen(value), len = strlen(first), k = 0;
        while (k < h && k < n && first[k] == value[k]) k++;
        h = k;
        for (k = 0; k < t && k < n && k < len && first[len - 1 - k] == value[n - 1 - k]; k++) continue;
        t = k;
    }
    while (h && !space(first[h - 1])) h--; /* to the start of the word that differs, and of the one before */
    while (h && space(first[h - 1])) h--;
    while (h && !space(first[h - 1])) h--;
    while (t && !space(first[strlen(first) - t])) t--;
    if (h > 20) *head = h;
    if (t > 20) *tail = t;
}

static void cell_values(rep_page *p, const facts *f, int i, int arm, size_t head, size_t tail) {
    const char *value = "";
    int n = values_of(f, i, arm, &value);
    size_t len = strlen(value);
    if (n > 1)
        rep_cell(p, "%s (and %d more)", value, n - 1);
    else if (n && head + tail < len)
        rep_cell(p, "%s%.*s%s", head ? "... " : "", (int)(len - head - tail), value + head, tail ? " ..." : "");
    else
        rep_cell(p, "%s", n ? value : "-");
}

static void table_differences(rep_page *p, const facts *f) {
    static const char columns[] = "llllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllllll";
    const lab_verdict *v = p->verdict;
    int arms = v->arm_count < ARMS_MOST ? v->arm_count : ARMS_MOST, rows = 0;
    for (int i = 0; i < f->count; i++) rows += first_of_path(f, i) && differs(f, i, arms);
    if (!rows) {
        rep_line(p, "The manifests of the arms are equal: nothing says what differs between them.");
        return;
    }
    rep_table(p, columns + sizeof columns - 2 - arms, "What differs between the arms", "in the manifest");
    for (int arm = 0; arm < arms; arm++) rep_cell(p, "%s", v->arms[arm].name);
    for (int i = 0; i < f->count; i++) {
        if (!first_of_path(f, i) || !differs(f, i, arms)) continue;
        size_t head, tail;
        common(f, i, arms, &head, &tail);
        rep_cell(p, "%s", f->all[i].path);
        for (int arm = 0; arm < arms; arm++) cell_values(p, f, i, arm, head, tail);
    }
}

/* ---- the scope ---- */

/* Is it the last part of the path, or the one before ".name"? */
static bool names(const char *path, const char *key) {
    size_t n = strlen(path), k = strlen(key);
    if (n > 5 && !strcmp(path + n - 5, ".name")) n -= 5;
    return n >= k && !memcmp(path + n - k, key, k) && (n == k || path[n - k - 1] == '.');
}

static bool names_any(const char *path, const char *const *keys) {
    for (; *keys; keys++)
        if (names(path, *keys)) return true;
    return false;
}

/* "; label a, b": all values of the facts that one of the keys names, each once. False: there are none. */
static bool put_named(rep_text *t, const facts *f, const char *label, const char *const *keys) {
    int n = 0;
    for (int i = 0; i < f->count; i++) {
        bool known = false;
        if (!names_any(f->all[i].path, keys) || !strcmp(f->all[i].value, "null")) continue;
        for (int j = 0; j < i && !known; j++)
            known = names_any(f->all[j].path, keys) && !strcmp(f->all[i].value, f->all[j].value);
        if (known) continue;
        if (n++)
            rep_put(t, ", ");
        else
            rep_putf(t, "%s%s ", t->len ? "; " : "", label);
        rep_put(t, f->all[i].value);
    }
    return n > 0;
}

static const struct {
    const char *label;
    const char *keys[6];
} scopes[] = {
    {"device", {"device", "device_name", "gpu"}},
    {"CPU", {"cpu"}},
    {"driver", {"driver", "driver_version", "nvidia_driver"}},
    {"toolchain", {"toolchain", "compiler"}},
    {"CPUs", {"cpus_allowed"}},
    {"threads", {"threads"}},
    {"model", {"model"}},
    {"shape", {"shape"}},
    {"M", {"m", "batch", "M"}},
    {"prompt length", {"prompt_len"}},
    {"output length", {"gen_len", "output_len"}},
    {"dtype", {"dtype", "weights"}},
    {"routing", {"routing"}},
    {"numerics", {"numerics"}},
};

static void line_scope(rep_page *p, const facts *f) {
    rep_text told = {0}, missing = {0};
    for (size_t i = 0; i < sizeof scopes / sizeof *scopes; i++)
        if (!put_named(&told, f, scopes[i].label, scopes[i].keys))
            rep_putf(&missing, "%s%s", missing.len ? ", " : "", scopes[i].label);
    if (told.len) rep_line(p, "This holds for: %s.", told.text);
    if (missing.len) rep_line(p, "Not told by the manifests: %s.", missing.text);
    rep_line(p, "No transfer is claimed outside it.");
    p->failed = p->failed || told.failed || missing.failed;
    mem_free(told.text);
    mem_free(missing.text);
}

/* ---- conditions ---- */

typedef struct range {
    double low, high;
} range;

static void widen(range *r, double v) {
    if (!isfinite(v)) return;
    if (!(r->low <= v)) r->low = v;
    if (!(r->high >= v)) r->high = v;
}

static void cell_range(rep_page *p, range r, int decimals) {
    char low[REP_NUMBER], high[REP_NUMBER];
    rep_number(low, r.low, decimals);
    rep_number(high, r.high, decimals);
    if (strcmp(low, high) != 0)
        rep_cell(p, "%s to %s", low, high);
    else
        rep_cell(p, "%s", low);
}

static void table_conditions(rep_page *p) {
    const lab_verdict *v = p->verdict;
    range(*r)[3] = mem_new_array((size_t)v->arm_count, sizeof *r);
    bool any = false;
    int arm;
    if (!r) {
        p->failed = true;
        return;
    }
    for (int i = 0; i < v->arm_count; i++)
        for (int j = 0; j < 3; j++) r[i][j] = (range){NAN, NAN};
    for (int i = 0; i < rep_samples(v); i++) {
        const lab_sample *s = rep_sample(v, i, &arm);
        if (!s) continue;
        widen(&r[arm][0], s->load);
        widen(&r[arm][1], s->mhz);
        widen(&r[arm][2], s->celsius);
        any = any || isfinite(s->load) || isfinite(s->mhz) || isfinite(s->celsius);
    }
    if (any) rep_table(p, "lrrr", "Conditions", "arm|load|MHz|degrees Celsius");
    for (int i = 0; any && i < v->arm_count; i++) {
        rep_cell(p, "%s", v->arms[i].name);
        cell_range(p, r[i][0], 2);
        cell_range(p, r[i][1], 0);
        cell_range(p, r[i][2], 0);
    }
    mem_free(r);
}

static void line_run(rep_page *p) {
    const lab_verdict *v = p->verdict;
    const char *first = NULL, *last = NULL;
    int arm;
    for (int i = 0; i < rep_samples(v); i++) {
        const lab_sample *s = rep_sample(v, i, &arm);
        if (!s || !s->started) continue;
        if (!first || strcmp(s->started, first) < 0) first = s->started;
        if (!last || strcmp(s->started, last) > 0) last = s->started;
    }
    if (v->run && first)
        rep_line(p, "Run %s; visits started from %s to %s.", v->run, first, last);
    else if (v->run)
        rep_line(p, "Run %s; the samples do not tell when.", v->run);
    if (v->runs > 1 && v->run) rep_line(p, "The file holds %d runs; this is about one of them.", v->runs);
}

void rep_add_scope(rep_page *p) {
    facts f;
    rep_heading(p, "Scope");
    line_run(p);
    if (gather(p, &f)) {
        if (!f.visits || f.without == f.visits)
            rep_line(p,
                     "The samples carry no manifests: device, driver, shape and the rest are not told, and neither is "
                     "what differs between the arms.");
        else
            table_differences(p, &f);
        if (f.without && f.without < f.visits) rep_line(p, "%d of %d visits carry no manifest.", f.without, f.visits);
        if (f.more) rep_line(p, "%d more facts of the manifests were not compared.", f.more);
        if (f.visits && f.without < f.visits)
            line_scope(p, &f);
        else
            rep_line(p, "No transfer is claimed outside this run.");
    }
    mem_free(f.all);
    table_conditions(p);
    if (p->report->command) {
        rep_heading(p, "Recompute");
        rep_code(p, p->report->command);
    }
}
