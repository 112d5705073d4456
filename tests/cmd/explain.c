/* explain: plan explain, doctor and eval: contracts, and figures against values computed here. */
#include "command.h"
#include <math.h>

/* ---- plan explain ---- */

static void plan_rows(void **state) {
    (void)state;
    ran r = command("plan explain --shape qwen3-30b-a3b --m 1,8,30..32 --json");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *rows = json_get(json_root(doc), "rows");
    int expect[] = {1, 8, 30, 31, 32}, at = 0;
    assert_int_equal(rows->count, 5);
    for (const json *row = rows->child; row; row = row->next) {
        command_has(row, "m source file line key distance config shadows why kernel");
        assert_int_equal(json_get(row, "m")->integer, expect[at++]);
        assert_true(json_is(json_get(row, "source"), "policy"));
        assert_int_equal(json_get(row, "file")->kind, JSON_NULL);
        assert_int_equal(json_get(row, "shadows")->kind, JSON_NULL);
        command_has(json_get(row, "config"), "rows panels chunk columns");
        assert_non_null(strstr(json_get(row, "key")->text, "d=2048 f=768 e=128 k=8 bf16"));
    }
    json_free(doc);
    command_free(&r);
}

/* An override is named as the source, and what the policy would have chosen is what it shadows. */
static void override(void **state) {
    (void)state;
    ran a = command("plan explain --m 1 --json"), b = command("plan explain --m 1 --json --set experts.chunk=64");
    json_doc *x = command_json(&a), *y = command_json(&b);
    const json *p = json_get(json_root(x), "rows")->child, *o = json_get(json_root(y), "rows")->child;
    assert_true(json_is(json_get(o, "source"), "override"));
    assert_int_equal(json_get(json_get(o, "config"), "chunk")->integer, 64);
    char want[100];
    const json *c = json_get(p, "config");
    snprintf(want, sizeof want, "rows=%d panels=%d chunk=%d columns=%d", (int)json_get(c, "rows")->integer,
             (int)json_get(c, "panels")->integer, (int)json_get(c, "chunk")->integer,
             (int)json_get(c, "columns")->integer);
    assert_true(json_is(json_get(o, "shadows"), want));
    json_free(x);
    json_free(y);
    command_free(&a);
    command_free(&b);
}

static void router(void **state) {
    (void)state;
    ran r = command("plan explain --op router --m 4 --json");
    json_doc *doc = command_json(&r);
    command_has(json_get(json_get(json_root(doc), "rows")->child, "config"), "rows panels grain");
    json_free(doc);
    command_free(&r);
}

/* Another system's table: the row, its tie, how far it is, and what it shadows; and every M as ranges. */
#define TILE(key, stages)                                                                \
    "\"" #key "\": {\"BLOCK_SIZE_M\": 16, \"BLOCK_SIZE_N\": 64, \"BLOCK_SIZE_K\": 128, " \
    "\"GROUP_SIZE_M\": 1, \"num_warps\": 4, \"num_stages\": " #stages "}"

