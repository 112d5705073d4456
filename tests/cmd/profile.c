/* profile: `--profile` of both benches: the contract, rows and what is in no row are the step, figures follow from the
 * raw samples, tokens stay the same; on a GPU with the stand-in of tests/dev/fake. */
#include "command.h"
#include <math.h>

#define MODEL "tests/golden/models/qwen3_moe_bf16"
#define MOE   "bench moe --shape E=16,d=64,f=32,k=2,shared=16 --m 1,5 --repeat 3 --visit-ms 1 --probe-mb 16 --layers 4"

static char samples[128];

static void fresh(void) {
    assert_true(file_join(samples, sizeof samples, scratch, "samples.jsonl"));
    unlink(samples);
}

static void close_to(double a, double b) {
    if (fabs(a - b) > 1e-9 * fabs(b) + 1e-9) fail_msg("%.12g, expected %.12g", a, b);
}

/* One row of a watched sample of this m (0: any), and the sample's steps and time. */
typedef struct sums {
    double steps, total, launches, us, ratio; /* ratio: watched over the unwatched step beside it */
    double beside;                            /* that */
} sums;

static int by_step(const void *a, const void *b) {
    const sums *x = a, *y = b;
    double d = x->total / x->steps - y->total / y->steps;
    return (d > 0) - (d < 0);
}

static int by_ratio(const void *a, const void *b) {
    const sums *x = a, *y = b;
    return (x->ratio > y->ratio) - (x->ratio < y->ratio);
}

/* Of the watched passes (visits) the one whose steps are the median; the median ratio of the pairs. */
static sums sum_up(const json *row, int m) {
    sums all[16];
    double beside = NAN; /* of a bench: the pass before */
    int n = 0;
    char *lines;
    size_t len;
    assert_int_equal(file_read(samples, 1 << 26, &lines, &len, NULL), CADRE_OK);
    for (char *p = lines; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        json_doc *doc;
        assert_int_equal(json_parse("samples", p, strcspn(p, "\n"), &doc, NULL), CADRE_OK);
        const json *v = json_root(doc), *raw = json_get(v, "profile");
        if (!m && !raw && command_number(v, "decode_steps") > 0)
            beside = command_number(v, "decode_ms") * 1e3 / command_number(v, "decode_steps");
        if (raw && (!m || (int)command_number(v, "m") == m)) {
            assert_true(n < 16);
            sums *s = &all[n++];
            *s = (sums){.steps = command_number(v, "profile_steps"), .total = command_number(v, "profile_us")};
            s->beside = m ? command_number(v, "us") : beside;
            s->ratio = command_number(v, "profile_step_us") / s->beside;
            for (const json *r = raw->child; r; r = r->next)
                if (!strcmp(command_text(r, "op"), command_text(row, "op")) &&
                    !strcmp(command_text(r, "kernel"), command_text(row, "kernel")))
                    s->launches += command_number(r, "launches"), s->us += command_number(r, "us");
        }
        json_free(doc);
    }
    mem_free(lines);
    assert_int_equal(n, 3);
    qsort(all, (size_t)n, sizeof *all, by_ratio);
    double ratio = all[n / 2].ratio;
    qsort(all, (size_t)n, sizeof *all, by_step);
    all[n / 2].ratio = ratio;
    return all[n / 2];
}

/* The rows of one profile: among themselves, with its check, and with the samples. */
static void is_whole(const json *v, int m) {
    const json *rows = json_get(v, "profile"), *check = json_get(v, "profile_check");
    command_has(check, "steps step_us profiled_us attributed_us unattributed_us unattributed_share wait_us overhead");
    double share = command_number(check, "unattributed_share"), us = 0, waited = 0;
    assert_true(rows->count >= 3);
    for (const json *r = rows->child; r; r = r->next) {
        command_has(r, "op kernel launches us us_per_launch wait_us share bytes floor_us");
        sums s = sum_up(r, m);
        close_to(command_number(r, "us"), s.us / s.steps);
        close_to(command_number(r, "launches"), s.launches / s.steps);
        close_to(command_number(r, "us_per_launch"), s.us / s.launches);
        close_to(command_number(r, "share"), s.us / s.total);
        close_to(command_number(check, "profiled_us"), s.total / s.steps);
        close_to(command_number(check, "steps"), s.steps);
        close_to(command_number(check, "step_us"), s.beside);
        close_to(command_number(check, "overhead"), s.ratio);
        share += command_number(r, "share"), us += command_number(r, "us"), waited += command_number(r, "wait_us");
        assert_true(command_number(r, "wait_us") <= command_number(r, "us"));
    }
    close_to(share, 1);
    close_to(command_number(check, "attributed_us"), us);
    close_to(command_number(check, "attributed_us") + command_number(check, "unattributed_us"),
             command_number(check, "profiled_us"));
    close_to(command_number(check, "wait_us"), waited);
    assert_true(command_number(check, "overhead") > 0);
}

