/* lint_device.c: what a device's name tells: its platform, and the on-chip memory one block may have. */
#include "plan/lint.h"

#include <stdio.h>
#include <string.h>

typedef struct device {
    const char *part; /* of the name, blanks as underscores; the first that fits counts */
    size_t smem;
    const char *source;
} device;
/* Bytes that one block may ask for. 227 KiB, 163 KiB and 99 KiB are the limits per block of compute capability 9.0 and
 * 10.0, 8.0, and 8.6, 8.9 and 12.0: a few KiB below what the multiprocessor has. */
static const char cuda_guide[] = "CUDA programming guide, limits per compute capability";
static const char amd_guide[] = "AMD instruction set guide: LDS of one workgroup";
static const device devices[] = {
    {"H100", 232448, cuda_guide},         {"H200", 232448, cuda_guide},
    {"H800", 232448, cuda_guide},         {"H20", 232448, cuda_guide},
    {"B200", 232448, cuda_guide},         {"B300", 232448, cuda_guide},
    {"A100", 166912, cuda_guide},         {"A800", 166912, cuda_guide},
    {"L40", 101376, cuda_guide},          {"L20Y", 0, NULL},
    {"L20", 101376, cuda_guide},          {"L4", 101376, cuda_guide},
    {"A10", 101376, cuda_guide},          {"RTX_4090", 101376, cuda_guide},
    {"RTX_5090", 101376, cuda_guide},     {"RTX_PRO_6000", 101376, cuda_guide},
    {"RTX_6000_Ada", 101376, cuda_guide}, {"RTX_5880_Ada", 101376, cuda_guide},
    {"RTX_2080", 65536, cuda_guide},      {"MI300", 65536, amd_guide},
    {"MI308", 65536, amd_guide},          {"MI325", 65536, amd_guide},
    {"MI350", 163840, amd_guide},         {"MI355", 163840, amd_guide},
};

size_t lint_device_smem(const char *name, const char **source) {
    char text[128];
    int n = snprintf(text, sizeof text, "%s", name);
    for (int i = 0; i < n && i < (int)sizeof text; i++)
        if (text[i] == ' ') text[i] = '_';
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        if (!strstr(text, devices[i].part)) continue;
        if (source) *source = devices[i].source;
        return devices[i].smem;
    }
    return 0;
}

int lint_platform(const char *name) {
    static const struct {
        const char *part;
        gemm_platform platform;
    } parts[] = {{"NVIDIA", GEMM_CUDA}, {"AMD", GEMM_ROCM},       {"Radeon", GEMM_ROCM},
                 {"MTT", GEMM_MUSA},    {"Iluvatar", GEMM_COREX}, {"BI-V", GEMM_COREX}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i].part)) return parts[i].platform;
    return -1;
}
