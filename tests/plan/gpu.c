/* gpu: the shares of one.cu for many shapes, GPUs and switches, and that CI compiles what the policy takes. */
#include "plan/gpu.h"
#include "op/cuda/args.h"
#include "op/cuda/text.h"
#include "test.h"

enum { H200_SMS = 132, H200_SMEM = 232448 };

static plan_gpu_key key_of(int d, int f, int e, int k, cadre_act act) {
    return (plan_gpu_key){.d = d,
                          .f = f,
                          .e = e,
                          .k = k,
                          .act = act,
                          .sms = H200_SMS,
                          .smem = H200_SMEM,
                          .engine = true,
                          .router = true,
                          .role = "experts"};
}

/* ---- one.cu ---- */

/* What the text asserts and takes for granted, of both kinds of block. */
static void holds(const plan_gpu_key *key, const plan_gpu_row *row) {
    plan_gpu_share s = plan_gpu_one(key, row);
    int tiles = cuda_tiles(key->d), ups = key->k * cuda_up_tiles(key->f, key->act != CADRE_RELU2);
    int each = ONE_EACH(ups, key->sms), others = ONE_WARPS(each, s.downs - 1, key->k);
    bool dealt = each * key->sms >= ups && s.downs * key->sms >= tiles && (s.downs - 1) * key->sms < tiles;
    bool warps = s.warps >= each && s.warps >= s.downs * key->k && s.warps <= 16 && others <= s.warps;
    bool rings = s.stages >= 5 && s.flying >= 1 && s.flying <= s.stages && s.warps * s.stages / others >= s.stages;
    size_t shared = plan_gpu_shared(key, row);
    if (!dealt || !warps || !rings || shared > (size_t)key->smem || s.stages > 63)
        fail_msg("d=%d f=%d k=%d act=%d, %d multiprocessors: warps=%d downs=%d stages=%d flying=%d, %zu bytes", key->d,
                 key->f, key->k, (int)key->act, key->sms, s.warps, s.downs, s.stages, s.flying, shared);
}

static void shares(void **state) {
    (void)state;
    static const int sms[] = {2, 4, 7, 14, 60, 114, 132, 148}, smem[] = {64 * 1024, 100 * 1024, H200_SMEM};
    static const char *const ahead[] = {"gpu.ahead=-2", "gpu.ahead=1", "gpu.ahead=256"};
    int taken = 0, more = 0;
    for (int i = 0; i < 3 * 8 * 3; i++) {
        set_switch(ahead[i % 3]);
        for (int d = 64; d <= 8192; d += d < 512 ? 64 : 448)
            for (int f = 24; f <= 6000; f = f * 3 / 2 + 1)
                for (int k = 1; k <= 8; k++) {
                    plan_gpu_key key = key_of(d, f, 32, k, k % 2 ? CADRE_SWIGLU : CADRE_RELU2);
                    key.sms = sms[i / 3 % 8], key.smem = smem[i / 24];
                    plan_gpu p;
                    if (plan_gpu_make(&key, &p, NULL) || !p.rows[0].knobs.one) continue;
                    holds(&key, &p.rows[0]);
                    taken++, more += plan_gpu_one(&key, &p.rows[0]).downs > 1;
                }
    }
    set_switch("gpu.ahead=-2");
    assert_true(taken > 1000 && more > 100);
}

/* ---- corners ---- */

static bool compiled(const char *text, const char *shape, const char *options) {
    for (const op_cuda_corner *c = op_cuda_corners; c->name; c++)
        if (!strcmp(c->name, text) && strstr(c->options, shape) && strstr(c->options, options)) return true;
    return false;
}

static void is_compiled(const plan_gpu_key *key, const plan_gpu_row *row, const char *shape) {
    const plan_gpu_knobs *k = &row->knobs;
    plan_gpu_share s = plan_gpu_one(key, row);
    char options[200];
    const char *text = k->one ? "one.cu" : k->wgmma ? "prefill.cu" : "experts.cu";
    if (k->one)
        snprintf(options, sizeof options, "-DBLOCKS=%d -DSTAGES=%d -DFLYING=%d", key->sms, s.stages, s.flying);
    else if (k->wgmma)
        snprintf(options, sizeof options, "-DTOKEN_TILES=%d -DWIDTHS=%d -DROOM=%d*1024", k->tokens / 8, k->widths,
                 k->room);
    else
        snprintf(options, sizeof options,
                 "-DTOKEN_TILES=%d -DWARPS=%d -DUP_TILES=%d -DDOWN_TILES=%d -DKC=%d -DSTAGES=%d", k->tokens / 8,
                 k->warps, k->up, k->down, k->kc, k->stages);
    if (!compiled(text, shape, options)) fail_msg("no corner of %s has %s and %s", text, shape, options);
}

/* Of the large shapes all rows, but few tokens' of DeepSeek's, whose knobs are Qwen's. */
static void corners(void **state) {
    (void)state;
    static const struct {
        int d, f, e, k;
        cadre_act act;
        int few; /* rows that are compiled for another shape */
        const char *shape;
    } shapes[] = {{2048, 768, 128, 8, CADRE_SWIGLU, 0, "-DD_MODEL=2048 -DF_EXPERT=768 "},
                  {2688, 1856, 128, 6, CADRE_RELU2, 0, "-DD_MODEL=2688 -DF_EXPERT=1856 "},
                  {2048, 1408, 64, 6, CADRE_SWIGLU, 3, "-DD_MODEL=2048 -DF_EXPERT=1408 "}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        plan_gpu_key key = key_of(shapes[i].d, shapes[i].f, shapes[i].e, shapes[i].k, shapes[i].act);
        plan_gpu p;
        must(plan_gpu_make(&key, &p, fail_out));
        for (int r = 0; r < p.count; r++)
            if (!r || r > shapes[i].few) is_compiled(&key, &p.rows[r], shapes[i].shape);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares), cmocka_unit_test(corners)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
