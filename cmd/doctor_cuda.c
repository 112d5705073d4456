/* doctor_cuda.c: no GPU is no fault, so a machine without one gets a line about it, and a machine with one gets to know
 * whether kernels can be compiled and run on it. */
#include "doctor_cuda.h"
#include "say.h"
#include <math.h>

/* ---- looking ---- */

static cadre_err measure(dev_cuda *gpu, doctor_cuda *d) {
    enum { REPEATS = 5 };
    size_t all;
    d->traits = *dev_cuda_about(gpu);
    d->opened = true;
    cadre_err err = dev_cuda_memory(gpu, &d->free_bytes, &all, &d->why);
    if (err || !d->status.nvrtc) return err;
    say_progress("measuring the GPU");
    err = dev_cuda_measure(gpu, REPEATS, &d->ceiling, &d->why);
    say_progress_end();
    d->measured = !err;
    return err;
}

void doctor_cuda_look(doctor_cuda *d, dev_cuda *named, bool open) {
    dev_cuda *gpu = named;
    *d = (doctor_cuda){.ordinal = named ? dev_cuda_about(named)->ordinal : 0};
    dev_cuda_look(&d->status);
    if (!open || !d->status.devices || (!named && dev_cuda_open(0, &gpu, &d->why))) return;
    measure(gpu, d);
    if (!named) dev_cuda_close(gpu);
}

const char *doctor_cuda_no_driver(const doctor_cuda *d) {
    return !d->status.driver && *switch_text(SWITCH_CUDA) ? d->status.driver_text : NULL;
}

const char *doctor_cuda_no_nvrtc(const doctor_cuda *d) {
    bool needed = d->status.devices || *switch_text(SWITCH_NVRTC);
    return !d->status.nvrtc && needed ? d->status.nvrtc_text : NULL;
}

/* ---- telling people ---- */

static void say_part(const char *label, int version, const char *text) {
    if (version)
        say_pair(label, "%d.%d, %s", version / 1000, version / 10 % 100, text);
    else
        say_pair(label, "%s", text);
}

static void say_gpu(const doctor_cuda *d) {
    char l2[24], memory[24], left[24], label[24];
    const dev_cuda_traits *t = &d->traits;
    snprintf(label, sizeof label, "gpu %d", d->ordinal);
    if (d->opened)
        say_pair(label, "%s: %d multiprocessors, L2 %s, %s memory, %s free", t->arch, t->sms,
                 say_bytes((double)t->l2, l2), say_bytes((double)t->memory, memory),
                 say_bytes((double)d->free_bytes, left));
    if (d->measured)
        say_pair("gpu read", "%.0f GB/s; an empty kernel takes %.2f us on a stream, %.2f us in a graph",
                 d->ceiling.read_gbps, d->ceiling.launch_us, d->ceiling.graph_us);
    if (d->why.code) say_pair(label, "%s", d->why.text);
}

void doctor_cuda_say(const doctor_cuda *d) {
    const dev_cuda_status *s = &d->status;
    say_part("cuda driver", s->driver, s->driver_text);
    if (s->driver) say_pair("gpus", "%d: %s", s->devices, s->devices_text);
    say_part("nvrtc", s->nvrtc, s->nvrtc_text);
    if (!s->driver) return;
    say_pair("kernel cache", "%s", s->cache);
    say_gpu(d);
}

/* ---- telling programs ---- */

static void put_version(json_out *o, const char *key, const char *text_key, int version, const char *text) {
    char number[24];
    snprintf(number, sizeof number, "%d.%d", version / 1000, version / 10 % 100);
    json_put_text(o, key, version ? number : NULL);
    json_put_text(o, text_key, text);
}

static void put_gpu(const doctor_cuda *d, json_out *o) {
    if (!d->opened) {
        json_put_null(o, "gpu");
        return;
    }
    json_open(o, "gpu", '{');
    json_put_text(o, "name", d->traits.name);
    json_put_text(o, "arch", d->traits.arch);
    json_put_int(o, "multiprocessors", d->traits.sms);
    json_put_int(o, "l2", (int64_t)d->traits.l2);
    json_put_int(o, "memory", (int64_t)d->traits.memory);
    json_put_int(o, "memory_free", (int64_t)d->free_bytes);
    json_put_int(o, "shared_per_block", d->traits.smem_block);
    json_put_real(o, "read_gbps", d->measured ? d->ceiling.read_gbps : NAN);
    json_put_real(o, "launch_us", d->measured ? d->ceiling.launch_us : NAN);
    json_put_real(o, "graph_us", d->measured ? d->ceiling.graph_us : NAN);
    json_put_real(o, "replay_us", d->measured ? d->ceiling.replay_us : NAN);
    json_close(o, '}');
}

void doctor_cuda_put(const doctor_cuda *d, json_out *o) {
    const dev_cuda_status *s = &d->status;
    json_open(o, "cuda", '{');
    put_version(o, "driver", "driver_text", s->driver, s->driver_text);
    json_put_int(o, "devices", s->devices);
    json_put_text(o, "devices_text", s->devices_text);
    put_version(o, "nvrtc", "nvrtc_text", s->nvrtc, s->nvrtc_text);
    json_put_text(o, "cache", s->cache);
    put_gpu(d, o);
    json_put_text(o, "error", d->why.code ? d->why.text : NULL);
    json_close(o, '}');
}
