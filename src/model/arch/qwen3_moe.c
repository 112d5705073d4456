/* qwen3_moe.c: Qwen3-MoE. Grouped-query attention with a norm on each head of q and k, then MoE or (mlp_only_layers,
 * decoder_sparse_step) a plain MLP. No shared expert; biases only if attention_bias says so. */
#include "model/model.h"
#include <stdio.h>

static const moe_names names = {.router = "gate", .gate = "gate_proj", .up = "up_proj", .down = "down_proj"};

static cadre_err read_config(const json_doc *doc, model_config *c, cadre_fail *why) {
    c->qk_norm = true;
    c->qkv_bias = c->attention_bias;
    c->qk_norm = true;
    cadre_err err = config_moe(doc, c, why);
    return err ? err : config_sparse(doc, c, why);
}

static cadre_err load_layer(loader *l, int i, cadre_fail *why) {
    return load_block(l, i, &names, why);
}

const model_arch arch_qwen3_moe = {"qwen3_moe", read_config, load_layer};
