/* nvrtc.c: a stand-in for NVRTC: the binary of a text is "FAKE" and the text itself. */
#include "dev/nvrtc.h"
#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(result, name, args) result fake_##name args __asm__(#name);
NVRTC_CALLS(X)
#undef X

#define GO(name)                     \
    do {                             \
        int code_ = fake_call(name); \
        if (code_) return code_;     \
    } while (0)

int fake_nvrtcVersion(int *major, int *minor) {
    GO("nvrtcVersion");
    *major = fake.nvrtc / 1000;
    *minor = fake.nvrtc / 10 % 100;
    return 0;
}
const char *fake_nvrtcGetErrorString(int code) {
    return code == 6 ? "NVRTC_ERROR_COMPILATION" : code == 1 ? "NVRTC_ERROR_OUT_OF_MEMORY" : "NVRTC_ERROR";
}
int fake_nvrtcGetNumSupportedArchs(int *count) {
    GO("nvrtcGetNumSupportedArchs");
    *count = 2;
    return 0;
}
int fake_nvrtcGetSupportedArchs(int *archs) {
    GO("nvrtcGetSupportedArchs");
    archs[0] = 80;
    archs[1] = 90;
    return 0;
}
int fake_nvrtcCreateProgram(void **program, const char *text, const char *name, int headers, nvrtc_text *header,
                            nvrtc_text *header_name) {
    (void)name, (void)headers, (void)header, (void)header_name;
    GO("nvrtcCreateProgram");
    size_t len = strlen(text);
    char *made = malloc(len + 5);
    if (!made) return 1;
    memcpy(made, "FAKE", 4);
    memcpy(made + 4, text, len + 1);
    *program = made;
    fake.programs++;
    return 0;
}
int fake_nvrtcCompileProgram(void *program, int count, nvrtc_text *options) {
    (void)program;
    fake.options[0] = 0;
    for (int i = 0; i < count; i++) {
        size_t n = strlen(fake.options);
        snprintf(fake.options + n, sizeof fake.options - n, "%s%s", i ? " " : "", options[i]);
    }
    GO("nvrtcCompileProgram");
    fake.compilations++;
    return 0;
}
int fake_nvrtcGetProgramLogSize(void *program, size_t *size) {
    (void)program;
    GO("nvrtcGetProgramLogSize");
    *size = fake.log ? strlen(fake.log) + 1 : 1;
    return 0;
}
int fake_nvrtcGetProgramLog(void *program, char *log) {
    (void)program;
    GO("nvrtcGetProgramLog");
    strcpy(log, fake.log ? fake.log : "");
    return 0;
}
int fake_nvrtcGetCUBINSize(void *program, size_t *size) {
    GO("nvrtcGetCUBINSize");
    *size = strlen(program) + 1;
    return 0;
}
int fake_nvrtcGetCUBIN(void *program, char *binary) {
    GO("nvrtcGetCUBIN");
    strcpy(binary, program);
    return 0;
}
int fake_nvrtcDestroyProgram(void **program) {
    free(*program);
    *program = NULL;
    fake.programs--;
    GO("nvrtcDestroyProgram");
    return 0;
}