static const json *row_of(const json *v, const char *op) {
    for (const json *r = json_get(v, "profile")->child; r; r = r->next)
        if (!strcmp(command_text(r, "op"), op)) return r;
    fail_msg("no row %s", op);
    return NULL;
}

/* What receipts of bench moe say ran has a row of the same kernel in the profile of some m. */
static void has_receipts(const json *root) {
    for (const json *c = json_get(root, "receipts")->child; c; c = c->next) {
        const char *op = command_text(c, "op");
        size_t len = strlen(op);
        bool found = command_number(c, "runs") == 0;
        for (const json *v = json_get(root, "rows")->child; v; v = v->next)
            for (const json *r = json_get(v, "profile")->child; r; r = r->next)
                found |= !strncmp(command_text(r, "op"), op, len) &&
                         (!command_text(r, "op")[len] || command_text(r, "op")[len] == ' ') &&
                         !strcmp(command_text(r, "kernel"), command_text(c, "kernel"));
        if (!found) fail_msg("%s (%s) has no row", op, command_text(c, "kernel"));
    }
}

/* ---- end to end ---- */

static void steps(void **state) {
    (void)state;
    char sha[65];
    fresh();
    for (int watched = 0; watched < 2; watched++) {
        ran r =
            command("bench -m " MODEL " --prompt-len 9 --gen-len 12 --batch 2 --warmup 1 --repeat 3 %s --json --out %s",
                    watched ? "--profile" : "", samples);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *v = json_root(doc), *sum = json_get(v, "summary");
        if (watched)
            assert_string_equal(command_text(sum, "sha256"), sha);
        else
            strcpy(sha, command_text(sum, "sha256"));
        assert_true(json_get(sum, "same_every_pass")->truth); /* watched passes among them */
        assert_int_equal((int)command_number(sum, "allocs_per_step"), 0);
        if (watched) {
            is_whole(v, 0);
            /* 11 decode steps of a pass; every draw of both sequences */
            assert_int_equal((int)command_number(json_get(v, "profile_check"), "steps"), 11);
            assert_true(command_number(row_of(v, "sample"), "launches") == 2);
            assert_true(command_number(row_of(v, "embed"), "launches") == 1);
            assert_int_equal(json_get(row_of(v, "head"), "floor_us")->kind, JSON_NULL); /* it fits the caches */
            for (const json *c = json_get(v, "receipts")->child; c; c = c->next) {
                char op[80];
                snprintf(op, sizeof op, "%s%s", command_text(c, "op"),
                         !strcmp(command_text(c, "op"), "experts") ? " down+combine" : "");
                if (command_number(c, "runs") > 0)
                    assert_string_equal(command_text(row_of(v, op), "kernel"), command_text(c, "kernel"));
            }
        } else {
            assert_int_equal(json_get(v, "profile")->kind, JSON_NULL);
            assert_int_equal(json_get(v, "profile_check")->kind, JSON_NULL);
        }
        json_free(doc);
        command_free(&r);
    }
    ran r = command("bench -m " MODEL " --prompt-len 5 --gen-len 4 --repeat 1 --profile --out %s", samples);
    assert_non_null(strstr(r.out, "experts down+combine"));
    assert_non_null(strstr(r.out, "is in no row"));
    command_free(&r);
}

/* ---- one layer ---- */

