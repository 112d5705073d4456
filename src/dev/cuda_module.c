/* cuda_module.c: from a text to a running kernel: cache, compiler, module, launch. */
#include "dev/cache.h"
#include "dev/cuda.h"
#include "dev/cuda_gpu.h"
#include "dev/nvrtc.h"
#include <stdio.h>
#include <string.h>

struct dev_cuda_module {
    void *module;
    char name[64], key[65];
    int users;
    dev_cuda_module *next;
};

/* ---- modules ---- */

typedef struct wanted {
    const nvrtc *rtc;
    const dev_cuda_source *source;
    const char *const *options;
    int count;
    char key[65];
} wanted;

static cadre_err compile(dev_cuda *gpu, const wanted *w, nvrtc_binary *binary, cadre_fail *why) {
    cadre_err err = nvrtc_compile(w->rtc, w->source, gpu->traits.arch, w->options, w->count, binary, why);
    if (!err) cache_put(w->key, binary->data, binary->size);
    return err;
}

static cadre_err load(dev_cuda *gpu, const wanted *w, const void *image, void **module, cadre_fail *why) {
    char text[256];
    void *made = NULL;
    cuda_scope s = cuda_enter(gpu, why);
    s.of = w->source->main.name;
    CALL(s, cuModuleLoadData, &made, image);
    if (s.err == CADRE_COMPILE && why) { /* as a rule a compiler that is newer than the driver */
        snprintf(text, sizeof text, "%.255s", why->text);
        cadre_fail_set(why, CADRE_COMPILE, "%s, from NVRTC %d.%d for the driver's %d.%d", text, w->rtc->version / 1000,
                       w->rtc->version / 10 % 100, gpu->traits.driver / 1000, gpu->traits.driver / 10 % 100);
    }
    if (!s.err) *module = made;
    return cuda_leave(&s);
}

/* An entry that the driver refuses although its sums are right is compiled again, too. */
static cadre_err build(dev_cuda *gpu, const wanted *w, void **module, cadre_fail *why) {
    nvrtc_binary binary = {0};
    bool kept = cache_get(w->key, &binary.data, &binary.size);
    cadre_err err = kept ? CADRE_OK : compile(gpu, w, &binary, why);
    if (!err) err = load(gpu, w, binary.data, module, why);
    if (kept && err == CADRE_COMPILE) {
        nvrtc_done(&binary);
        err = compile(gpu, w, &binary, why);
        if (!err) err = load(gpu, w, binary.data, module, why);
    }
    nvrtc_done(&binary);
    return err;
}

/* One that is loaded already gets one more user. */
static dev_cuda_module *find(dev_cuda *gpu, const wanted *w) {
    for (dev_cuda_module *m = gpu->modules; m; m = m->next)
        if (!strcmp(m->key, w->key)) {
            m->users++;
            return m;
        }
    return NULL;
}

static cadre_err make(dev_cuda *gpu, const wanted *w, dev_cuda_module **out, cadre_fail *why) {
    dev_cuda_module *m = mem_new(sizeof *m);
    if (!m) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for the module of %.60s", w->source->main.name);
    snprintf(m->name, sizeof m->name, "%s", w->source->main.name);
    memcpy(m->key, w->key, sizeof m->key);
    cadre_err err = build(gpu, w, &m->module, why);
    if (err) {
        mem_free(m);
        return err;
    }
    m->users = 1;
    m->next = gpu->modules;
    gpu->modules = *out = m;
    return CADRE_OK;
}

cadre_err dev_cuda_module_new(dev_cuda *gpu, const dev_cuda_source *source, const char *const *options, int count,
                              dev_cuda_module **out, cadre_fail *why) {
    wanted w = {NULL, source, options, count, ""};
    cadre_err err = nvrtc_open(&w.rtc, why);
    if (err) return err;
    nvrtc_key(w.rtc, source, gpu->traits.arch, options, count, w.key);
    pthread_mutex_lock(&gpu->lock);
    dev_cuda_module *found = find(gpu, &w);
    if (found)
        *out = found;
    else
        err = make(gpu, &w, out, why);
    pthread_mutex_unlock(&gpu->lock);
    return err;
}

/* True: nobody uses it any more. */
static bool unlist(dev_cuda *gpu, dev_cuda_module *module) {
    pthread_mutex_lock(&gpu->lock);
    bool last = --module->users == 0;
    for (dev_cuda_module **at = &gpu->modules; last && *at; at = &(*at)->next)
        if (*at == module) {
            *at = module->next;
            break;
        }
    pthread_mutex_unlock(&gpu->lock);
    return last;
}

void dev_cuda_module_free(dev_cuda *gpu, dev_cuda_module *module) {
    if (!module || !unlist(gpu, module)) return;
    cuda_scope s = cuda_enter_free(gpu);
    CALL(s, cuModuleUnload, module->module);
    cuda_leave(&s);
    mem_free(module);
}

/* ---- kernels ---- */

