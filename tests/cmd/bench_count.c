/* bench_count: `cadre bench count` on the CPU, and on a GPU by the stand-in of tests/dev/fake, whose counts are real
 * and whose times mean nothing: the matrix, the geometry of every cell, effects against the rows they are made from. */
#include "command.h"
#include <math.h>

static char fake[300], on_gpu[900];

static int start(void **state) {
    const char *build = getenv("CADRE_BUILD");
    snprintf(fake, sizeof fake, "%s/fake/libfake.so", build ? build : "build");
    setenv("FAKE_SMS", "152", 1);
    int status = command_setup(state);
    snprintf(on_gpu, sizeof on_gpu, "--device cuda --set cuda=%s --set nvrtc=%s --set cache=%s/kernels", fake, fake,
             scratch);
    return status;
}

static json_doc *bench(const char *more, int status, ran *r) {
    *r = command("bench count %s --json --out %s/samples.jsonl", more, scratch);
    if (r->status != status) fail_msg("bench count %s: exit %d, %s", more, r->status, r->err);
    return command_json(r);
}

/* ---- the matrix ---- */

static void matrix_on(const char *where) {
    ran r;
    json_doc *doc = bench(where, 0, &r);
    const json *v = json_root(doc), *skips = json_get(v, "skipped");
    command_has(
        v, "schema ok full cells equal skipped sum populated decode_sum decode_populated planted caught first device "
           "switches");
    assert_true(json_get(v, "ok")->truth);
    assert_int_equal((int)command_number(v, "full"), 2520);
    assert_int_equal((int)command_number(v, "cells"), 2280);
    assert_int_equal((int)command_number(v, "equal"), 2280);
    assert_int_equal((int)command_number(v, "decode_populated"), 32);
    assert_int_equal((int)command_number(v, "planted"), 720);
    assert_true(command_number(v, "caught") > 90);
    assert_int_equal(skips->count, 2);
    assert_true(json_is(json_get(skips->child, "reason"), "1000 tokens do not fit into 512"));
    assert_true(json_is(json_get(skips->child->next, "reason"), "4096 tokens do not fit into 512"));
    assert_int_equal((int)command_number(skips->child, "cells") + (int)command_number(skips->child->next, "cells"),
                     240);
    assert_int_equal(json_get(v, "first")->kind, JSON_NULL);
    json_free(doc);
    command_free(&r);
}

static void matrix(void **state) {
    (void)state;
    char gpu[1000];
    snprintf(gpu, sizeof gpu, "--check %s", on_gpu);
    matrix_on("--check");
    matrix_on("--check --set count.private=1 --set count.ctas=7 --set count.atomics=2");
    matrix_on(gpu);
    /* A kernel that adds nothing has no counts, and the answer is no. */
    ran r;
    json_doc *doc = bench("--check --set count.atomics=0", 1, &r);
    assert_false(json_get(json_root(doc), "ok")->truth);
    assert_int_equal((int)command_number(json_root(doc), "sum"), 0);
    assert_int_equal((int)command_number(json_root(doc), "caught"), 0);
    assert_non_null(strstr(json_get(json_root(doc), "first")->text, "with block 128, 0 with block 1024, not 1"));
    json_free(doc);
    command_free(&r);
}

/* ---- rows ---- */

/* The geometry of the source reports, on 152 multiprocessors. */
static void geometry(void **state) {
    (void)state;
    static const int want[][4] = {
        /* tokens, block: busy CTAs, pairs per thread */
        {256, 64, 32, 1},     {256, 128, 16, 1},    {256, 1024, 2, 8},
        {16384, 64, 147, 14}, {16384, 128, 147, 7}, {16384, 1024, 128, 8},
    };
    char line[1100];
    ran r;
    snprintf(line, sizeof line, "--blocks 64,128,1024 --tokens 256,16384 --repeat 2 %s", on_gpu);
    json_doc *doc = bench(line, 0, &r);
    const json *v = json_root(doc), *row = json_get(v, "rows")->child;
    command_has(v, "schema rows samples device switches run k experts local start capacity");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++, row = row->next) {
        assert_int_equal((int)command_number(row, "tokens"), want[i][0]);
        assert_int_equal((int)command_number(row, "block"), want[i][1]);
        assert_int_equal((int)command_number(row, "busy_ctas"), want[i][2]);
        assert_int_equal((int)command_number(row, "pairs_per_thread"), want[i][3]);
        assert_int_equal((int)command_number(row, "ctas"), 152);
        assert_true(command_number(row, "us") > 0 && command_number(row, "empty_us") > 0);
    }
    assert_null(row);
    json_free(doc);
    command_free(&r);
}

/* Every sample is a line with its raw times. */
static void samples(void **state) {
    (void)state;
    ran r = command("bench count --tokens 0,64 --blocks 64 --repeat 3 --visit-ms 1 --out %s/raw.jsonl", scratch);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "raw samples: "));
    command_free(&r);
    size_t len;
    int n = 0;
    char *text = command_read("raw.jsonl", &len);
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) && *line; n++) {
        json_doc *doc;
        assert_int_equal(json_parse("line", line, strlen(line), &doc, NULL), CADRE_OK);
        const json *v = json_root(doc);
        command_has(v,
                    "schema run visit order tokens pairs block warps ctas us empty_us step_us step_empty_us launches");
        assert_true(json_get(v, "step_us")->count >= 5);
        assert_int_equal(json_get(v, "step_us")->count, json_get(v, "step_empty_us")->count);
        json_free(doc);
    }
    assert_int_equal(n, 6);
    mem_free(text);
}

