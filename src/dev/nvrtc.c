/* nvrtc.c: opens NVRTC once, compiles with it, and finds the line of its log that matters. */
#include "dev/nvrtc.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const symbols[] = {
#define X(result, name, args) #name,
    NVRTC_CALLS(X)
#undef X
};
enum { CALLS = sizeof symbols / sizeof *symbols };
_Static_assert(sizeof(library_fn *) * CALLS == offsetof(nvrtc, version), "one pointer per call, without gaps");

/* ---- opening ---- */

enum { MOST = 8 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char asked[SWITCH_TEXT_MAX];
    nvrtc rtc;
} known[MOST];
static int known_count;

static cadre_err load(const char *path, nvrtc *rtc, cadre_fail *why) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so", NULL};
    library_fn *table[CALLS];
    void *handle;
    int major = 0, minor = 0;
    cadre_fail inner = {0};
    cadre_err err = library_open(path, names, &handle, rtc->path, &inner);
    if (err)
        return cadre_fail_set(why, err, "no NVRTC, the compiler of GPU kernels: %.250s%s", inner.text,
                              *path ? "" : "; switch nvrtc=PATH says where it lies");
    err = library_bind(handle, symbols, CALLS, table, &inner);
    if (err)
        return cadre_fail_set(why, err, "%.300s does not fit, NVRTC 12.0 or newer is needed: %.100s", rtc->path,
                              inner.text);
    memcpy(rtc, table, sizeof table);
    int code = rtc->nvrtcVersion(&major, &minor);
    if (code)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "nvrtcVersion: %.200s (%d)", rtc->nvrtcGetErrorString(code),
                              code);
    rtc->version = major * 1000 + minor * 10;
    return CADRE_OK;
}

/* NVRTC opens its built-in functions by name alone, which the loader finds only on its own paths. */
static void open_builtins(const nvrtc *rtc) {
    char name[64];
    snprintf(name, sizeof name, "libnvrtc-builtins.so.%d.%d", rtc->version / 1000, rtc->version / 10 % 100);
    library_preload(rtc->path, name);
}

static cadre_err open_locked(const char *asked, const nvrtc **out, cadre_fail *why) {
    for (int i = 0; i < known_count; i++)
        if (!strcmp(known[i].asked, asked)) {
            *out = &known[i].rtc;
            return CADRE_OK;
        }
    if (known_count == MOST) return cadre_fail_set(why, CADRE_RANGE, "more than %d NVRTC libraries", MOST);
    nvrtc *rtc = &known[known_count].rtc;
    cadre_err err = load(asked, rtc, why);
    if (err) return err;
    open_builtins(rtc);
    snprintf(known[known_count++].asked, sizeof known[0].asked, "%s", asked);
    *out = rtc;
    return CADRE_OK;
}

cadre_err nvrtc_open(const nvrtc **out, cadre_fail *why) {
    pthread_mutex_lock(&lock);
    cadre_err err = open_locked(switch_text(SWITCH_NVRTC), out, why);
    pthread_mutex_unlock(&lock);
    return err;
}

cadre_err nvrtc_knows(const nvrtc *rtc, const char *arch, cadre_fail *why) {
    enum { ARCHS = 256 };
    int archs[ARCHS], count = 0, asked = 0;
    sscanf(arch, "sm_%d", &asked);
    if (!rtc->nvrtcGetNumSupportedArchs(&count) && count <= ARCHS && !rtc->nvrtcGetSupportedArchs(archs))
        for (int i = 0; i < count; i++)
            if (archs[i] == asked) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED, "NVRTC %d.%d (%.300s) does not compile for %s", rtc->version / 1000,
                          rtc->version / 10 % 100, rtc->path, arch);
}

/* ---- what is always asked for ---- */

/* docs/numerics.md: a fused multiply-add is one that the text asks for; denormals are zero. */
static const char *const always[] = {"--std=c++17", "--fmad=false", "--ftz=true",
                                     "--diag-suppress=177"}; /* what a text includes and does not use */
enum { ALWAYS = sizeof always / sizeof *always };

static void add_text(sha256 *s, const char *text) {
    sha256_add(s, text, strlen(text) + 1); /* with its end: no two lists of texts are one stream */
}

void nvrtc_key(const nvrtc *rtc, const dev_cuda_source *source, const char *arch, const char *const *options, int count,
               char hex[65]) {
    sha256 s;
    char numbers[64];
    sha256_init(&s);
    snprintf(numbers, sizeof numbers, "%d %d %d %d", rtc->version, ALWAYS, count, source->header_count);
    add_text(&s, numbers);
    add_text(&s, arch);
    for (int i = 0; i < ALWAYS; i++) add_text(&s, always[i]);
    for (int i = 0; i < count; i++) add_text(&s, options[i]);
    for (int i = -1; i < source->header_count; i++) {
        const dev_cuda_text *t = i < 0 ? &source->main : &source->headers[i];
        add_text(&s, t->name);
        add_text(&s, t->text);
    }
    sha256_hex(&s, hex);
}

