/* gate: each gate met, failed and not told; which arms it speaks against; what its words say. */
#include "lab_samples.h"

static const char base_visits[] =
    "base:10 10.1\nnew:9 9.1\nbase:10.05 9.95\nnew:9.05 8.95\nbase:10.02 9.98\nnew:9.02 9\n";

/* Twelve samples of two arms, three visits of two; change() edits each, `i` counts them. */
typedef void change(lab_sample *s, int i, bool is_new);
static lab_sample items[24];
static int item_count;
static lab_samples *plain, *changed;

static lab_verdict *with(change *edit, const lab_question *q) {
    plain = visits_of("tpot_ms", "ms", base_visits, "");
    item_count = lab_samples_count(plain);
    for (int i = 0; i < item_count; i++) {
        items[i] = *lab_samples_at(plain, i);
        edit(&items[i], i, !strcmp(items[i].arm, "new"));
    }
    must(lab_samples_new(items, item_count, &changed, fail_out));
    return judge(changed, q);
}
static void done(lab_verdict *v) {
    lab_verdict_free(v);
    lab_samples_free(changed);
    lab_samples_free(plain);
}

/* The gate is told, fails for the arms in the mask and says `words`. */
static void expect(change *edit, const char *name, uint64_t arms, const char *words) {
    lab_verdict *v = with(edit, NULL);
    const lab_gate *g = gate_of(v, name);
    assert_string_equal(g->why, words);
    assert_true(g->told);
    assert_int_equal(g->ok, !arms);
    assert_int_equal(g->arms, arms);
    assert_int_equal(v->outcome, arms ? LAB_REFUSED : LAB_WIN);
    if (arms) {
        char why[300];
        snprintf(why, sizeof why, "%s: %s", name, words);
        assert_memory_equal(v->contrasts[0].why, why, strlen(v->contrasts[0].why));
    }
    done(v);
}

static void untouched(lab_sample *s, int i, bool is_new) {
    (void)s, (void)i, (void)is_new;
}
static void nothing_told(void **state) {
    (void)state;
    const char *const names[] = {"family",   "tokens", "acceptance", "activation",
                                 "protocol", "failed", "exclusive",  "sampling"};
    lab_verdict *v = with(untouched, NULL);
    assert_int_equal(v->outcome, LAB_WIN);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(gate_of(v, names[i])->ok && !gate_of(v, names[i])->told);
    assert_true(gate_of(v, "interleaved")->told && gate_of(v, "drift")->told);
    assert_null(gate_of(v, "derived"));
    done(v);
}

/* ---- families (V37) ---- */

static void one_family(lab_sample *s, int i, bool is_new) {
    (void)i, (void)is_new;
    s->family = "ad63e94a00";
}
static void two_families(lab_sample *s, int i, bool is_new) {
    s->family = is_new && i % 2 ? "77aa001122" : "ad63e94a00";
}
static void reference_of_two(lab_sample *s, int i, bool is_new) {
    s->family = !is_new && i > 3 ? "77aa001122" : "ad63e94a00";
}
static void by_iteration(lab_sample *s, int i, bool is_new) {
    (void)i, (void)is_new;
    s->family = s->iteration == 1 ? "aa" : "bb";
}
static void half_told(lab_sample *s, int i, bool is_new) {
    (void)i;
    if (!is_new) s->family = "ad63e94a00";
}
static void families(void **state) {
    (void)state;
    expect(one_family, "family", 0, "one family: base ad63e94a x6; new ad63e94a x6");
    expect(two_families, "family", 2, "outputs differ: base ad63e94a x6; new 77aa0011 x3, ad63e94a x3");
    expect(reference_of_two, "family", 1, "outputs differ: base 77aa0011 x4, ad63e94a x2; new ad63e94a x6");
    expect(by_iteration, "family", 0, "one family: base aa x3, bb x3; new aa x3, bb x3");
    expect(half_told, "family", 2, "no digest of outputs in every sample of new");
    lab_verdict *v = with(two_families, NULL);
    assert_int_equal(v->arms[0].families, 1);
    assert_string_equal(v->arms[0].family, "ad63e94a00");
    assert_int_equal(v->arms[1].families, 2);
    assert_null(v->arms[1].family);
    done(v);
    puts("vector V37 ok");
}

