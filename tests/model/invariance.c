/* Law L1 on small models: the same bits however they are computed. One sequence of 150 tokens (past the first attention
 * split) is fed in chunks, alone or beside others, and then decodes; the digest covers the logits of every position.
 * tests/golden/logits.txt has the digest per numerics id, so that compilers and releases are compared too. What cannot
 * run here is said in a line that begins with "skipped:". */
#include "model/model.h"
#include "op/kernel.h"
#include "test.h"

enum { PROMPT = 140, STEPS = 10, OTHERS = 16 };

typedef struct way {
    const char *name, *set; /* a switch for this way, NULL: none */
    int threads, chunk, others;
} way;

static const way base = {"base", "isa=ref", 1, PROMPT, 0};

static int32_t token(int sequence, int position) {
    return 3 + (sequence * 31 + position * position * 7 + position) % 90;
}

/* Chunks of the other sequences: they move along, at other lengths. */
static int add_others(cadre_chunk *chunks, int32_t *ids, const cadre_session *s, int others) {
    int count = 0;
    for (int i = 0; i < others; i++) {
        int n = 1 + (i + cadre_session_length(s, i + 1)) % 3, at = cadre_session_length(s, i + 1);
        if (at + n > cadre_session_context(s)) n = 0;
        for (int j = 0; j < n; j++) ids[i * 4 + j] = token(i + 1, at + j);
        if (n) chunks[count++] = (cadre_chunk){.slot = i + 1, .n = n, .ids = ids + i * 4};
    }
    return count;
}

static void step(cadre_session *s, const int32_t *ids, int n, int others, sha256 *digest, size_t vocab) {
    cadre_chunk chunks[OTHERS + 1] = {{.slot = 0, .n = n, .ids = ids, .all_logits = true}};
    int32_t other_ids[OTHERS * 4];
    int count = 1 + add_others(chunks + 1, other_ids, s, others);
    must(cadre_session_step(s, chunks, count, fail_out));
    for (int i = 0; i < n; i++) sha256_add(digest, cadre_session_logits(s, i), vocab * sizeof(float));
}

/* "isa=NAME" where the CPU has no such kernels would run the ones below them. Says so, once per name. */
static bool isa_runs(const char *set) {
    static bool said[OP_ISA_COUNT];
    if (!set) return true;
    set_switch(set);
    cadre_device *device = open_device(1);
    int isa = device->isa, asked = 0;
    cadre_device_close(device);
    set_switch("isa=9");
    while (asked < OP_ISA_COUNT && strcmp(set + strlen("isa="), switch_isas[asked])) asked++;
    assert_in_range(asked, 0, OP_ISA_COUNT - 1);
    if (isa != asked && !said[asked]) printf("skipped: %s: the best that runs here is %s\n", set, switch_isas[isa]);
    if (isa != asked) said[asked] = true;
    return isa == asked;
}

/* name: "MODEL" or "MODEL WEIGHTS"; the model named demo is the one that comes with cadre. Returns the numerics id. */
static const char *digest_of(const char *name, const way *w, char hex[65]) {
    if (w->set) set_switch(w->set);
    cadre_device *device = open_device(w->threads);
    cadre_model *model;
    cadre_session *s;
    cadre_model_info info;
    char dir[128];
    const char *weights = strchr(name, ' '), *root = strncmp(name, "demo", 4) ? "tests/golden/models" : "models";
    snprintf(dir, sizeof dir, "%s/%.*s", root, (int)strcspn(name, " "), name);
    must(cadre_model_open(device, dir, &(cadre_model_options){weights ? weights + 1 : NULL}, &model, fail_out));
    cadre_model_get_info(model, &info);
    must(cadre_session_new(model, &(cadre_session_options){.slots = OTHERS + 1, .context = 160, .max_logits = 256}, &s,
                           fail_out));
    sha256 digest;
    sha256_init(&digest);
    int32_t ids[PROMPT];
    for (int i = 0; i < PROMPT; i++) ids[i] = token(0, i);
    for (int i = 0; i < PROMPT; i += w->chunk)
        step(s, ids + i, PROMPT - i < w->chunk ? PROMPT - i : w->chunk, w->others, &digest, (size_t)info.vocab);
    for (int i = 0; i < STEPS; i++) {
        int32_t next;
        cadre_sampling sampling = {.temperature = i % 2 ? 0.8f : 0.0f, .seed = 7};
        int last = i == 0 ? (PROMPT - 1) % w->chunk : 0;
        must(cadre_session_sample(s, last, &sampling, 0, (uint64_t)cadre_session_length(s, 0), &next, fail_out));
        step(s, &next, 1, w->others, &digest, (size_t)info.vocab);
    }
    sha256_hex(&digest, hex);
    cadre_session_free(s);
    cadre_model_close(model);
    cadre_device_close(device);
    return info.numerics;
}

