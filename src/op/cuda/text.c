/* text.c: the list of device texts and of their corners. */
#include "op/cuda/text.h"
#include <stddef.h>
#include <string.h>

#define X(symbol, name) extern const char symbol[];
OP_CUDA_TEXTS(X)
#undef X

const op_cuda_text op_cuda_texts[] = {
#define X(symbol, name) {name, symbol},
    OP_CUDA_TEXTS(X)
#undef X
        {NULL, NULL},
};

const char *op_cuda_text_get(const char *name) {
    for (const op_cuda_text *t = op_cuda_texts; t->name; t++)
        if (!strcmp(t->name, name)) return t->text;
    return NULL;
}

bool op_cuda_text_is_header(const op_cuda_text *text) {
    const char *dot = strrchr(text->name, '.');
    return dot && strcmp(dot, ".cu") != 0;
}

/* ---- corners ---- */

/* clang-format off */
#define SHAPE(d, f, e, k)      "-DD_MODEL=" #d " -DF_EXPERT=" #f " -DEXPERTS=" #e " -DCHOSEN=" #k
#define QWEN                   SHAPE(2048, 768, 128, 8) " -DACT=0"   /* Qwen3-30B-A3B */
#define NEMOTRON               SHAPE(2688, 1856, 128, 6) " -DACT=2"  /* Nemotron-3-Nano */
#define DEEPSEEK               SHAPE(2048, 1408, 64, 6) " -DACT=0"   /* DeepSeek-V2-Lite */
#define DEMO                   SHAPE(256, 64, 18, 4) " -DACT=0"
#define ODD                    SHAPE(250, 71, 33, 3)                 /* no width fits anything */
/* tokens: tiles of 8; up, down: row tiles */
#define MMA(tokens, warps, up, down, kc, stages, ahead, told, tasks)                                                          \
    " -DTOKEN_TILES=" #tokens " -DWARPS=" #warps " -DUP_TILES=" #up " -DDOWN_TILES=" #down " -DKC=" #kc                 \
    " -DSTAGES=" #stages " -DAHEAD=" #ahead " -DTOLD=" #told " -DMOST_TASKS=" #tasks
#define ONE(blocks, stages, flying) " -DBLOCKS=" #blocks " -DSTAGES=" #stages " -DFLYING=" #flying
#define WGMMA(tokens, widths, room, tasks)                                                                              \
    " -DTOKEN_TILES=" #tokens " -DWIDTHS=" #widths " -DROOM=" #room "*1024 -DMOST_TASKS=" #tasks

#define RINGS(tokens, x, w, sides)                                                                                      \
    " -DTOKEN_TILES=" #tokens " -DX_STAGES=" #x " -DW_STAGES=" #w " -DSIDES=" #sides

#define COUNT(block, warps, atomics, private)                                                                           \
    "-DBLOCK=" #block " -DWARPS=" #warps " -DATOMICS=" #atomics " -DPRIVATE=" #private

