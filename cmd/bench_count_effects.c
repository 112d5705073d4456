/* bench_count_effects.c: an experiment over all levels of some factors, and what it says: the effect of each factor and
 * of each pair, and cells that are alike but for one thing. Block and warps alone would not do: a block of 1024 pairs
 * gives each thread more pairs and fewer CTAs any. */
#include "bench_count.h"
#include "plan/count.h"
#include <string.h>

/* ---- the cells ---- */

static const count_factor known[] = {
    {"warps", "warps of a block of threads", 4, 32},
    {"block", "pairs of a block", 128, 1024},
    {"ctas", "blocks of threads; 0: one per multiprocessor", 2, 0},
    {"atomics", "additions; 0: none are made", 0, 1},
    {"order", "additions: 1 relaxed, 2 acquire and release", 1, 2},
    {"private", "a histogram of each block of threads", 0, 1},
    {"pairs", "tokens that count", 0, 0},
};

static void set_level(count_cell *c, const count_factor *f, bool high) {
    int v = high ? f->high : f->low;
    if (!strcmp(f->name, "warps")) c->knobs.warps = v;
    if (!strcmp(f->name, "block")) c->knobs.block = v;
    if (!strcmp(f->name, "ctas")) c->knobs.ctas = v;
    if (!strcmp(f->name, "atomics") || !strcmp(f->name, "order")) c->knobs.atomics = v;
    if (!strcmp(f->name, "private")) c->knobs.private = v;
    if (!strcmp(f->name, "pairs")) c->tokens = v;
}

static bool has_factor(const count_bench *b, const char *name) {
    for (int i = 0; i < b->factor_count; i++)
        if (!strcmp(b->factors[i].name, name)) return true;
    return false;
}

static cadre_err add_factor(count_bench *b, const char *word, cadre_fail *why) {
    size_t i = 0, all = sizeof known / sizeof *known;
    while (i < all && strcmp(known[i].name, word) != 0) i++;
    if (i == all)
        return cadre_fail_set(why, CADRE_RANGE,
                              "--factor names '%.40s', expected warps, block, ctas, atomics, order, private or pairs",
                              word);
    if (has_factor(b, word)) return cadre_fail_set(why, CADRE_RANGE, "--factor names %s twice", word);
    if (b->factor_count == COUNT_FACTORS_MOST)
        return cadre_fail_set(why, CADRE_RANGE, "--factor names more than %d", COUNT_FACTORS_MOST);
    count_factor *f = &b->factors[b->factor_count++];
    *f = known[i];
    if (strcmp(word, "pairs") != 0) return CADRE_OK;
    f->low = b->tokens[0], f->high = b->tokens[b->token_count - 1];
    return f->low == f->high ? cadre_fail_set(why, CADRE_RANGE, "--factor pairs needs two numbers in --tokens")
                             : CADRE_OK;
}

cadre_err count_bench_factors(count_bench *b, cadre_fail *why) {
    char text[200];
    cadre_err err = CADRE_OK;
    if (strlen(b->o->factor) >= sizeof text) return cadre_fail_set(why, CADRE_RANGE, "--factor is too long");
    strcpy(text, b->o->factor);
    for (char *rest = text, *word; (word = strsep(&rest, ",")) && !err;) err = add_factor(b, word, why);
    if (!err && has_factor(b, "atomics") && has_factor(b, "order"))
        err = cadre_fail_set(why, CADRE_RANGE,
                             "--factor names atomics and order: where nothing is added there is no order");
    if (err) return err;
    if (!has_factor(b, "pairs") && b->token_count > 1)
        say_note("an experiment without the factor pairs: %d tokens, the first of --tokens", b->tokens[0]);
    for (unsigned mask = 0; mask < 1u << b->factor_count; mask++) {
        count_cell *c = &b->cells[b->count++];
        *c = (count_cell){.tokens = b->tokens[0], .mask = mask};
        plan_count_knobs(&c->knobs);
        for (int i = 0; i < b->factor_count; i++) set_level(c, &b->factors[i], mask >> i & 1);
    }
    return CADRE_OK;
}

/* ---- effects ---- */

static int sign_of(unsigned cell, unsigned effect) {
    return __builtin_popcount(effect & ~cell) % 2 ? -1 : 1;
}

/* The mean of v over the cells where the sign is +, less that where it is -; of a pair: twice that, which is the
 * difference of the differences. */
static double contrast(const count_bench *b, unsigned effect, const double *v) {
    double sum = 0;
    for (int i = 0; i < b->count; i++) sum += sign_of(b->cells[i].mask, effect) * v[i];
    return sum / (b->count / 2.0) * (__builtin_popcount(effect) == 2 ? 2 : 1);
}

