/* cells: what the invariance bench runs and compares, from inside: a trace holds one cell's run alone, and two traces
 * are equal only if they are as long, row by row and token by token. The files of cmd/ under test are compiled in,
 * in an order that keeps their names apart. */
#include "command.h"

#include "../../cmd/generate.c"
#include "../../cmd/open.c"
#include "../../cmd/prompts.c"
#include "../../cmd/say.c"

#include "../../cmd/invariance_run.c"

#include "../../cmd/opts.c"

static trace want, got;
static const cell eight = {.axis = "batch", .isa = -1, .family = -1, .tracks = 2, .tokens = 8};

static void fill(trace *t, int tokens) {
    *t = (trace){0};
    for (int i = 0; i < TRACKS; i++) {
        for (int k = 0; k < tokens; k++) {
            t->tracks[i].ids[k] = 100 * i + k;
            snprintf(t->tracks[i].logits[k], 65, "%064d", 100 * i + k);
        }
        t->tracks[i].count = tokens;
    }
    for (int i = 0; i < CELL_ROWS; i++) snprintf(t->rows[i], 65, "%064d", i);
}

static void parts(const cell *c, const char *what, int sequence, int step) {
    parting p = trace_compare(&want, &got, c);
    if (!what) {
        if (p.what) fail_msg("%s of %d at %d, expected equal", p.what, p.sequence, p.step);
        return;
    }
    if (!p.what || strcmp(p.what, what) || p.sequence != sequence || p.step != step)
        fail_msg("%s of %d at %d, expected %s of %d at %d", p.what ? p.what : "nothing", p.sequence, p.step, what,
                 sequence, step);
}

static void counts(void **state) {
    (void)state;
    fill(&want, 12);
    fill(&got, 8);
    parts(&eight, NULL, 0, 0);
    got.tracks[1].count = 7; /* what lies behind the end may look right: it's an earlier cell's */
    parts(&eight, "count", 1, 7);
    got.tracks[0].count = 0;
    parts(&eight, "count", 0, 0);
    fill(&got, 9);
    parts(&eight, "count", 0, 8);
    fill(&got, 8);
    want.tracks[0].count = 5;
    parts(&eight, "count", 0, 5);
}

static void rows(void **state) {
    (void)state;
    cell four = eight;
    four.rows = 4;
    fill(&want, 8);
    fill(&got, 8);
    got.tracks[1].ids[6]++;
    parts(&eight, "tokens", 1, 6);
    got.tracks[1].logits[6][63] = 'x';
    parts(&eight, "logits", 1, 6);
    want.tracks[0].logits[3][0] = got.tracks[0].logits[3][0] = 0; /* neither has it: not equal */
    parts(&eight, "logits", 0, 3);
    parts(&four, NULL, 0, 0); /* a cell of rows compares rows alone */
    got.rows[4][0] = 'x';
    parts(&four, NULL, 0, 0);
    got.rows[3][0] = 'x';
    parts(&four, "logits", 0, 3);
    want.rows[2][0] = got.rows[2][0] = 0;
    parts(&four, "logits", 0, 2);
}

/* A cell of few tokens and sequences behind one of many leaves nothing of the first. */
static void alone(void **state) {
    (void)state;
    opts_common common = {.threads = 1};
    bed b = {.common = &common, .dir = "tests/golden/models/qwen3_moe_bf16"};
    cadre_fail why = {0};
    cell many = {.axis = "batch", .threads = 1, .isa = -1, .family = -1, .tracks = TRACKS, .tokens = 12};
    cell few = {.axis = "batch", .threads = 1, .isa = -1, .family = -1, .tracks = 1, .tokens = 4};
    assert_int_equal(bed_make(&b, &many, &why), CADRE_OK);
    assert_int_equal(bed_run(&b, &many, 0, &want, &why), CADRE_OK);
    got = want;
    assert_int_equal(bed_run(&b, &few, 0, &got, &why), CADRE_OK);
    assert_int_equal(got.tracks[0].count, 4);
    for (int k = 0; k < 4; k++) assert_string_equal(got.tracks[0].logits[k], want.tracks[0].logits[k]);
    for (int k = 4; k < TRACK_TOKENS_MAX; k++) assert_int_equal(got.tracks[0].logits[k][0], 0);
    for (int i = 1; i < TRACKS; i++) assert_int_equal(got.tracks[i].count, 0);
    parts(&few, NULL, 0, 0);
    bed_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(rows), cmocka_unit_test(alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