static const way ways[] = {
    {"isa avx2", "isa=avx2", 1, PROMPT, 0},
    {"isa avx512", "isa=avx512", 1, PROMPT, 0},
    {"isa avx512bf16", "isa=avx512bf16", 1, PROMPT, 0},
    {"threads 2", NULL, 2, PROMPT, 0},
    {"threads 3", NULL, 3, PROMPT, 0},
    {"threads 7", NULL, 7, PROMPT, 0},
    {"chunk 1", NULL, 1, 1, 0},
    {"chunk 2", NULL, 1, 2, 0},
    {"chunk 5", NULL, 2, 5, 0},
    {"chunk 7", NULL, 2, 7, 0},
    {"chunk 8", NULL, 2, 8, 0},
    {"chunk 64", NULL, 2, 64, 0},
    {"beside 1", NULL, 2, 64, 1},
    {"beside 2", NULL, 2, 64, 2},
    {"beside 5", NULL, 2, 64, 5},
    {"beside 16", NULL, 2, 64, 16},
    {"beside 16, chunk 1, threads 3", NULL, 3, 1, 16},
    {"beside 5, chunk 7, avx2", "isa=avx2", 2, 7, 5},
};

static const char *const models[] = {"qwen3_moe_bf16",       "qwen3_moe_base",          "qwen2_moe_base",
                                     "qwen3_moe_dense_bias", "qwen3_moe_bf16 q8",       "qwen3_moe_bf16 q4",
                                     "qwen2_moe_base q8",    "qwen3_moe_dense_bias q4", "qwen3_moe_dense_bias q8"};
enum { MODELS = sizeof models / sizeof *models };

static void every_way_gives_the_same_bits(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        char want[65], got[65];
        digest_of(models[m], &base, want);
        set_switch("isa=9");
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            if (!isa_runs(ways[i].set)) continue;
            digest_of(models[m], &ways[i], got);
            set_switch("isa=9");
            if (strcmp(want, got)) fail_msg("%s: %s differs", models[m], ways[i].name);
        }
    }
}

/* One kernel set's families at the models' shape, with the switches in force. */
static bool knobs_legal(op_family family, cadre_fail *why) {
    cadre_device *device = open_device(1);
    plan p;
    plan_key key = {.family = family,
                    .dtype = family == OP_NORM ? CADRE_F32 : CADRE_BF16,
                    .d = 64,
                    .f = 64,
                    .e = 8,
                    .k = 2,
                    .role = ""};
    cadre_err err = plan_make(device, &key, &p, why);
    cadre_device_close(device);
    return !err;
}

/* One knob at each of its values that the kernels of this set can have; returns how many ran. */
static int try_knob(const char *mask, op_family family, const op_knob_def *def, const char *want) {
    char got[65], text[64];
    int ran = 0;
    for (int v = def->low; v <= def->high; v *= 2) {
        way w = {text, mask, 2, 64, 2};
        cadre_fail why = {0};
        snprintf(text, sizeof text, "%s.%s=%d", op_families[family].name, def->name, v);
        set_switch(text);
        set_switch(mask);
        bool legal = knobs_legal(family, &why);
        if (legal) digest_of(models[0], &w, got), ran++;
        snprintf(text, sizeof text, "%s.%s=0", op_families[family].name, def->name);
        set_switch(text);
        if (!legal) printf("skipped: %s.%s=%d, %s: %s\n", op_families[family].name, def->name, v, mask, why.text);
        if (legal && strcmp(want, got))
            fail_msg("%s.%s = %d with %s differs", op_families[family].name, def->name, v, mask);
    }
    return ran;
}

/* Every legal value of every knob of the kernels in use. */
static void every_knob_gives_the_same_bits(void **state) {
    (void)state;
    static const char *const masks[] = {"isa=avx2", "isa=avx512", "isa=avx512bf16"};
    char want[65];
    digest_of(models[0], &base, want);
    for (int mask = 0; mask < 3; mask++) {
        if (!isa_runs(masks[mask])) continue;
        for (int f = 0; f < OP_FAMILY_COUNT; f++)
            for (int k = 0; k < op_families[f].count; k++)
                if (!try_knob(masks[mask], (op_family)f, &op_families[f].knobs[k], want))
                    fail_msg("%s.%s: no value ran with %s", op_families[f].name, op_families[f].knobs[k].name,
                             masks[mask]);
    }
    set_switch("isa=9");
}