static json_doc *tree(const char *text) {
    json_doc *doc = NULL;
    must(json_parse("t", text, strlen(text), &doc, fail_out));
    return doc;
}
static json_doc *docs[2];
static void requests(lab_sample *s, int i, bool is_new) {
    (void)i;
    s->requests = json_root(docs[is_new]);
}
static void requests_too(lab_sample *s, int i, bool is_new) {
    requests(s, i, is_new);
    s->family = is_new ? "ff" : "ee";
}
static void request_by_request(void **state) {
    (void)state;
    docs[0] = tree("[{\"id\":1,\"sha256\":\"a\"},{\"id\":3,\"sha256\":\"b\"},{\"id\":\"x\",\"sha256\":\"c\"}]");
    docs[1] = tree("[{\"id\":\"x\",\"sha256\":\"c\"},{\"id\":1,\"sha256\":\"a\"},{\"id\":3,\"sha256\":\"b\"}]");
    expect(requests, "family", 0, "one family: base none x6; new none x6");
    json_free(docs[1]);
    docs[1] = tree("[{\"id\":1,\"sha256\":\"a\"},{\"id\":3,\"sha256\":\"z\"},{\"id\":\"y\",\"sha256\":\"c\"}]");
    expect(requests, "family", 2, "outputs differ: requests 3, x differ; base none x6; new none x6");
    expect(requests_too, "family", 2, "outputs differ: requests 3, x differ; base ee x6; new ff x6");
    json_free(docs[0]);
    json_free(docs[1]);
}

/* ---- tokens, acceptance ---- */

static void same_tokens(lab_sample *s, int i, bool is_new) {
    (void)i, (void)is_new;
    s->tokens = 1000;
}
static void other_tokens(lab_sample *s, int i, bool is_new) {
    (void)i;
    s->tokens = is_new ? 999 : 1000;
}
static void some_tokens(lab_sample *s, int i, bool is_new) {
    s->tokens = is_new && i == 2 ? NAN : 1000;
}
static void tokens(void **state) {
    (void)state;
    expect(same_tokens, "tokens", 0, "equal token counts");
    expect(other_tokens, "tokens", 2, "base put out 1000 tokens, new 999");
    expect(some_tokens, "tokens", 2, "no token count in every sample of new");
    lab_question q = lab_question_default();
    q.per_token = true;
    lab_verdict *v = with(other_tokens, &q);
    assert_int_equal(v->outcome, LAB_WIN);
    assert_string_equal(gate_of(v, "tokens")->why, "base put out 1000 tokens, new 999; values are per token");
    assert_near(v->arms[0].tokens, 6000, 0);
    done(v);
}

/* V34: 4.13 against 3.98 is not equal; 4.13 at depth 6 is 52.2 % of the tokens drafted. */
static void drafts(lab_sample *s, int i, bool is_new) {
    (void)i;
    s->value = is_new ? 9.563 : 11.635;
    s->drafts = 100;
    s->draft_tokens = 600;
    s->accepted = is_new ? 298 : 313;
}
static void no_drafts(lab_sample *s, int i, bool is_new) {
    drafts(s, i, is_new);
    if (is_new) s->drafts = s->draft_tokens = s->accepted = NAN;
}
static void acceptance(void **state) {
    (void)state;
    expect(drafts, "acceptance", 2,
           "acceptance length 4.130 of base, 3.980 of new: apart by more than the bound of 0.05");
    lab_question q = lab_question_default();
    q.acceptance_bound = 0.15;
    lab_verdict *v = with(drafts, &q);
    const lab_arm_figures *base = &v->arms[0], *arm = &v->arms[1];
    assert_int_equal(v->outcome, LAB_WIN);
    assert_near(base->acceptance_length, 4.13, 1e-12);
    assert_near(base->accepted_per_draft, 3.13, 1e-12);
    assert_near(100 * base->acceptance_rate, 52.2, 0.05);
    assert_near(base->per_step, 48.05, 5e-3);
    assert_near(arm->per_step, 38.06, 5e-3);
    assert_near(100 * (v->contrasts[0].per_step_ratio - 1), -20.8, 0.05);
    done(v);
    expect(no_drafts, "acceptance", 2,
           "acceptance length 4.130 of base, 1.000 of new: apart by more than the bound of 0.05");
    puts("vector V34 ok");
}

/* ---- failed, activation (V38) ---- */

