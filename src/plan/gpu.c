/* gpu.c: the policy for GPUs, the switches over it, and what may not run. A rule speaks of pairs (tokens times slots)
 * or of the mean rows of an expert, n * k / e, so it serves any shape; ranges of n follow from it. */
#include "plan/gpu.h"
#include "op/cuda/args.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the policy ---- */

typedef enum measure { TOKENS, ROWS } measure;
typedef struct rule {
    measure by;
    int most; /* the rule holds up to this many; INT_MAX ends the list */
    bool fit; /* row tiles are chosen anew, so that the items of one token fill whole waves of multiprocessors */
    plan_gpu_knobs knobs;
    const char *text;
} rule;

/* Widths of wgmma: bit i for 32 (i + 1) tokens. ptxas has registers for five. */
enum {
    NARROW = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8, /* 64, 96, 128, 192, 288 */
    WIDE = 1 << 3 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8,   /* 128, 192, 224, 256, 288 */
};

/* Measured on an H200. wgmma, one, tokens, widths, room, warps, up, down, kc, stages, ahead, told; those of wgmma are
 * widths, of which tokens is the largest, and room; it has 8 warps with a row tile each in 2 blocks; that of one is
 * ahead. */
static const rule rules[] = {
    {TOKENS, 1, true, {0, 1, 8, NARROW, 168, 8, 6, 8, 128, 6, 48, 0, 0, 0}, "one token: every block has its share"},
    {TOKENS,
     PLAN_GPU_FEW,
     false,
     {0, 0, 8, NARROW, 168, 8, 8, 8, 128, 5, 64, 2, 0, 0},
     "up to 8 tokens: begin before the router ends"},
    {ROWS, 2, false, {0, 0, 8, NARROW, 168, 8, 8, 8, 128, 5, 64, 0, 0, 0}, "up to 2 rows an expert: 8 tokens a pass"},
    {ROWS, 6, false, {0, 0, 16, NARROW, 168, 8, 8, 8, 128, 5, 64, 0, 0, 0}, "up to 6 rows an expert: 16 tokens a pass"},
    {ROWS,
     40,
     false,
     {0, 0, 48, NARROW, 168, 8, 16, 16, 64, 4, 64, 0, 0, 0},
     "up to 40 rows an expert: 48 tokens a pass"},
    {ROWS,
     132,
     false,
     {1, 0, 288, NARROW, 168, 8, 8, 8, 64, 4, 64, 0, 0, 0},
     "up to 132 rows an expert: wgmma, bound by memory"},
    {ROWS, INT_MAX, false, {1, 0, 288, WIDE, 227, 8, 8, 8, 64, 4, 64, 0, 0, 0}, "many rows an expert: wide wgmma"},
    {ROWS,
     INT_MAX,
     false,
     {0, 0, 96, NARROW, 168, 8, 16, 16, 64, 4, 64, 0, 0, 0},
     "many rows an expert, widths that wgmma lacks"},
};

/* Tokens that a cluster of the router takes: few clusters leave the GPU idle, many read the gate's weights again. */
static const struct {
    int most, tokens;
    const char *text;
} routers[] = {{128, 8, "up to 128 tokens: a cluster takes 8"},
               {360, 24, "up to 360 tokens: a cluster takes 24"},
               {1200, 40, "up to 1200 tokens: a cluster takes 40 at a time"},
               {INT_MAX, 48, "many tokens: a cluster takes 48 at a time"}};

static bool gated(const plan_gpu_key *key) {
    return key->act != CADRE_RELU2;
}

/* wgmma takes stages of 64 inputs, whole. */
static bool wgmma_fits(const plan_gpu_key *key) {
    return key->engine && cuda_steps(key->d) % 4 == 0 && cuda_steps(key->f) % 4 == 0;
}

/* The row tiles an item takes, so that `tasks` times ceil(rows / tiles) items take the least time in whole waves. */
static int fit_tiles(int rows, int tasks, int sms, int most) {
    int best = 1;
    long least = LONG_MAX;
    for (int tiles = 1; tiles <= most; tiles++) {
        long items = (long)tasks * ((rows + tiles - 1) / tiles), time = (items + sms - 1) / sms * tiles;
        if (time <= least) least = time, best = tiles;
    }
    return best;
}

