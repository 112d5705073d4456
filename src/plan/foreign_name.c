/* foreign_name.c: what the file name of a table says, and the name a system would look for.
 *
 *   E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128],per_channel_quant=True_down.json
 *   field ^     field                   field          field (commas inside)   field               ^ suffixes
 */
#include "plan/foreign.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const char *const foreign_names[FOREIGN_SYSTEM_COUNT] = {"vllm", "sglang", "torchada"};

/* A piece of the name. */
typedef struct span {
    const char *p;
    size_t len;
} span;

static bool same(span s, const char *text) {
    return s.len == strlen(text) && !memcmp(s.p, text, s.len);
}

static bool cut_suffix(span *s, const char *suffix) {
    size_t n = strlen(suffix);
    if (s->len < n || memcmp(s->p + s->len - n, suffix, n)) return false;
    s->len -= n;
    return true;
}

static int shown(span s) {
    return s.len < 80 ? (int)s.len : 80;
}

/* A whole number of at least 1, written as a program would. */
static bool number(span s, int *out) {
    int64_t v = 0;
    if (!s.len || s.len > 10 || s.p[0] == '0') return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.p[i] < '0' || s.p[i] > '9') return false;
        v = v * 10 + (s.p[i] - '0');
    }
    if (v > INT_MAX) return false;
    *out = (int)v;
    return true;
}

/* ---- fields ---- */

typedef struct reader {
    foreign_name *name;
    cadre_fail *why;
    unsigned seen; /* fields so far */
} reader;

typedef enum field { E, N, DEVICE, DTYPE, BLOCK, CHANNEL, FIELD_COUNT } field;
static const char *const field_names[FIELD_COUNT] = {"E",     "N",           "device_name",
                                                     "dtype", "block_shape", "per_channel_quant"};

static cadre_err bad(reader *r, span part, const char *expected) {
    return cadre_fail_set(r->why, CADRE_FORMAT, "name part '%.*s', expected %s", shown(part), part.p, expected);
}

static void set_unknown(reader *r, span part) {
    if (!*r->name->unknown) snprintf(r->name->unknown, sizeof r->name->unknown, "%.*s", shown(part), part.p);
}

static bool read_dtype(span value, gemm_dtype *out) {
    for (int i = GEMM_FP32; i < GEMM_DTYPE_COUNT; i++)
        if (same(value, gemm_dtype_names[i])) {
            *out = (gemm_dtype)i;
            return true;
        }
    return false;
}

/* "[128,128]" or "[128, 128]" */
static bool read_block(span value, foreign_name *name) {
    if (value.len < 5 || value.p[0] != '[' || value.p[value.len - 1] != ']') return false;
    span inner = {value.p + 1, value.len - 2};
    const char *comma = memchr(inner.p, ',', inner.len);
    if (!comma) return false;
    span a = {inner.p, (size_t)(comma - inner.p)}, b = {comma + 1, inner.len - a.len - 1};
    bool spaced = b.len && *b.p == ' ';
    if (spaced) b.p++, b.len--;
    name->block_spaced = spaced;
    return number(a, &name->block_n) && number(b, &name->block_k);
}

/* A device that ends in _down would make its base table a down table. */
static bool is_device(span value) {
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.p[i] <= ' ' || value.p[i] == '/' || value.p[i] == '=') return false;
    return value.len > 0 && !cut_suffix(&value, "_down");
}

static cadre_err read_field(reader *r, field f, span part, span value) {
    foreign_name *name = r->name;
    switch (f) {
    case E:
    case N:
        if (!number(value, f == E ? &name->e : &name->n)) return bad(r, part, "a whole number from 1 to 2147483647");
        break;
    case DEVICE:
        if (!is_device(value)) return bad(r, part, "a device with underscores for blanks");
        if (value.len >= sizeof name->device) return bad(r, part, "a device of at most 95 bytes");
        memcpy(name->device, value.p, value.len);
        break;
    case DTYPE:
        name->dtype_written = true;
        if (!read_dtype(value, &name->dtype)) set_unknown(r, part);
        break;
    case BLOCK:
        if (!read_block(value, name)) return bad(r, part, "two sizes, [128,128] or [128, 128]");
        break;
    default:
        if (!same(value, "True")) set_unknown(r, part);
        name->per_channel = true;
        break;
    }
    return CADRE_OK;
}