static void foreign_table(void **state) {
    (void)state;
    static const char body[] = "{\n" TILE(2, 4) ",\n" TILE(4, 3) ",\n" TILE(600, 5) "\n}\n";
    char path[200];
    assert_true(file_join(path, sizeof path, scratch, "E=128,N=768,device_name=NVIDIA_H200.json"));
    assert_int_equal(file_write(path, body, sizeof body - 1, NULL), CADRE_OK);
    ran r =
        command("plan explain --shape qwen3-30b-a3b --platform cuda --table '%s' --rule vllm --m 3,600 --json", path);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *row = json_get(json_root(doc), "rows")->child;
    command_has(row, "m source file line key distance tie sha256 config shadows without smem smem_device clamped why");
    assert_true(json_is(json_get(row, "source"), "user"));
    assert_true(json_is(json_get(row, "file"), path));
    assert_true(json_is(json_get(row, "key"), "2"));
    assert_int_equal(json_get(row, "line")->integer, 2);
    assert_int_equal(json_get(row, "distance")->integer, 1);
    assert_int_equal(json_get(row, "tie")->integer, 4);
    assert_int_equal(json_get(json_get(row, "config"), "num_stages")->integer, 4);
    assert_true(json_is(json_get(row, "shadows"), "BM=16 BN=64 BK=128 G=1 warps=4 stages=4"));
    assert_true(json_get(row, "same_as_default")->truth);
    assert_int_equal(json_get(row, "smem_device")->integer, 232448);
    assert_false(json_get(row->next, "same_as_default")->truth);
    json_free(doc);
    command_free(&r);
    r = command("plan check --shape qwen3-30b-a3b --platform cuda --table '%s' --json", path);
    assert_int_equal(r.status, 0);
    doc = command_json(&r);
    int next = 1;
    for (const json *range = json_get(json_root(doc), "ranges")->child; range; range = range->next) {
        assert_int_equal(json_get(range, "m_lo")->integer, next);
        next = (int)json_get(range, "m_hi")->integer + 1;
    }
    assert_int_equal(next, 4097);
    assert_true(json_get(json_root(doc), "ranges")->count < 16);
    json_free(doc);
    command_free(&r);
    command_refused(command("plan explain --platform cuda --policy vllm@1"), "--policy is 'vllm@1', expected one of");
    command_refused(command("plan check --m 9..1"), "--m is 9..1, which runs backwards");
    command_refused(command("plan explain --platform rocm --table '%s'", scratch), "--device-name is needed");
}

/* What one half of the command does not take is refused by name. */
static void do_not_go_together(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"--platform cuda --op router", "--op router and --platform cuda"},
        {"--rule sglang --op router", "--op router and --rule sglang"},
        {"--platform cpu --tp 2", "--tp and --platform cpu do"},
        {"--tp 1 --dtype bf16 --block-shape 1,1 --device-name D --device-smem 4096 --triton 3",
         "--tp, --dtype, --block-shape, --device-name, --device-smem, --triton and --platform cpu (the default)"},
        {"--platform cpu --rule vllm", "--platform cpu and --rule vllm"},
        {"--platform cpu --policy vllm", "--platform cpu and --policy vllm"},
        {"--platform cpu --table x", "--platform cpu and --table"},
        {"--platform cuda --rule native", "--rule native and --platform cuda"},
        {"--rule native --policy vllm", "--rule native and --policy vllm"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        command_refused(command("plan explain %s", pairs[i][0]), pairs[i][1]);
    command_refused(command("plan check --memory"), "--memory and plan check do not go together");
}

/* vLLM skips the version; the others make every key an integer and stop, so there nothing runs. */
static void foreign_metadata(void **state) {
    (void)state;
    static const char body[] = "{\n\"triton_version\": \"3.4.0\",\n" TILE(1, 4) "\n}\n";
    char path[200];
    assert_true(file_join(path, sizeof path, scratch, "E=8,N=32,device_name=NVIDIA_H200.json"));
    assert_int_equal(file_write(path, body, sizeof body - 1, NULL), CADRE_OK);
    static const char *const stop[] = {"sglang", "torchada"}, *const verbs[] = {"explain", "check"};
    for (int i = 0; i < 4; i++) {
        char text[80];
        snprintf(text, sizeof text, ".json:2: %s stops at the key \"triton_version\"", stop[i / 2]);
        command_refused(command("plan %s --shape E=8,d=128,f=32,k=2 --platform cuda --rule %s --table '%s'",
                                verbs[i % 2], stop[i / 2], path),
                        text);
    }
    ran r = command("plan explain --shape E=8,d=128,f=32,k=2 --platform cuda --rule vllm --table '%s' --m 1", path);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "line 3"));
    command_free(&r);
}

