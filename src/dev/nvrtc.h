/* nvrtc.h: NVIDIA's run-time compiler, opened at run time: a text becomes a binary for one GPU architecture. Works
 * without a GPU and without a driver. Private to dev. */
#ifndef CADRE_DEV_NVRTC_H
#define CADRE_DEV_NVRTC_H
#include "dev/cuda.h"
#include "dev/library.h"

typedef const char *const nvrtc_text;

/* X(result, name, arguments) */
#define NVRTC_CALLS(X)                                                                                                \
    X(int, nvrtcVersion, (int *major, int *minor))                                                                    \
    X(const char *, nvrtcGetErrorString, (int code))                                                                  \
    X(int, nvrtcGetNumSupportedArchs, (int *count))                                                                   \
    X(int, nvrtcGetSupportedArchs, (int *archs))                                                                      \
    X(int, nvrtcCreateProgram,                                                                                        \
      (void **program, const char *text, const char *name, int headers, nvrtc_text *header, nvrtc_text *header_name)) \
    X(int, nvrtcCompileProgram, (void *program, int count, nvrtc_text *options))                                      \
    X(int, nvrtcGetProgramLogSize, (void *program, size_t *size))                                                     \
    X(int, nvrtcGetProgramLog, (void *program, char *log))                                                            \
    X(int, nvrtcGetCUBINSize, (void *program, size_t *size))                                                          \
    X(int, nvrtcGetCUBIN, (void *program, char *binary))                                                              \
    X(int, nvrtcDestroyProgram, (void **program))

typedef struct nvrtc {
#define X(result, name, args) result(*name) args;
    NVRTC_CALLS(X)
#undef X
    int version; /* 13000 is 13.0 */
    char path[LIBRARY_PATH];
} nvrtc;

/* The library of switch nvrtc, else libnvrtc.so.13, .12 or .so, else the usual folder of a CUDA toolkit; opened once
 * and kept. UNSUPPORTED: there is none, or one that is too old. */
cadre_err nvrtc_open(const nvrtc **out, cadre_fail *why);

/* Does it compile for "sm_90a"? UNSUPPORTED if not. */
cadre_err nvrtc_knows(const nvrtc *rtc, const char *arch, cadre_fail *why);

typedef struct nvrtc_binary {
    void *data; /* mem_free */
    size_t size;
    char *log; /* what the compiler said, terminated; mem_free */
} nvrtc_binary;
/* Compiles for `arch` with the options and those that cuda.h says are always there. COMPILE: the first error of the
 * log. out->log may be set in that case too; nvrtc_done frees what there is. */
cadre_err nvrtc_compile(const nvrtc *rtc, const dev_cuda_source *source, const char *arch, const char *const *options,
                        int count, nvrtc_binary *out, cadre_fail *why);
void nvrtc_done(nvrtc_binary *binary);

/* The SHA-256 of everything that decides what nvrtc_compile makes. */
void nvrtc_key(const nvrtc *rtc, const dev_cuda_source *source, const char *arch, const char *const *options, int count,
               char hex[65]);
#endif
