/* router_parts.cuh: what both router texts share: a token's inputs, and the choice of one token by a warp, lane j having the
 * experts j, j + 32, ... in registers. Included after D_MODEL, EXPERTS, CHOSEN and X_F32 are there.
 */
#define QUADS ((D_MODEL + 31) / 32)  /* of 32 inputs */
#define EACH  ((QUADS + 7) / 8)      /* of one eighth */
#define OWN   ((EXPERTS + 31) / 32)  /* experts of a lane */
#define TILES ((EXPERTS + 15) / 16)
#define LINE  (TILES * 16) /* an eighth's sums of a token, in floats */

#if COPY_ENGINE
#    define SOON 16384 /* bytes a copy */
/* By one thread of each block. */
DEVICE void fetch_soon(const router_args &a) {
    for (int i = (int)blockIdx.x; i < a.soon_kb / (SOON / 1024); i += (int)gridDim.x) bulk_prefetch((const u8 *)a.soon + (size_t)i * SOON, SOON);
}
#endif

#define INFINITE __int_as_float(0x7f800000)
DEVICE float no_nan(float v) {
    return v == v ? v : -INFINITE;
}

/* ---- activations ---- */
/* Inputs i .. i + 7 of a token as bf16. */
DEVICE uint4 load_x(const router_args &a, int token, int i) {
    if (token >= a.n || i >= D_MODEL) return make_uint4(0, 0, 0, 0);
    size_t at = (size_t)token * a.ldx + i;
#if D_MODEL % 8
    u32 w[8];
    for (int j = 0; j < 8; j++) {
        w[j] = 0;
        if (i + j < D_MODEL) w[j] = X_F32 ? to_bf16(((const float *)a.x)[at + j]) : ((const bf16 *)a.x)[at + j];
    }
    return make_uint4(w[0] | w[1] << 16, w[2] | w[3] << 16, w[4] | w[5] << 16, w[6] | w[7] << 16);
#elif X_F32
    const float4 *x = (const float4 *)((const float *)a.x + at);
    return to_bf16x8(x[0], x[1]);
#else
    return *(const uint4 *)((const bf16 *)a.x + at);
#endif
}

/* ---- sums of eighths ---- */
#if COPY_ENGINE
/* To shared memory of a block of the cluster; its barrier there counts the bytes. */
DEVICE void store_peer(u32 to, u32 barrier, float a, float b) {
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1, %2}, [%3];" ::"r"(to), "f"(a), "f"(b), "r"(barrier) : "memory");
}
#endif
/* Where expert e's sum is in a line: rows g and g + 8 of a tile are neighbours. */
DEVICE int line_place(int e) {
    return (e & ~15) + (e & 7) * 2 + (e >> 3 & 1);
}
/* Logits of the experts lane, lane + 32, ... */
DEVICE void add_sums(const float *mine, float *logit, int lane) {
    float part[OWN][8];
#pragma unroll
    for (int i = 0; i < OWN; i++)
#pragma unroll
        for (int r = 0; r < 8; r++)
            if (lane + 32 * i < EXPERTS) part[i][r] = mine[r * LINE + line_place(lane + 32 * i)];
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        logit[i] = part[i][0];
#pragma unroll
        for (int r = 1; r < 8; r++) logit[i] = __fadd_rn(logit[i], part[i][r]);
    }
}

/* ---- one token by a warp ---- */
DEVICE float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v = __fadd_rn(v, __shfl_xor_sync(~0u, v, d));
    return v;
}
/* Order of floats as order of numbers; both zeros are one. */
DEVICE u32 order_key(float v) {
    u32 u = __float_as_uint(v + 0.0f);
    return u ^ (u >> 31 ? 0xffffffffu : 0x80000000u);
}
DEVICE float from_order(u32 key) {
    return __uint_as_float(key >> 31 ? key ^ 0x80000000u : ~key);
}

/* score[i]: what expert lane + 32 i weighs, before it is divided by the sum, which is returned: of each lane's experts in
 * order, then of the lanes by a tree; of a sigmoid 1. */
