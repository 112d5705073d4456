/* cadre.h: decode Mixture-of-Experts models; the whole public surface of the library.
 *
 * Five nouns: a *device* runs work; a *moe* is one MoE layer, planned once and run many times; a *model* is a loaded
 * checkpoint; a *session* holds sequences that grow; a *text* turns token ids back into characters as they come.
 *
 * Rules that hold for every call:
 * - The result is a cadre_err, 0 (CADRE_OK) for success. Out-parameters are set only on success.
 * - `why` may be NULL; else it takes the code and one line that says what was found and what was expected.
 * - A NULL that is not allowed gives CADRE_RANGE where the call returns a cadre_err; elsewhere pointers must be good.
 * - A device, a model and a moe may be used from many threads at once; a session, a text, a workspace and a profile by
 *   one at a time. cadre_set and cadre_listen come first, before other threads.
 * - new/open make an object the caller must free/close; every other pointer handed out is borrowed from its object.
 * - The library never prints, exits or aborts. What a user should hear once goes to the cadre_listen() callback.
 * - Law L1: within one numerics id the same weights and tokens give the same bits whatever the batch, the thread count,
 *   the instruction set, the kernel configuration and the chunking (docs/numerics.md).
 * Shape letters: n tokens, d model width, f expert width, e experts, k experts per token. Matrices are row-major.
 */
#ifndef CADRE_H
#define CADRE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#define CADRE_VERSION "0.1.0"

/* ---- errors ---- */
#define CADRE_ERRORS(X)                   \
    X(OK, "ok")                           \
    X(NOMEM, "out of memory")             \
    X(IO, "cannot read or write")         \
    X(FORMAT, "malformed input")          \
    X(UNSUPPORTED, "not supported")       \
    X(RANGE, "value out of range")        \
    X(DEVICE, "device failure")           \
    X(COMPILE, "kernel does not compile") \
    X(BUSY, "in use")
typedef enum cadre_err {
#define X(name, text) CADRE_##name,
    CADRE_ERRORS(X)
#undef X
} cadre_err;

typedef struct cadre_fail {
    cadre_err code;
    char text[508]; /* one line, no newline */
} cadre_fail;

const char *cadre_err_text(cadre_err code); /* never NULL */
const char *cadre_version(void);

/* Lines a user should hear once (a fallback, a switch in force, a disabled path). fn may be NULL: silence. Process
 * wide; call before other threads use the library. */
typedef void (*cadre_listener)(void *ctx, const char *line);
void cadre_listen(cadre_listener fn, void *ctx);

/* Set one switch, "name=value" (`cadre doctor --switches` lists them). Process wide; call before opening a device.
 * Errors: RANGE for an unknown name or an illegal value. */
cadre_err cadre_set(const char *assignment, cadre_fail *why);
/* The i-th switch that differs from its default as "name=value", NULL past the last. Borrowed until the next call. */
const char *cadre_switch(int i);

/* ---- device ---- */
typedef struct cadre_device cadre_device;
typedef struct cadre_device_options {
    /* "cpu" (also NULL). An NVIDIA GPU: "cuda" or "cuda:N" in its primary context, "cuda:current" in the context that
     * is current in the calling thread, which must outlive the device. On a GPU MoE layers alone are there: all else is
     * refused with UNSUPPORTED. */
    const char *name;
    int threads; /* 0: one per core that this process may use, cut by the container's CPU quota */
    bool pin;    /* tie worker threads to CPUs, and move a caller to a CPU that none of them has */
} cadre_device_options;
cadre_err cadre_device_open(const cadre_device_options *options, cadre_device **out, cadre_fail *why);
void cadre_device_close(cadre_device *device); /* NULL is fine. Close models and layers of the device first. */
const char *cadre_device_name(const cadre_device *device); /* "cpu avx512bf16, 2 threads, AMD EPYC ..." */
int cadre_device_threads(const cadre_device *device);