static void fit_waves(const plan_gpu_key *key, plan_gpu_knobs *knobs) {
    enum { MOST = 8 };
    knobs->up = fit_tiles(cuda_up_tiles(key->f, gated(key)), key->k, key->sms, MOST);
    knobs->down = fit_tiles(cuda_tiles(key->d), key->k, key->sms, MOST);
}

/* What a block may ask for: a little is kept for what is not asked for. */
static size_t most_shared(const plan_gpu_key *key) {
    return (size_t)key->smem - 1024;
}

static void fit_shared(const plan_gpu_key *key, plan_gpu_row *row) {
    size_t shared = plan_gpu_shared(key, row), smem = most_shared(key);
    if (row->knobs.wgmma && shared > smem) row->knobs.room -= (int)((shared - smem + 1023) / 1024);
    while (row->knobs.stages > 2 && plan_gpu_shared(key, row) > smem) row->knobs.stages--;
}

static int widest(int widths) {
    int tokens = 0;
    for (; widths; widths >>= 1) tokens += 32;
    return tokens;
}

/* A warp's ring has as many stages as the down product has chunks, as far as there is shared memory beside some for a
 * block of the next router (which begins early where registers let it); not less than 8, and not more than a kernel can
 * count in flight. */
plan_gpu_share plan_gpu_one(const plan_gpu_key *key, const plan_gpu_row *row) {
    enum { FEW = 8, MANY = 32, ROUTER = 20 * 1024 };
    int chunks = cuda_steps(key->f) / 4, downs = ONE_EACH(cuda_tiles(key->d), key->sms);
    int ups = ONE_EACH(key->k * cuda_up_tiles(key->f, gated(key)), key->sms);
    plan_gpu_share s = {.warps = ONE_WARPS(ups, downs, key->k), .downs = downs};
    int room = (key->smem - ROUTER - ONE_SHARED(0, 0, key->d, key->k, downs)) / (s.warps * ONE_CHUNK);
    s.stages = chunks < FEW ? FEW : chunks > MANY ? MANY : chunks;
    if (s.stages > room) s.stages = room;
    s.flying = row->knobs.ahead / (2 * ups);
    if (s.flying > s.stages) s.flying = s.stages;
    if (s.flying < 1) s.flying = 1;
    return s;
}

/* one.cu takes whole chunks, and a warp for each row tile that a block has: of the up product, and of the down product
 * of all slots. */
static bool one_fits(const plan_gpu_key *key, const plan_gpu_row *row) {
    enum { WARPS = 16, STAGES = 5 };
    plan_gpu_share s = plan_gpu_one(key, row);
    return key->engine && key->router && row->n_hi == 1 && !row->knobs.wgmma && key->d % 64 == 0 &&
           cuda_steps(key->f) % 4 == 0 && s.warps <= WARPS && s.stages >= STAGES;
}

static void fit_one(const plan_gpu_key *key, plan_gpu_row *row) {
    if (!row->knobs.one || one_fits(key, row)) return;
    row->knobs.one = 0;
    if (row->n_hi == 1 && !row->shadowed) row->rule = "one token: its items fill whole waves";
}

/* The router's choice can be waited for where there is a router, and few tokens. */
static void fit_told(const plan_gpu_key *key, plan_gpu_row *row) {
    if (row->knobs.told == 2 && (!key->router || row->n_hi > PLAN_GPU_FEW)) row->knobs.told = 1;
    if (row->knobs.wgmma) row->knobs.told = 0, row->knobs.tokens = widest(row->knobs.widths);
}

static int tokens_for(const plan_gpu_key *key, const rule *r) {
    if (r->most == INT_MAX) return INT_MAX;
    int64_t n = r->by == TOKENS ? r->most : (int64_t)r->most * key->e / key->k;
    return n > INT_MAX ? INT_MAX : (int)n;
}

static const char *wgmma_fault(const plan_gpu_key *key, const plan_gpu_knobs *k);

