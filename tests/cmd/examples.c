/* The experiments of examples/lab: each can be planned, has a question, predictions and a proof for every arm, and a
 * row in the README; those that run anywhere are tried; one is run and judged. */
#include "command.h"
#include "lab/lab.h"

#define FOLDER "examples/lab"

static char lock[128];

static int start(void **state) {
    int failed = command_setup(state);
    return failed || !file_join(lock, sizeof lock, scratch, "lock");
}

static void plan_all(const char *folder, int least) {
    const char **names;
    char *readme;
    size_t len;
    int count = 0;
    assert_int_equal(file_list(folder, ".json", &names, &count, NULL), CADRE_OK);
    assert_int_equal(file_read(FOLDER "/README.md", 1 << 20, &readme, &len, NULL), CADRE_OK);
    assert_in_range(count, least, 64);
    for (int i = 0; i < count; i++) {
        char path[200], row[220];
        lab_experiment *e;
        cadre_fail why = {0};
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        snprintf(row, sizeof row, "| `%s` |", path + sizeof FOLDER);
        if (!strstr(readme, row)) fail_msg("%s is not in the README", path);
        if (lab_experiment_read(path, &e, &why)) fail_msg("%s", why.text);
        assert_true(e->asks && e->protocol && e->program && e->visits >= 6);
        for (int a = 0; a < e->arm_count; a++) {
            const lab_arm *arm = &e->arms[a];
            if (!arm->prediction) fail_msg("%s: no prediction for %s", names[i], arm->name);
            if (!(arm->must && *arm->must) && !arm->counter_count) fail_msg("%s: no proof of %s", names[i], arm->name);
            if (a != e->reference && arm->predicted != arm->predicted)
                fail_msg("%s: %s has no number", names[i], arm->name);
        }
        ran r = command("ab plan %s --json", path);
        if (r.status) fail_msg("%s: %s", names[i], r.err);
        json_doc *doc = command_json(&r);
        for (const json *c = json_get(json_root(doc), "arms")->child; c; c = c->next)
            if (!json_get(c, "differences")->count && json_is(json_get(c, "role"), "arm") && !e->aa)
                fail_msg("%s: nothing differs in %s", names[i], json_get(c, "name")->text);
        json_free(doc);
        command_free(&r);
        lab_experiment_free(e);
    }
    mem_free(names);
    mem_free(readme);
}

static void planned(void **state) {
    (void)state;
    plan_all(FOLDER, 8);
    plan_all(FOLDER "/gpu", 4);
}

/* A copy of an example with few visits and short commands. */
static const char *shortened(const char *name, const char *const *swaps) {
    static char path[200];
    char file[200], *text;
    size_t len;
    snprintf(file, sizeof file, FOLDER "/%s.json", name);
    snprintf(path, sizeof path, "%s/%s.json", scratch, name);
    assert_int_equal(file_read(file, 1 << 20, &text, &len, NULL), CADRE_OK);
    for (; *swaps; swaps += 2) {
        char *at = strstr(text, swaps[0]);
        if (!at) fail_msg("%s has no '%s'", name, swaps[0]);
        size_t cut = strlen(swaps[0]), size = len - cut + strlen(swaps[1]) + 1;
        char *made = mem_new(size);
        snprintf(made, size, "%.*s%s%s", (int)(at - text), text, swaps[1], at + cut);
        mem_free(text);
        text = made, len = size - 1;
    }
    assert_int_equal(file_write(path, text, len, NULL), CADRE_OK);
    mem_free(text);
    return path;
}

#define VISITS   "\"visits\": 8, \"warmup\": 1", "\"visits\": 1, \"warmup\": 0"
#define BRIEF    "--repeat 5 --visit-ms 30 --probe-mb 64", "--repeat 1 --visit-ms 1 --probe-mb 16"
#define ONE_PASS "--warmup 1 --repeat 5", "--warmup 0 --repeat 1"

/* One visit of each arm: every figure is found and every arm is at work. (tiny-m needs AVX-512, table-row its table.)
 */
static void tried(void **state) {
    (void)state;
    static const struct {
        const char *name, *swaps[5], *figure;
    } all[] = {
        {"noise", {ONE_PASS, NULL}, "tpot_ms"},
        {"two-changes", {ONE_PASS, NULL}, "tpot_ms"},
        {"count-blocks", {"--repeat 15 --visit-ms 10", "--repeat 1 --visit-ms 1", NULL}, "us@1024"},
        {"count-mechanism", {"--repeat 15 --visit-ms 10", "--repeat 1 --visit-ms 1", NULL}, "us@1024"},
        {"router-free", {BRIEF, "E=128,d=1024,f=128", "E=128,d=128,f=32", NULL}, "us@7"},
        {"router-gate", {BRIEF, "E=128,d=1024,f=128", "E=128,d=128,f=32", NULL}, "gate_us@7"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ran r = command("ab plan %s --try --lock %s", shortened(all[i].name, all[i].swaps), lock);
        if (r.status || strstr(r.out, "not at work") || strstr(r.out, "not active"))
            fail_msg("%s: %s%s", all[i].name, r.out, r.err);
        int at_work = 0;
        for (const char *p = r.out; (p = strstr(p, ": at work")); p++) at_work++;
        assert_in_range(at_work, 2, 4);
        assert_non_null(strstr(r.out, all[i].figure));
        command_free(&r);
    }
}

/* Run and judged: buffers of a layer. The counts prove each arm, the outputs are one family, one visit is too few. */
static void run_once(void **state) {
    (void)state;
    static const char *const swaps[] = {VISITS, BRIEF, "E=64,d=512,f=256", "E=16,d=64,f=32", NULL};
    char dir[200];
    snprintf(dir, sizeof dir, "%s/visits", scratch);
    ran r = command("ab run %s -o %s --no-ledger --lock %s", shortened("workspace", swaps), dir, lock);
    if (!strstr(r.out, "4 of 4") || strstr(r.out, "not active") || strstr(r.out, "failed"))
        fail_msg("%s%s", r.out, r.err);
    command_free(&r);
    r = command("ab verdict %s --json", dir);
    if (r.status != 1) fail_msg("%s%s", r.out, r.err);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc);
    assert_true(json_is(json_get(v, "verdict"), "underpowered"));
    int gates = 0;
    for (const json *g = json_get(v, "gates")->child; g; g = g->next) {
        if (!json_is(json_get(g, "name"), "activation") && !json_is(json_get(g, "name"), "family")) continue;
        assert_true(json_get(g, "ok")->truth && json_get(g, "told")->truth);
        gates++;
    }
    assert_int_equal(gates, 2);
    json_free(doc);
    command_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(planned), cmocka_unit_test(tried), cmocka_unit_test(run_once)};
    return cmocka_run_group_tests(tests, start, command_teardown);
}