static void allow_dynamic(cuda_scope *s, const dev_cuda_kernel *k, size_t dynamic) {
    size_t room = (size_t)s->gpu->traits.smem_block - (size_t)k->smem;
    if (s->err || !dynamic) return;
    if (dynamic > room) {
        s->err = cadre_fail_set(s->why, CADRE_RANGE,
                                "%s asks for %zu bytes of dynamic shared memory, a block of this GPU has %zu", k->name,
                                dynamic, room);
        return;
    }
    CALL(*s, cuFuncSetAttribute, k->function, DRIVER_DYNAMIC, (int)dynamic);
}

cadre_err dev_cuda_kernel_get(dev_cuda *gpu, const dev_cuda_module *module, const char *name, size_t dynamic,
                              dev_cuda_kernel *out, cadre_fail *why) {
    dev_cuda_kernel k = {0};
    snprintf(k.name, sizeof k.name, "%s", name);
    cuda_scope s = cuda_enter(gpu, why);
    s.of = k.name;
    CALL(s, cuModuleGetFunction, &k.function, module->module, name);
    if (s.code == 500) cadre_fail_set(why, CADRE_RANGE, "%s has no kernel %s", module->name, k.name);
    CALL(s, cuFuncGetAttribute, &k.registers, DRIVER_REGISTERS, k.function);
    CALL(s, cuFuncGetAttribute, &k.smem, DRIVER_SMEM, k.function);
    CALL(s, cuFuncGetAttribute, &k.local, DRIVER_LOCAL, k.function);
    CALL(s, cuFuncGetAttribute, &k.max_threads, DRIVER_MAX_THREADS, k.function);
    allow_dynamic(&s, &k, dynamic);
    if (!s.err) *out = k;
    return cuda_leave(&s);
}

cadre_err dev_cuda_resident(dev_cuda *gpu, const dev_cuda_kernel *kernel, int threads, size_t dynamic, int *blocks,
                            cadre_fail *why) {
    int fit = 0;
    cuda_scope s = cuda_enter(gpu, why);
    s.of = kernel->name;
    CALL(s, cuOccupancyMaxActiveBlocksPerMultiprocessor, &fit, kernel->function, threads, dynamic);
    if (!s.err) *blocks = fit;
    return cuda_leave(&s);
}

/* ---- launches ---- */

enum { ATTRIBUTES = 3 };

static unsigned attributes(const dev_cuda *gpu, const dev_cuda_launch *l, driver_attribute a[ATTRIBUTES]) {
    unsigned n = 0;
    if (l->cluster > 1) {
        a[n] = (driver_attribute){.id = DRIVER_LAUNCH_CLUSTER};
        a[n].value.cluster.x = l->cluster;
        a[n].value.cluster.y = a[n].value.cluster.z = 1;
        n++;
    }
    if (l->overlap && gpu->traits.major >= 9) {
        a[n] = (driver_attribute){.id = DRIVER_LAUNCH_OVERLAP};
        a[n++].value.on = 1;
    }
    if (l->together) {
        a[n] = (driver_attribute){.id = DRIVER_LAUNCH_COOPERATIVE};
        a[n++].value.on = 1;
    }
    return n;
}

static unsigned least_one(unsigned n) {
    return n ? n : 1;
}

static cadre_err launch_of(const dev_cuda *gpu, const dev_cuda_launch *l, driver_attribute a[ATTRIBUTES],
                           driver_launch *out, cadre_fail *why) {
    if (l->cluster > 1 && gpu->traits.major < 9)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "%s: clusters need compute capability 9.0, %s has %d.%d",
                              l->kernel->name, gpu->traits.name, gpu->traits.major, gpu->traits.minor);
    *out = (driver_launch){.grid_x = least_one(l->grid[0]),
                           .grid_y = least_one(l->grid[1]),
                           .grid_z = least_one(l->grid[2]),
                           .block_x = least_one(l->block[0]),
                           .block_y = least_one(l->block[1]),
                           .block_z = least_one(l->block[2]),
                           .dynamic = l->dynamic,
                           .stream = l->stream,
                           .attributes = a,
                           .count = attributes(gpu, l, a)};
    return CADRE_OK;
}

cadre_err dev_cuda_clusters(dev_cuda *gpu, const dev_cuda_launch *l, int *clusters, cadre_fail *why) {
    driver_attribute a[ATTRIBUTES];
    driver_launch d;
    dev_cuda_launch one = *l;
    int fit = 0;
    one.grid[0] = one.cluster;
    cadre_err err = launch_of(gpu, &one, a, &d, why);
    if (err) return err;
    cuda_scope s = cuda_enter(gpu, why);
    s.of = l->kernel->name;
    CALL(s, cuOccupancyMaxActiveClusters, &fit, l->kernel->function, &d);
    if (!s.err) *clusters = fit;
    return cuda_leave(&s);
}

cadre_err dev_cuda_run(dev_cuda *gpu, const dev_cuda_launch *l, cadre_fail *why) {
    driver_attribute a[ATTRIBUTES];
    driver_launch d;
    cadre_err err = launch_of(gpu, l, a, &d, why);
    if (err) return err;
    cuda_scope s = cuda_enter(gpu, why);
    s.of = l->kernel->name;
    CALL(s, cuLaunchKernelEx, &d, l->kernel->function, l->args, NULL);
    return cuda_leave(&s);
}