/* The rule's text, or what the row is where it cannot have what the rule is about. */
static void fit_text(const plan_gpu_key *key, const rule *r, plan_gpu_row *row) {
    bool early = key->engine && row->knobs.told == 2;
    if (r->knobs.told == 2 && !early) row->rule = "up to 8 tokens: blocks wait for data";
    if (r->most < INT_MAX || row->knobs.wgmma) return;
    if (!key->engine)
        row->rule = "many rows an expert, without wgmma";
    else if (wgmma_fits(key))
        row->rule = "many rows an expert, no room for wgmma's ring";
}

static void policy_experts(plan_gpu *p) {
    for (size_t i = 0, lo = 1; i < sizeof rules / sizeof *rules; i++) {
        const rule *r = &rules[i];
        int hi = tokens_for(&p->key, r);
        if (hi < (int)lo || (r->knobs.wgmma && !wgmma_fits(&p->key))) continue;
        plan_gpu_row *row = &p->rows[p->count];
        *row = (plan_gpu_row){.n_lo = (int)lo, .n_hi = hi, .knobs = r->knobs, .source = "policy", .rule = r->text};
        row->knobs.engine = p->key.engine;
        if (r->fit) fit_waves(&p->key, &row->knobs);
        fit_one(&p->key, row);
        fit_told(&p->key, row);
        fit_text(&p->key, r, row);
        fit_shared(&p->key, row);
        if (row->knobs.wgmma && wgmma_fault(&p->key, &row->knobs)) continue; /* too little is left for its ring */
        p->count++;
        if (hi == INT_MAX) return;
        lo = (size_t)hi + 1;
    }
}

static void policy_router(plan_gpu *p) {
    for (size_t i = 0, lo = 1; i < sizeof routers / sizeof *routers; i++) {
        plan_gpu_row *row = &p->routers[p->router_count++];
        *row = (plan_gpu_row){.n_lo = (int)lo,
                              .n_hi = routers[i].most,
                              .knobs = {.router = p->key.engine ? routers[i].tokens : 8, .engine = p->key.engine},
                              .source = "policy",
                              .rule = routers[i].text};
        while (row->knobs.router > 8 && plan_gpu_router_shared(&p->key, row) > (size_t)p->key.smem)
            row->knobs.router -= 8;
        if (!p->key.engine)
            row->rule = "without clusters: a block takes 8";
        else if (row->knobs.router < routers[i].tokens)
            row->rule = "as many tokens as shared memory has room for";
        lo = (size_t)routers[i].most + 1;
    }
}

int plan_gpu_soon(const plan_gpu_key *key, int n) {
    enum { FEW = 4, SOME = 12, MANY = 40, UNIT = 16 }; /* mean rows of an expert */
    int64_t all = (int64_t)key->e * cuda_up_tiles(key->f, gated(key)) * cuda_steps(key->d) / 2; /* tiles of half a KB */
    int64_t rows = (int64_t)n * key->k / key->e;
    int most = !key->engine || rows < FEW ? 0 : rows < SOME || rows > MANY ? 4 * 1024 : 12 * 1024;
    return all < most ? (int)all / UNIT * UNIT : most;
}

/* ---- what kernels need ---- */

static int chunk_of(const plan_gpu_row *row) {
    return row->n_hi < PLAN_GPU_CHUNK ? row->n_hi : PLAN_GPU_CHUNK;
}

/* Rounded up: layers that differ a little share their kernels. */
int plan_gpu_tasks(const plan_gpu_key *key, const plan_gpu_row *row) {
    return (EXPERTS_TASKS(chunk_of(row), key->k, key->e, row->knobs.tokens) + 63) / 64 * 64;
}

