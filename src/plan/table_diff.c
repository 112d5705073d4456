/* table_diff.c: two tables side by side, and one laid over the other. */
#include "plan/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- native: both are sorted ---- */

/* The row as its line has it, without the key. */
static void native_text(const native_row *row, char *text, size_t size) {
    char knobs[96];
    op_knobs_text(row->family, &row->knobs, knobs, sizeof knobs);
    snprintf(text, size, "%s (%.4f [%.4f, %.4f] of the default at n=%d, %d runs, %s)", knobs, row->ratio, row->ratio_lo,
             row->ratio_hi, row->at, row->runs, row->run);
}

static bool native_equal(const native_row *a, const native_row *b) {
    native_row x = *a, y = *b;
    x.line = y.line = 0;
    return !memcmp(&x, &y, sizeof x);
}

int native_diff(const native_table *old, const native_table *fresh, table_change *tell, void *ctx) {
    int i = 0, j = 0, told = 0;
    while (i < old->count || j < fresh->count) {
        const native_row *a = i < old->count ? &old->rows[i] : NULL, *b = j < fresh->count ? &fresh->rows[j] : NULL;
        int c = !a ? 1 : !b ? -1 : native_compare(a, b);
        char key[200], was[300], is[300];
        i += c <= 0, j += c >= 0;
        if (!c && native_equal(a, b)) continue;
        native_key_text(c <= 0 ? a : b, key, sizeof key);
        if (c <= 0) native_text(a, was, sizeof was);
        if (c >= 0) native_text(b, is, sizeof is);
        tell(ctx, key, c <= 0 ? was : NULL, c >= 0 ? is : NULL);
        told++;
    }
    return told;
}

/* The fresh row of the same key whose range meets this one's. */
static const native_row *meeting(const native_table *fresh, const native_row *row) {
    for (int i = 0; i < fresh->count; i++) {
        const native_row *f = &fresh->rows[i];
        if (native_same_key(f, row) && f->n_lo <= row->n_hi && row->n_lo <= f->n_hi) return f;
    }
    return NULL;
}

static int rising(const void *a, const void *b) {
    return native_compare(a, b);
}

cadre_err native_merge(const native_table *old, const native_table *fresh, native_row **rows, int *count,
                       cadre_fail *why) {
    int n = fresh->count;
    if (old && strcmp(old->device, fresh->device))
        return cadre_fail_set(why, CADRE_RANGE, "tables of two devices: %s and %s", old->device, fresh->device);
    native_row *all = mem_new_array((size_t)(n + (old ? old->count : 0)) + 1, sizeof *all);
    if (!all) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for rows");
    if (n) memcpy(all, fresh->rows, (size_t)n * sizeof *all);
    for (int i = 0; old && i < old->count; i++) {
        const native_row *row = &old->rows[i], *f = meeting(fresh, row);
        if (f && (f->n_lo != row->n_lo || f->n_hi != row->n_hi)) {
            char key[200];
            native_key_text(row, key, sizeof key);
            mem_free(all);
            return cadre_fail_set(why, CADRE_RANGE, "%s and n=%d..%d meet in part: neither can replace the other", key,
                                  f->n_lo, f->n_hi);
        }
        if (!f) all[n++] = *row;
    }
    qsort(all, (size_t)n, sizeof *all, rising);
    *rows = all, *count = n;
    return CADRE_OK;
}

/* ---- foreign ---- */

static const foreign_row *row_of(const foreign_table *t, int m) {
    for (int i = 0; i < t->count; i++)
        if (t->rows[i].m == m) return &t->rows[i];
    return NULL;
}

static bool foreign_equal(const foreign_row *a, const foreign_row *b) {
    for (int f = 0; f < GEMM_FIELD_COUNT; f++)
        if ((a->config.has ^ b->config.has) & 1u << f || (a->config.has & 1u << f && a->config.v[f] != b->config.v[f]))
            return false;
    return !a->unknown == !b->unknown;
}

static void foreign_text(const foreign_row *row, char *text, size_t size) {
    size_t n = 0;
    text[0] = 0;
    for (int f = 0; f < GEMM_FIELD_COUNT && n < size; f++)
        if (row->config.has & 1u << f)
            n += (size_t)snprintf(text + n, size - n, "%s%s=%d", n ? " " : "", gemm_field_names[f], row->config.v[f]);
}

static int by_m(const void *a, const void *b) {
    int x = ((const foreign_row *)a)->m, y = ((const foreign_row *)b)->m;
    return (x > y) - (x < y);
}

static int tell_pair(const foreign_row *a, const foreign_row *b, table_change *tell, void *ctx) {
    char key[16], was[300], is[300];
    if (a && b && foreign_equal(a, b)) return 0;
    snprintf(key, sizeof key, "%d", a ? a->m : b->m);
    if (a) foreign_text(a, was, sizeof was);
    if (b) foreign_text(b, is, sizeof is);
    tell(ctx, key, a ? was : NULL, b ? is : NULL);
    return 1;
}

int foreign_diff(const foreign_table *old, const foreign_table *fresh, table_change *tell, void *ctx) {
    int told = 0;
    for (int i = 0; i < old->count; i++) told += tell_pair(&old->rows[i], row_of(fresh, old->rows[i].m), tell, ctx);
    for (int i = 0; i < fresh->count; i++)
        if (!row_of(old, fresh->rows[i].m)) told += tell_pair(NULL, &fresh->rows[i], tell, ctx);
    return told;
}

cadre_err foreign_merge(const foreign_table *old, const foreign_table *fresh, foreign_row **rows, int *count,
                        cadre_fail *why) {
    int n = fresh->count;
    foreign_row *all = mem_new_array((size_t)(n + (old ? old->count : 0)) + 1, sizeof *all);
    if (!all) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for rows");
    if (n) memcpy(all, fresh->rows, (size_t)n * sizeof *all);
    for (int i = 0; old && i < old->count; i++)
        if (!row_of(fresh, old->rows[i].m)) all[n++] = old->rows[i];
    qsort(all, (size_t)n, sizeof *all, by_m);
    *rows = all, *count = n;
    return CADRE_OK;
}