static void some_failed(lab_sample *s, int i, bool is_new) {
    s->failed = is_new && i < 4 ? 2 : 0;
}
static void none_failed(lab_sample *s, int i, bool is_new) {
    (void)i, (void)is_new;
    s->failed = 0;
}
static void reference_failed(lab_sample *s, int i, bool is_new) {
    s->failed = !is_new && i == 0;
}
static void failures(void **state) {
    (void)state;
    expect(none_failed, "failed", 0, "no request failed");
    expect(some_failed, "failed", 2, "4 requests failed: new");
    expect(reference_failed, "failed", 1, "1 requests failed: base");
}

static void active(lab_sample *s, int i, bool is_new) {
    (void)i, (void)is_new;
    s->active = LAB_ACTIVE_YES;
}
static void forbidden(lab_sample *s, int i, bool is_new) {
    s->active = is_new && i == 3 ? LAB_ACTIVE_NO : i == 2 ? LAB_ACTIVE_UNKNOWN : LAB_ACTIVE_YES;
    if (s->active == LAB_ACTIVE_NO) s->why = "line 3 of stderr has \"default config\"";
}
static void unproven(lab_sample *s, int i, bool is_new) {
    (void)i;
    s->active = is_new ? LAB_ACTIVE_YES : LAB_ACTIVE_UNKNOWN;
}
static void activation(void **state) {
    (void)state;
    expect(active, "activation", 0, "every arm was proven to be what it claims to be");
    expect(forbidden, "activation", 2,
           "invalid arm: new was not what it claims to be: line 3 of stderr has \"default config\"");
    expect(unproven, "activation", 1, "not proven to be active: base");
    lab_question q = lab_question_default();
    q.unproven_allowed = true;
    lab_verdict *v = with(unproven, &q);
    assert_int_equal(v->outcome, LAB_WIN);
    assert_string_equal(gate_of(v, "activation")->why, "allowed although not proven to be active: base");
    done(v);
    v = with(forbidden, &q); /* refuted is refused all the same */
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_int_equal(v->arms[1].active, LAB_ACTIVE_NO);
    done(v);
    puts("vector V38 ok");
}

/* ---- manifests ---- */

static void manifests(lab_sample *s, int i, bool is_new) {
    (void)i;
    if (docs[is_new]) s->manifest = json_root(docs[is_new]);
}
static void manifest(const char *base, const char *arm, const char *gate, uint64_t arms, const char *words) {
    docs[0] = base ? tree(base) : NULL;
    docs[1] = arm ? tree(arm) : NULL;
    expect(manifests, gate, arms, words);
    json_free(docs[0]);
    json_free(docs[1]);
}

static void protocols(void **state) {
    (void)state;
    manifest("{\"protocol\":{\"out\":128,\"in\":[4096]}}", "{\"protocol\":{\"in\":[4096.0],\"out\":128}}", "protocol",
             0, "one protocol for all arms");
    manifest("{\"protocol\":{\"out\":128}}", "{\"protocol\":{\"out\":1000}}", "protocol", 2,
             "another protocol (out): new");
    manifest("{\"protocol\":{\"out\":128}}", "{\"protocol\":{\"out\":128,\"in\":1}}", "protocol", 2,
             "another protocol (in): new");
    manifest("{\"protocol\":{\"out\":128}}", NULL, "protocol", 2, "no protocol told by new, while others tell one");
    manifest(NULL, "{\"protocol\":{\"out\":128}}", "protocol", 1, "no protocol told by base, while others tell one");
    manifest("{\"protocol\":1,\"device\":\"S5000\"}", "{\"protocol\":1,\"device\":{\"name\":\"H200\"}}", "protocol", 2,
             "not on S5000: new");
    manifest("{\"protocol\":1,\"device\":{\"name\":\"H200\",\"mhz\":1}}",
             "{\"protocol\":1,\"device\":{\"name\":\"H200\",\"mhz\":2}}", "protocol", 0, "one protocol for all arms");
}

static void sampling(void **state) {
    (void)state;
    const char *greedy = "{\"protocol\":{\"temperature\":0}}", *cool = "{\"protocol\":{\"temperature\":0.001}}";
    const char *seeded = "{\"protocol\":{\"sampling\":{\"temperature\":0.7,\"seed\":1}}}";
    manifest(greedy, greedy, "sampling", 0, "greedy, or with a seed");
    manifest(seeded, seeded, "sampling", 0, "greedy, or with a seed");
    docs[0] = tree(cool);
    docs[1] = tree(cool);
    lab_verdict *v = with(manifests, NULL);
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_int_equal(gate_of(v, "sampling")->arms, 3);
    assert_string_equal(gate_of(v, "sampling")->why,
                        "temperature 0.001 without a seed does not repeat: not comparable (base, new)");
    done(v);
    json_free(docs[0]);
    json_free(docs[1]);
}

