/* model.h: from a Hugging Face folder to logits.
 *
 *   folder -> safetensors (names -> mapped bytes) + config (numbers) -> arch (which tensor is what) -> layers, packed
 *   ids -> embedding -> layers (norm, attention, norm, MoE) -> norm -> head -> logits
 */
#ifndef CADRE_MODEL_H
#define CADRE_MODEL_H
#include "moe/moe.h"

/* ---- safetensors.c: one file or a sharded folder, mapped; every number checked against the file ---- */
typedef struct tensor_entry {
    const char *name;
    const char *file; /* path, for messages */
    cadre_dtype dtype;
    bool known; /* dtype is F32, F16 or BF16; else only its name and shape may be used (I64, U8, ...) */
    char dtype_text[12];
    int dims;
    int64_t shape[8];
    const unsigned char *data; /* mapped, NULL if empty */
    size_t bytes;
    int shard;
} tensor_entry;
typedef struct tensors tensors;
/* dir holds model.safetensors, or model.safetensors.index.json and its shards. */
cadre_err tensors_open(const char *dir, tensors **out, cadre_fail *why);
/* One file by its path (tests read expectations with it). */
cadre_err tensors_open_file(const char *path, tensors **out, cadre_fail *why);
void tensors_close(tensors *t);
int tensors_count(const tensors *t);
const tensor_entry *tensors_at(const tensors *t, int i);
const tensor_entry *tensors_find(const tensors *t, const char *name); /* NULL if absent */
/* Finds a float tensor of exactly this shape (rows 0: one-dimensional [cols]) and marks it as used. FORMAT (absent,
 * other shape) and UNSUPPORTED (other dtype) name the tensor, the file, what was found and what was expected. The data
 * may lie at any byte: old files are not aligned. NULL if the tensor is empty. */
cadre_err tensors_need(const tensors *t, const char *name, int64_t rows, int64_t cols, cadre_tensor *out,
                       cadre_fail *why);
cadre_err tensors_need_shape(const tensors *t, const char *name, const int64_t *shape, int dims, cadre_tensor *out,
                             cadre_fail *why);
bool tensors_used(const tensors *t, int i); /* tensors_at(t, i) was found by tensors_need */
/* The bytes of this tensor will be packed next: read ahead. */
void tensors_soon(const tensors *t, const cadre_tensor *tensor, int64_t rows, int64_t cols);
/* n bytes of the file of a tensor, `from` lies inside its data: a copy that fails with IO where touching the mapped
 * bytes would end the process, and that leaves no mapped page behind. Any thread. */
cadre_err tensors_read(const tensors *t, const void *from, size_t n, void *dst, cadre_fail *why);
/* Value of a __metadata__ text entry of the (first) file, NULL if absent. */
const char *tensors_metadata(const tensors *t, const char *key);

/* ---- config.c: config.json + generation_config.json, old and new spellings, every range checked ---- */
enum { CONFIG_ENDS_MAX = 16 };
typedef struct model_config {
    char arch[32]; /* model_type */
    int vocab, d, layers, heads, kv_heads, head_dim, max_context;
    int f_dense; /* width of dense MLP layers */
    double eps;
    double rope_theta;
    bool yarn;
    double yarn_factor, yarn_beta_fast, yarn_beta_slow, yarn_attention_factor; /* attention_factor resolved */
    int yarn_original;
    bool yarn_truncate;
    bool tied, attention_bias, qkv_bias, qk_norm;
    cadre_dtype dtype;  /* of the checkpoint, as config says; F32 when absent */
    cadre_moe_desc moe; /* e == 0: no MoE; max_tokens and dtype are filled later */
    bool *is_moe;       /* [layers], owned */
    int mtp_layers;     /* num_nextn_predict_layers; the plain model skips layers >= `layers` */
    int ends;
    int32_t end[CONFIG_ENDS_MAX];
    double temperature, top_p; /* generation_config, -1: not given */
    int top_k;
} model_config;
/* Errors: IO, FORMAT (file:line:column and path of the value), UNSUPPORTED (a family or feature not known here), NOMEM.
 * On failure c is empty. */
