/* random_model.c: writes config.json and one model.safetensors of random values.
 *
 * The names are walked twice: once to size the header, once to write the data behind it. Values come from a pool made
 * once per scale, read at random offsets, so that gigabytes cost little more than the disk. */
#include "random_model.h"
#include "model/model.h"
#include <math.h>
#include <signal.h>
#include <string.h>

enum { POOL = 1 << 22, PIECE = 1 << 21 }; /* values in the pool, values written at a time */
static const uint64_t most_bytes = (uint64_t)16 << 30;

/* ---- Ctrl-C: nothing may stay behind, so it waits until the folder is removed ---- */

static volatile sig_atomic_t caught;

static void on_signal(int number) {
    caught = number;
}

static void hold_signals(bool hold) {
    static struct sigaction before[2];
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, hold ? &action : &before[0], hold ? &before[0] : NULL);
    sigaction(SIGTERM, hold ? &action : &before[1], hold ? &before[1] : NULL);
}

/* ---- tensors ---- */

typedef enum fill { FILL_RANDOM, FILL_ONE, FILL_ZERO } fill;

typedef struct writer {
    const model_config *config;
    char path[OPEN_PATH_MAX];
    bool writing; /* second walk */
    json_out header;
    uint64_t bytes;
    size_t size; /* of a value: 4 (F32) or 2 (BF16) */
    rand_stream random;
    float *unit; /* [POOL] uniform, variance 1 */
    void *pool;  /* [POOL] unit scaled for pool_in, in the stored type */
    int pool_in; /* -1: ones, -2: zeros */
    cadre_err err;
    cadre_fail *why;
} writer;

static void store(const writer *w, int i, float v) {
    if (w->size == 4) {
        ((float *)w->pool)[i] = v;
        return;
    }
    ((uint16_t *)w->pool)[i] = op_bf16(v);
}

static void make_pool(writer *w, int in) {
    if (w->pool_in == in) return;
    float scale = in > 0 ? (float)(1 / sqrt((double)in)) : 0;
    for (int i = 0; i < POOL; i++) store(w, i, in == -1 ? 1.0f : w->unit[i] * scale);
    w->pool_in = in;
}

static void write_values(writer *w, uint64_t count, int in) {
    make_pool(w, in);
    while (count && !w->err) {
        uint64_t n = count < PIECE ? count : PIECE;
        size_t from = in > 0 ? rand_below(&w->random, POOL - (uint32_t)n + 1) : 0;
        w->err = file_append(w->path, (char *)w->pool + from * w->size, n * w->size, w->why);
        if (caught && !w->err) w->err = cadre_fail_set(w->why, CADRE_IO, "interrupted");
        count -= n;
    }
}

static void list(writer *w, const char *name, int rows, int cols, uint64_t bytes) {
    json_open(&w->header, name, '{');
    json_put_text(&w->header, "dtype", w->size == 4 ? "F32" : "BF16");
    json_open(&w->header, "shape", '[');
    if (rows) json_put_int(&w->header, NULL, rows);
    json_put_int(&w->header, NULL, cols);
    json_close(&w->header, ']');
    json_open(&w->header, "data_offsets", '[');
    json_put_int(&w->header, NULL, (int64_t)w->bytes);
    json_put_int(&w->header, NULL, (int64_t)(w->bytes + bytes));
    json_close(&w->header, ']');
    json_close(&w->header, '}');
}

/* One tensor [rows][cols]; rows 0: [cols]. */
static void tensor(writer *w, fill how, int rows, int cols, const char *prefix, const char *name) {
    char full[200];
    uint64_t values = (uint64_t)(rows ? rows : 1) * (uint64_t)cols;
    if (w->err) return;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    if (w->writing)
        write_values(w, values, how == FILL_RANDOM ? cols : how == FILL_ONE ? -1 : -2);
    else
        list(w, full, rows, cols, values * w->size);
    w->bytes += values * w->size;
}

