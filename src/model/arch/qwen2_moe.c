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
    c->attention_bias = false; /* of the output projection: this family has none */
    if (!err) err = config_moe(doc, c, why);
    if (!err) err = config_need_int(doc, "shared_expert_intermediate_size", 1, 1 << 20, &c->moe.shared_f, why);
    return err ? err : config_sparse(doc, c, why);
}

static cadre_err load_layer(loader *l, int i, cadre_fail *why) {
    return load_block(l, i, &names, why);
}

const model_arch arch_qwen2_moe = {"qwen2_moe", read_config, load_layer};