cadre_err config_read(const char *dir, model_config *c, cadre_fail *why);
void config_done(model_config *c); /* a zeroed struct is fine */
/* For arch files. A number that must be there. */
cadre_err config_need_int(const json_doc *doc, const char *key, int64_t low, int64_t high, int *out, cadre_fail *why);
/* Experts (all spellings), experts per token, their width, norm_topk_prob: softmax gate, SwiGLU. */
cadre_err config_moe(const json_doc *doc, model_config *c, cadre_fail *why);
/* decoder_sparse_step, mlp_only_layers, intermediate_size -> is_moe, f_dense. */
cadre_err config_sparse(const json_doc *doc, model_config *c, cadre_fail *why);

/* ---- arch: one file per family; it reads the family's own config keys and names its tensors ---- */
typedef struct model_layer {
    float *norm_attn, *norm_mlp; /* [d] */
    float *q_norm, *k_norm;      /* [head_dim] or NULL */
    moe_dense qkv;               /* [heads + 2 kv_heads][head_dim] rows stacked: q, k, v */
    moe_dense o;
    moe_layer mlp; /* MoE, or the plain MLP as one expert */
} model_layer;

struct cadre_model {
    cadre_device *device;
    model_config config;
    cadre_dtype dtype;        /* packed type of projections, head and cache: BF16 or F32 */
    cadre_dtype expert_dtype; /* of experts and plain MLPs: the same, or Q8 or Q4; decides the numerics id */
    struct tokenizer *tokenizer;
    void *embedding; /* [vocab][d] in dtype, plain row-major */
    size_t embedding_bytes;
    float *norm;        /* [d] */
    moe_dense head;     /* [vocab][d] */
    model_layer *layer; /* [layers] */
    plan norm_plan, attn_plan;
    size_t weight_bytes;
    tensors *tensors;    /* until its weights are packed */
    char *dir;           /* for messages */
    cadre_memory memory; /* weights alone, counted by the first walk */
    bool loaded;
};

/* A checkpoint is walked twice by the same code. The first walk plans: names and shapes are checked and packed bytes
 * counted, so that a wrong or too large model is refused before anything is packed. The second packs. */
typedef struct loader {
    cadre_model *model;
    const tensors *tensors;
    const char *dir; /* for messages */
    bool planning, said;
    moe_source source; /* packing: reads the files */
} loader;
/* The first walk over a model whose config, types and tensors are set: fills memory and the plans of its layers. */
cadre_err load_check(cadre_model *m, cadre_fail *why);
/* The second. On failure what was packed is left for cadre_model_close. */
cadre_err load_weights(cadre_model *m, cadre_fail *why);

typedef struct model_arch {
    const char *model_type;
    /* Family's own keys; the common ones are read already. doc is config.json. */
    cadre_err (*config)(const json_doc *doc, model_config *c, cadre_fail *why);
    /* Fills everything of l->model->layer[i] from the tensors. */
    cadre_err (*load_layer)(loader *l, int i, cadre_fail *why);
} model_arch;
extern const model_arch *const model_archs[]; /* NULL ends it */
const model_arch *model_arch_find(const char *model_type);

/* Helpers for arch files. Names are made of prefix + "." + what; out stays empty while planning. */
/* A norm weight as owned fp32. */
cadre_err load_vector(loader *l, const char *prefix, const char *what, int n, float **out, cadre_fail *why);
/* prefix.what.weight [out][in], with prefix.what.bias [out] if bias. */
cadre_err load_dense(loader *l, const char *role, const char *prefix, const char *what, bool bias, int out, int in,
                     moe_dense *d, cadre_fail *why);