/* ---- one MoE layer ---- */
/* Q8 and Q4 are made when weights are packed: blocks of 32 along a row with one scale. They are never a source type. */
typedef enum cadre_dtype { CADRE_F32, CADRE_BF16, CADRE_F16, CADRE_Q8, CADRE_Q4 } cadre_dtype;
typedef enum cadre_act { CADRE_SWIGLU, CADRE_SWIGLU_CLAMP, CADRE_RELU2 } cadre_act;
typedef enum cadre_gate { CADRE_SOFTMAX, CADRE_SIGMOID } cadre_gate;

typedef struct cadre_moe_desc {
    int d, f, e, k;    /* all >= 1, k <= e */
    int max_tokens;    /* most tokens in one run */
    cadre_dtype dtype; /* how experts are packed: BF16, F32, Q8 or Q4; decides the numerics id */
    cadre_act act;     /* SWIGLU: silu(gate)*up. SWIGLU_CLAMP: gate <= limit, |up| <= limit first. RELU2: max(up,0)^2 */
    float limit;       /* SWIGLU_CLAMP only, > 0 */
    cadre_gate gate;   /* scores: softmax over all experts, or sigmoid of each */
    bool renormalize;  /* chosen weights divided by their sum (sigmoid: sum + 1e-20) */
    float scale;       /* multiplies the weights in every case; 0 means 1 */
    int groups;        /* 0 or 1: none; else e % groups == 0 and only the best topk_groups groups are eligible */
    int topk_groups;   /* group score: largest score, or with a correction bias the sum of its two largest */
    int shared_f;      /* width of the shared expert, 0: none */
} cadre_moe_desc;

typedef struct cadre_tensor {
    const void *data;  /* row-major [out][in], NULL: absent */
    cadre_dtype dtype; /* F32, BF16 or F16; converted when packed */
} cadre_tensor;

typedef struct cadre_moe_weights {
    cadre_tensor router;             /* [e][d] */
    cadre_tensor bias;               /* [e] score correction: chooses, never weighs. Absent: none */
    const cadre_tensor *gate;        /* e tensors [f][d]; NULL for RELU2 */
    const cadre_tensor *up;          /* e tensors [f][d] */
    const cadre_tensor *down;        /* e tensors [d][f] */
    cadre_tensor shared_gate;        /* [shared_f][d] */
    cadre_tensor shared_up;          /* [shared_f][d] */
    cadre_tensor shared_down;        /* [d][shared_f] */
    cadre_tensor shared_expert_gate; /* [1][d]: the shared output is scaled by sigmoid(row . x). Absent: not scaled */
} cadre_moe_weights;

typedef struct cadre_moe cadre_moe;
typedef struct cadre_moe_workspace cadre_moe_workspace;

/* Plans the layer and packs its weights; `weights` may be released afterwards.
 * Errors: RANGE (a bad size, named), UNSUPPORTED (dtype), NOMEM. */
cadre_err cadre_moe_new(cadre_device *device, const cadre_moe_desc *desc, const cadre_moe_weights *weights,
                        cadre_moe **out, cadre_fail *why);
void cadre_moe_free(cadre_moe *moe);
/* Scratch for one run at a time; any number of threads may run one layer, each with its own workspace. Layers of one
 * device and of the same sizes, type and activation, made under the same switches and tables, may take turns with one.
 */
cadre_err cadre_moe_workspace_new(const cadre_moe *moe, cadre_moe_workspace **out, cadre_fail *why);
void cadre_moe_workspace_free(cadre_moe_workspace *workspace);
size_t cadre_moe_workspace_bytes(const cadre_moe *moe);
/* out [n][d] = the layer applied to x [n][d]; fp32, must not overlap; 0 <= n <= max_tokens. Allocates nothing. */
cadre_err cadre_moe_run(cadre_moe *moe, cadre_moe_workspace *workspace, int n, const float *x, float *out,
                        cadre_fail *why);
/* The router alone: ids [n][k] by falling score (ties: lower id), weights [n][k]. */
cadre_err cadre_moe_route(cadre_moe *moe, cadre_moe_workspace *workspace, int n, const float *x, int32_t *ids,
                          float *weights, cadre_fail *why);