static cadre_err read_part(reader *r, span part) {
    const char *eq = memchr(part.p, '=', part.len);
    if (!eq || eq == part.p) return bad(r, part, "NAME=VALUE");
    span key = {part.p, (size_t)(eq - part.p)}, value = {eq + 1, part.len - key.len - 1};
    int f = 0;
    while (f < FIELD_COUNT && !same(key, field_names[f])) f++;
    if (f == FIELD_COUNT) {
        set_unknown(r, part);
        return CADRE_OK;
    }
    if (r->seen & 1u << f) return bad(r, part, "each field once");
    r->seen |= 1u << f;
    return read_field(r, (field)f, part, value);
}

/* Up to the next comma that is not inside brackets. */
static span next_part(span *rest) {
    size_t n = 0;
    int depth = 0;
    for (; n < rest->len && (depth > 0 || rest->p[n] != ','); n++) depth += (rest->p[n] == '[') - (rest->p[n] == ']');
    span part = {rest->p, n};
    n += n < rest->len;
    *rest = (span){rest->p + n, rest->len - n};
    return part;
}

cadre_err foreign_name_parse(const char *name, foreign_name *out, cadre_fail *why) {
    foreign_name found = {.dtype = GEMM_BF16};
    reader r = {&found, why, 0};
    span rest = {name, strlen(name)};
    if (!cut_suffix(&rest, ".json"))
        return cadre_fail_set(why, CADRE_FORMAT, "name '%.*s', expected one that ends in .json", shown(rest), rest.p);
    found.down = cut_suffix(&rest, "_down");
    bool more = true;
    while (more) {
        span part = next_part(&rest);
        more = rest.len > 0;
        cadre_err err = read_part(&r, part);
        if (err) return err;
    }
    for (int f = E; f <= DEVICE; f++)
        if (!(r.seen & 1u << f))
            return cadre_fail_set(why, CADRE_FORMAT, "name '%.80s' has no %s=, expected E=, N= and device_name=", name,
                                  field_names[f]);
    *out = found;
    return CADRE_OK;
}

/* ---- the name a system looks for ---- */

/* Each blank becomes an underscore; vLLM makes one of a run of blanks and slashes. */
static bool device_text(foreign_system system, const char *device, char *text, size_t size) {
    bool vllm = system == FOREIGN_VLLM;
    size_t n = 0;
    for (const char *p = device; *p; p++) {
        bool gap = *p == ' ' || (vllm && *p == '/'), again = gap && p > device && (p[-1] == ' ' || p[-1] == '/');
        if (vllm && again) continue;
        if (n + 1 >= size) return false;
        text[n++] = gap ? '_' : *p;
    }
    text[n] = 0;
    return n > 0;
}

/* vLLM gives one name to every device with a word H200. */
static bool is_h200(const char *device) {
    for (const char *p = device, *end; *p; p = *end ? end + 1 : end) {
        end = p + strcspn(p, "_");
        if (same((span){p, (size_t)(end - p)}, "H200")) return true;
    }
    return false;
}

/* bf16 and fp16 are not named, and vLLM does not name int8_w8a8 either. */
static bool names_type(foreign_system system, gemm_dtype dtype) {
    return dtype > GEMM_FP16 && !(system == FOREIGN_VLLM && dtype == GEMM_INT8_W8A8);
}

bool foreign_name_print(foreign_system system, const foreign_name *name, char *text, size_t size) {
    bool vllm = system == FOREIGN_VLLM, typed = names_type(system, name->dtype);
    char device[sizeof name->device], block[64] = "";
    if (vllm && name->down) return false;
    if (!device_text(system, name->device, device, sizeof device)) return false;
    if (name->block_n && name->block_k)
        snprintf(block, sizeof block, ",block_shape=[%d,%s%d]", name->block_n, vllm ? "" : " ", name->block_k);
    int n = snprintf(text, size, "E=%d,N=%d,device_name=%s%s%s%s%s%s.json", name->e, name->n,
                     vllm && is_h200(device) ? "NVIDIA_H200" : device, typed ? ",dtype=" : "",
                     typed ? gemm_dtype_names[name->dtype] : "", block,
                     name->per_channel && !vllm ? ",per_channel_quant=True" : "", name->down ? "_down" : "");
    return n >= 0 && (size_t)n < size;
}

int foreign_n(foreign_system system, gemm_dtype dtype, int shard_intermediate, bool gated) {
    int n = gated ? shard_intermediate / 2 : shard_intermediate;
    return dtype == GEMM_INT4_W4A16 && system != FOREIGN_VLLM ? n / 2 : n;
}