/* T04: a down table that disagrees at some M is told with both files and the first range. */
static void foreign_down(void **state) {
    (void)state;
    static const char body[] = "{\n" TILE(1, 4) ",\n" TILE(512, 3) "\n}\n";
    char path[200], down[200], *at;
    assert_true(file_join(path, sizeof path, scratch, "E=8,N=64,device_name=NVIDIA_H200.json"));
    assert_true(file_join(down, sizeof down, scratch, "E=8,N=64,device_name=NVIDIA_H200_down.json"));
    char other[sizeof body];
    memcpy(other, body, sizeof body);
    at = strstr(strstr(other, "512"), "16");
    memcpy(at, "32", 2);
    assert_int_equal(file_write(path, body, sizeof body - 1, NULL), CADRE_OK);
    assert_int_equal(file_write(down, other, sizeof other - 1, NULL), CADRE_OK);
    ran r = command("plan check --shape E=8,d=128,f=64,k=2 --platform cuda --rule sglang --table '%s'", path);
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "BLOCK_SIZE_M differs at M=257 and above: 16 in "));
    command_free(&r);
    r = command("plan explain --m 1 --shape E=8,d=128,f=64,k=2 --platform cuda --rule sglang --table '%s' --json",
                path);
    assert_int_equal(r.status, 1); /* the pair is refused at every M, whatever was asked */
    json_doc *doc = command_json(&r);
    assert_non_null(strstr(json_get(json_root(doc), "down_fault")->text, "M=257 and above"));
    json_free(doc);
    command_free(&r);
    assert_int_equal(file_write(down, body, sizeof body - 1, NULL), CADRE_OK);
    r = command("plan check --shape E=8,d=128,f=64,k=2 --platform cuda --rule sglang --table '%s'", path);
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "BLOCK_SIZE_M is equal at every M"));
    command_free(&r);
}

/* A miss names what was looked at, and a file of just that name in the wrong place. */
static void foreign_miss(void **state) {
    (void)state;
    char path[200], text[300];
    assert_true(file_join(path, sizeof path, scratch, "E=8,N=16,device_name=MTT_S5000.json"));
    assert_int_equal(file_write(path, "{\n" TILE(1, 4) "\n}\n", sizeof "{\n" TILE(1, 4) "\n}\n" - 1, NULL), CADRE_OK);
    static const char *const how[] = {"torchada", "sglang --triton 3.4.0"}, *const folder[] = {"*", "3_4_0"};
    for (int i = 0; i < 2; i++) {
        ran r = command("plan explain --shape E=8,d=128,f=16,k=2 --platform musa --device-name 'MTT S5000' --m 1 "
                        "--table '%s' --rule %s",
                        scratch, how[i]);
        assert_int_equal(r.status, 0);
        snprintf(text, sizeof text, "%s/triton_%s/E=8,N=16,device_name=MTT_S5000.json\n", scratch, folder[i]);
        assert_non_null(strstr(r.err, text));
        assert_non_null(strstr(r.err, "has no folder triton_X_Y_Z"));
        snprintf(text, sizeof text, "a file of just this name is %s, where %.*s does not look", path,
                 (int)strcspn(how[i], " "), how[i]);
        assert_non_null(strstr(r.err, text));
        command_free(&r);
    }
    command_refused(command("plan explain --platform cuda --rule sglang --triton abc"),
                    "--triton is 'abc', expected a version");
    command_refused(command("plan check --platform cuda --triton abc"), "--triton is 'abc', expected a version");
}

/* A default that knows BLOCK_SIZE_M alone does not say how much memory its tile needs. */
static void unknown_tile(void **state) {
    (void)state;
    ran r = command("plan explain --platform corex --m 1 --json");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    assert_int_equal(json_get(json_get(json_root(doc), "rows")->child, "smem")->kind, JSON_NULL);
    json_free(doc);
    command_free(&r);
}

/* ---- doctor ---- */

