/* instructions.cuh: the names of src/op/cuda/instructions.cuh that one.cu needs, over emulate.h. */

DEVICE u32 to_bf16x2(float lo, float hi) {
    u32 bits[2] = {__float_as_uint(lo), __float_as_uint(hi)};
    for (u32 &v : bits) v = (v & 0x7fffffffu) > 0x7f800000u ? 0x7fff : (v + 0x7fff + (v >> 16 & 1)) >> 16;
    return bits[0] | bits[1] << 16;
}
DEVICE float divide_plain(float a, float b) {
    return a / b;
}

DEVICE u32 shared_address(const void *p) {
    return (u32)((const u8 *)p - emulate_memory[0]);
}
DEVICE uint4 load_shared16(u32 address) {
    return *(const uint4 *)emulate_shared(address);
}
/* As PTX has the fragments of m16n8k16: lane 4 g + q has of a the rows g and g + 8, of b the token g, of both the inputs 2 q,
 * 2 q + 1 and those plus 8; of c the rows g and g + 8 and the tokens 2 q and 2 q + 1. The sum of a step is in double, from c on. */
struct fragment {
    u32 a[4], b[2];
};
DEVICE double half_of(u32 pair, int i) {
    return (double)__uint_as_float(i ? pair & 0xffff0000u : pair << 16);
}
DEVICE float mma_sum(float c, const u8 *items, int row, int token) {
    double sum = c;
    for (int k = 0; k < 16; k++) {
        int q = k % 8 / 2, high = k / 8;
        const fragment *a = (const fragment *)(items + (row % 8 * 4 + q) * EMULATE_ITEM);
        const fragment *b = (const fragment *)(items + (token * 4 + q) * EMULATE_ITEM);
        sum += half_of(a->a[high * 2 + row / 8], k % 2) * half_of(b->b[high], k % 2);
    }
    return (float)sum;
}
DEVICE void mma(float *c, uint4 a, u32 b0, u32 b1) {
    fragment mine = {{a.x, a.y, a.z, a.w}, {b0, b1}};
    const u8 *items = emulate_meet("mma", &mine, sizeof mine);
    int lane = (int)threadIdx.x % 32, g = lane / 4, q = lane % 4;
    for (int i = 0; i < 4; i++) c[i] = mma_sum(c[i], items, g + i / 2 * 8, 2 * q + i % 2);
}

DEVICE u64 policy_evict_first() {
    return 0;
}
/* What other blocks write while it is read: in two halves, and between them they go on. */
DEVICE uint4 load_relaxed16(const void *p) {
    const volatile u32 *from = (const volatile u32 *)p;
    uint4 v;
    emulate_wait("what others write");
    v.x = from[0], v.y = from[1];
    emulate_wait("what others write");
    v.z = from[2], v.w = from[3];
    return v;
}
DEVICE int load_relaxed(const int *p) {
    emulate_wait("what others write");
    return *(const volatile int *)p;
}
DEVICE void store_relaxed(void *p, u32 v) {
    *(u32 *)p = v;
    emulate_told();
}
DEVICE void arrive_warps(int id, int threads) {
    emulate_arrive(id, threads);
}
DEVICE void sync_warps(int id, int threads) {
    emulate_sync(id, threads);
}
DEVICE void grid_wait() {
    emulate_wait_before();
}
DEVICE void grid_launch_next() {}

DEVICE void copy16_hint(u32 to, const void *from, u64) {
    emulate_copy16(to, from);
}
DEVICE void copies_end() {
    emulate_copies_end();
}
template <int LEFT> DEVICE void copies_wait() {
    emulate_copies_wait(LEFT);
}
