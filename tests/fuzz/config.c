/* Fuzz target: config.json, and behind a NUL byte generation_config.json. What is accepted must be in range. */
#include "folder.h"
#include "model/model.h"

#include <math.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_yarn(const model_config *c) {
    MUST(c->rope_theta >= 1 && isfinite(c->rope_theta));
    if (!c->yarn) return;
    MUST(c->rope_theta >= 2);
    MUST(c->yarn_factor >= 1 && c->yarn_factor <= 1e6);
    MUST(c->yarn_original >= 1);
    MUST(c->yarn_beta_fast > c->yarn_beta_slow && c->yarn_beta_slow > 0);
    MUST(c->yarn_attention_factor > 0 && isfinite(c->yarn_attention_factor));
}

static void check(const model_config *c) {
    MUST(c->d >= 1 && c->d <= 1 << 20);
    MUST(c->vocab >= 1 && c->vocab <= 1 << 24);
    MUST(c->layers >= 1 && c->layers <= 1024);
    MUST(c->max_context >= 1 && c->max_context <= 1 << 24);
    MUST(c->kv_heads >= 1 && c->heads % c->kv_heads == 0);
    MUST(c->head_dim >= 2 && c->head_dim % 2 == 0);
    MUST((int64_t)c->heads * c->head_dim <= 1 << 20);
    MUST(c->eps > 0 && c->eps <= 1);
    MUST(c->moe.d == c->d && c->moe.f >= 1 && c->moe.k >= 1 && c->moe.k <= c->moe.e);
    for (int i = 0; i < c->layers; i++) MUST(c->is_moe[i] || c->f_dense >= 1);
    MUST(c->ends >= 0 && c->ends <= CONFIG_ENDS_MAX);
    MUST(c->temperature == -1 || (c->temperature >= 0 && c->temperature <= 100));
    MUST(c->top_p == -1 || (c->top_p >= 0 && c->top_p <= 1));
    MUST(c->top_k >= -1);
    MUST(model_arch_find(c->arch));
    check_yarn(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    size_t first = end ? (size_t)(end - data) : size;
    model_config c;
    cadre_fail why = {0};
    folder_make();
    folder_write("config.json", data, first);
    folder_write("generation_config.json", end ? (const char *)end + 1 : "{}", end ? size - first - 1 : 2);
    cadre_err err = config_read(folder, &c, &why);
    if (err)
        MUST(!c.is_moe && why.code == err && *why.text);
    else
        check(&c);
    config_done(&c);
    return 0;
}

#include "replay.h"