static void doctor(void **state) {
    (void)state;
    ran r = command("doctor --quick --json");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc);
    command_has(v, "schema version compiler device cpu features isa isa_why threads caches memory_available numerics "
                   "ceilings cuda demo_model missing proofs switches all_switches");
    assert_int_equal(json_get(v, "ceilings")->kind, JSON_NULL);
    assert_int_equal(json_get(v, "proofs")->kind, JSON_NULL);
    assert_true(json_get(v, "threads")->integer >= 1);
    assert_true(json_get(v, "memory_available")->integer > 1 << 20);
    for (const json *s = json_get(v, "all_switches")->child; s; s = s->next)
        command_has(s, "name value default low high what");
    json_free(doc);
    command_free(&r);
    r = command("doctor --quick --switches --set isa=0");
    assert_non_null(strstr(r.out, "ref: "));
    assert_non_null(strstr(r.out, "attn.grain"));
    command_free(&r);
}

/* All proofs hold here; with a planted fault in the norms, their proofs fail and so does the command. */
static void proofs(void **state) {
    (void)state;
    ran r = command("doctor --quick --verify --json");
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *list = json_get(json_root(doc), "proofs");
    assert_true(list->count >= 1);
    for (const json *p = list->child; p; p = p->next) {
        command_has(p, "name ok text");
        assert_true(json_get(p, "ok")->kind == JSON_NULL || json_get(p, "ok")->truth);
    }
    bool vectors = json_get(json_root(doc), "features")->count > 0;
    json_free(doc);
    command_free(&r);
    if (!vectors) return;
    r = command("doctor --quick --verify --set plant=1");
    assert_int_equal(r.status, 1);
    assert_non_null(strstr(r.out, "FAILED"));
    command_free(&r);
}

/* ---- eval ---- */

enum { VOCAB = 96, WINDOW = 32, STRIDE = 8 };
static const char text[] = "the quick brown fox jumps over the lazy dog and then it sleeps for a while by the river";
enum { LENGTH = sizeof text - 1 };

/* -ln p of ids[i + 1] for rows i = from.. of one window, summed, with libm: another way to the same number. */
static double window_nats(cadre_session *s, const int32_t *ids, int n, int first) {
    double nats = 0;
    assert_int_equal(cadre_session_rewind(s, 0, 0, NULL), CADRE_OK);
    assert_int_equal(cadre_session_step(s, &(cadre_chunk){0, n, ids, true}, 1, NULL), CADRE_OK);
    for (int i = 0; i + 1 < n; i++) {
        const float *row = cadre_session_logits(s, i);
        double best = -INFINITY, sum = 0;
        for (int k = 0; k < VOCAB; k++) best = fmax(best, (double)row[k]);
        for (int k = 0; k < VOCAB; k++) sum += exp((double)row[k] - best);
        if (i + 1 >= first) nats += log(sum) + best - (double)row[ids[i + 1]];
    }
    return nats;
}

static void eval(void **state) {
    (void)state;
    int32_t ids[LENGTH];
    char path[128];
    cadre_device *device;
    cadre_model *model;
    cadre_session *session;
    for (int i = 0; i < LENGTH; i++) ids[i] = model_id(text[i]);
    assert_true(file_join(path, sizeof path, scratch, "story.txt"));
    assert_int_equal(file_write(path, text, LENGTH, NULL), CADRE_OK);
    assert_int_equal(cadre_device_open(NULL, &device, NULL), CADRE_OK);
    assert_int_equal(cadre_model_open(device, command_model("qwen3_moe_base"), NULL, &model, NULL), CADRE_OK);
    cadre_session_options options = {.max_rows = LENGTH, .max_logits = LENGTH};
    assert_int_equal(cadre_session_new(model, &options, &session, NULL), CADRE_OK);
    double whole = window_nats(session, ids, LENGTH, 1), windows = 0;
    for (int from = 0, scored = 1; scored < LENGTH; from += STRIDE) {
        int n = LENGTH - from < WINDOW ? LENGTH - from : WINDOW;
        windows += window_nats(session, ids + from, n, scored - from);
        scored = from + n;
    }
    cadre_session_free(session);
    cadre_model_close(model);
    cadre_device_close(device);
    for (int i = 0; i < 3; i++) {
        static const char *const how[] = {"", "--ctx 32 --stride 8", "--ctx 32 --stride 8 --prefill-chunk 5"};
        ran r = command("eval -m %s -f %s %s --json", command_model("qwen3_moe_base"), path, how[i]);
        assert_int_equal(r.status, 0);
        json_doc *doc = command_json(&r);
        const json *v = json_root(doc);
        double want = i ? windows : whole;
        command_has(v, "schema loss bits_per_byte tokens bytes rows weights numerics ctx stride");
        assert_int_equal(json_get(v, "tokens")->integer, LENGTH - 1);
        assert_true(fabs(json_get(v, "loss")->number - want / (LENGTH - 1)) < 1e-9);
        assert_true(fabs(json_get(v, "bits_per_byte")->number - want / log(2) / LENGTH) < 1e-9);
        json_free(doc);
        command_free(&r);
    }
}