/* prefix.{q,k,v}_proj stacked into one matrix. */
cadre_err load_qkv(loader *l, const char *prefix, bool bias, moe_dense *out, cadre_fail *why);
/* A MoE layer as config.moe says: prefix.<router>.weight, prefix.experts.N.<gate|up|down>.weight or stacked
 * prefix.experts.gate_up_proj [e][2f][d] (gate rows first) and .down_proj [e][d][f]. NULL names: absent. */
typedef struct moe_names {
    const char *router, *gate, *up, *down;
    const char *bias;   /* of the router's scores, [e] */
    const char *shared; /* prefix.<shared>.<gate|up|down>.weight, when config.moe.shared_f > 0 */
    const char *shared_gate;
} moe_names;
cadre_err load_moe(loader *l, const char *prefix, const moe_names *names, moe_layer *out, cadre_fail *why);
/* prefix.{gate,up,down}_proj of width config.f_dense. */
cadre_err load_mlp(loader *l, const char *prefix, moe_layer *out, cadre_fail *why);
/* Layer i of a pre-norm family with the usual names (input_layernorm, self_attn, post_attention_layernorm, mlp); biases
 * and head norms as the config's flags say. */
cadre_err load_block(loader *l, int i, const moe_names *names, cadre_fail *why);

/* ---- tokenizer: tokenizer.json and tokenizer_config.json ----
 * A tokenizer does not change once it is open: any number of threads may encode with it. Ids are those of the reference
 * library for the same file; a step it can't follow exactly is refused when the file is opened. */
typedef struct tokenizer tokenizer;
/* dir/tokenizer.json; dir/tokenizer_config.json, if it is there, may add tokens. Errors: IO, FORMAT and UNSUPPORTED
 * (the JSON path named), NOMEM. */
cadre_err tokenizer_open(const char *dir, tokenizer **out, cadre_fail *why);
cadre_err tokenizer_open_file(const char *path, tokenizer **out, cadre_fail *why); /* the one file */
void tokenizer_close(tokenizer *t);
int tokenizer_size(const tokenizer *t); /* highest id + 1 */
bool tokenizer_knows(const tokenizer *t, int32_t id);
int32_t tokenizer_id(const tokenizer *t, const char *content, size_t len); /* of a token or added token, -1 if none */
/* ids appended from *n on (cap counts all); as cadre_encode. parse_special: match special added tokens in the text;
 * add_special: apply the post-processor (BOS, EOS). Errors: RANGE (more than cap; *n is set), UNSUPPORTED (a pattern of
 * the file needs too much work on this text), FORMAT (a character without token, and no unknown token), NOMEM. */
cadre_err tokenizer_encode(const tokenizer *t, const char *text, size_t len, bool parse_special, bool add_special,
                           int32_t *ids, size_t cap, size_t *n, cadre_fail *why);
/* Streaming decoder; skip_special: special tokens give nothing, nor do ids that no token has. push gives the characters
 * that the id completes, end what was held back (at most 3 bytes, as U+FFFD); terminated, borrowed until the next call;
 * len may be NULL. Only new allocates. */
typedef struct tokenizer_stream tokenizer_stream;
cadre_err tokenizer_stream_new(const tokenizer *t, bool skip_special, tokenizer_stream **out, cadre_fail *why);
void tokenizer_stream_free(tokenizer_stream *s);
void tokenizer_stream_reset(tokenizer_stream *s);
const char *tokenizer_stream_push(tokenizer_stream *s, int32_t id, size_t *len);
const char *tokenizer_stream_end(tokenizer_stream *s, size_t *len);
/* chat.c: one user turn and the prompt for the answer, in the format of a family, recognised by its control tokens
 * (ChatML). A turn that is not the first begins with the newline after the <|im_end|> of the answer before it, which
 * the caller has fed. user is encoded with special tokens off. Errors: as tokenizer_encode; UNSUPPORTED: no format
 * known. */
cadre_err chat_encode(const tokenizer *t, const char *model_type, const char *user, size_t len, bool first,
                      int32_t *ids, size_t cap, size_t *n, cadre_fail *why);
#endif