/* ---- compiling ---- */

typedef struct compiling {
    const nvrtc *rtc;
    void *program;
    const char *name;
    cadre_fail *why;
} compiling;

static cadre_err check(const compiling *c, const char *call, int code) {
    if (!code) return CADRE_OK;
    return cadre_fail_set(c->why, code == 1 ? CADRE_NOMEM : CADRE_COMPILE, "%s(%.60s): %.200s (%d)", call, c->name,
                          c->rtc->nvrtcGetErrorString(code), code);
}

static cadre_err create(compiling *c, const dev_cuda_source *source) {
    int n = source->header_count;
    const char **texts = mem_new_array((size_t)n * 2 + 1, sizeof *texts);
    if (!texts) return cadre_fail_set(c->why, CADRE_NOMEM, "out of memory to compile %.60s", c->name);
    for (int i = 0; i < n; i++) {
        texts[i] = source->headers[i].text;
        texts[n + i] = source->headers[i].name;
    }
    cadre_err err = check(c, "nvrtcCreateProgram",
                          c->rtc->nvrtcCreateProgram(&c->program, source->main.text, c->name, n, texts, texts + n));
    mem_free(texts);
    return err;
}

static int build(const compiling *c, const char *arch, const char *const *options, int count) {
    char target[64];
    const char **all = mem_new_array((size_t)count + ALWAYS + 1, sizeof *all);
    if (!all) return 1; /* NVRTC's own out of memory */
    snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
    all[0] = target;
    memcpy(all + 1, always, sizeof always);
    if (count) memcpy(all + 1 + ALWAYS, options, (size_t)count * sizeof *all);
    int code = c->rtc->nvrtcCompileProgram(c->program, count + ALWAYS + 1, all);
    mem_free(all);
    return code;
}

static cadre_err get_log(const compiling *c, char **log) {
    size_t size = 0;
    cadre_err err = check(c, "nvrtcGetProgramLogSize", c->rtc->nvrtcGetProgramLogSize(c->program, &size));
    char *text = err ? NULL : mem_new(size + 1);
    if (!err && !text) err = cadre_fail_set(c->why, CADRE_NOMEM, "out of memory for the log of %.60s", c->name);
    if (!err && size) err = check(c, "nvrtcGetProgramLog", c->rtc->nvrtcGetProgramLog(c->program, text));
    if (err)
        mem_free(text);
    else
        *log = text;
    return err;
}

static cadre_err get_binary(const compiling *c, nvrtc_binary *out) {
    size_t size = 0;
    cadre_err err = check(c, "nvrtcGetCUBINSize", c->rtc->nvrtcGetCUBINSize(c->program, &size));
    void *data = err ? NULL : mem_new(size + 1);
    if (!err && !data) err = cadre_fail_set(c->why, CADRE_NOMEM, "out of memory for the binary of %.60s", c->name);
    if (!err) err = check(c, "nvrtcGetCUBIN", c->rtc->nvrtcGetCUBIN(c->program, data));
    if (err)
        mem_free(data);
    else
        out->data = data, out->size = size;
    return err;
}

/* The first line of the log that speaks of an error, else its first line. */
static cadre_err failed(const compiling *c, int code, const char *log) {
    const char *line = log;
    for (const char *p = log; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        const char *found = strstr(p, "error");
        if (!found || found > p + strcspn(p, "\n")) continue;
        line = p;
        break;
    }
    int len = (int)strcspn(line, "\n");
    if (!len) return check(c, "nvrtcCompileProgram", code);
    bool named = !strncmp(line, c->name, strlen(c->name));
    return cadre_fail_set(c->why, CADRE_COMPILE, "%s%s%.*s", named ? "" : c->name, named ? "" : ": ",
                          len > 400 ? 400 : len, line);
}

cadre_err nvrtc_compile(const nvrtc *rtc, const dev_cuda_source *source, const char *arch, const char *const *options,
                        int count, nvrtc_binary *out, cadre_fail *why) {
    compiling c = {rtc, NULL, source->main.name, why};
    *out = (nvrtc_binary){0};
    cadre_err err = nvrtc_knows(rtc, arch, why);
    if (!err) err = create(&c, source);
    if (err) return err;
    int code = build(&c, arch, options, count);
    err = get_log(&c, &out->log);
    if (!err && code) err = failed(&c, code, out->log);
    if (!err) err = get_binary(&c, out);
    rtc->nvrtcDestroyProgram(&c.program);
    return err;
}

void nvrtc_done(nvrtc_binary *binary) {
    mem_free(binary->data);
    mem_free(binary->log);
    *binary = (nvrtc_binary){0};
}