static void eval_types(void **state) {
    (void)state;
    const char *model = command_model("qwen3_moe_base");
    ran r = command_after("printf 'a text to score' |", "eval -m %s -f - --weights f32,bf16 --json", model);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *rows = json_get(json_root(doc), "rows");
    assert_int_equal(rows->count, 2);
    command_has(rows->child, "weights numerics loss bits_per_byte tokens");
    assert_true(json_is(json_get(rows->child, "weights"), "f32"));
    double a = json_get(rows->child, "loss")->number, b = json_get(rows->child->next, "loss")->number;
    assert_true(a != b && fabs(a - b) < 0.1);
    json_free(doc);
    command_free(&r);
    command_refused(command_after("printf a |", "eval -m %s -f -", model),
                    "the text has 1 tokens, expected at least 2");
    command_refused(command_after("printf abc |", "eval -m %s -f - --ctx 8 --stride 8", model),
                    "--stride is 8, expected 1..7");
    command_refused(command_after("printf abc |", "eval -m %s -f - --ctx 300", model),
                    "--ctx is 300, the model's context is 256");
}

/* A layer on a GPU, which is named and need not be there. */
static void on_gpu(void **state) {
    (void)state;
    static const char at[] = "--device cuda --device-name 'NVIDIA H200' --shape qwen3-30b-a3b";
    static const struct {
        int m, wgmma, one, tokens, up;
    } want[] = {{1, 0, 1, 8, 0}, {32, 0, 0, 8, 8}, {33, 0, 0, 16, 8}, {1024, 1, 0, 288, 0}};
    ran r = command("plan explain %s --m 1,32,33,1024 --json", at);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *v = json_root(doc), *row = json_get(v, "rows")->child;
    command_has(v, "schema shape desc platform device rows switches");
    for (size_t i = 0; i < sizeof want / sizeof *want; i++, row = row->next) {
        const json *config = json_get(row, "config");
        command_has(row, "m source file line key distance config shadows sha256 evidence why kernel numerics");
        assert_int_equal(json_get(row, "m")->integer, want[i].m);
        assert_true(json_is(json_get(row, "source"), "policy") && json_is(json_get(row, "numerics"), "sm90-bf16-k16"));
        assert_int_equal(json_get(config, "wgmma")->integer, want[i].wgmma);
        assert_int_equal(json_get(config, "one")->integer, want[i].one);
        assert_int_equal(json_get(config, "tokens")->integer, want[i].tokens);
        assert_int_equal(json_get(config, "up")->integer, want[i].up);
        assert_null(json_get(config, "router"));
    }
    assert_null(row);
    json_free(doc);
    command_free(&r);
    /* Ranges hang together; an override says what it shadows; the router has settings of its own. */
    r = command("plan check %s --m 1..5000 --set gpu.stages=3 --json", at);
    doc = command_json(&r);
    int64_t next = 1;
    for (row = json_get(json_root(doc), "ranges")->child; row; row = row->next) {
        bool override = json_is(json_get(row, "source"), "override");
        assert_int_equal(json_get(row, "m_lo")->integer, next);
        next = json_get(row, "m_hi")->integer + 1;
        const json *config = json_get(row, "config");
        bool mma = !json_get(config, "wgmma")->integer && !json_get(config, "one")->integer;
        assert_int_equal(json_get(config, "stages")->integer,
                         mma ? 3 : 0); /* the others have none, and are not overridden */
        assert_true(override == mma);
        assert_int_equal(json_get(row, "shadows")->kind, override ? JSON_TEXT : JSON_NULL);
    }
    assert_int_equal(next, 5001);
    json_free(doc);
    command_free(&r);
    r = command("plan explain %s --op router --m 300", at);
    assert_non_null(strstr(r.out, "300  tokens=24  policy"));
    command_free(&r);
    /* One token has a kernel of its own where the shape allows; the switch restores what it shadows. */
    r = command("plan explain %s --m 1 --set gpu.one=0", at);
    assert_non_null(strstr(r.out, "1  mma tokens=8 warps=8 up=6 down=8 kc=128 stages=6 ahead=48 told=0  override"));
    assert_non_null(strstr(r.out, "one ahead=48"));
    command_free(&r);
    r = command("plan explain --device cuda --device-name 'NVIDIA H200' --shape nemotron-3-nano --m 1");
    assert_non_null(strstr(r.out, "1  one ahead=48  policy"));
    command_free(&r);
    r = command(
        "plan explain --device cuda --device-name 'NVIDIA H200' --shape E=8,d=4096,f=14336,k=2 --m 1 --set gpu.one=1");
    assert_non_null(strstr(r.out, "1  mma tokens=8"));
    assert_non_null(strstr(r.out, "policy  gpu.one=1, but its kernel cannot run here"));
    command_free(&r);
}