size_t plan_gpu_shared(const plan_gpu_key *key, const plan_gpu_row *row) {
    const plan_gpu_knobs *k = &row->knobs;
    int tiles = k->up > k->down ? k->up : k->down, tasks = plan_gpu_tasks(key, row);
    if (k->one) {
        plan_gpu_share s = plan_gpu_one(key, row);
        return (size_t)ONE_SHARED(s.warps, s.stages, key->d, key->k, s.downs);
    }
    if (k->wgmma) return (size_t)k->room * 1024 + (size_t)PREFILL_FIXED(key->e, tasks, key->d, key->k);
    return (size_t)EXPERTS_SHARED(k->tokens, tiles, k->kc, k->stages, key->e, tasks);
}

static size_t rings_shared(const plan_gpu_key *key, int tokens, plan_gpu_rings r) {
    return (size_t)ROUTER_MANY_SHARED(tokens, key->e, key->k, r.x, r.w, r.sides);
}

/* Weights that stay first, then sums of two groups, then inputs of two. */
plan_gpu_rings plan_gpu_router_rings(const plan_gpu_key *key, int tokens) {
    enum { W_FEW = 4, W_LEAST = 2 };
    int x = ROUTER_CHUNKS(key->d), w = x * ROUTER_PARTS(key->e), few = w < W_FEW ? w : W_FEW;
    int least = w < W_LEAST ? w : W_LEAST, last = 5;
    const plan_gpu_rings tries[] = {{2 * x, w, 2}, {x, w, 2}, {x, w, 1}, {x, few, 2}, {x, few, 1}, {x, least, 1}};
    for (int i = 0; i < last; i++)
        if (rings_shared(key, tokens, tries[i]) <= (size_t)key->smem) return tries[i];
    return tries[last];
}

size_t plan_gpu_router_shared(const plan_gpu_key *key, const plan_gpu_row *row) {
    int tokens = row->knobs.router;
    if (!plan_gpu_router_many(row)) return (size_t)ROUTER_SHARED(key->d, key->e, row->knobs.engine);
    return rings_shared(key, tokens, plan_gpu_router_rings(key, tokens));
}

/* ---- what may not run ---- */

static const char *mma_fault(const plan_gpu_knobs *k) {
    if (k->tokens % 8) return "tokens is no multiple of 8";
    if (k->kc != 64 && k->kc != 128 && k->kc != 256) return "kc is not 64, 128 or 256";
    return NULL;
}

static const char *wgmma_fault(const plan_gpu_key *key, const plan_gpu_knobs *k) {
    int many = 0, stage = 16 * 1024 + k->tokens * 128;
    for (int widths = k->widths; widths; widths &= widths - 1) many++;
    if (!wgmma_fits(key)) return "wgmma needs compute capability 9.0, and d and f that fill up 64s";
    if (many < 1 || many > 5) return "widths are one to five: there are no registers for more";
    if (k->room * 1024 < 2 * stage) return "room for two stages is more than that";
    if (k->room * 1024 < 8 * 512 * key->k) return "room for a part of all slots of eight tokens is more than that";
    return NULL;
}

static cadre_err check_experts(const plan_gpu_key *key, const plan_gpu_row *row, cadre_fail *why) {
    const plan_gpu_knobs *k = &row->knobs;
    const char *wrong = k->one ? NULL : k->wgmma ? wgmma_fault(key, k) : mma_fault(k);
    char text[160];
    plan_gpu_text(k, text, sizeof text);
    char range[32];
    if (row->n_hi == INT_MAX)
        snprintf(range, sizeof range, "%d and more", row->n_lo);
    else
        snprintf(range, sizeof range, "%d..%d", row->n_lo, row->n_hi);
    if (wrong) return cadre_fail_set(why, CADRE_RANGE, "for %s tokens: %s cannot run: %s", range, text, wrong);
    size_t shared = plan_gpu_shared(key, row);
    if (shared > most_shared(key))
        return cadre_fail_set(why, CADRE_RANGE,
                              "for %s tokens: %s cannot run: it takes %zu bytes of shared memory, a block has %zu",
                              range, text, shared, most_shared(key));
    return CADRE_OK;
}

static cadre_err check_shape(const plan_gpu_key *key, cadre_fail *why) {
    enum { MOST_K = 32, MOST_E = 1024 };
    if (key->k > MOST_K || key->e > MOST_E)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "e=%d k=%d: on a GPU at most %d experts, %d of them for a token",
                              key->e, key->k, MOST_E, MOST_K);
    return CADRE_OK;
}

