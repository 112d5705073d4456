/* bench_count.c: `cadre bench count`: counting local tokens, by block and number of tokens as the tables of others have
 * it, or as an experiment that takes apart what the block changes.
 *
 *   a cell:   tokens x knobs, or all levels of some factors
 *   a round:  visits of all cells, up or down; each times single launches, and as many that do nothing
 */
#include "bench_count.h"
#include "commands.h"
#include "measure.h"
#include "op/count_matrix.h"
#include "plan/count.h"
#include <stdlib.h>
#include <string.h>

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(count_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "--blocks", OPTS_TEXT, "LIST", blocks, 0, 0,
      "pairs that a block counts, powers of two (default 64,128,256,512,1024)"),
    O(0, "--tokens", OPTS_TEXT, "LIST", tokens, 0, 0,
      "valid tokens: numbers, and lo..hi, which goes up by fours (default 256..16384)"),
    O(0, "--factor", OPTS_TEXT, "LIST", factor, 0, 0,
      "an experiment in place of blocks: all levels of some of warps, block, ctas, atomics, order, private, pairs"),
    O(0, "--check", OPTS_FLAG, NULL, check, 0, 0, "no times: the matrix of 2280 cells, bit for bit"),
    O(0, "--k", OPTS_INT, "N", k, 1, 64, "experts of a token (default 8)"),
    O(0, "--experts", OPTS_INT, "N", experts, 1, 4096, "experts of all ranks (default 128)"),
    O(0, "--local", OPTS_INT, "N", local, 1, 4096, "experts of this rank (default 32)"),
    O(0, "--start", OPTS_INT, "N", start, 0, 4096, "the first of them (default 0)"),
    O(0, "--capacity", OPTS_INT, "N", capacity, 1, 1 << 20, "tokens of the buffer (default: the most tokens)"),
    O(0, "--repeat", OPTS_INT, "N", repeat, 1, 200, "visits of each cell (default 9; an interval needs 6)"),
    O(0, "--visit-ms", OPTS_INT, "N", visit_ms, 1, 10000, "least time of a visit (default 10)"),
    O(0, "--seed", OPTS_SEED, "S", seed, 0, 0, "of the routing (default 0)"),
    O(0, "--out", OPTS_TEXT, "FILE", out, 0, 0, "raw samples are appended here (default bench-samples.jsonl)"),
    O(0, "--device", OPTS_TEXT, "NAME", common.device, 0, 0, "where to run: cpu, cuda or cuda:N (default cpu)"),
    OPTS_ALWAYS(count_opts),
};
#undef O

static const char *const examples[] = {
    "cadre bench count --device cuda",
    "time by block and number of tokens",
    "cadre bench count --device cuda --factor warps,block,ctas,order --tokens 256",
    "which of threads, busy CTAs and ordered additions makes a large block slow",
    "cadre bench count --check",
    "the kernel against its meaning, bit for bit",
    NULL,
};
static const char notes[] =
    "A count adds, for each expert of this rank, how many of the valid tokens' pairs chose it; the number of valid\n"
    "tokens lies on the device. Times are of one launch, on a GPU as one of 48 in a graph that is replayed; `empty` "
    "is\n"
    "a launch of the same size that does nothing. Medians over the visits, the interval is 95 % by order statistics.\n"
    "Knobs are the switches count.NAME; count.block=1024 restores the block of old.\n"
    "Levels: warps 4, 32; block 128, 1024; ctas 2, one per multiprocessor; atomics 0 (nothing is added), 1; order\n"
    "relaxed, acquire and release; private 0, 1; pairs: the first and the last of --tokens.\n";

/* ---- cells ---- */

static cadre_err no_room(const char *name, int most, cadre_fail *why) {
    return cadre_fail_set(why, CADRE_RANGE, "%s names more than %d values", name, most);
}

/* One word of --tokens: "256", or "256..16384", which is 256, 1024, 4096, 16384. */
static cadre_err read_word(count_bench *b, char *word, cadre_fail *why) {
    enum { MOST = 1 << 20 };
    char *dots = strstr(word, "..");
    int lo = 0, hi;
    if (dots) *dots = 0;
    cadre_err err = opts_int("--tokens", word, 0, MOST, &lo, why);
    hi = lo;
    if (!err && dots) err = opts_int("--tokens", dots + 2, 0, MOST, &hi, why);
    if (!err && (hi < lo || (dots && lo == 0)))
        return cadre_fail_set(why, CADRE_RANGE, "--tokens holds %d..%d, expected it to go up from 1 or more", lo, hi);
    for (int64_t v = lo; v <= hi && !err; v *= 4) {
        if (b->token_count == COUNT_LIST) return no_room("--tokens", COUNT_LIST, why);
        b->tokens[b->token_count++] = (int)v;
        if (v == 0) break;
    }
    return err;
}

