/* shape.c: named shapes (routed experts alone, as in the models' configs) and the key=value form. */
#include "shape.h"
#include "op/op.h"
#include "opts.h"
#include <string.h>

const char shape_names[] = "demo|qwen3-30b-a3b|nemotron-3-nano|deepseek-v2-lite|olmoe-1b-7b";

#define BF16 .dtype = CADRE_BF16
static const shape named[] = {
    {"demo", {.d = 256, .f = 64, .e = 18, .k = 4, BF16, .renormalize = true}},
    {"qwen3-30b-a3b", {.d = 2048, .f = 768, .e = 128, .k = 8, BF16, .renormalize = true}},
    {"nemotron-3-nano",
     {.d = 2688,
      .f = 1856,
      .e = 128,
      .k = 6,
      BF16,
      .act = CADRE_RELU2,
      .gate = CADRE_SIGMOID,
      .renormalize = true,
      .scale = 2.5f}},
    {"deepseek-v2-lite", {.d = 2048, .f = 1408, .e = 64, .k = 6, BF16}},
    {"olmoe-1b-7b", {.d = 2048, .f = 1024, .e = 64, .k = 8, BF16}},
};

static const char *const acts[] = {"swiglu", "swiglu-clamp", "relu2"};
static const char *const gates[] = {"softmax", "sigmoid"};

static cadre_err one_of(const char *key, const char *text, const char *const *words, int count, int *out,
                        cadre_fail *why) {
    char all[100];
    size_t n = 0;
    for (int i = 0; i < count; i++) {
        if (!strcmp(text, words[i])) {
            *out = i;
            return CADRE_OK;
        }
        n += (size_t)snprintf(all + n, sizeof all - n, "%s%s", i ? ", " : "", words[i]);
    }
    return cadre_fail_set(why, CADRE_RANGE, "--shape: %s is '%.40s', expected %s", key, text, all);
}

static cadre_err read_dtype(const char *text, cadre_moe_desc *d, cadre_fail *why) {
    int v = op_dtype_find(text);
    if (v < 0 || v == CADRE_F16)
        return cadre_fail_set(why, CADRE_RANGE, "--shape: dtype is '%.40s', expected f32, bf16, q8 or q4", text);
    d->dtype = (cadre_dtype)v;
    return CADRE_OK;
}

static cadre_err read_member(const char *key, const char *text, cadre_moe_desc *d, cadre_fail *why) {
    static const struct {
        const char *key;
        size_t at;
        int low, high;
    } numbers[] = {{"E", offsetof(cadre_moe_desc, e), 1, 1 << 16},
                   {"d", offsetof(cadre_moe_desc, d), 1, 1 << 20},
                   {"f", offsetof(cadre_moe_desc, f), 1, 1 << 20},
                   {"k", offsetof(cadre_moe_desc, k), 1, 1 << 16},
                   {"shared", offsetof(cadre_moe_desc, shared_f), 0, 1 << 20}};
    char name[48];
    int v = 0;
    snprintf(name, sizeof name, "--shape: %.20s", key);
    for (int i = 0; i < 5; i++)
        if (!strcmp(key, numbers[i].key) || (i == 0 && !strcmp(key, "e")))
            return opts_int(name, text, numbers[i].low, numbers[i].high, (int *)((char *)d + numbers[i].at), why);
    cadre_err err;
    if (!strcmp(key, "act")) {
        if (!(err = one_of(key, text, acts, 3, &v, why))) d->act = (cadre_act)v, d->limit = v == 1 ? 7.0f : 0;
    } else if (!strcmp(key, "gate")) {
        if (!(err = one_of(key, text, gates, 2, &v, why))) d->gate = (cadre_gate)v;
    } else if (!strcmp(key, "dtype")) {
        err = read_dtype(text, d, why);
    } else {
        err = cadre_fail_set(why, CADRE_RANGE,
                             "--shape has no key '%.40s'; it has E, d, f, k, act, gate, dtype, shared", key);
    }
    return err;
}

static cadre_err read_members(const char *text, cadre_moe_desc *d, cadre_fail *why) {
    for (const char *p = text; *p;) {
        char part[64];
        size_t n = strcspn(p, ",");
        snprintf(part, sizeof part, "%.*s", (int)(n < 63 ? n : 63), p);
        char *equals = strchr(part, '=');
        if (!equals) return cadre_fail_set(why, CADRE_RANGE, "--shape: expected key=value, found '%.40s'", part);
        *equals = 0;
        cadre_err err = read_member(part, equals + 1, d, why);
        if (err) return err;
        p += n + (p[n] == ',');
    }
    if (!d->e || !d->d || !d->f || !d->k)
        return cadre_fail_set(why, CADRE_RANGE, "--shape '%.100s': E, d, f and k are all needed", text);
    if (d->k > d->e) return cadre_fail_set(why, CADRE_RANGE, "--shape: k is %d, expected at most E = %d", d->k, d->e);
    return CADRE_OK;
}

/* "qwen3-30b-a3b" or "qwen3-30b-a3b,dtype=f32" or members alone. */
cadre_err shape_read(const char *text, shape *out, cadre_fail *why) {
    shape s = {.name = "custom", .desc = {BF16, .renormalize = true}};
    size_t n = strcspn(text, ",");
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strlen(named[i].name) == n && !memcmp(named[i].name, text, n)) s = named[i];
    if (!s.desc.e && !memchr(text, '=', n))
        return cadre_fail_set(why, CADRE_RANGE, "no shape is called '%.*s'; expected %s or E=..,d=..,f=..,k=..",
                              (int)(n < 60 ? n : 60), text, shape_names);
    const char *members = s.desc.e ? text + n + (text[n] == ',') : text;
    cadre_err err = read_members(members, &s.desc, why);
    if (!err) *out = s;
    return err;
}

static double matrices(const cadre_moe_desc *d) {
    return d->act == CADRE_RELU2 ? 2 : 3;
}
/* Packed bytes of one expert of width f: what a step streams. */
static double packed_bytes(const cadre_moe_desc *d, int f) {
    size_t up = 0, down = 0;
    bool fits = op_packed_bytes(d->dtype, f, d->d, d->act != CADRE_RELU2, &up) &&
                op_packed_bytes(d->dtype, d->d, f, false, &down);
    return fits ? (double)up + (double)down : 0.0;
}

double shape_expert_bytes(const cadre_moe_desc *d) {
    return packed_bytes(d, d->f);
}
double shape_shared_bytes(const cadre_moe_desc *d) {
    return d->shared_f ? packed_bytes(d, d->shared_f) : 0.0;
}

double shape_flops(const cadre_moe_desc *d, double n) {
    return 2 * matrices(d) * d->d * n * ((double)d->k * d->f + d->shared_f);
}

const char *shape_text(const cadre_moe_desc *d, char text[128]) {
    int n = snprintf(text, 128, "d=%d f=%d e=%d k=%d %s %s %s", d->d, d->f, d->e, d->k, op_dtype_name(d->dtype),
                     acts[d->act], gates[d->gate]);
    if (d->shared_f) snprintf(text + n, 128 - (size_t)n, " shared=%d", d->shared_f);
    return text;
}

void shape_put(json_out *o, const shape *s) {
    char text[128];
    json_put_text(o, "shape", s->name);
    json_put_text(o, "desc", shape_text(&s->desc, text));
}

void shape_say(const shape *s) {
    char text[128];
    say_pair("shape", "%s: %s", s->name, shape_text(&s->desc, text));
}
