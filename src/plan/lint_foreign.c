/* lint_foreign.c: checks of one foreign table: its name and folder, its rows against the default, the tuner, the device
 * and each other, and a down table against its base.
 *
 * What systems do was read from vLLM (fork CentML/vllm at 4f819f8) and SGLang 0.5.23; docs/tables.md says more.
 */
#include "plan/lint_subject.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gemm_field lint_tile[LINT_TILE] = {GEMM_BM, GEMM_BN, GEMM_BK, GEMM_GROUP, GEMM_WARPS, GEMM_STAGES};

void lint_tell(lint_subject *s, const char *rule, const foreign_row *row, const char *text) {
    char key[16] = "";
    if (row) snprintf(key, sizeof key, "%d", row->m);
    lint_add(s->l, rule, -1, s->path, row ? row->line : 0, key, "%s", text);
}

void lint_range_text(char *text, size_t size, int lo, int hi) {
    if (hi == INT_MAX)
        snprintf(text, size, "%d and above", lo);
    else if (lo == hi)
        snprintf(text, size, "%d", lo);
    else
        snprintf(text, size, "%d..%d", lo, hi);
}

/* ---- reach ---- */

/* The rounded M that takes the row, 0: none. */
static int rounded(const lint_subject *s, const foreign_row *row) {
    for (int64_t m = 1; m <= 1 << 30; m *= 2) {
        foreign_match match;
        if (!foreign_lookup(s->system, s->t, (int)m, &match, NULL) && &s->t->rows[match.index] == row) return (int)m;
    }
    return 0;
}

static void check_reach(lint_subject *s, const foreign_row *row) {
    foreign_match match;
    const lint_options *o = &s->l->options;
    char range[40], text[320];
    if (foreign_lookup(s->system, s->t, row->m, &match, NULL)) return;
    lint_range_text(range, sizeof range, match.reach_lo, match.reach_hi);
    if (&s->t->rows[match.index] != row) {
        lint_tell(s, "unreachable-key", row, "another row has the same key");
    } else if (o->max_m && match.reach_lo > o->max_m) {
        snprintf(text, sizeof text, "the row takes M = %s; the largest M is %d", range, o->max_m);
        lint_tell(s, "unreachable-key", row, text);
    } else if (o->pow2 && !rounded(s, row)) {
        snprintf(text, sizeof text, "the row takes M = %s, where no power of two lies", range);
        lint_tell(s, "unreachable-key", row, text);
    } else {
        snprintf(text, sizeof text, "takes M = %s", range);
        lint_tell(s, "nearest-range", row, text);
    }
}

/* The smallest tile any of the defaults has is 16 rows, up to M = 32; a key of at most 16 was measured with tiles that
 * M = 1 would have too. From M = 513 on the defaults have their largest tile, so a key of at least 512 stands for
 * prefill. */
enum { SMALL_MOST = 16, LARGE_LEAST = 512 };

static void check_ends(lint_subject *s) {
    const foreign_row *first = s->sorted[0], *last = s->sorted[s->t->count - 1];
    char text[320];
    if (first->m > SMALL_MOST) {
        snprintf(text, sizeof text, "the smallest key is %d: M = 1..%d take the row of %d (BLOCK_SIZE_M %d)", first->m,
                 first->m - 1, first->m, first->config.v[GEMM_BM]);
        lint_tell(s, "missing-small-m", first, text);
    }
    if (last->m < LARGE_LEAST) {
        snprintf(text, sizeof text, "the largest key is %d: M = 2048 takes the row of %d (BLOCK_SIZE_M %d)", last->m,
                 last->m, last->config.v[GEMM_BM]);
        lint_tell(s, "missing-large-m", last, text);
    }
}

/* Only ties tell the order: {3840, 1792} in any order are the same table but at 2816. */
static void check_order(lint_subject *s) {
    for (int i = 0; i + 1 < s->t->count; i++) {
        const foreign_row *a = s->sorted[i], *b = s->sorted[i + 1];
        if (b > a || (a->m + (int64_t)b->m) % 2) continue;
        char text[320];
        snprintf(text, sizeof text, "key %d stands before %d: M = %d, midway, takes %d", b->m, a->m,
                 (int)((a->m + (int64_t)b->m) / 2), b->m);
        lint_tell(s, "unordered-keys", b, text);
        return;
    }
}

/* ---- rows against each other ---- */

/* Neighbours that agree in at least five of the six values, and a row that leaves three or more of those: two such
 * chances do not come from a trend, in which each step moves one or two values. */
enum { ALIKE_LEAST = 5, LEFT_LEAST = 3 };

static void check_island(lint_subject *s, int i) {
    const int *a = s->sorted[i - 1]->config.v, *b = s->sorted[i]->config.v, *c = s->sorted[i + 1]->config.v;
    int alike = 0, left = 0;
    for (int j = 0; j < LINT_TILE; j++) {
        if (a[lint_tile[j]] != c[lint_tile[j]]) continue;
        alike++;
        left += b[lint_tile[j]] != a[lint_tile[j]];
    }
    if (alike < ALIKE_LEAST || left < LEFT_LEAST) return;
    char text[320], here[96], there[96];
    gemm_text(&s->sorted[i]->config, here, sizeof here);
    gemm_text(&s->sorted[i - 1]->config, there, sizeof there);
    snprintf(text, sizeof text, "%s between %d and %d, which are alike (%s)", here, s->sorted[i - 1]->m,
             s->sorted[i + 1]->m, there);
    lint_tell(s, "island-row", s->sorted[i], text);
}