/* ---- the digests that are committed ---- */
static const way committed_ways[] = {{"base", "isa=ref", 1, PROMPT, 0},
                                     {"avx2", "isa=avx2", 2, 64, 0},
                                     {"avx512", "isa=avx512", 2, 64, 0},
                                     {"avx512bf16", "isa=avx512bf16", 2, 64, 0}};

/* One line of logits.txt in every kernel set; a digest that differs is printed as a line. Returns how many differ. */
static int check_committed(const char *id, const char *model, const char *weights, const char *sha) {
    char name[96], got[65];
    int wrong = 0;
    snprintf(name, sizeof name, "%s %s", model, weights);
    for (size_t i = 0; i < sizeof committed_ways / sizeof *committed_ways; i++) {
        if (!isa_runs(committed_ways[i].set)) continue;
        const char *numerics = digest_of(name, &committed_ways[i], got);
        set_switch("isa=9");
        if (!strcmp(numerics, id) && !strcmp(got, sha)) continue;
        printf("%s %s %s %s\n^ with isa=%s; committed: %s %s\n", numerics, model, weights, got,
               committed_ways[i].set + strlen("isa="), id, sha);
        wrong++;
    }
    if (!isa_runs("isa=avx2")) return wrong; /* ref has no other order to plant */
    set_switch("plant=1");
    digest_of(name, &committed_ways[1], got);
    set_switch("plant=0");
    set_switch("isa=9");
    if (!strcmp(got, sha)) fail_msg("%s: the digest does not see that sums have another order", name);
    return wrong;
}

static void committed_logits_come_out(void **state) {
    (void)state;
    char id[32], model[64], weights[8], sha[80], line[256], seen[512] = "";
    int rows = 0, wrong = 0;
    FILE *f = fopen("tests/golden/logits.txt", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        assert_int_equal(sscanf(line, "%31s %63s %7s %79s", id, model, weights, sha), 4);
        wrong += check_committed(id, model, weights, sha);
        strcat(strcat(seen, id), " ");
        rows++;
    }
    fclose(f);
    printf("vector logits: %d digests, %d wrong\n", rows, wrong);
    assert_int_equal(wrong, 0);
    assert_int_equal(rows, 9);
    for (const char *at = op_numerics_all; *at; at += strcspn(at, " "), at += *at == ' ') { /* every id has a line */
        snprintf(id, sizeof id, "%.*s", (int)strcspn(at, " "), at);
        if (!strstr(seen, id)) fail_msg("%s has no line in logits.txt", id);
    }
}

/* Each planted fault is found, and only by the ways that can see it. */
static void planted_faults_are_found(void **state) {
    (void)state;
    static const struct {
        const char *plant;
        way sees, blind;
    } faults[] = {
        {"plant=1", {"rows share a tile", NULL, 1, 64, 0}, {"one row", NULL, 1, 1, 0}},
        {"plant=2", {"a tile is not full", NULL, 1, 13, 0}, {"one row", NULL, 1, 1, 0}},
        {"plant=3", {"beside 5", NULL, 1, 64, 5}, {"alone", NULL, 1, 64, 0}},
        {"plant=4", {"chunk 7", NULL, 1, 7, 0}, {"chunk 1", NULL, 1, 1, 0}},
        {"plant=5", {"threads 3", NULL, 3, 64, 0}, {"threads 1", NULL, 1, 64, 0}},
    };
    char want[65], got[65];
    digest_of(models[0], &base, want);
    set_switch("isa=9");
    for (int i = 0; i < 5; i++) {
        set_switch(faults[i].plant);
        digest_of(models[0], &faults[i].blind, got);
        if (strcmp(want, got)) fail_msg("%s is seen by '%s'", faults[i].plant, faults[i].blind.name);
        digest_of(models[0], &faults[i].sees, got);
        if (!strcmp(want, got)) fail_msg("%s is not found by '%s'", faults[i].plant, faults[i].sees.name);
        set_switch("plant=0");
    }
}

/* Scratch filled with NaN patterns between steps changes nothing: no step reads what it did not write. */
static void poisoned_scratch_changes_nothing(void **state) {
    (void)state;
    for (int m = 0; m < MODELS; m++) {
        char want[65], got[65];
        way w = {"poison", NULL, 2, 7, 5};
        digest_of(models[m], &w, want);
        set_switch("poison=1");
        digest_of(models[m], &w, got);
        set_switch("poison=0");
        assert_string_equal(want, got);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_gives_the_same_bits), cmocka_unit_test(every_knob_gives_the_same_bits),
        cmocka_unit_test(committed_logits_come_out), cmocka_unit_test(planted_faults_are_found),
        cmocka_unit_test(poisoned_scratch_changes_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
