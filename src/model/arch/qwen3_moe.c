/* qwen3_moe.c: Qwen3-MoE. Grouped-query attention with a norm on each head of q and k, then MoE or (mlp_only_layers,
 * decoder_sparse_step) a plain MLP. No shared expert; biases only if attention_bias says so. */
#include "model/model.h"
#include <stdio.h>

static const moe_names names = {.router = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"};

static cadre_err read_config(const json_doc *doc, model_config *c, cadre_fail *why) {
    c->qk_norm = true;
    c->qkv_bias = c->attention_bias;
    cadre_err err = config_moe(doc, c, why);
    return err ? err : config_sparse(doc, c, why);
}

static cadre_err load_attention(loader *l, const char *prefix, model_layer *layer, cadre_fail *why) {
    const model_config *c = &l->model->config;
    cadre_err err = load_qkv(l, prefix, c->qkv_bias, &layer->qkv, why);
    if (!err) err = load_vector(l, prefix, "q_norm", c->head_dim, &layer->q_norm, why);
    if (!err) err = load_vector(l, prefix, "k_norm", c->head_dim, &layer->k_norm, why);
    if (!err)
        err = load_dense(l, "o", prefix, "o_proj", c->attention_bias, c->d, c->heads * c->head_dim, &layer->o, why);
    return err;
}

static cadre_err load_layer(loader *l, int i, cadre_fail *why) {
    const model_config *c = &l->model->config;
    model_layer *layer = &l->model->layer[i];
    char base[64], attn[80], mlp[80];
    snprintf(base, sizeof base, "model.layers.%d", i);
    snprintf(attn, sizeof attn, "%s.self_attn", base);
    snprintf(mlp, sizeof mlp, "%s.mlp", base);
    cadre_err err = load_vector(l, base, "input_layernorm", c->d, &layer->norm_attn, why);
    if (!err) err = load_attention(l, attn, layer, why);
    if (!err) err = load_vector(l, base, "post_attention_layernorm", c->d, &layer->norm_mlp, why);
    if (err) return err;
    return c->is_moe[i] ? load_moe(l, mlp, &names, &layer->mlp, why) : load_mlp(l, mlp, &layer->mlp, why);
}

const model_arch arch_qwen3_moe = {"qwen3_moe", read_config, load_layer};