/* The experts alone, with the caller's routing. id -1 is an empty slot; other ids outside 0..e-1 are RANGE errors.
 * The shared expert, if any, is added. */
cadre_err cadre_moe_experts(cadre_moe *moe, cadre_moe_workspace *workspace, int n, const float *x, const int32_t *ids,
                            const float *weights, float *out, cadre_fail *why);
/* On a GPU: queues the layer on the caller's stream (a CUstream, which is a cudaStream_t) and returns. x and out [n][d]
 * are device memory, f32 or bf16 each; x on 16 bytes where d is a multiple of 8. ids and weights [n][k], device memory,
 * take the router's place (ids outside 0..e-1 are empty slots), or both are NULL. Never waits, allocates nothing, can
 * be captured in the caller's graph; all of it must stay as long as the graph. The workspace is used until the work is
 * done. What is queued on several streams of one cadre_device runs one after the other, in the order of the calls; with
 * graphs, and between devices, the caller orders: two runs at the same time may wait for each other forever.
 * Errors: UNSUPPORTED (a layer on the CPU, a type), RANGE (also: the workspace is in use by another thread), DEVICE. */
cadre_err cadre_moe_enqueue(cadre_moe *moe, cadre_moe_workspace *workspace, void *stream, int n, const void *x,
                            cadre_dtype x_type, const int32_t *ids, const float *weights, void *out,
                            cadre_dtype out_type, cadre_fail *why);
/* The same, for a graph that serves batches of any size up to n: the first *n_valid tokens count, an int32_t in device
 * memory that is read when the work runs (below 0 is 0, above n is n). The others' rows of x must be there, are not
 * looked at, and their rows of out are zeros. Time goes with the tokens that count; which kernels run, with n.
 * Errors: those above, RANGE (no n_valid, or not on 4 bytes). */
cadre_err cadre_moe_enqueue_valid(cadre_moe *moe, cadre_moe_workspace *workspace, void *stream, int n,
                                  const int32_t *n_valid, const void *x, cadre_dtype x_type, const int32_t *ids,
                                  const float *weights, void *out, cadre_dtype out_type, cadre_fail *why);
/* What runs for n tokens and why, one line per kernel, into text (always terminated, cut to size). */
void cadre_moe_explain(const cadre_moe *moe, int n, char *text, size_t size);

/* ---- model ---- */
typedef struct cadre_model cadre_model;
typedef struct cadre_model_options {
    const char
        *weights; /* NULL or "auto": the checkpoint's own type (f16 becomes f32); "bf16", "f32"; "q8", "q4": experts */
} cadre_model_options;
typedef struct cadre_model_info {
    const char *arch;     /* "qwen3_moe" */
    const char *numerics; /* numerics id, docs/numerics.md */
    const char *weights;  /* of the experts: "bf16", "f32", "q8", "q4" */
    int vocab;            /* rows of the head */
    int tokens;           /* ids below this may be known to the tokenizer; logits of ids it does not know are -inf */
    int layers, d, f, e, k, max_context;
    size_t weight_bytes; /* packed matrices */
} cadre_model_info;
/* Loads a Hugging Face folder. Errors: IO, FORMAT (file, offset or JSON path named), UNSUPPORTED, NOMEM. */
cadre_err cadre_model_open(cadre_device *device, const char *dir, const cadre_model_options *options, cadre_model **out,
                           cadre_fail *why);
/* The first half of it: everything is checked, ids can be encoded, memory can be planned; no weight is packed yet. */
cadre_err cadre_model_prepare(cadre_device *device, const char *dir, const cadre_model_options *options,
                              cadre_model **out, cadre_fail *why);
/* The second half; nothing when it is done. On failure only close is left. Errors: IO, NOMEM. */
cadre_err cadre_model_load(cadre_model *model, cadre_fail *why);
void cadre_model_close(cadre_model *model);
void cadre_model_get_info(const cadre_model *model, cadre_model_info *info);
bool cadre_model_is_end(const cadre_model *model, int32_t id); /* one of the end-of-sequence ids */