/* ---- experiments ---- */

enum { CELLS = 8 };

static double effect_of(const double *log_us, unsigned mask, bool pair) {
    double sum = 0;
    for (unsigned i = 0; i < CELLS; i++) sum += (__builtin_popcount(mask & ~i) % 2 ? -1 : 1) * log_us[i];
    return sum / (CELLS / 2) * (pair ? 2 : 1);
}

/* What is told of each effect follows from the rows; three factors and their pairs leave one effect over. */
static void effects(void **state) {
    (void)state;
    static const char *const names[] = {"ctas",           "private",      "pairs",
                                        "ctas x private", "ctas x pairs", "private x pairs"};
    static const unsigned masks[] = {1, 2, 4, 3, 5, 6};
    double log_us[CELLS], mean = 0, total = 0, shares = 0;
    ran r;
    json_doc *doc = bench("--factor ctas,private,pairs --tokens 64,512 --repeat 7 --visit-ms 1", 0, &r);
    const json *v = json_root(doc), *row = json_get(v, "rows")->child, *e = json_get(v, "effects")->child;
    assert_int_equal(json_get(v, "rows")->count, CELLS);
    assert_int_equal(json_get(v, "factors")->count, 3);
    for (int i = 0; i < CELLS; i++, row = row->next) {
        log_us[i] = log(command_number(row, "us"));
        mean += log_us[i] / CELLS;
        assert_int_equal((int)command_number(row, "tokens"), i & 4 ? 512 : 64);
        assert_int_equal(json_get(row, "private")->truth, i >> 1 & 1);
    }
    for (int i = 0; i < CELLS; i++) total += (log_us[i] - mean) * (log_us[i] - mean);
    for (int i = 0; i < 6; i++, e = e->next) {
        double want = effect_of(log_us, masks[i], i >= 3), half = want / (i >= 3 ? 4 : 2);
        const json *interval = json_get(e, "interval");
        assert_true(json_is(json_get(e, "name"), names[i]));
        assert_true(fabs(log(command_number(e, "ratio")) - want) < 1e-4);
        assert_true(fabs(command_number(e, "share") - CELLS * half * half / total) < 1e-3);
        assert_true(interval->child->number <= interval->child->next->number);
        shares += command_number(e, "share");
    }
    assert_null(e);
    assert_true(fabs(shares + command_number(v, "share_of_others") - 1) < 1e-3);
    assert_true(command_number(json_get(v, "effects")->child->next->next, "ratio") >
                2); /* eight times the pairs take longer */
    json_free(doc);
    command_free(&r);
}

/* Block and warps alone change two things at once; with the number of CTAs there are cells that differ in one. */
static void contrasts(void **state) {
    (void)state;
    char line[1100];
    ran r;
    snprintf(line, sizeof line, "--factor warps,block,ctas --tokens 256 --repeat 2 %s", on_gpu);
    json_doc *doc = bench(line, 0, &r);
    const json *all = json_get(json_root(doc), "contrasts"), *a = all->child, *b = a->next;
    assert_int_equal(all->count, 2);
    assert_true(json_is(json_get(a, "differs"), "pairs_per_thread") && json_is(json_get(a, "equal"), "busy_ctas"));
    assert_int_equal((int)command_number(a, "from"), 1);
    assert_int_equal((int)command_number(a, "to"), 8);
    assert_true(json_is(json_get(b, "differs"), "busy_ctas") && json_is(json_get(b, "equal"), "pairs_per_thread"));
    assert_int_equal((int)command_number(b, "from"), 2);
    assert_int_equal((int)command_number(b, "to"), 16);
    assert_true(command_number(a, "cells") > 0 && command_number(b, "cells") > 0);
    json_free(doc);
    command_free(&r);
}

static void refusals(void **state) {
    (void)state;
    command_refused(command("bench count --blocks 96"), "--blocks holds 96, expected powers of two in 64..1024");
    command_refused(command("bench count --blocks 32"), "--blocks");
    command_refused(command("bench count --tokens 512..64"),
                    "--tokens holds 512..64, expected it to go up from 1 or more");
    command_refused(command("bench count --tokens 0..64"), "--tokens holds 0..64");
    command_refused(command("bench count --tokens x"), "--tokens");
    command_refused(command("bench count --tokens 100 --capacity 99"),
                    "--tokens holds 100, the buffer has room for --capacity 99");
    command_refused(command("bench count --factor speed"), "--factor names 'speed', expected warps, block, ctas");
    command_refused(command("bench count --factor block,block"), "--factor names block twice");
    command_refused(command("bench count --factor atomics,order"), "--factor names atomics and order");
    command_refused(command("bench count --factor pairs --tokens 5"), "--factor pairs needs two numbers in --tokens");
    command_refused(command("bench count --factor block --check"), "--check and --factor do not go together");
    command_refused(command("bench count --factor block --blocks 64"), "--blocks and --factor do not go together");
    command_refused(command("bench count --check --blocks 64"), "--blocks and --check do not go together");
    command_refused(command("bench count --k 9 --experts 8"), "--k is 9, expected at most --experts 8");
    command_refused(command("bench count --set count.warps=3"), "expected a power of two in 1..32");
    command_refused(command("bench count --set count.speed=3"), "no switch is called 'count.speed'");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(matrix),    cmocka_unit_test(geometry),
                                       cmocka_unit_test(samples),   cmocka_unit_test(effects),
                                       cmocka_unit_test(contrasts), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, start, command_teardown);
}
