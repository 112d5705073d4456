/* wgmma.cuh: 64 rows x N tokens x 16 inputs by four warps, asynchronous: the packed tile of each warp from registers, the
 * tokens [N][64] bf16 in shared memory, rows of 128 bytes, swizzled. The sums of a warp lie as those of mma: for each 8
 * tokens four registers. more: added to c; 0: c begins.
 */
/* The descriptor of the tokens: start, rows of 128 bytes in groups of 8 (1024 bytes), 128-byte swizzle. On 1024 bytes. */
DEVICE u64 wgmma_matrix(u32 address) {
    return (u64)((address & 0x3ffffu) >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}
DEVICE void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
DEVICE void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int LEFT> DEVICE void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
template <int N> DEVICE_METHOD void wgmma(float *c, uint4 tile, u64 tokens, int more);
/* An instruction's operands are written out: four sums at a time, as the text names them and as it is given them. */
#define FOUR(i) "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3])
#define NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define NAMES_24 NAMES_16 ",%8,%9,%10,%11"
#define NAMES_32 NAMES_24 ",%12,%13,%14,%15"
#define NAMES_40 NAMES_32 ",%16,%17,%18,%19"
#define NAMES_48 NAMES_40 ",%20,%21,%22,%23"
#define NAMES_64 NAMES_48 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define NAMES_96 NAMES_64 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define NAMES_128 NAMES_96 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define NAMES_160 NAMES_128 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define SUMS_16 FOUR(0), FOUR(4)
#define SUMS_24 SUMS_16, FOUR(8)
#define SUMS_32 SUMS_24, FOUR(12)
#define SUMS_40 SUMS_32, FOUR(16)
#define SUMS_48 SUMS_40, FOUR(20)
#define SUMS_64 SUMS_48, FOUR(24), FOUR(28)
#define SUMS_96 SUMS_64, FOUR(32), FOUR(36), FOUR(40), FOUR(44)
#define SUMS_128 SUMS_96, FOUR(48), FOUR(52), FOUR(56), FOUR(60)
#define SUMS_160 SUMS_128, FOUR(64), FOUR(68), FOUR(72), FOUR(76)
/* The numbers behind the sums: the tile's registers, the tokens, more. */
#define WGMMA(n, r0, r1, r2, r3, where, add)                                                                                 \
    template <> DEVICE_METHOD void wgmma<n>(float *c, uint4 tile, u64 tokens, int more) {                                    \
        asm volatile("{\n.reg .pred add;\nsetp.ne.s32 add, %" #add ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" NAMES_##n                                  \
                     "}, {%" #r0 ",%" #r1 ",%" #r2 ",%" #r3 "}, %" #where ", add, 1, 1, 0;\n}"                              \
                     : SUMS_##n                                                                                              \
                     : "r"(tile.x), "r"(tile.y), "r"(tile.z), "r"(tile.w), "l"(tokens), "r"(more));                          \
    }
WGMMA(16, 8, 9, 10, 11, 12, 13)
WGMMA(24, 12, 13, 14, 15, 16, 17)
WGMMA(32, 16, 17, 18, 19, 20, 21)
WGMMA(40, 20, 21, 22, 23, 24, 25)
WGMMA(48, 24, 25, 26, 27, 28, 29)
WGMMA(64, 32, 33, 34, 35, 36, 37)
WGMMA(96, 48, 49, 50, 51, 52, 53)
WGMMA(128, 64, 65, 66, 67, 68, 69)
WGMMA(160, 80, 81, 82, 83, 84, 85)