static cadre_err check_router(const plan_gpu_key *key, const plan_gpu_row *row, cadre_fail *why) {
    int tokens = row->knobs.router, engine = row->knobs.engine;
    size_t shared = plan_gpu_router_shared(key, row);
    if (tokens % 8)
        return cadre_fail_set(why, CADRE_RANGE, "gpu.router is %d, expected 8, 16, 24, 32, 40 or 48", tokens);
    if (tokens != 8 && !engine)
        return cadre_fail_set(why, CADRE_RANGE, "gpu.router is %d, expected 8 without clusters", tokens);
    if (shared <= (size_t)key->smem) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED,
                          "d=%d e=%d: the router takes %zu bytes of shared memory, a block has %d", key->d, key->e,
                          shared, key->smem);
}

cadre_err plan_gpu_check(const plan_gpu *p, int lo, int hi, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    int last = plan_gpu_at(p->rows, p->count, hi), end = plan_gpu_at(p->routers, p->router_count, hi);
    for (int i = plan_gpu_at(p->rows, p->count, lo); i <= last && !err; i++)
        err = check_experts(&p->key, &p->rows[i], why);
    if (!p->key.router) return err;
    for (int i = plan_gpu_at(p->routers, p->router_count, lo); i <= end && !err; i++)
        err = check_router(&p->key, &p->routers[i], why);
    return err;
}

/* ---- switches ---- */

static const switch_def knobs[] = {
#define X(name, low, high, what) {"gpu." #name, PLAN_GPU_POLICY, low, high, what "; -2: as the policy has it"},
    PLAN_GPU_KNOBS(X)
#undef X
};
#define X(name, low, high, what) KNOB_##name,
enum { PLAN_GPU_KNOBS(X) };
#undef X
static int overrides[PLAN_GPU_KNOB_COUNT] = {
#define X(name, low, high, what) PLAN_GPU_POLICY,
    PLAN_GPU_KNOBS(X)
#undef X
};

bool plan_gpu_switch(int i, switch_def *def, long *value) {
    if (i < 0 || i >= PLAN_GPU_KNOB_COUNT) return false;
    *def = knobs[i];
    *value = overrides[i];
    return true;
}

bool plan_gpu_set(const char *assignment, cadre_err *err, cadre_fail *why) {
    size_t len = strcspn(assignment, "=");
    char *end;
    if (strncmp(assignment, "gpu.", 4)) return false;
    for (int i = 0; i < PLAN_GPU_KNOB_COUNT; i++) {
        if (strlen(knobs[i].name) != len || strncmp(knobs[i].name, assignment, len)) continue;
        long v = strtol(assignment + len + 1, &end, 10);
        *err = CADRE_OK;
        if (end == assignment + len + 1 || *end || (v != PLAN_GPU_POLICY && (v < knobs[i].low || v > knobs[i].high)))
            *err = cadre_fail_set(why, CADRE_RANGE, "switch %s is '%.40s', expected %ld..%ld, or -2 for the policy",
                                  knobs[i].name, assignment + len + 1, knobs[i].low, knobs[i].high);
        else
            overrides[i] = (int)v;
        return true;
    }
    return false;
}

/* Knobs that the row's kernel does not read are 0: they make no difference. */
static void settle(const plan_gpu_key *key, plan_gpu_row *row, bool was_wgmma) {
    enum { MMA_TOKENS = 96 }; /* of a pass, where the policy has more by wgmma */
    plan_gpu_knobs *k = &row->knobs;
    fit_one(key, row), fit_told(key, row);
    if (k->wgmma && overrides[KNOB_room] == PLAN_GPU_POLICY) fit_shared(key, row);
    if (k->one)
        *k = (plan_gpu_knobs){.one = 1, .tokens = 8, .ahead = k->ahead, .engine = k->engine};
    else if (k->wgmma)
        *k = (plan_gpu_knobs){
            .wgmma = 1, .tokens = k->tokens, .widths = k->widths, .room = k->room, .engine = k->engine};
    else {
        bool fit = was_wgmma && overrides[KNOB_tokens] == PLAN_GPU_POLICY;
        if (fit) k->tokens = MMA_TOKENS;
        if (fit && overrides[KNOB_stages] == PLAN_GPU_POLICY) fit_shared(key, row);
        k->widths = k->room = 0;
    }
}

