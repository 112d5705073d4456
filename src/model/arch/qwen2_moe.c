/* qwen2_moe.c: Qwen2-MoE. As Qwen3-MoE, but q, k and v have biases, heads have no norm, and a shared expert scaled by a
 * sigmoid gate is added to the routed ones. */
#include "model/model.h"
#include <stdio.h>

static const moe_names names = {.router = "gate",
                                .gate = "gate_proj",
                                .up = "up_proj",
                                .down = "down_proj",
                                .shared = "shared_expert",
                                .shared_gate = "shared_expert_gate"};

static cadre_err read_config(const json_doc *doc, model_config *c, cadre_fail *why) {
    cadre_err err = json_flag(doc, json_root(doc), "qkv_bias", true, &c->qkv_bias, why);
    if (!err) err = config_moe(doc, c, why);
    if (!err) err = config_need_int(doc, "shared_expert_intermediate_size", 1, 1 << 20, &c->moe.shared_f, why);
    return err ? err : config_sparse(doc, c, why);
}

static cadre_err load_layer(loader *l, int i, cadre_fail *why) {
    const model_config *c = &l->model->config;
    model_layer *layer = &l->model->layer[i];
    char base[64], attn[80], mlp[80];
    snprintf(base, sizeof base, "model.layers.%d", i);
    snprintf(attn, sizeof attn, "%s.self_attn", base);
    snprintf(mlp, sizeof mlp, "%s.mlp", base);
    cadre_err err = load_vector(l, base, "input_layernorm", c->d, &layer->norm_attn, why);
    if (!err) err = load_qkv(l, attn, c->qkv_bias, &layer->qkv, why);
    if (!err) err = load_dense(l, "o", attn, "o_proj", false, c->d, c->heads * c->head_dim, &layer->o, why);
    if (!err) err = load_vector(l, base, "post_attention_layernorm", c->d, &layer->norm_mlp, why);
    if (err) return err;
    return c->is_moe[i] ? load_moe(l, mlp, &names, &layer->mlp, why) : load_mlp(l, mlp, &layer->mlp, why);
}

const model_arch arch_qwen2_moe = {"qwen2_moe", read_config, load_layer};