#define NOTHING 1e-12 /* all cells take the same time, but for roundings */

typedef struct times {
    double us[COUNT_CELLS], log[COUNT_CELLS]; /* of each cell, its median over the visits */
    double total;                             /* sum of squares of log around its mean */
} times;

static double median_of(const double *v, int n) {
    double sorted[256];
    memcpy(sorted, v, (size_t)n * sizeof *v);
    return stat_median(sorted, n);
}

static void take_times(const count_bench *b, times *t) {
    double mean = 0;
    t->total = 0;
    for (int i = 0; i < b->count; i++) {
        t->us[i] = median_of(b->cells[i].us, b->o->repeat);
        t->log[i] = m_log(t->us[i]);
        mean += t->log[i] / b->count;
    }
    for (int i = 0; i < b->count; i++) t->total += (t->log[i] - mean) * (t->log[i] - mean);
}

static void take_interval(const count_bench *b, count_effect *e) {
    double visit[256], logs[COUNT_CELLS];
    for (int r = 0; r < b->o->repeat; r++) {
        for (int i = 0; i < b->count; i++) logs[i] = m_log(b->cells[i].us[r]);
        visit[r] = contrast(b, e->mask, logs);
    }
    stat_interval(visit, b->o->repeat, e->interval);
    e->interval[0] = m_exp(e->interval[0]), e->interval[1] = m_exp(e->interval[1]);
}

static void take_effect(const count_bench *b, const times *t, int i, int j, count_effect *e) {
    double log_ratio;
    *e = (count_effect){.mask = 1u << i | 1u << j};
    if (i == j)
        snprintf(e->name, sizeof e->name, "%s", b->factors[i].name);
    else
        snprintf(e->name, sizeof e->name, "%s x %s", b->factors[i].name, b->factors[j].name);
    log_ratio = contrast(b, e->mask, t->log);
    e->ratio = m_exp(log_ratio);
    e->us = contrast(b, e->mask, t->us);
    /* In a design of all levels each effect has count * (half its difference)^2 of the sum of squares. */
    double half = log_ratio / (i == j ? 2 : 4);
    e->share = t->total > NOTHING ? b->count * half * half / t->total : 0;
    take_interval(b, e);
}

int count_bench_effects(const count_bench *b, count_effect out[], double *rest) {
    static times t;
    int n = 0;
    take_times(b, &t);
    for (int i = 0; i < b->factor_count; i++) take_effect(b, &t, i, i, &out[n++]);
    for (int i = 0; i < b->factor_count; i++)
        for (int j = i + 1; j < b->factor_count; j++) take_effect(b, &t, i, j, &out[n++]);
    *rest = t.total > NOTHING;
    for (int i = 0; i < n; i++) *rest -= out[i].share;
    if (*rest < 0) *rest = 0;
    return n;
}

/* ---- cells that differ in one thing ---- */

static bool alike(const count_cell *a, const count_cell *c) {
    return a->tokens == c->tokens && a->knobs.atomics == c->knobs.atomics && a->knobs.private == c->knobs.private;
}

static void add_contrast(count_contrast *list, int *n, bool depth, int64_t from, int64_t to, double ratio) {
    int i = 0;
    while (i < *n && (list[i].depth != depth || list[i].from != from || list[i].to != to)) i++;
    if (i == COUNT_CONTRASTS) return;
    if (i == *n) list[(*n)++] = (count_contrast){depth, from, to, 0, 0, ratio, ratio};
    count_contrast *k = &list[i];
    k->cells++;
    k->ratio += m_log(ratio); /* made a mean at the end */
    if (ratio < k->least) k->least = ratio;
    if (ratio > k->most) k->most = ratio;
}

int count_bench_contrasts(const count_bench *b, count_contrast out[COUNT_CONTRASTS]) {
    static times t;
    int n = 0;
    take_times(b, &t);
    for (int i = 0; i < b->count; i++)
        for (int j = 0; j < b->count; j++) {
            const count_cell *a = &b->cells[i], *c = &b->cells[j];
            if (!alike(a, c)) continue;
            if (a->busy == c->busy && a->depth < c->depth)
                add_contrast(out, &n, true, a->depth, c->depth, t.us[j] / t.us[i]);
            if (a->depth == c->depth && a->busy < c->busy)
                add_contrast(out, &n, false, a->busy, c->busy, t.us[j] / t.us[i]);
        }
    for (int i = 0; i < n; i++) out[i].ratio = m_exp(out[i].ratio / out[i].cells);
    return n;
}