/* ---- rows against tuner, scales and device ---- */

/* What the tuners try; lists end with -1. */
typedef struct grid {
    const char *what;
    int values[LINT_TILE][8]; /* in the order of lint_tile */
} grid;
static const grid cuda_grid = {"the tuner of vLLM and SGLang",
                               {{16, 32, 64, 128, 256, -1},
                                {32, 64, 128, 256, -1},
                                {64, 128, 256, -1},
                                {1, 16, 32, 64, -1},
                                {4, 8, -1},
                                {2, 3, 4, 5, -1}}};
static const grid rocm_grid = {"the tuner of vLLM and SGLang on ROCm",
                               {{16, 32, 64, 128, 256, -1},
                                {16, 32, 64, 128, 256, -1},
                                {16, 32, 64, 128, 256, -1},
                                {1, 4, 8, 16, 32, -1},
                                {1, 2, 4, 8, -1},
                                {2, -1}}};
static const grid musa_grid = {
    "torchada's tuner",
    {{16, 32, 64, 128, -1}, {16, 32, 64, 128, -1}, {32, 64, 128, -1}, {1, 16, 32, 64, -1}, {4, 8, 16, -1}, {1, -1}}};

static void check_grid(lint_subject *s, const foreign_row *row) {
    const grid *g = s->platform == GEMM_CUDA   ? &cuda_grid
                    : s->platform == GEMM_ROCM ? &rocm_grid
                    : s->platform == GEMM_MUSA ? &musa_grid
                                               : NULL;
    char text[320];
    int n = 0;
    for (int j = 0; g && j < LINT_TILE; j++) {
        const int *v = g->values[j];
        if (!(row->config.has & 1u << lint_tile[j])) continue;
        while (*v >= 0 && *v != row->config.v[lint_tile[j]]) v++;
        if (*v < 0)
            n += snprintf(text + n, sizeof text - (size_t)n, "%s%s=%d", n ? ", " : "", gemm_field_names[lint_tile[j]],
                          row->config.v[lint_tile[j]]);
    }
    if (!n) return;
    snprintf(text + n, sizeof text - (size_t)n, ": %s does not try that", g->what);
    lint_tell(s, "outside-grid", row, text);
}

static void check_group(lint_subject *s, const foreign_row *row) {
    int group = s->t->name.block_k, bk = row->config.v[GEMM_BK];
    char text[320];
    if (!group || bk <= group) return;
    snprintf(text, sizeof text, "BLOCK_SIZE_K=%d, %d values share a scale", bk, group);
    lint_tell(s, "block-k-over-group", row, text);
}

static int log_two(int v) {
    int n = 0;
    while (v > 1 && v % 2 == 0) v /= 2, n++;
    return v == 1 ? n : -1;
}

static void check_values(lint_subject *s, const foreign_row *row) {
    static const gemm_field powers[] = {GEMM_BM, GEMM_BN, GEMM_BK, GEMM_WARPS};
    char text[320];
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        if (!(row->config.has & 1u << powers[i]) || log_two(row->config.v[powers[i]]) >= 0) continue;
        snprintf(text, sizeof text, "%s=%d, expected a power of two", gemm_field_names[powers[i]],
                 row->config.v[powers[i]]);
        lint_tell(s, "bad-value", row, text);
    }
}

static int weight_bytes(gemm_dtype t) {
    return t == GEMM_FP32 ? 4 : t == GEMM_BF16 || t == GEMM_FP16 ? 2 : 1;
}

/* The least a launch needs. Weight-only types are unpacked, and AMD's compiler counts stages otherwise: one tile is the
 * least there. */
static void check_smem(lint_subject *s, const foreign_row *row) {
    const foreign_name *n = &s->t->name;
    const char *source = "--device-smem";
    size_t limit = s->l->options.smem ? s->l->options.smem : lint_device_smem(n->device, &source);
    bool weight_only = n->dtype == GEMM_INT8_W8A16 || n->dtype == GEMM_INT4_W4A16;
    int bytes_b = weight_bytes(n->dtype), bytes_a = weight_only ? 2 : bytes_b;
    char text[320];
    if (!limit || !n->e || *n->unknown) return;
    gemm_config c = row->config;
    if (n->block_k && c.v[GEMM_BK] > n->block_k) c.v[GEMM_BK] = n->block_k; /* vLLM's launcher does that */
    size_t need = gemm_smem(&c, bytes_a, bytes_b, s->platform == GEMM_CUDA ? gemm_tiles_held(&c, false) : 1);
    if (need <= limit) return;
    snprintf(text, sizeof text, "needs at least %zu bytes, the device has %zu (%s)", need, limit, source);
    lint_tell(s, "smem-over-device", row, text);
}

