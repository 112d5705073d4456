/* table.c: native tables: what a row is, its order, its names, and reading. */
#include "plan/table.h"
#include "plan/table_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(name, kind, member, low, high, key) {name, FIELD_##kind, offsetof(native_row, member), low, high, key},
const native_field native_fields[NATIVE_FIELD_COUNT] = {NATIVE_FIELDS(X)};
#undef X

/* ---- rows ---- */

static const void *at(const native_row *row, const native_field *f) {
    return (const char *)row + f->at;
}

static int order(long a, long b) {
    return (a > b) - (a < b);
}

static int compare_field(const native_row *a, const native_row *b, const native_field *f) {
    switch (f->kind) {
    case FIELD_OP:
        return order(a->family, b->family);
    case FIELD_DTYPE:
        return order(a->dtype, b->dtype);
    case FIELD_FLAG:
        return order(*(const bool *)at(a, f), *(const bool *)at(b, f));
    case FIELD_INT:
        return order(*(const int *)at(a, f), *(const int *)at(b, f));
    default:
        return strcmp(at(a, f), at(b, f));
    }
}

static int compare_key(const native_row *a, const native_row *b) {
    int c = 0;
    for (int i = 0; !c && i < NATIVE_FIELD_COUNT; i++)
        if (native_fields[i].key) c = compare_field(a, b, &native_fields[i]);
    return c;
}

int native_compare(const native_row *a, const native_row *b) {
    int c = compare_key(a, b);
    if (!c) c = order(a->n_lo, b->n_lo);
    return c ? c : order(a->n_hi, b->n_hi);
}

bool native_same_key(const native_row *a, const native_row *b) {
    return !compare_key(a, b);
}

void native_key_text(const native_row *row, char *text, size_t size) {
    char letters[80] = "";
    const int value[] = {row->d, row->f, row->e, row->k};
    for (int i = 0; i < 4; i++)
        if (value[i])
            snprintf(letters + strlen(letters), sizeof letters - strlen(letters), " %c=%d", "dfek"[i], value[i]);
    snprintf(text, size, "%s%s %s%s%s %d thread%s n=%d..%d", row->kernel, letters, op_dtype_name(row->dtype),
             *row->act == '-' ? "" : " ", *row->act == '-' ? "" : row->act, row->threads, row->threads == 1 ? "" : "s",
             row->n_lo, row->n_hi);
}

const char *native_key_fault(const native_row *row) {
    bool none = !strcmp(row->act, "-");
    switch (row->family) {
    case OP_EXPERTS:
        if (!row->d || !row->f || !row->e || !row->k || row->k > row->e)
            return "experts need d, f, e and k of at least 1, and k at most e";
        if (none) return "experts need an activation";
        return row->gated == !strcmp(row->act, "relu2") ? "gated does not fit the activation" : NULL;
    case OP_ATTN:
        if (!row->d || !row->f || !row->e || row->k || row->f % row->e)
            return "attn needs d, f and e of at least 1, e a divisor of f, and k=0";
        break;
    case OP_DENSE:
        if (!row->d || !row->f || row->e || row->k) return "dense needs d and f of at least 1, e=0 and k=0";
        break;
    default:
        if (!row->d || row->f || row->e || row->k) return "d must be at least 1, and f, e and k 0";
        break;
    }
    return none && !row->gated ? NULL : "act must be - and gated 0";
}

const char *native_figures_fault(const native_row *row, bool *zero) {
    *zero = row->runs < 1 || row->us <= 0 || row->default_us <= 0 || row->ratio <= 0 || row->ratio_lo <= 0;
    if (*zero) return "a figure is 0: it was not measured";
    if (row->at < row->n_lo || row->at > row->n_hi) return "at is outside n";
    if (row->ratio_lo > row->ratio || row->ratio > row->ratio_hi) return "ratio is outside ratio_lo..ratio_hi";
    return NULL;
}

void native_sentence(native_row *row) {
    snprintf(row->why, sizeof row->why, "measured at n=%d: %.4g of the default's time [%.4g, %.4g], %d runs, %.10s",
             row->at, row->ratio, row->ratio_lo, row->ratio_hi, row->runs, row->date);
}

/* ---- files ---- */

void native_file_name(const char *device, char *name, size_t size) {
    size_t n = 0;
    if (!size) return;
    for (; *device && n + 1 < size; device++) {
        char c = *device;
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-';
        name[n++] = plain ? c : '_';
    }
    snprintf(name + n, size - n, "%s", NATIVE_SUFFIX);
}

bool native_is_table(const char *text, size_t len) {
    static const char first[] = "cadre table ";
    return len >= sizeof first - 1 && !memcmp(text, first, sizeof first - 1);
}

void native_free(native_table *table) {
    if (!table) return;
    mem_free(table->path);
    mem_free(table->rows);
    mem_free(table);
}

cadre_err native_read(const char *path, native_note *note, void *ctx, native_table **out, cadre_fail *why) {
    enum { LIMIT = 16 << 20 };
    char *text;
    size_t len;
    cadre_err err = file_read(path, LIMIT, &text, &len, why);
    if (err) return err;
    err = native_parse(path, text, len, note, ctx, out, why);
    mem_free(text);
    return err;
}