/* Compute capability 8.0: what it is without, and no numerics id yet. */
static void on_gpu_80(void **state) {
    (void)state;
    static const char *const want[] = {"numerics       none yet: these kernels never ran on such a GPU\n",
                                       "policy  one token: its items fill whole waves\n",
                                       "policy  up to 8 tokens: blocks wait for data\n",
                                       "policy  many rows an expert, without wgmma\n"};
    static const char at[] = "--device cuda --device-name 'NVIDIA A100-SXM4-80GB' --shape qwen3-30b-a3b";
    ran r = command("plan check %s", at);
    assert_int_equal(r.status, 0);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        if (!strstr(r.out, want[i])) fail_msg("no '%s' in\n%s", want[i], r.out);
    command_free(&r);
    r = command("plan explain %s --m 1 --json", at);
    json_doc *doc = command_json(&r);
    assert_int_equal(json_get(json_get(json_root(doc), "rows")->child, "numerics")->kind, JSON_NULL);
    json_free(doc);
    command_free(&r);
}

/* What a switch gives where a kernel doesn't read it, where it changes the kernel, and what it then shadows. */
static void on_gpu_switches(void **state) {
    (void)state;
    static const char at[] = "--device cuda --device-name 'NVIDIA H200' --shape qwen3-30b-a3b";
    static const struct {
        const char *args, *line;
    } want[] = {
        {"--m 1 --set gpu.tokens=16", "1  one ahead=48  policy "},
        {"--m 1024 --set gpu.stages=3", "1024  wgmma widths=64,96,128,192,288 room=168  policy "},
        {"--m 4096 --set gpu.wgmma=0",
         "4096  mma tokens=96 warps=8 up=8 down=8 kc=64 stages=4 ahead=64 told=0  override"},
        {"--m 8,64 --set gpu.wgmma=1",
         "64  wgmma widths=64,96,128,192,288 room=168  override  set by switch  several, by range"},
        {"--m 1024 --set gpu.widths=14",
         "1024  wgmma widths=64,96,128 room=168  override  set by switch  wgmma widths=64"},
        {"--op router --m 1024 --set gpu.engine=0",
         "1024  tokens=8 engine=0  override  set by switch  several, by range"},
        {"--m 1 --set gpu.engine=0", "told=0 engine=0  override  set by switch  one ahead=48"},
        {"--m 8 --set gpu.engine=0", "told=2 engine=0  override  set by switch  mma tokens=8 warps=8 up=8 down=8 "
                                     "kc=128 stages=5 ahead=64 told=2\n"},
        {"--m 1024 --set gpu.engine=0", "told=0 engine=0  override  set by switch  several, by range"},
        {"--m 8 --set gpu.engine=0 --set gpu.ahead=32", "ahead=32 told=2 engine=0  override  set by switch  mma "
                                                        "tokens=8 warps=8 up=8 down=8 kc=128 stages=5 ahead=64"},
        {"--m 64 --set gpu.told=2",
         "told=1  override  set by switch, but told=2 is for up to 8 tokens, after a router  mma"},
        {"--m 8 --set gpu.told=2", "told=2  policy  up to 8 tokens: begin before the router ends"},
        {"--m 64 --set gpu.widths=511", "up to 6 rows an expert: 16 tokens a pass"},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        ran r = command("plan explain %s %s", at, want[i].args);
        assert_int_equal(r.status, 0);
        if (!strstr(r.out, want[i].line)) fail_msg("%s: no '%s' in\n%s", want[i].args, want[i].line, r.out);
        command_free(&r);
    }
}