DEVICE float score(const router_args &a, const float *logit, float *score, int lane) {
    u32 key = 0;
    float all = 0.0f;
    if (a.sigmoid) {
#pragma unroll
        for (int i = 0; i < OWN; i++) score[i] = sigmoid_id(no_nan(logit[i]));
        return 1.0f;
    }
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (lane + 32 * i < EXPERTS) key = max(key, order_key(no_nan(logit[i])));
    float top = from_order(__reduce_max_sync(~0u, key));
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        float v = no_nan(logit[i]), e = exp_id(__fsub_rn(v, top));
        score[i] = v == top ? 1.0f : e;
    }
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (lane + 32 * i < EXPERTS) all = __fadd_rn(all, score[i]);
    return warp_sum(all);
}
/* choice[i]: what expert lane + 32 i is chosen by. */
DEVICE void weigh_choice(const router_args &a, const float *logit, const float *score, float sum, float *choice, int lane) {
    if (a.bias) {
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            int e = lane + 32 * i;
            choice[i] = e < EXPERTS ? __fadd_rn(__fdiv_rn(score[i], sum), a.bias[e]) : 0.0f;
        }
    } else {
#pragma unroll
        for (int i = 0; i < OWN; i++) choice[i] = score[i];
    }
#pragma unroll
    for (int i = 0; i < OWN; i++) choice[i] = logit[i] == logit[i] ? no_nan(choice[i]) : -INFINITE;
}

/* Experts of groups that are not kept go behind all others, by id. */
DEVICE void keep_groups(const router_args &a, const float *choice, u32 *key, float *scratch, int lane) {
    float *group = scratch + EXPERTS;
    int size = EXPERTS / a.groups;
#pragma unroll
    for (int i = 0; i < OWN; i++)
        if (lane + 32 * i < EXPERTS) scratch[lane + 32 * i] = choice[i];
    __syncwarp();
    for (int j = lane; j < a.groups; j += 32) {
        float first = -INFINITE, second = -INFINITE;
        for (int i = 0; i < size; i++) {
            float c = scratch[j * size + i];
            if (c > first)
                second = first, first = c;
            else if (c > second)
                second = c;
        }
        group[j] = !a.bias || size == 1 ? first : no_nan(__fadd_rn(first, second));
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        int e = lane + 32 * i, mine = e / size, better = 0;
        if (e >= EXPERTS) continue;
        for (int j = 0; j < a.groups; j++) better += group[j] > group[mine] || (group[j] == group[mine] && j < mine);
        if (better >= a.topk_groups) key[i] = 1;
    }
}

/* Lane s gets the s-th best expert: largest key, then lowest id. slot: [CHOSEN] in shared memory. */
DEVICE int choose(u32 *key, int *slot, int lane) {
    int id = 0;
#if OWN <= 8 /* each lane's experts in order, so that only their first ones are compared; unless two of those are equal */
    u32 head[OWN], equal = 0;
    int own[OWN];
#pragma unroll
    for (int i = 0; i < OWN; i++) head[i] = key[i], own[i] = lane + 32 * i;
#pragma unroll
    for (int last = OWN - 1; last > 0; last--)
#pragma unroll
        for (int i = 0; i < last; i++) {
            bool swap = head[i + 1] > head[i];
            u32 high = max(head[i], head[i + 1]), low = min(head[i], head[i + 1]);
            int first = swap ? own[i + 1] : own[i], second = swap ? own[i] : own[i + 1];
            head[i] = high, head[i + 1] = low, own[i] = first, own[i + 1] = second;
        }
#pragma unroll 2 /* not more: code that runs once is slow to fetch */
    for (int s = 0; s < CHOSEN; s++) {
        bool mine = head[0] == __reduce_max_sync(~0u, head[0]);
        u32 who = __ballot_sync(~0u, mine);
        equal |= who & (who - 1);
        if (mine) slot[s] = own[0];
#pragma unroll
        for (int i = 0; i < OWN - 1; i++) head[i] = mine ? head[i + 1] : head[i], own[i] = mine ? own[i + 1] : own[i];
        if (mine) head[OWN - 1] = 0;
    }
    __syncwarp();
    if (!equal) return slot[min(lane, CHOSEN - 1)];
#endif
#pragma unroll 1
    for (int s = 0; s < CHOSEN; s++) {
        u32 best = 0, at = ~0u;
#pragma unroll
        for (int i = 0; i < OWN; i++) best = max(best, key[i]);
        best = __reduce_max_sync(~0u, best);
#pragma unroll
        for (int i = OWN - 1; i >= 0; i--)
            if (key[i] == best) at = (u32)(lane + 32 * i);
        at = __reduce_min_sync(~0u, at);
#pragma unroll
        for (int i = 0; i < OWN; i++)
            if (at == (u32)(lane + 32 * i)) key[i] = 0;
        if (lane == s) id = (int)at;
    }
    return id;
}
/* v[] of expert `id`, wherever it is; each lane its own id. */
DEVICE float value_of(const float *v, int id) {
    float got = 0.0f;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
        float x = __shfl_sync(~0u, v[i], id & 31);
        if (id >> 5 == i) got = x;
    }
    return got;
}

