/* invariance_cells.c: the list of cells: one axis at a time, then some pairs. */
#include "invariance.h"
#include "op/kernel.h"
#include <string.h>

const char cell_axes[] = "threads|batch|chunk|rows|isa|knobs|pairs";

typedef struct list {
    const char *axes;
    cell *out;
    int count, tokens;
} list;

/* Is `axis` asked for? */
static bool wanted(const char *axes, const char *axis) {
    size_t n = strlen(axis);
    for (const char *p = axes; p && *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == n && !memcmp(p, axis, n)) return true;
    return !axes;
}

static cell plain(const list *l, const char *axis) {
    return (cell){.axis = axis, .isa = -1, .family = -1, .tracks = TRACKS, .tokens = l->tokens};
}

static void add(list *l, cell c) {
    if (l->count < CELLS_MAX && wanted(l->axes, c.axis)) l->out[l->count++] = c;
}

static void add_batch(list *l, const char *axis, int threads, int others, int chunk) {
    cell c = plain(l, axis);
    char part[3][20] = {"", "", ""};
    c.threads = threads;
    c.others = others;
    c.chunk = chunk;
    if (threads) snprintf(part[0], 20, "threads=%d ", threads);
    if (others) snprintf(part[1], 20, "others=%d ", others);
    if (chunk) snprintf(part[2], 20, "chunk=%d ", chunk);
    int n = snprintf(c.name, sizeof c.name, "%s%s%s", part[0], part[1], part[2]);
    if (n) c.name[n - 1] = 0;
    if (!n) snprintf(c.name, sizeof c.name, "chunk=all");
    add(l, c);
}

/* The reference is slow, so it runs the start of the two short sequences. */
static void add_isa(list *l, const char *axis, int isa, int others, int chunk) {
    cell c = plain(l, axis);
    c.isa = isa;
    c.others = others;
    c.chunk = chunk;
    if (isa == OP_ISA_REF) {
        c.tracks = 2;
        c.tokens = l->tokens < 8 ? l->tokens : 8;
    }
    int n = snprintf(c.name, sizeof c.name, "isa=%s", switch_isas[isa]);
    if (others) n += snprintf(c.name + n, sizeof c.name - (size_t)n, " others=%d", others);
    if (chunk) snprintf(c.name + n, sizeof c.name - (size_t)n, " chunk=%d", chunk);
    add(l, c);
}

/* With neighbours, so that tiles of several rows and their tails run in decode too. */
static void add_knob(list *l, const char *axis, int family, int knob, int value, int others) {
    cell c = plain(l, axis);
    c.family = family;
    c.knob = knob;
    c.value = value;
    c.others = others;
    c.tokens = l->tokens < 16 ? l->tokens : 16;
    snprintf(c.name, sizeof c.name, "%s.%s=%d others=%d", op_families[family].name,
             op_families[family].knobs[knob].name, value, others);
    add(l, c);
}

static void add_knobs(list *l) {
    for (int f = 0; f < OP_FAMILY_COUNT; f++)
        for (int k = 0; k < op_families[f].count; k++)
            for (int v = op_families[f].knobs[k].low; v <= op_families[f].knobs[k].high; v *= 2)
                add_knob(l, "knobs", f, k, v, 5);
}

static void add_pairs(list *l) {
    add_batch(l, "pairs", 0, 5, 7);
    add_batch(l, "pairs", 0, 16, 1);
    add_batch(l, "pairs", 3, 0, 7);
    add_batch(l, "pairs", 1, 16, 64);
    add_batch(l, "pairs", 3, 2, 64);
    for (int isa = OP_ISA_AVX2; isa < OP_ISA_COUNT; isa++) add_isa(l, "pairs", isa, 16, 7);
    add_knob(l, "pairs", OP_DENSE, 0, 8, 16);
    add_knob(l, "pairs", OP_EXPERTS, 0, 8, 16);
    add_knob(l, "pairs", OP_ATTN, 0, 8, 16);
}

int cells_list(const char *axes, int tokens, cell *out) {
    static const int threads[] = {1, 2, 3, 7}, others[] = {2, 5, 16}, chunks[] = {1, 7, 64, 0};
    list l = {.axes = axes, .out = out, .tokens = tokens};
    for (int i = 0; i < 3; i++) add_batch(&l, "batch", 0, others[i], 0);
    for (int i = 0; i < 4; i++) add_batch(&l, "chunk", 0, 0, chunks[i]);
    for (int m = 2; m <= CELL_ROWS; m++) {
        cell c = plain(&l, "rows");
        c.rows = m;
        snprintf(c.name, sizeof c.name, "rows=%d", m);
        add(&l, c);
    }
    for (int i = 0; i < 4; i++) add_batch(&l, "threads", threads[i], 0, 0);
    for (int i = 0; i < OP_ISA_COUNT; i++) add_isa(&l, "isa", i, 0, 0);
    add_knobs(&l);
    add_pairs(&l);
    return l.count;
}