/* ---- a pair ---- */

/* BLOCK_SIZE_M of both tables at every M: the first range where they differ, and how many M do up to 4096. */
static void compare_pair(lint_subject *s, const foreign_table *base) {
    const foreign_row *row = NULL;
    int from = 0, to = 0, other = 0, wrong = 0;
    for (int m = 1, last; m <= 4096; m = last + 1) {
        foreign_match a, b;
        if (foreign_lookup(s->system, base, m, &a, NULL) || foreign_lookup(s->system, s->t, m, &b, NULL)) return;
        last = a.reach_hi < b.reach_hi ? a.reach_hi : b.reach_hi;
        if (last > 4096) last = 4096;
        int up = base->rows[a.index].config.v[GEMM_BM], down = s->t->rows[b.index].config.v[GEMM_BM];
        if (up == down) continue;
        if (!row) row = &s->t->rows[b.index], from = m, to = last, other = up;
        wrong += last - m + 1;
    }
    if (!row) return;
    char text[320], range[40];
    lint_range_text(range, sizeof range, from, to);
    snprintf(text, sizeof text, "BLOCK_SIZE_M is %d at M = %s, the base table has %d; %d of M = 1..4096 differ",
             row->config.v[GEMM_BM], range, other, wrong);
    lint_tell(s, "down-block-m-mismatch", row, text);
}

static void check_pair(lint_subject *s) {
    char path[2048];
    foreign_table *base;
    size_t n = strlen(s->path), tail = strlen("_down.json");
    if (!s->t->name.down || n <= tail || n >= sizeof path) return;
    snprintf(path, sizeof path, "%.*s.json", (int)(n - tail), s->path);
    if (!file_exists(path) || foreign_read(path, NULL, NULL, &base, NULL)) return;
    compare_pair(s, base);
    foreign_free(base);
}

/* ---- one file ---- */

static int by_key(const void *a, const void *b) {
    const foreign_row *x = *(const foreign_row *const *)a, *y = *(const foreign_row *const *)b;
    return x->m != y->m ? (x->m > y->m) - (x->m < y->m) : (x > y) - (x < y);
}

static void check_rows(lint_subject *s) {
    int count = s->t->count;
    if (!count) return;
    for (int i = 0; i < count; i++) s->sorted[i] = &s->t->rows[i];
    qsort(s->sorted, (size_t)count, sizeof *s->sorted, by_key);
    check_ends(s);
    check_order(s);
    for (int i = 0; i < count; i++) {
        const foreign_row *row = s->sorted[i];
        check_values(s, row);
        check_group(s, row);
        check_smem(s, row);
        lint_default(s, row);
        check_grid(s, row);
        if (i > 0 && i < count - 1) check_island(s, i);
        check_reach(s, row);
    }
    check_pair(s);
}

/* The reader tells of the other metadata, at which every loader stops. */
static void check_metadata(lint_subject *s) {
    if (s->system == FOREIGN_VLLM || !s->t->triton_line) return;
    lint_add(s->l, "metadata-key", -1, s->path, s->t->triton_line, "triton_version",
             "is metadata, which %s takes for a number of tokens and stops at; vLLM alone skips it",
             foreign_names[s->system]);
}

/* What the reader tells; the name comes first. The rows of another loader's file are not judged. */
static void hear(void *ctx, int line, const char *rule, const char *key, const char *text) {
    lint_subject *s = ctx;
    int level = -1;
    if (!strcmp(rule, "bad-name")) {
        lint_hear_name(s, key ? key : "", text);
        return;
    }
    if (s->foreign) return;
    if (!strcmp(rule, "no-rows")) rule = "no-table";
    /* Compilers have a default of their own for these two. */
    if (!strcmp(rule, "missing-field") && strstr(text, "num_")) level = LINT_WARNING;
    lint_add(s->l, rule, level, s->path, line, key, "%s", text);
}

/* The line in "path:line:column: ...", 0: none. */
static int line_of(const lint_subject *s, const char *message) {
    size_t n = strlen(s->path);
    return !strncmp(message, s->path, n) && message[n] == ':' ? atoi(message + n + 1) : 0;
}

void lint_foreign(lint *l, const char *path, const char *text, size_t len) {
    cadre_fail why = {0};
    const char *slash = strrchr(path, '/');
    lint_subject *s = mem_new(sizeof *s);
    if (!s) {
        l->failed = true;
        return;
    }
    s->l = l, s->path = lint_keep(l, path), s->name = slash ? slash + 1 : path;
    snprintf(s->folder, sizeof s->folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    cadre_err err = foreign_parse(path, text, len, hear, s, &s->t, &why);
    if (err == CADRE_NOMEM) l->failed = true;
    if (err) {
        lint_add(l, "no-table", -1, s->path, line_of(s, why.text), "", "%s", why.text);
    } else {
        s->system = lint_system(s);
        s->platform = lint_platform(s->t->name.device);
        lint_names(s);
        if (!s->foreign) check_metadata(s);
        if (!s->foreign) check_rows(s);
        foreign_free(s->t);
    }
    mem_free(s);
}