/* What a switch asks for and the row cannot have; NULL: nothing. */
static const char *lacking(const plan_gpu_row *row) {
    const plan_gpu_knobs *k = &row->knobs;
    if (overrides[KNOB_told] == 2 && k->told == 1)
        return "set by switch, but told=2 is for up to 8 tokens, after a router";
    if (overrides[KNOB_one] == 1 && row->n_hi == 1 && !k->one && !k->wgmma)
        return "gpu.one=1, but its kernel cannot run here";
    return NULL;
}

/* Overrides of the knobs [from, to) that this row has. */
static void apply(const plan_gpu_key *key, plan_gpu_row *row, int from, int to) {
    plan_gpu_row policy = *row;
    int *v = (int *)&row->knobs;
    for (int i = from; i < to; i++)
        if (overrides[i] != PLAN_GPU_POLICY) v[i] = overrides[i];
    if (from == 0) settle(key, row, policy.knobs.wgmma), settle(key, &policy, policy.knobs.wgmma);
    const char *lacks = from == 0 ? lacking(row) : NULL;
    bool same = !memcmp(&policy.knobs, &row->knobs, sizeof row->knobs);
    row->rule = lacks ? lacks : same ? policy.rule : "set by switch";
    if (same) return;
    row->source = "override";
    row->shadowed = true, row->shadows = policy.knobs;
}

/* gpu.engine=0 is an override of every row: it shadows what the policy has with the engine in the row's range. */
static void shadow(plan_gpu_row *rows, int count, const plan_gpu_row *with, int with_count) {
    for (plan_gpu_row *row = rows; row < rows + count; row++) {
        int i = plan_gpu_at(with, with_count, row->n_lo), last = plan_gpu_at(with, with_count, row->n_hi);
        if (!row->shadowed) row->rule = "set by switch";
        row->source = "override";
        row->shadowed = true, row->shadows = with[i].knobs, row->mixed = false;
        while (++i <= last) row->mixed |= memcmp(&with[i].knobs, &row->shadows, sizeof row->shadows) != 0;
    }
}

/* ---- the plan ---- */

/* Neighbours that switches made alike are one row, and one kernel, whatever they shadow. */
static void merge(plan_gpu_row *rows, int *count) {
    int n = 0;
    for (int i = 0; i < *count; i++) {
        bool alike = n && rows[i].shadowed && rows[n - 1].shadowed &&
                     !memcmp(&rows[i].knobs, &rows[n - 1].knobs, sizeof rows[i].knobs);
        if (!alike) {
            rows[n++] = rows[i];
            continue;
        }
        rows[n - 1].n_hi = rows[i].n_hi;
        rows[n - 1].mixed |= rows[i].mixed;
        rows[n - 1].mixed |= memcmp(&rows[i].shadows, &rows[n - 1].shadows, sizeof rows[i].shadows) != 0;
    }
    *count = n;
}

static void policy(plan_gpu *p) {
    policy_experts(p);
    if (p->key.router) policy_router(p);
}

static void shadow_engine(plan_gpu *p, const plan_gpu_key *key) {
    plan_gpu with = {.key = *key};
    policy(&with);
    for (int i = 0; i < with.count; i++) settle(key, &with.rows[i], with.rows[i].knobs.wgmma);
    shadow(p->rows, p->count, with.rows, with.count);
    shadow(p->routers, p->router_count, with.routers, with.router_count);
}