/* Which of the two lists of ids this launch fills. */
DEVICE int side_of(const router_args &a) {
    return a.told[0] ? *(volatile const int *)a.state & 1 : 0;
}
/* Where the experts look for them; all ones would be nothing. */
DEVICE void tell_id(const router_args &a, int pair, int side, int id) {
    if (a.told[0]) store_relaxed((side ? a.told[1] : a.told[0]) + pair, (u32)(id < 0 ? -2 : id));
}
/* A token that does not count. */
DEVICE void no_choice(const router_args &a, int token, int side, int lane) {
    if (lane >= CHOSEN) return;
    a.ids[token * CHOSEN + lane] = -1;
    tell_id(a, token * CHOSEN + lane, side, -1);
}

/* Lane s has the s-th slot's expert: the one that was chosen, and the one it goes to. Returns the latter, -1: no slot. */
DEVICE int weigh(const router_args &a, int token, int id, float score, float all, int lane) {
    float weight = __fdiv_rn(score, all), sum = 0.0f;
    if (a.renormalize) {
        for (int j = 0; j < CHOSEN; j++) sum = __fadd_rn(sum, __shfl_sync(~0u, weight, j));
        if (a.sigmoid) sum = __fadd_rn(sum, 1e-20f);
        if (sum > 0.0f) weight = __fdiv_rn(weight, sum);
    }
    if (a.scale != 1.0f) weight = __fmul_rn(weight, a.scale);
    if (lane >= CHOSEN) return -1;
    a.ids[token * CHOSEN + lane] = id;
    a.weights[token * CHOSEN + lane] = weight;
    return id;
}

/* Returns the expert of slot `lane`, -1: there is none. scratch: [EXPERTS * 2] in shared memory. */
DEVICE int route(const router_args &a, const float *logit, float *scratch, int token, int side, int lane) {
    float scores[OWN], choice[OWN], all = score(a, logit, scores, lane);
    int forced = a.forced && lane < CHOSEN ? a.forced[token * CHOSEN + lane] : 0;
    u32 key[OWN];
    if (a.logits) {
#pragma unroll
        for (int i = 0; i < OWN; i++)
            if (lane + 32 * i < EXPERTS) a.logits[(size_t)token * EXPERTS + lane + 32 * i] = logit[i];
    }
    weigh_choice(a, logit, scores, all, choice, lane);
#pragma unroll
    for (int i = 0; i < OWN; i++) key[i] = lane + 32 * i < EXPERTS ? order_key(choice[i]) : 0;
    if (a.groups > 1 && a.topk_groups < a.groups) keep_groups(a, choice, key, scratch, lane);
    int chosen = choose(key, (int *)scratch, lane), id = a.forced ? forced : chosen;
    if (lane < CHOSEN) tell_id(a, token * CHOSEN + lane, side, id);
    return weigh(a, token, id, value_of(scores, chosen), all, lane);
}