static const char sm90[] = "sm_90a", sm80[] = "sm_80", both[] = "sm_80 sm_90a";
static const char every[] = "sm_80 sm_86 sm_89 sm_90a sm_100a sm_120a";
const op_cuda_corner op_cuda_corners[] = {
    {"pack.cu", both, ""},
    {"lists.cu", both, ""},
    {"lists.cu", sm90, "-DCOPY_ENGINE=0"},
    /* what the policy takes, from one token to many */
    {"one.cu", sm90, QWEN ONE(132, 12, 4)},
    {"one.cu", sm90, DEEPSEEK ONE(132, 12, 3)},
    {"one.cu", sm90, NEMOTRON ONE(132, 8, 4)},
    {"one.cu", sm90, DEMO ONE(132, 8, 8)},
    {"experts.cu", sm90, QWEN MMA(1, 8, 6, 8, 128, 6, 48, 0, 192)},
    {"experts.cu", sm90, QWEN MMA(1, 8, 8, 8, 128, 5, 64, 2, 192)},
    {"experts.cu", sm90, QWEN MMA(1, 8, 8, 8, 128, 5, 64, 0, 192)},
    {"experts.cu", sm90, QWEN MMA(2, 8, 8, 8, 128, 5, 64, 0, 192)},
    {"experts.cu", sm90, QWEN MMA(6, 8, 16, 16, 64, 4, 64, 0, 256)},
    {"prefill.cu", sm90, QWEN WGMMA(36, 302, 168, 192)},
    {"prefill.cu", sm90, QWEN WGMMA(36, 488, 208, 384)},
    {"experts.cu", sm90, NEMOTRON MMA(1, 8, 8, 8, 128, 5, 64, 2, 192)},
    {"experts.cu", sm90, NEMOTRON MMA(2, 8, 8, 8, 128, 5, 64, 0, 192)},
    {"experts.cu", sm90, NEMOTRON MMA(6, 8, 16, 16, 64, 4, 64, 0, 256)},
    {"prefill.cu", sm90, NEMOTRON WGMMA(36, 302, 168, 192)},
    {"prefill.cu", sm90, NEMOTRON WGMMA(36, 488, 210, 320)},
    {"experts.cu", sm90, DEEPSEEK MMA(6, 8, 16, 16, 64, 4, 64, 0, 128)},
    {"prefill.cu", sm90, DEEPSEEK WGMMA(36, 302, 168, 128)},
    {"prefill.cu", sm90, DEEPSEEK WGMMA(36, 488, 209, 256)},
    {"experts.cu", sm90, DEMO MMA(1, 8, 8, 8, 128, 5, 64, 2, 64)},
    {"prefill.cu", sm90, DEMO WGMMA(36, 302, 168, 64)},
    /* without what sm_90 has over sm_80; on sm_90a too, where it can be run and compared */
    {"experts.cu", sm80, QWEN MMA(1, 8, 6, 8, 128, 4, 48, 2, 192)},
    {"experts.cu", sm80, QWEN MMA(6, 8, 16, 16, 64, 3, 64, 0, 256)},
    {"experts.cu", both, NEMOTRON " -DCOPY_ENGINE=0" MMA(2, 8, 8, 8, 128, 4, 64, 0, 192)},
    {"experts.cu", sm80, ODD " -DACT=1" MMA(12, 8, 16, 16, 64, 3, 64, 1, 320)},
    {"router.cu", both, SHAPE(2048, 768, 128, 8) " -DCOPY_ENGINE=0 -DX_F32=1"},
    {"router.cu", sm80, SHAPE(7168, 2048, 256, 8) " -DX_F32=0"},
    {"router.cu", sm80, ODD " -DX_F32=0"},
    /* ends of the knobs */
    {"one.cu", sm90, SHAPE(64, 320, 33, 3) " -DACT=2" ONE(132, 5, 1)},
    {"one.cu", sm90, SHAPE(192, 64, 33, 1) " -DACT=1" ONE(132, 8, 8)},
    {"one.cu", sm90, SHAPE(4288, 64, 6, 5) " -DACT=2" ONE(132, 6, 6)}, /* three row tiles a block */
    {"one.cu", sm90, SHAPE(2048, 4096, 8, 4) " -DACT=0" ONE(132, 6, 1)},
    {"experts.cu", sm90, ODD " -DACT=0" MMA(1, 1, 1, 1, 64, 2, 1, 2, 64)},
    {"experts.cu", sm90, DEMO MMA(1, 8, 1, 1, 128, 6, 48, 0, 64)}, /* more warps than row tiles */
    {"experts.cu", sm90, ODD " -DACT=1" MMA(2, 4, 3, 5, 256, 3, 24, 1, 64)},
    {"experts.cu", sm90, ODD " -DACT=2" MMA(4, 12, 12, 24, 64, 3, 96, 0, 64)},
    {"experts.cu", sm90, ODD " -DACT=0" MMA(12, 8, 16, 16, 64, 4, 64, 0, 320)},
    {"prefill.cu", sm90, QWEN WGMMA(4, 1, 64, 2176)},
    {"prefill.cu", sm90, QWEN WGMMA(36, 496, 208, 384)},
    {"prefill.cu", sm90, SHAPE(64, 64, 4, 32) " -DACT=1" WGMMA(28, 85, 128, 1216)},
    /* routers */
    {"router.cu", sm90, SHAPE(2048, 768, 128, 8) " -DX_F32=0"},
    {"router.cu", sm90, SHAPE(256, 64, 18, 4) " -DX_F32=1"},
    {"router.cu", sm90, ODD " -DX_F32=0"},
    {"router.cu", sm90, SHAPE(48, 40, 257, 32) " -DX_F32=1"},
    {"router_many.cu", sm90, SHAPE(2048, 768, 128, 8) " -DX_F32=0" RINGS(3, 8, 4, 2)},
    {"router_many.cu", sm90, SHAPE(2048, 768, 128, 8) " -DX_F32=0" RINGS(5, 8, 4, 2)},
    {"router_many.cu", sm90, SHAPE(2048, 768, 128, 8) " -DX_F32=1" RINGS(6, 8, 4, 2)},
    {"router_many.cu", sm90, SHAPE(2688, 1856, 128, 6) " -DX_F32=0" RINGS(6, 12, 6, 2)},
    {"router_many.cu", sm90, SHAPE(2048, 1408, 64, 6) " -DX_F32=0" RINGS(5, 8, 4, 2)},
    {"router_many.cu", sm90, SHAPE(7168, 2048, 256, 8) " -DX_F32=0" RINGS(5, 14, 4, 2)},
    {"router_many.cu", sm90, SHAPE(256, 64, 18, 4) " -DX_F32=1" RINGS(2, 2, 1, 2)},
    {"router_many.cu", sm90, ODD " -DX_F32=0" RINGS(6, 2, 1, 2)},
    {"router_many.cu", sm90, SHAPE(48, 40, 257, 32) " -DX_F32=1" RINGS(4, 2, 3, 2)},
    {"router_many.cu", sm90, SHAPE(512, 64, 1024, 8) " -DX_F32=0" RINGS(5, 1, 2, 1)},
    {"bits.cu", sm90, ""},
    /* counting: the old block and the new one, ends of the knobs */
    {"count.cu", every, COUNT(128, 4, 1, 0)},
    {"count.cu", sm90, COUNT(1024, 4, 1, 0)},
    {"count.cu", sm90, COUNT(1024, 4, 2, 0)},
    {"count.cu", sm90, COUNT(1024, 1, 1, 0)},
    {"count.cu", sm90, COUNT(64, 32, 0, 0)},
    {"count.cu", sm90, COUNT(256, 4, 0, 1)},
    {"count.cu", sm90, COUNT(512, 8, 1, 1)},
    {"count.cu", sm90, COUNT(1024, 32, 2, 1)},
    {NULL, NULL, NULL},
};
/* clang-format on */