static void bursts(lab_sample *s, int i, bool is_new) {
    (void)i;
    s->manifest = json_root(docs[is_new && s->visit < 3]);
}
static void exclusive(void **state) {
    (void)state;
    const char *had = "{\"exclusive\":true,\"others\":[]}";
    manifest(had, had, "exclusive", 0, "no other experiment was at work");
    manifest(had, "{\"exclusive\":false}", "exclusive", 2, "not alone on the machine: new");
    manifest(had, "{\"exclusive\":true,\"others\":[\"python3\"]}", "exclusive", 2,
             "not alone on the machine: new: \"python3\" (text)");
    manifest(had, "{\"exclusive\":true,\"others\":3}", "exclusive", 2, "not alone on the machine: new: 3");
    manifest("{\"visit\":{\"others_cpus\":0.2}}", "{\"visit\":{\"others_cpus\":0.6}}", "exclusive", 0,
             "others used up to 0.60 CPUs");
    manifest("{\"exclusive\":true,\"visit\":{\"others_cpus\":40}}",
             "{\"exclusive\":true,\"visit\":{\"others_cpus\":45}}", "exclusive", 0,
             "others used up to 45.00 CPUs; the lock was held");
    manifest("{\"visit\":{\"others_cpus\":0.2}}", "{\"visit\":{\"others_cpus\":0.8}}", "exclusive", 2,
             "others used the CPUs unlike in visits of base: new");
    /* visits that are too short to tell; bursts that fall on one arm by chance */
    docs[0] = tree("{\"visit\":{\"others_cpus\":0.2,\"seconds\":0.01}}");
    docs[1] = tree("{\"visit\":{\"others_cpus\":1.8,\"seconds\":0.01}}");
    lab_verdict *v = with(manifests, NULL);
    assert_false(gate_of(v, "exclusive")->told);
    assert_int_equal(v->outcome, LAB_WIN);
    done(v);
    json_free(docs[0]);
    json_free(docs[1]);
    docs[0] = tree("{\"visit\":{\"others_cpus\":0.1,\"seconds\":5}}");
    docs[1] = tree("{\"visit\":{\"others_cpus\":1.9,\"seconds\":5}}");
    v = with(bursts, NULL);
    assert_true(gate_of(v, "exclusive")->ok);
    assert_string_equal(gate_of(v, "exclusive")->why, "others used up to 1.90 CPUs");
    done(v);
    json_free(docs[0]);
    json_free(docs[1]);
}

/* ---- time ---- */

static lab_verdict *timed(const char *text, const lab_question *q) {
    plain = visits_of("tpot_ms", "ms", text, "");
    changed = NULL;
    return judge(plain, q);
}

static void interleaved(void **state) {
    (void)state;
    const char *blocks = "a:10 10.1\na:10.1 10\na:10 10\nb:9 9.1\nb:9.1 9\nb:9 9.05\n";
    lab_verdict *v = timed(blocks, NULL);
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_string_equal(gate_of(v, "interleaved")->why, "in blocks, not side by side with a: b");
    assert_int_equal(gate_of(v, "interleaved")->arms, 2);
    done(v);
    lab_question q = lab_question_default();
    q.blocks_allowed = true;
    v = timed(blocks, &q);
    assert_int_equal(v->outcome, LAB_WIN);
    assert_string_equal(gate_of(v, "interleaved")->why, "in blocks (allowed), not side by side with a: b");
    done(v);
    const char *const fine[] = {"a:1\nb:1\nb:1\na:1\n", "a:1\nb:1\na:1\nb:1\na:1\n", "a:1\nb:1\nc:1\nc:1\na:1\nb:1\n",
                                "a:1\nb:1\n"};
    for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
        v = timed(fine[i], NULL);
        assert_true(gate_of(v, "interleaved")->ok);
        assert_int_equal(gate_of(v, "interleaved")->told, i < 3);
        done(v);
    }
    v = timed("a:1\nb:1\na:1\na:1\nb:1\nc:1\nc:1\nc:1\n", NULL);
    assert_int_equal(gate_of(v, "interleaved")->arms, 4);
    done(v);
}