static void mlp(writer *w, const char *prefix, const char *name, int f) {
    char full[160];
    int d = w->config->d;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    tensor(w, FILL_RANDOM, f, d, full, "gate_proj.weight");
    tensor(w, FILL_RANDOM, f, d, full, "up_proj.weight");
    tensor(w, FILL_RANDOM, d, f, full, "down_proj.weight");
}

static void attention(writer *w, const char *prefix) {
    const model_config *c = w->config;
    int q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    tensor(w, FILL_RANDOM, q, c->d, prefix, "self_attn.q_proj.weight");
    tensor(w, FILL_RANDOM, kv, c->d, prefix, "self_attn.k_proj.weight");
    tensor(w, FILL_RANDOM, kv, c->d, prefix, "self_attn.v_proj.weight");
    tensor(w, FILL_RANDOM, c->d, q, prefix, "self_attn.o_proj.weight");
    if (c->qkv_bias) {
        tensor(w, FILL_ZERO, 0, q, prefix, "self_attn.q_proj.bias");
        tensor(w, FILL_ZERO, 0, kv, prefix, "self_attn.k_proj.bias");
        tensor(w, FILL_ZERO, 0, kv, prefix, "self_attn.v_proj.bias");
    }
    if (c->attention_bias) tensor(w, FILL_ZERO, 0, c->d, prefix, "self_attn.o_proj.bias");
    if (!c->qk_norm) return;
    tensor(w, FILL_ONE, 0, c->head_dim, prefix, "self_attn.q_norm.weight");
    tensor(w, FILL_ONE, 0, c->head_dim, prefix, "self_attn.k_norm.weight");
}

static void experts(writer *w, const char *prefix) {
    const model_config *c = w->config;
    tensor(w, FILL_RANDOM, c->moe.e, c->d, prefix, "mlp.gate.weight");
    for (int e = 0; e < c->moe.e; e++) {
        char name[64];
        snprintf(name, sizeof name, "mlp.experts.%d.", e);
        mlp(w, prefix, name, c->moe.f);
    }
    if (!c->moe.shared_f) return;
    mlp(w, prefix, "mlp.shared_expert.", c->moe.shared_f);
    tensor(w, FILL_RANDOM, 1, c->d, prefix, "mlp.shared_expert_gate.weight");
}

static void walk(writer *w) {
    const model_config *c = w->config;
    w->bytes = 0;
    tensor(w, FILL_RANDOM, c->vocab, c->d, "model.", "embed_tokens.weight");
    for (int i = 0; i < c->layers && !w->err; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "model.layers.%d.", i);
        tensor(w, FILL_ONE, 0, c->d, prefix, "input_layernorm.weight");
        attention(w, prefix);
        tensor(w, FILL_ONE, 0, c->d, prefix, "post_attention_layernorm.weight");
        if (c->is_moe && c->is_moe[i])
            experts(w, prefix);
        else
            mlp(w, prefix, "mlp.", c->f_dense);
        if (w->writing) say_progress("writing random weights: layer %d of %d", i + 1, c->layers);
    }
    tensor(w, FILL_ONE, 0, c->d, "model.", "norm.weight");
    if (!c->tied) tensor(w, FILL_RANDOM, c->vocab, c->d, "", "lm_head.weight");
}

static cadre_err check_room(const writer *w, const char *dir, cadre_fail *why) {
    char need[24], have[24];
    uint64_t room = most_bytes, space;
    if (!file_space(dir, &space, NULL) && space < room) room = space;
    if (w->bytes <= room) return CADRE_OK;
    return cadre_fail_set(why, CADRE_UNSUPPORTED,
                          "random weights of %s: only %s may be written under %.200s; lower num_hidden_layers",
                          say_bytes((double)w->bytes, need), say_bytes((double)room, have), dir);
}

/* 8 bytes of length, the header padded to a multiple of 8, then data. */
static void write_header(writer *w) {
    unsigned char length[8];
    uint64_t n = (w->header.len + 7) / 8 * 8;
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(n >> (8 * i));
    w->err = file_append(w->path, length, 8, w->why);
    if (!w->err) w->err = file_append(w->path, w->header.text, w->header.len, w->why);
    if (!w->err && n > w->header.len) w->err = file_append(w->path, "        ", n - w->header.len, w->why);
}