cadre_err plan_gpu_make(const plan_gpu_key *key, plan_gpu *p, cadre_fail *why) {
    memset(p, 0, sizeof *p);
    p->key = *key;
    p->key.engine &= overrides[KNOB_engine] != 0;
    cadre_err err = check_shape(key, why);
    if (!err && overrides[KNOB_engine] == 1 && !key->engine)
        err = cadre_fail_set(why, CADRE_RANGE, "gpu.engine is 1, but this GPU lacks what compute capability 9.0 has");
    if (err) return err;
    policy(p);
    for (int i = 0; i < p->count; i++) apply(&p->key, &p->rows[i], 0, KNOB_router);
    for (int i = 0; i < p->router_count; i++) apply(&p->key, &p->routers[i], KNOB_router, KNOB_router + 1);
    if (p->key.engine != key->engine) shadow_engine(p, key);
    merge(p->rows, &p->count);
    merge(p->routers, &p->router_count);
    return CADRE_OK;
}

int plan_gpu_at(const plan_gpu_row *rows, int count, int n) {
    int i = 0;
    while (i < count - 1 && n > rows[i].n_hi) i++;
    return i;
}

static void wgmma_text(const plan_gpu_knobs *k, char *text, size_t size) {
    char widths[48] = "";
    for (int i = 0, n = 0; i < 9; i++)
        if (k->widths >> i & 1)
            n += snprintf(widths + n, sizeof widths - (size_t)n, "%s%d", n ? "," : "", 32 * (i + 1));
    snprintf(text, size, "wgmma widths=%s room=%d", widths, k->room);
}

void plan_gpu_text(const plan_gpu_knobs *k, char *text, size_t size) {
    if (k->router) {
        snprintf(text, size, "tokens=%d%s", k->router, k->engine ? "" : " engine=0");
        return;
    }
    if (k->one)
        snprintf(text, size, "one ahead=%d", k->ahead);
    else if (k->wgmma)
        wgmma_text(k, text, size);
    else
        snprintf(text, size, "mma tokens=%d warps=%d up=%d down=%d kc=%d stages=%d ahead=%d told=%d%s", k->tokens,
                 k->warps, k->up, k->down, k->kc, k->stages, k->ahead, k->told, k->engine ? "" : " engine=0");
}

void plan_gpu_shadows(const plan_gpu_row *row, char *text, size_t size) {
    snprintf(text, size, "%s", row->mixed ? "several, by range" : "");
    if (row->shadowed && !row->mixed) plan_gpu_text(&row->shadows, text, size);
}

const char *plan_gpu_kernel(const plan_gpu_row *row) {
    const plan_gpu_knobs *k = &row->knobs;
    if (k->router && plan_gpu_router_many(row)) return "router_many_bf16_sm90";
    if (k->router) return k->engine ? "router_bf16_sm90" : "router_bf16_sm80";
    if (k->one) return "one_bf16_sm90";
    if (k->wgmma) return "prefill_bf16_sm90";
    return k->engine ? "experts_bf16_sm90" : "experts_bf16_sm80";
}

static void put_receipt(const plan_gpu_key *key, const plan_gpu_row *row, bool router, cadre_receipt *out) {
    *out = (cadre_receipt){.op = router ? "router" : key->role,
                           .kernel = plan_gpu_kernel(row),
                           .source = row->source,
                           .why = row->rule,
                           .n_lo = row->n_lo,
                           .n_hi = row->n_hi,
                           .runs = atomic_load_explicit(&row->runs, memory_order_relaxed)};
    plan_gpu_text(&row->knobs, out->config, sizeof out->config);
    plan_gpu_shadows(row, out->shadows, sizeof out->shadows);
    if (router)
        snprintf(out->shape, sizeof out->shape, "d=%d e=%d k=%d bf16", key->d, key->e, key->k);
    else
        snprintf(out->shape, sizeof out->shape, "d=%d f=%d e=%d k=%d bf16", key->d, key->f, key->e, key->k);
}

int plan_gpu_receipts(const plan_gpu *p, cadre_receipt *out, int cap) {
    int n = 0;
    for (int i = 0; i < p->router_count; i++, n++)
        if (n < cap) put_receipt(&p->key, &p->routers[i], true, &out[n]);
    for (int i = 0; i < p->count; i++, n++)
        if (n < cap) put_receipt(&p->key, &p->rows[i], false, &out[n]);
    return n;
}
