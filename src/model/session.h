/* session.h: what a session owns. Private to model.
 *
 *   cache, one block:   layer 0: slot 0: keys [context][kv_heads][head_dim], values [same]; slot 1 ...; layer 1 ...
 *   scratch, one block: rows of the step as they pass through the layers
 */
#ifndef CADRE_MODEL_SESSION_H
#define CADRE_MODEL_SESSION_H
#include "model/model.h"

typedef struct sample_candidate {
    float logit;
    int32_t id;
} sample_candidate;

/* One step's rows, filled by session_step and walked by forward. */
typedef struct step {
    int n, logit_rows;
    int32_t *id;       /* [n] */
    int *slot;         /* [n] */
    int *position;     /* [n] */
    int *logit_row;    /* [logit_rows]: which of the n rows */
    bool *chunk_first; /* [n]: first row of a chunk of several (fault.h) */
    float *x;          /* [n][d] residual stream */
    float *y;          /* [n][d] its norm, for the router */
    void *z;           /* [n][ldz] the norm rounded */
    float *qkv;        /* [n][(heads + 2 kv_heads) * head_dim] */
    void *mixed;       /* [n][ldm] attention's output, rounded */
    op_attn_row *attn; /* [n] */
    float *last;       /* [max_logits][d] rows that get logits */
    float *logits;     /* [max_logits][vocab] */
    moe_scratch moe;
    size_t ldz, ldm, ldq;
} step;

struct cadre_session {
    cadre_model *model;
    int slots, context, max_rows, max_logits;
    int *length; /* [slots] */
    bool *seen;  /* [slots] */
    char *cache;
    size_t cache_bytes, plane_bytes; /* plane: keys or values of one slot in one layer */
    float *cos, *sin;                /* [context][head_dim / 2] */
    size_t table_bytes;
    char *block;                    /* scratch */
    size_t block_bytes, kept_bytes; /* kept: not poisoned between steps */
    step step;
    const moe_layer **mlp; /* [layers], for sizing */
    int32_t *masked;       /* ids the tokenizer does not know */
    int masked_count;
    sample_candidate *candidates; /* [vocab] */
    float *weights;               /* [vocab]: e to the (logit - best) / temperature, by id */
    profiler *profile;            /* NULL: steps are not watched */
};

/* Keys (values: which = 1) of a layer and slot. */
static inline char *session_plane(const cadre_session *s, int layer, int slot, int which) {
    return s->cache + (((size_t)layer * (size_t)s->slots + (size_t)slot) * 2 + (size_t)which) * s->plane_bytes;
}

/* Keys and values that a step's sequences hold, in positions, and the bytes of one in one layer. */
size_t session_positions_read(const step *p);
size_t session_position_bytes(const cadre_model *m);

/* What a session of these options would take. Errors as cadre_session_new. */
cadre_err session_size(const cadre_model *model, const cadre_session_options *options, size_t *cache, size_t *scratch,
                       cadre_fail *why);

/* forward.c: the step's rows through the model; every member of the team calls it. */
void forward_member(void *session, team *t);
#endif
