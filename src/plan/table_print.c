/* table_print.c: rows become the text of a native table; the same rows give the same bytes. */
#include "plan/table_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct text_out {
    char *text;
    size_t len, cap;
    bool failed;
} text_out;

static void put(text_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(text_out *o, const char *format, ...) {
    char piece[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    if (n < 0 || n >= (int)sizeof piece) o->failed = true;
    if (o->failed) return;
    if (o->len + (size_t)n + 1 > o->cap) {
        size_t cap = 2 * o->cap + 4096;
        char *grown = mem_resize(o->text, o->cap, cap);
        if (!grown) {
            o->failed = true;
            return;
        }
        o->text = grown, o->cap = cap;
    }
    memcpy(o->text + o->len, piece, (size_t)n + 1);
    o->len += (size_t)n;
}

/* Through a whole number: the program's locale may write another decimal point. */
static void put_fixed(text_out *o, const char *name, double v, int decimals) {
    long long scale = 1;
    for (int i = 0; i < decimals; i++) scale *= 10;
    long long whole = llround(v * (double)scale);
    put(o, " %s=%lld.%0*lld", name, whole / scale, decimals, whole % scale);
}

static void put_knobs(text_out *o, const char *prefix, op_family family, const op_knobs *knobs) {
    for (int i = 0; i < op_families[family].count; i++)
        put(o, " %s%s=%d", prefix, op_families[family].knobs[i].name, knobs->v[i]);
}

static void put_field(text_out *o, const native_field *f, const native_row *row) {
    const void *at = (const char *)row + f->at;
    switch (f->kind) {
    case FIELD_OP:
        put(o, " op=%s", op_families[row->family].name);
        break;
    case FIELD_DTYPE:
        put(o, " dtype=%s", op_dtype_name(row->dtype));
        break;
    case FIELD_RANGE:
        put(o, " n=%d..%d", row->n_lo, row->n_hi);
        break;
    case FIELD_KNOBS:
        put_knobs(o, f->name, row->family, at);
        break;
    case FIELD_FIXED:
        put_fixed(o, f->name, *(const double *)at, (int)f->low);
        break;
    case FIELD_FLAG:
        put(o, " %s=%d", f->name, *(const bool *)at);
        break;
    case FIELD_INT:
        put(o, " %s=%d", f->name, *(const int *)at);
        break;
    default:
        put(o, strchr(at, ' ') ? " %s=\"%s\"" : " %s=%s", f->name, (const char *)at);
        break;
    }
}

static int rising(const void *a, const void *b) {
    return native_compare(a, b);
}

static cadre_err check_overlaps(const native_row *rows, int count, cadre_fail *why) {
    for (int i = 1; i < count; i++)
        if (native_same_key(&rows[i - 1], &rows[i]) && rows[i].n_lo <= rows[i - 1].n_hi) {
            char a[200];
            native_key_text(&rows[i - 1], a, sizeof a);
            return cadre_fail_set(why, CADRE_FORMAT, "two rows meet: %s, and n=%d..%d", a, rows[i].n_lo, rows[i].n_hi);
        }
    return CADRE_OK;
}

cadre_err native_print(const char *device, const char *klass, native_row *rows, int count, char **text, size_t *len,
                       cadre_fail *why) {
    text_out o = {0};
    char hex[65];
    if (count) qsort(rows, (size_t)count, sizeof *rows, rising);
    cadre_err err = check_overlaps(rows, count, why);
    if (err) return err;
    put(&o, "cadre table 1\ndevice \"%s\"\nclass %s\noutside policy\n", device, klass);
    for (int i = 0; i < count; i++) {
        put(&o, "row");
        for (int j = 0; j < NATIVE_FIELD_COUNT; j++) put_field(&o, &native_fields[j], &rows[i]);
        put(&o, "\n");
    }
    if (!o.failed) {
        cadre_sha256(o.text, o.len, hex);
        put(&o, "sha256 %s\n", hex);
    }
    if (o.failed) {
        mem_free(o.text);
        return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a table");
    }
    *text = o.text, *len = o.len;
    return CADRE_OK;
}