static void layer(void **state) {
    (void)state;
    fresh();
    ran r = command(MOE " --routing router --profile --json --out %s", samples);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    int m[] = {1, 5}, at = 0;
    has_receipts(json_root(doc));
    for (const json *v = json_get(json_root(doc), "rows")->child; v; v = v->next, at++) {
        is_whole(v, m[at]);
        static const char *const ops[] = {"router",
                                          "top-k",
                                          "align+round",
                                          "experts gate+up+act",
                                          "experts down+combine",
                                          "shared expert weights",
                                          "shared expert gate+up+act",
                                          "shared expert down+combine"};
        double bytes = 0;
        assert_int_equal(json_get(v, "profile")->count, 8);
        for (int i = 0; i < 8; i++) {
            const json *row = row_of(v, ops[i]);
            assert_true(command_number(row, "launches") == 1); /* of a layer */
            if (json_get(row, "bytes")->kind == JSON_NULL) continue;
            bytes += command_number(row, "bytes");
            assert_true(command_number(row, "floor_us") > 0);
        }
        assert_true(fabs(bytes / command_number(v, "bytes") - 1) < 1e-9);
    }
    json_free(doc);
    command_free(&r);
    fresh();
    r = command(MOE " --json --out %s", samples);
    doc = command_json(&r);
    const json *v = json_get(json_root(doc), "rows")->child;
    assert_int_equal(json_get(v, "profile")->kind, JSON_NULL);
    assert_null(json_get(json_root(doc), "profile"));
    json_free(doc);
    command_free(&r);
    /* Of a single m it stands where that of `bench` does. */
    fresh();
    r = command(MOE " --m 4 --profile --json --out %s", samples);
    doc = command_json(&r);
    is_whole(json_root(doc), 4);
    json_free(doc);
    command_free(&r);
}

/* ---- on a GPU: the stand-in's kernels take 250 us each ---- */

static void gpu(void **state) {
    (void)state;
    char fake[300];
    const char *build = getenv("CADRE_BUILD");
    snprintf(fake, sizeof fake, "%s/fake/libfake.so", build ? build : "build");
    fresh();
    ran r =
        command("bench moe --device cuda --shape E=8,d=256,f=128,k=2,shared=64 --m 1,3 --routing balanced --layers 3 "
                "--repeat 3 --visit-ms 1 --profile --json --out %s --set cuda=%s --set nvrtc=%s --set cache=%s/kernels",
                samples, fake, fake, scratch);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    int m[] = {1, 3}, at = 0;
    has_receipts(json_root(doc));
    for (const json *v = json_get(json_root(doc), "rows")->child; v; v = v->next, at++) {
        is_whole(v, m[at]);
        static const char *const ops[] = {"router", "experts", "shared expert lists", "shared expert", "round"};
        assert_int_equal(json_get(v, "profile")->count, 5);
        for (int i = 0; i < 5; i++) {
            close_to(command_number(row_of(v, ops[i]), "us"), 250);
            close_to(command_number(row_of(v, ops[i]), "launches"), 1);
            close_to(command_number(row_of(v, ops[i]), "share"), 0.2);
        }
        const json *check = json_get(v, "profile_check"), *experts = row_of(v, "experts");
        close_to(command_number(check, "step_us"), 1250);
        close_to(command_number(check, "unattributed_share"), 0);
        close_to(command_number(check, "overhead"), 1);
        close_to(command_number(experts, "bytes"), command_number(v, "experts_touched") * 3 * 256 * 128 * 2);
        close_to(command_number(experts, "floor_us"),
                 command_number(experts, "bytes") / command_number(v, "bandwidth_gbps") / 1e3);
        assert_string_equal(command_text(experts, "kernel"), m[at] == 1 ? "one_bf16_sm90" : "experts_bf16_sm90");
    }
    json_free(doc);
    command_free(&r);
}

/* A router that is made free: the same experts are touched, and no step has a row of the router. */
static void router_made_free(void **state) {
    static const char *const kinds[] = {"router", "router-free"};
    double touched[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        ran r = command(MOE " --routing %s --profile --json --out %s", kinds[i], samples);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *row = json_get(json_root(doc), "rows")->child;
        int routed = 0;
        for (const json *p = json_get(row, "profile")->child; p; p = p->next)
            routed += json_is(json_get(p, "op"), "router") || json_is(json_get(p, "op"), "top-k");
        assert_int_equal(routed > 0, i == 0);
        assert_true(json_is(json_get(json_root(doc), "routing"), kinds[i]));
        touched[i] = json_get(row, "experts_touched")->number;
        json_free(doc);
        command_free(&r);
    }
    assert_true(touched[0] == touched[1] && touched[0] > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(steps), cmocka_unit_test(layer), cmocka_unit_test(gpu),
                                       cmocka_unit_test(router_made_free)};
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
