/* gpu.h: the configurations of a MoE layer on a GPU: which knobs of op/cuda's texts for how many tokens, with the
 * reason. As for the CPU: a policy that is data, switches `gpu.NAME=value` over it, a receipt for every choice. No GPU
 * is needed to plan for one. A neighbour's header. */
#ifndef CADRE_PLAN_GPU_H
#define CADRE_PLAN_GPU_H
#include "base/base.h"
#include <stdatomic.h>

/* X(name, low, high, what). They change speed and never bits. */
#define PLAN_GPU_KNOBS(X)                                                                                   \
    X(wgmma, 0, 1, "multiply by wgmma, else by mma")                                                        \
    X(one, 0, 1, "one token: by the kernel for it, where the shape allows")                                 \
    X(tokens, 8, 288, "tokens of an expert that share one pass over its weights")                           \
    X(widths, 1, 511, "wgmma: which numbers of tokens it has, bit i for 32 (i + 1); the largest is a pass") \
    X(room, 1, 227, "wgmma: KB of a block's ring")                                                          \
    X(warps, 1, 16, "warps that multiply")                                                                  \
    X(up, 1, 32, "row tiles of one item of the up product")                                                 \
    X(down, 1, 32, "row tiles of one item of the down product")                                             \
    X(kc, 64, 256, "inputs of one stage")                                                                   \
    X(stages, 2, 16, "stages of a block's ring")                                                            \
    X(ahead, 1, 256, "KB of weights that a block asks for at a time")                                       \
    X(told, 0, 2, "0: blocks wait for counters; 1: for data; 2: for the router's choice too")               \
    X(router, 8, 48, "tokens that a cluster of the router takes at a time")                                 \
    X(engine, 0, 1, "what compute capability 9.0 has over 8.0: copy engine, clusters, wgmma")

typedef struct plan_gpu_knobs {
#define X(name, low, high, what) int name;
    PLAN_GPU_KNOBS(X)
#undef X
} plan_gpu_knobs;
#define X(name, low, high, what) +1
enum { PLAN_GPU_KNOB_COUNT = 0 PLAN_GPU_KNOBS(X) };
#undef X

enum {
    PLAN_GPU_POLICY = -2,  /* a switch gpu.NAME that leaves the knob to the policy */
    PLAN_GPU_CHUNK = 8192, /* most tokens of one launch; more go in turns */
    PLAN_GPU_FEW = 8,      /* most tokens of a launch that takes the router's choice before the router ends */
    PLAN_GPU_ROWS = 10,
};

/* What is asked, and of which GPU. */
typedef struct plan_gpu_key {
    int d, f, e, k;
    cadre_act act;
    int sms, smem;    /* multiprocessors; most shared memory of a block, bytes */
    bool engine;      /* has what 9.0 has: copy engine, clusters, wgmma */
    const char *role; /* "experts", "shared expert": names the receipt */
    bool router;      /* has one */
} plan_gpu_key;

/* What runs for n in [n_lo, n_hi]. */
typedef struct plan_gpu_row {
    int n_lo, n_hi;
    plan_gpu_knobs knobs;      /* experts: without .router; routers: .router and .engine alone */
    const char *source, *rule; /* "policy" or "override" */
    bool shadowed, mixed;      /* mixed: what it shadows differs over its range */
    plan_gpu_knobs shadows;
    _Atomic uint64_t runs;
} plan_gpu_row;

/* Rows ascend, contiguous from 1; the last has n_hi = INT_MAX. */
typedef struct plan_gpu {
    plan_gpu_key key;
    int count, router_count;
    plan_gpu_row rows[PLAN_GPU_ROWS], routers[PLAN_GPU_ROWS];
} plan_gpu;

/* Fills *p (caller's storage); what may not run is left to plan_gpu_check. Errors: RANGE (a switch asks for what the
 * GPU lacks), UNSUPPORTED (a shape that these kernels do not take). */
cadre_err plan_gpu_make(const plan_gpu_key *key, plan_gpu *p, cadre_fail *why);
/* The index of the row for n >= 1 tokens. */
int plan_gpu_at(const plan_gpu_row *rows, int count, int n);
/* Writes receipts into out[0..cap); returns how many there are. */
int plan_gpu_receipts(const plan_gpu *p, cadre_receipt *out, int cap);

/* KB of the experts' weights that the router of n tokens fetches into the L2 cache while it computes: the first
 * experts', where nearly every expert will be chosen by some token; 0 where few are. */
int plan_gpu_soon(const plan_gpu_key *key, int n);
/* How one.cu is compiled for as many blocks as there are multiprocessors: warps, most row tiles of the down product in
 * a block, chunks of a warp's ring in such a block, chunks that a warp asks for at a time. */
typedef struct plan_gpu_share {
    int warps, downs, stages, flying;
} plan_gpu_share;
plan_gpu_share plan_gpu_one(const plan_gpu_key *key, const plan_gpu_row *row);
/* What a kernel of these knobs needs. */
int plan_gpu_tasks(const plan_gpu_key *key, const plan_gpu_row *row); /* most that a launch of the row can make */
size_t plan_gpu_shared(const plan_gpu_key *key, const plan_gpu_row *row);
size_t plan_gpu_router_shared(const plan_gpu_key *key, const plan_gpu_row *row);
/* The rings of router_many.cu, the best that shared memory has room for; the smallest where it has none. */
typedef struct plan_gpu_rings {
    int x, w, sides;
} plan_gpu_rings;
plan_gpu_rings plan_gpu_router_rings(const plan_gpu_key *key, int tokens);
/* Does router_many.cu take this row? */
static inline bool plan_gpu_router_many(const plan_gpu_row *row) {
    return row->knobs.router > PLAN_GPU_FEW;
}
/* Does a launch of the row wait for the router's choice alone, before the router ends? */
static inline bool plan_gpu_early(const plan_gpu_row *row) {
    return row->knobs.one || row->knobs.told == 2;
}
/* Can the rows for lo..hi tokens run? Errors: RANGE (a switch gives what cannot, named), UNSUPPORTED (a shape that
 * these kernels have no room for). */
cadre_err plan_gpu_check(const plan_gpu *p, int lo, int hi, cadre_fail *why);
/* The kernel that runs a row: "router_bf16_sm90", "router_many_bf16_sm90", "one_bf16_sm90", "experts_bf16_sm90",
 * "prefill_bf16_sm90". */
const char *plan_gpu_kernel(const plan_gpu_row *row);
/* "mma tokens=8 warps=8 up=6 down=8 kc=128 stages=6 ahead=64 told=0", "wgmma widths=64,96 room=168", "one ahead=48". */
void plan_gpu_text(const plan_gpu_knobs *knobs, char *text, size_t size);
/* The same of what the row shadows, "" if nothing. */
void plan_gpu_shadows(const plan_gpu_row *row, char *text, size_t size);

/* Switches: i-th knob's name, range, and its override or PLAN_GPU_POLICY. */
bool plan_gpu_switch(int i, switch_def *def, long *value);
/* "gpu.stages=5": true if the name before '=' is gpu.something; *err: set, or RANGE. */
bool plan_gpu_set(const char *assignment, cadre_err *err, cadre_fail *why);
#endif