static cadre_err write_weights(writer *w, const char *dir) {
    w->unit = mem_new_array(POOL, sizeof *w->unit);
    w->pool = mem_new_array(POOL, w->size);
    if (!w->unit || !w->pool) return cadre_fail_set(w->why, CADRE_NOMEM, "out of memory for random weights");
    json_open(&w->header, NULL, '{');
    walk(w);
    json_close(&w->header, '}');
    if (w->header.failed) return cadre_fail_set(w->why, CADRE_NOMEM, "out of memory for random weights");
    cadre_err err = check_room(w, dir, w->why);
    if (err) return err;
    for (int i = 0; i < POOL; i++)
        w->unit[i] = rand_float(&w->random) * 1.7320508f; /* uniform in [-1, 1): variance 1/3 */
    write_header(w);
    w->writing = true;
    walk(w);
    say_progress_end();
    return w->err;
}

static cadre_err copy_config(const char *config, const char *dir, cadre_fail *why) {
    char from[OPEN_PATH_MAX], to[OPEN_PATH_MAX], *text;
    size_t len;
    bool fits = file_is_dir(config) ? file_join(from, sizeof from, config, "config.json")
                                    : snprintf(from, sizeof from, "%s", config) < (int)sizeof from;
    if (!fits || !file_join(to, sizeof to, dir, "config.json"))
        return cadre_fail_set(why, CADRE_IO, "%.300s...: path too long", config);
    cadre_err err = file_read(from, 1 << 26, &text, &len, why);
    if (err) return err;
    err = file_write(to, text, len, why);
    mem_free(text);
    return err;
}

/* Messages about the copy in the temporary folder speak of the user's file. */
static void rename_in(cadre_fail *why, const char *dir, const char *config) {
    size_t n = strlen(dir);
    char text[sizeof why->text];
    if (!why || strncmp(why->text, dir, n)) return;
    const char *rest = why->text + n;
    if (!file_is_dir(config) && !strncmp(rest, "/config.json", 12)) rest += 12;
    snprintf(text, sizeof text, "%.250s%.250s", config, rest);
    memcpy(why->text, text, sizeof text);
}

static cadre_err make(const char *config, uint64_t seed, const char *dir, cadre_fail *why) {
    model_config c = {0};
    cadre_err err = copy_config(config, dir, why);
    if (!err) err = config_read(dir, &c, why);
    if (err) return err;
    writer w = {.config = &c, .size = c.dtype == CADRE_F32 ? 4 : 2, .random = {.key = seed}, .why = why};
    err = file_join(w.path, sizeof w.path, dir, "model.safetensors")
              ? write_weights(&w, dir)
              : cadre_fail_set(why, CADRE_IO, "%.300s...: path too long", dir);
    mem_free(w.unit);
    mem_free(w.pool);
    json_out_free(&w.header);
    config_done(&c);
    return err;
}

cadre_err random_model_write(const char *config, uint64_t seed, char dir[OPEN_PATH_MAX], cadre_fail *why) {
    if (!file_exists(config)) return cadre_fail_set(why, CADRE_IO, "%.300s: no such file or folder", config);
    cadre_err err = file_temp_dir(opts_temp_dir(), "cadre-random", dir, OPEN_PATH_MAX, why);
    if (err) return err;
    hold_signals(true);
    err = make(config, seed, dir, why);
    if (!err) return CADRE_OK;
    rename_in(why, dir, config);
    random_model_remove(dir);
    return err;
}

void random_model_remove(const char *dir) {
    static const char *const names[] = {"config.json", "model.safetensors"};
    char path[OPEN_PATH_MAX];
    for (int i = 0; i < 2; i++)
        if (file_join(path, sizeof path, dir, names[i])) file_remove(path, NULL);
    file_remove(dir, NULL);
    hold_signals(false);
    if (caught) raise(caught);
}