/* 1 % a visit on 0.1 % of noise: taken out where visits alternate, void where blocks hide it. */
static void drift(void **state) {
    (void)state;
    lab_verdict *v = timed("a:10.00\nb:9.09\na:10.21\nb:9.28\na:10.40\nb:9.45\na:10.61\nb:9.64\n", NULL);
    const lab_contrast *c = &v->contrasts[0];
    assert_true(v->drift_corrected);
    assert_near(v->drift, 0.061, 1e-9);
    assert_true(v->drift_sd > 2);
    assert_near(v->drift_slope, 0.0098, 2e-4);
    assert_near(c->ratio, 0.9, 1e-3); /* of plain means 0.9088 */
    assert_true(c->interval[0] > 0.897 && c->interval[1] < 0.903);
    assert_true(c->log_ratio[0] < 0.9 && c->log_ratio[1] > 0.9 && c->log_ratio[1] < 0.905);
    assert_near(c->p, 2 / 70.0, 1e-12);
    assert_int_equal(c->outcome, LAB_WIN);
    assert_string_equal(c->estimator, "Welch t on logs of visit means less their drift, 4 + 4 visits");
    assert_non_null(strstr(gate_of(v, "drift")->why, "a moved by +6.10 % ("));
    done(v);
    lab_question q = lab_question_default();
    q.blocks_allowed = true;
    const char *blocks = "a:10.00\na:10.11\na:10.20\na:10.31\na:10.40\nb:10.50\nb:10.61\nb:10.70\nb:10.81\nb:10.90\n";
    v = timed(blocks, &q);
    assert_false(v->drift_corrected);
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_int_equal(gate_of(v, "drift")->arms, 1);
    assert_non_null(strstr(gate_of(v, "drift")->why, "the order of visits hides it"));
    done(v);
    /* the reference on both sides: a line can be told from the arms */
    v = timed("a:10.00\na:10.11\na:10.20\nb:9.27\nb:9.36\nb:9.46\na:10.60\na:10.71\n", &q);
    assert_true(v->drift_corrected);
    assert_near(v->contrasts[0].ratio, 0.9, 2e-3);
    done(v);
    v = timed("a:10 10.001\nb:9 9.001\na:12 12.001\nb:10.8 10.801\n", NULL);
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_non_null(strstr(gate_of(v, "drift")->why, "there are too few visits to take it out"));
    done(v);
}

/* V36: 256 requests' TPOT is 256 / throughput. */
static void derived(void **state) {
    (void)state;
    char text[8000];
    size_t len = 0;
    for (int i = 0; i < 12; i++) {
        double rate = (i / 2 % 2 ? 23540 : 23010) + 13 * (i * 7 % 5), load = 40 + i * 11 % 7;
        const char *arm = i / 2 % 2 ? "on" : "off";
        const double values[] = {rate, 256000 / rate, load};
        const char *const metrics[] = {"tokens_per_s", "tpot_ms", "load"};
        for (int m = 0; m < 3; m++)
            len += (size_t)snprintf(text + len, sizeof text - len,
                                    "{\"arm\":\"%s\",\"visit\":%d,\"iteration\":%d,\"metric\":\"%s\",\"value\":%.6g}\n",
                                    arm, 1 + i / 4, 1 + i % 2, metrics[m], values[m]);
    }
    lab_samples *s = NULL;
    must(lab_samples_parse("t", text, len, &s, fail_out));
    lab_question q = lab_question_default();
    q.metric = "tpot_ms";
    lab_verdict *v = judge(s, &q);
    assert_int_equal(v->outcome, LAB_WIN);
    assert_true(gate_of(v, "derived")->ok);
    assert_string_equal(
        gate_of(v, "derived")->why,
        "tokens_per_s x tpot_ms is always 256000: one is the other in other words, no further evidence");
    lab_verdict_free(v);
    q.metric = "load";
    q.better_told = true;
    v = judge(s, &q);
    assert_null(gate_of(v, "derived"));
    lab_verdict_free(v);
    lab_samples_free(s);
    puts("vector V36 ok");
}