static cadre_err read_tokens(count_bench *b, cadre_fail *why) {
    char text[512];
    cadre_err err = CADRE_OK;
    if (strlen(b->o->tokens) >= sizeof text) return no_room("--tokens", COUNT_LIST, why);
    strcpy(text, b->o->tokens);
    for (char *rest = text, *word; (word = strsep(&rest, ",")) && !err;) err = read_word(b, word, why);
    b->capacity = b->o->capacity;
    for (int i = 0; i < b->token_count; i++)
        if (!b->o->capacity && b->tokens[i] > b->capacity) b->capacity = b->tokens[i];
    for (int i = 0; i < b->token_count && !err; i++)
        if (b->tokens[i] > b->capacity)
            err = cadre_fail_set(why, CADRE_RANGE, "--tokens holds %d, the buffer has room for --capacity %d",
                                 b->tokens[i], b->capacity);
    if (!b->capacity) b->capacity = 1;
    return err;
}

static cadre_err block_cells(count_bench *b, cadre_fail *why) {
    int blocks[COUNT_LIST], n;
    cadre_err err = opts_numbers("--blocks", *b->o->blocks ? b->o->blocks : "64,128,256,512,1024", 64, 1024, blocks,
                                 COUNT_LIST, &n, why);
    for (int i = 0; i < n && !err; i++)
        if (blocks[i] & (blocks[i] - 1))
            err = cadre_fail_set(why, CADRE_RANGE, "--blocks holds %d, expected powers of two in 64..1024", blocks[i]);
    if (!err && n * b->token_count > COUNT_CELLS)
        err = cadre_fail_set(why, CADRE_RANGE, "%d blocks times %d numbers of tokens: more than %d cells", n,
                             b->token_count, COUNT_CELLS);
    for (int i = 0; i < b->token_count * n && !err; i++) {
        count_cell *c = &b->cells[b->count++];
        c->tokens = b->tokens[i / n];
        plan_count_knobs(&c->knobs);
        c->knobs.block = blocks[i % n];
    }
    return err;
}

/* Multiprocessors of a GPU, or threads of the CPU's team. */
static int units_of(const cadre_device *d) {
    return d->gpu ? dev_cuda_about(d->gpu)->sms : cadre_device_threads(d);
}

static cadre_err finish_cells(count_bench *b, cadre_fail *why) {
    size_t n = (size_t)b->o->repeat;
    b->figures = mem_new_array((size_t)b->count * 2, n * sizeof(double));
    b->ids = mem_new_array((size_t)b->capacity * (size_t)b->o->k, sizeof *b->ids);
    if (!b->figures || !b->ids) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the figures");
    count_matrix_ids(b->o->seed, b->capacity, b->o->experts, b->o->k, b->ids);
    for (int i = 0; i < b->count; i++) {
        count_cell *c = &b->cells[i];
        c->us = b->figures + 2 * (size_t)i * n, c->empty = c->us + n;
        c->ctas = plan_count_ctas(&c->knobs, units_of(b->device));
        c->pairs = (int64_t)c->tokens * b->o->k;
        c->busy = (int)count_grid_of(c->pairs, c->knobs.block, c->ctas).busy;
        c->depth = count_depth(c->pairs, &c->knobs, c->ctas);
    }
    return CADRE_OK;
}

/* ---- the command ---- */

static cadre_err check_options(const count_opts *o, cadre_fail *why) {
    if (o->k > o->experts)
        return cadre_fail_set(why, CADRE_RANGE, "--k is %d, expected at most --experts %d", o->k, o->experts);
    if (o->check && *o->factor) return cadre_fail_set(why, CADRE_RANGE, "--check and --factor do not go together");
    if (*o->blocks && (*o->factor || o->check))
        return cadre_fail_set(why, CADRE_RANGE, "--blocks and %s do not go together",
                              o->check ? "--check" : "--factor");
    return CADRE_OK;
}

static cadre_err prepare(count_bench *b, cadre_fail *why) {
    cadre_err err = read_tokens(b, why);
    if (!err) err = *b->o->factor ? count_bench_factors(b, why) : block_cells(b, why);
    if (!err) err = finish_cells(b, why);
    measure_run_id(b->run);
    return err;
}

static int measure(const count_opts *o, cadre_device *device) {
    cadre_fail why = {0};
    count_bench *b = mem_new(sizeof *b);
    int status = EXIT_COULD_NOT;
    if (!b) {
        cadre_fail_set(&why, CADRE_NOMEM, "out of memory for the bench");
        return say_failed(&why);
    }
    *b = (count_bench){.o = o, .device = device};
    if (prepare(b, &why) || count_bench_run(b, &why))
        say_failed(&why);
    else {
        count_bench_say(b);
        status = o->common.json ? count_bench_json(b) : EXIT_FINE;
    }
    mem_free(b->figures), mem_free(b->ids), mem_free(b);
    return status;
}

static int run(void) {
    count_opts o = {.blocks = "",
                    .tokens = "256..16384",
                    .factor = "",
                    .out = "bench-samples.jsonl",
                    .k = 8,
                    .experts = 128,
                    .local = 32,
                    .repeat = 9,
                    .visit_ms = 10};
    cadre_fail why = {0};
    cadre_device *device = NULL;
    int status;
    if (!opts_read(&bench_count_command, &o, &status)) return status;
    if (check_options(&o, &why) || open_device(&o.common, &device, &why)) return say_failed(&why);
    status = o.check ? count_bench_check(&o, device) : measure(&o, device);
    cadre_device_close(device);
    return status;
}

const opts_command bench_count_command = {
    "bench count", "measure or check the counting of tokens per expert", notes, OPTS_TABLE(defs), examples, run};