/* Text to ids. `specials`: special tokens written in the text are matched and the tokenizer's own BOS is added.
 * *n is the number of ids; when it exceeds cap the call fails with RANGE after setting *n (the one exception to
 * out-parameters on failure). Invalid UTF-8 becomes U+FFFD. */
cadre_err cadre_encode(const cadre_model *model, const char *text, size_t len, bool specials, int32_t *ids, size_t cap,
                       size_t *n, cadre_fail *why);
/* One chat turn as the model's own template writes it, ids ready to feed; `first`: this opens the conversation.
 * UNSUPPORTED when the model has no chat format that is known here. */
cadre_err cadre_encode_chat(const cadre_model *model, const char *user, size_t len, bool first, int32_t *ids,
                            size_t cap, size_t *n, cadre_fail *why);

/* ids to text, piece by piece: whole characters only, U+FFFD for bytes that can't become one. */
typedef struct cadre_text cadre_text;
cadre_err cadre_text_new(const cadre_model *model, cadre_text **out, cadre_fail *why);
void cadre_text_free(cadre_text *text);
void cadre_text_reset(cadre_text *text);
/* The characters id completes, terminated, borrowed until the next call; *len may be NULL. Special tokens give "". */
const char *cadre_text_push(cadre_text *text, int32_t id, size_t *len);
const char *cadre_text_end(cadre_text *text, size_t *len); /* what was held back */

/* ---- session ---- */
typedef struct cadre_session cadre_session;
typedef struct cadre_session_options {
    int slots;      /* sequences side by side; 0: 1 */
    int context;    /* positions per sequence; 0: the model's own */
    int max_rows;   /* most tokens in one step over all slots; 0: 512 */
    int max_logits; /* most rows with logits in one step; 0: the larger of slots and 64 */
} cadre_session_options;
/* Errors: RANGE (an option, a model that is not loaded), NOMEM. */
cadre_err cadre_session_new(cadre_model *model, const cadre_session_options *options, cadre_session **out,
                            cadre_fail *why);
void cadre_session_free(cadre_session *session);
size_t cadre_session_bytes(const cadre_session *session); /* KV and scratch, resident */
/* Bytes that the last step had to read: its matrices and the experts that had rows, each once, the embedding rows of
 * its tokens, and the keys and values of its sequences. 0 before the first step. Over the read bandwidth: the step's
 * floor. */
size_t cadre_session_step_bytes(const cadre_session *session);

/* What a model and a session need, in bytes. */
typedef struct cadre_memory {
    size_t embedding, head, attention, experts, shared, router, norms; /* packed weights; experts: plain MLPs too */
    size_t cache, scratch;                                             /* a session's; 0 without one */
    size_t total;
    uint64_t available; /* to this process, when it was asked */
} cadre_memory;
/* Of a model that is prepared or loaded, with a session of these options (NULL: none). Takes nothing. */
cadre_err cadre_memory_plan(const cadre_model *model, const cadre_session_options *session, cadre_memory *out,
                            cadre_fail *why);
/* NOMEM "what: does not fit: needs X MB (experts ..., cache ...), have Y MB" when total > available; with switch fit=0
 * that is only said. */
cadre_err cadre_memory_check(const cadre_memory *memory, const char *what, cadre_fail *why);
/* The i-th part's name and bytes, NULL past the last. */
const char *cadre_memory_part(const cadre_memory *memory, int i, size_t *bytes);

/* n new tokens of the sequence in `slot`, at its current length. */
typedef struct cadre_chunk {
    int slot, n;
    const int32_t *ids;
    bool all_logits; /* logits of every row of the chunk; else of its last row only */
} cadre_chunk;
/* One forward pass over all chunks (each slot at most once). Allocates nothing. Errors: RANGE (slot, id, context full,
 * too many rows): then no slot has moved. */