/* C2: an override for tiny batches moved the time to the first token by 60 %. */
static lab_samples *isolation(double moved) {
    char text[8000];
    size_t len = 0;
    for (int i = 0; i < 12; i++) {
        bool wide = i / 2 % 2;
        const double values[] = {(wide ? 12.62 : 11.64) + 0.01 * (i * 7 % 5), 1648 * (wide ? moved : 1) + i * 11 % 7};
        const char *const metrics[] = {"tpot_ms", "ttft_ms"};
        for (int m = 0; m < 2; m++)
            len += (size_t)snprintf(text + len, sizeof text - len,
                                    "{\"arm\":\"%s\",\"visit\":%d,\"iteration\":%d,\"metric\":\"%s\",\"value\":%.7g}\n",
                                    wide ? "bn128" : "base", 1 + i / 4, 1 + i % 2, metrics[m], values[m]);
    }
    lab_samples *s = NULL;
    must(lab_samples_parse("t", text, len, &s, fail_out));
    return s;
}

static void untouched_metrics(void **state) {
    (void)state;
    lab_question q = lab_question_default();
    q.metric = "tpot_ms";
    q.untouched = " ttft_ms, tpot_ms";
    lab_samples *s = isolation(1.6);
    lab_verdict *v = judge(s, &q);
    assert_int_equal(v->outcome, LAB_REFUSED);
    assert_int_equal(gate_of(v, "untouched")->arms, 2);
    assert_non_null(strstr(gate_of(v, "untouched")->why, "no clean isolation: ttft_ms moved by +5"));
    lab_verdict_free(v);
    q.untouched = "ttft_ms";
    q.metric = "ttft_ms"; /* nothing forbids to ask the metric itself */
    v = judge(s, &q);
    assert_int_equal(v->outcome, LAB_REFUSED);
    lab_verdict_free(v);
    q.metric = "tpot_ms";
    q.untouched = NULL;
    v = judge(s, &q);
    assert_int_equal(v->outcome, LAB_LOSS);
    assert_null(gate_of(v, "untouched"));
    lab_verdict_free(v);
    q.untouched = "nothing";
    cadre_fail why = {0};
    assert_int_equal(lab_verdict_new(s, &q, &v, &why), CADRE_RANGE);
    assert_string_equal(why.text, "no metric \"nothing\" in the samples, which is to be untouched");
    lab_samples_free(s);
    s = isolation(1.002); /* told from none, and under the effect */
    q.untouched = "ttft_ms";
    v = judge(s, &q);
    assert_int_equal(v->outcome, LAB_LOSS);
    assert_string_equal(gate_of(v, "untouched")->why, "ttft_ms stayed");
    assert_true(gate_of(v, "untouched")->ok && gate_of(v, "untouched")->told);
    lab_verdict_free(v);
    lab_samples_free(s);
}

/* A gate against one arm leaves the others their verdicts. */
static void third_failed(lab_sample *s, int i, bool is_new) {
    (void)i, (void)is_new;
    s->failed = !strcmp(s->arm, "c");
}
static void others_stand(void **state) {
    (void)state;
    lab_samples *s = visits_of(
        "t", "ms", "a:10 10.1\nb:9 9.1\nc:8 8\na:10.1 10.05\nb:9.1 9\nc:8.1 8\na:10 10\nb:9.05 9\nc:8 8.2\n", "");
    lab_sample all[18];
    for (int i = 0; i < 18; i++) {
        all[i] = *lab_samples_at(s, i);
        third_failed(&all[i], i, false);
    }
    lab_samples *t = NULL;
    must(lab_samples_new(all, 18, &t, fail_out));
    lab_verdict *v = judge(t, NULL);
    assert_int_equal(v->contrasts[0].outcome, LAB_WIN);
    assert_int_equal(v->contrasts[1].outcome, LAB_REFUSED);
    assert_string_equal(v->contrasts[1].why, "failed: 6 requests failed: c");
    assert_int_equal(v->outcome, LAB_REFUSED);
    lab_verdict_free(v);
    lab_samples_free(t);
    lab_samples_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_told), cmocka_unit_test(families),     cmocka_unit_test(request_by_request),
        cmocka_unit_test(tokens),       cmocka_unit_test(acceptance),   cmocka_unit_test(failures),
        cmocka_unit_test(activation),   cmocka_unit_test(protocols),    cmocka_unit_test(sampling),
        cmocka_unit_test(exclusive),    cmocka_unit_test(interleaved),  cmocka_unit_test(drift),
        cmocka_unit_test(derived),      cmocka_unit_test(others_stand), cmocka_unit_test(untouched_metrics),
    };
    return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