static void on_gpu_refused(void **state) {
    (void)state;
    static const char at[] = "plan explain --device cuda --device-name 'NVIDIA H200' --shape qwen3-30b-a3b --m 300";
    command_refused(command("%s,8 --set gpu.tokens=48", at), "for 2..8 tokens: mma tokens=48");
    command_refused(command("%s,2000 --set gpu.widths=511", at), "widths are one to five");
    command_refused(command("%s,2000 --set gpu.wgmma=0 --set gpu.stages=9", at), "stages=9 ahead=64 told=0 cannot run");
    command_refused(command("%s --set gpu.wgmma=1 --set gpu.widths=511", at), "widths are one to five");
    command_refused(command("%s --set gpu.wgmma=1 --set gpu.room=60", at), "room for two stages is more than that");
    command_refused(command("plan explain --device cuda --device-name X"),
                    "no GPU is known as 'X'; known are NVIDIA H200, NVIDIA H100 80GB HBM3, NVIDIA H100 PCIe, NVIDIA "
                    "GH200 480GB, NVIDIA A100-SXM4-80GB");
    command_refused(command("plan explain --device cuda --device-name 'NVIDIA A100-SXM4-80GB' --set gpu.engine=1"),
                    "gpu.engine is 1, but this GPU lacks what compute capability 9.0 has");
    command_refused(command("plan explain --device cuda --platform cuda --memory"),
                    "--platform, --memory and --device cuda do not go together");
    command_refused(command("plan explain --device cuda --device-name 'NVIDIA H200' --shape demo,dtype=q8"),
                    "moe dtype is q8, on a GPU bf16 alone is there");
    command_refused(command("plan explain --device cuda --device-name 'NVIDIA H200' --set gpu.kc=100"),
                    "kc is not 64, 128 or 256");
    command_refused(command("plan explain --device cuda --set cuda=/nowhere/libcuda.so"), "/nowhere/libcuda.so");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_rows),
        cmocka_unit_test(foreign_table),
        cmocka_unit_test(foreign_down),
        cmocka_unit_test(do_not_go_together),
        cmocka_unit_test(override),
        cmocka_unit_test(router),
        cmocka_unit_test(doctor),
        cmocka_unit_test(proofs),
        cmocka_unit_test(eval),
        cmocka_unit_test(eval_types),
        cmocka_unit_test(foreign_metadata),
        cmocka_unit_test(foreign_miss),
        cmocka_unit_test(unknown_tile),
        cmocka_unit_test(on_gpu),
        cmocka_unit_test(on_gpu_80),
        cmocka_unit_test(on_gpu_switches),
        cmocka_unit_test(on_gpu_refused),
    };
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