cadre_err cadre_session_step(cadre_session *session, const cadre_chunk *chunks, int count, cadre_fail *why);
/* Logits of the step's i-th row that has them, in chunk order: [vocab], borrowed until the next step. NULL past the
 * end. */
const float *cadre_session_logits(const cadre_session *session, int i);
int cadre_session_length(const cadre_session *session, int slot);
int cadre_session_context(const cadre_session *session);
/* Cut the sequence back to `length` positions. RANGE if it is shorter. */
cadre_err cadre_session_rewind(cadre_session *session, int slot, int length, cadre_fail *why);

typedef struct cadre_sampling {
    float temperature; /* 0 (or denormal): greedy, ties to the lower id */
    int top_k;         /* 0: off */
    float top_p;       /* 0 or 1: off */
    uint64_t seed;
} cadre_sampling;
/* Draws from row i of the last step. The noise is a function of (seed, sequence, position) alone. */
cadre_err cadre_session_sample(cadre_session *session, int i, const cadre_sampling *sampling, uint64_t sequence,
                               uint64_t position, int32_t *id, cadre_fail *why);

/* ---- receipts ---- */
/* What was asked, what was chosen, from where, and how often it ran; one per (kernel, shape, range of n). */
typedef struct cadre_receipt {
    const char *op, *kernel, *source, *why; /* source: "override", "user", "shipped", "class" or "policy" */
    const char *file;                       /* table whose row runs, or (policy) was passed over: why says. Or NULL */
    int line;                               /* of the row in it; 0: the file as a whole */
    char config[128];                       /* "rows=4 panels=2" */
    char shadows[128];                      /* config that would run without the override or row, "" if none */
    char shape[96];                         /* "d=2048 f=768 e=128 k=8 bf16" */
    int n_lo, n_hi;
    uint64_t runs;
} cadre_receipt;
int cadre_model_receipts(const cadre_model *model, cadre_receipt *receipts, int cap); /* returns how many exist */

/* ---- profile ---- */
/* Where the time of steps goes, by op and kernel. It sums up over all steps (and layers) it is told to watch, changes
 * no bit, and allocates nothing after it was made. One thread at a time uses it and what it watches. */
typedef struct cadre_profile cadre_profile;
typedef struct cadre_profile_row {
    char op[64];        /* as in receipts, "qkv"; an op of several parts has a row for each: "experts up+act" */
    const char *kernel; /* as in receipts; "plain": code without a kernel of its own */
    uint64_t launches;
    double us, wait_us; /* in all; of it the leading thread waited for the others. 0 on a GPU */
    double bytes;       /* that they had to read; 0: not known */
} cadre_profile_row;
/* For a session or layers of this device. */
cadre_err cadre_profile_new(cadre_device *device, cadre_profile **out, cadre_fail *why);
void cadre_profile_free(cadre_profile *profile); /* NULL is fine. Nothing may be watched by it any more */
/* From the next step, or run with this workspace, on; NULL ends it. On a GPU launches that are watched do not overlap.
 */
void cadre_session_profile(cadre_session *session, cadre_profile *profile);
void cadre_moe_profile(cadre_moe_workspace *workspace, cadre_profile *profile);
/* On a GPU: waits for what was queued since, and adds its times; of a graph captured since, each call those of its last
 * replay. RANGE: more launches than can be told. On the CPU there is nothing to do. */
cadre_err cadre_profile_collect(cadre_profile *profile, cadre_fail *why);
/* In the order in which they first ran; returns how many exist. */
int cadre_profile_rows(const cadre_profile *profile, cadre_profile_row *rows, int cap);
/* Starts anew; graphs captured so far are told no more. */
void cadre_profile_clear(cadre_profile *profile);

/* ---- measurement helpers ---- */
uint64_t cadre_allocations(void); /* calls to the library's allocator so far, for "allocations per step" */
void cadre_sha256(const void *data, size_t len, char hex[65]);

#ifdef __cplusplus
}
#endif
#endif
