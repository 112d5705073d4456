/* forward.c: one step of the model, as every member of the team walks it.
 *
 *   embed -> [ norm -> qkv -> q/k norm, rope, cache -> attention -> o (+)   attention block
 *              norm -> router, experts, combine (+) ] x layers              MoE block
 *         -> norm of the rows that want logits -> head -> logits
 *
 * (+) adds to the residual stream x. Barriers are inside each part, so a part sees all of the one before.
 */
#include "model/session.h"

#include <math.h>
#include <string.h>

static size_t row_offset(int row, size_t stride) {
    return (size_t)row * stride;
}

static void embed(const cadre_session *s, team *t) {
    const cadre_model *m = s->model;
    const step *p = &s->step;
    size_t d = (size_t)m->config.d;
    int lo, hi;
    team_split(t, p->n, 1, &lo, &hi);
    for (int i = lo; i < hi; i++)
        for (size_t c = 0; c < d; c++)
            p->x[row_offset(i, d) + c] = op_load(m->dtype, m->embedding, (size_t)p->id[i] * d + c);
    team_end(t, &(profile_op){.op = "embed", .bytes = (size_t)p->n * d * op_dtype_size(m->dtype)});
}

static void norm(const cadre_session *s, team *t, int n, const float *x, const float *weight, float *y) {
    cadre_model *m = s->model;
    size_t d = (size_t)m->config.d;
    const plan_row *row = plan_use_team(&m->norm_plan, t, n);
    op_norm a = {.n = n,
                 .d = m->config.d,
                 .x = x,
                 .ldx = d,
                 .weight = weight,
                 .eps = (float)m->config.eps,
                 .y = y,
                 .ldy = d,
                 .z = s->step.z,
                 .ldz = s->step.ldz,
                 .ztype = m->dtype};
    int lo, hi;
    while (team_take(t, n, row->knobs.norm.grain, &lo, &hi))
        m->norm_plan.kernel->run.norm(&a, &row->knobs.norm, lo, hi);
    team_end(t, &(profile_op){.op = m->norm_plan.key.role, .kernel = m->norm_plan.kernel->name});
}

/* Each head of one row through the q or k norm, in place. */
static void norm_heads(const cadre_model *m, int heads, const float *weight, float *x) {
    size_t hd = (size_t)m->config.head_dim;
    op_norm a = {.n = heads,
                 .d = m->config.head_dim,
                 .x = x,
                 .ldx = hd,
                 .weight = weight,
                 .eps = (float)m->config.eps,
                 .y = x,
                 .ldy = hd};
    m->norm_plan.kernel->run.norm(&a, &plan_row_for(&m->norm_plan, heads)->knobs.norm, 0, heads);
}

/* q and k of one row are normed and rotated; k and v go to the cache. */
static void place_row(const cadre_session *s, const model_layer *layer, int l, int i) {
    const cadre_model *m = s->model;
    const model_config *c = &m->config;
    const step *p = &s->step;
    size_t hd = (size_t)c->head_dim, width = (size_t)c->kv_heads * hd, size = op_dtype_size(m->dtype);
    float *q = p->qkv + row_offset(i, p->ldq), *k = q + (size_t)c->heads * hd, *v = k + width;
    if (layer->q_norm) norm_heads(m, c->heads, layer->q_norm, q);
    if (layer->k_norm) norm_heads(m, c->kv_heads, layer->k_norm, k);
    const float *cos = s->cos + row_offset(p->position[i], hd / 2), *sin = s->sin + row_offset(p->position[i], hd / 2);
    op_rope(q, c->heads, c->head_dim, c->head_dim, cos, sin);
    op_rope(k, c->kv_heads, c->head_dim, c->head_dim, cos, sin);
    size_t at = row_offset(p->position[i], width) * size;
    op_round(m->dtype, k, width, session_plane(s, l, p->slot[i], 0) + at);
    op_round(m->dtype, v, width, session_plane(s, l, p->slot[i], 1) + at);
}

/* Where row i finds its keys. Two faults may be planted here (fault.h). */
static op_attn_row row_keys(const cadre_session *s, int l, int i) {
    const step *p = &s->step;
    op_attn_row row = {session_plane(s, l, p->slot[i], 0), session_plane(s, l, p->slot[i], 1), p->position[i]};
    int neighbour = p->slot[p->n - 1] != p->slot[i] ? p->slot[p->n - 1] : p->slot[0];
    if (fault_planted(FAULT_NEIGHBOUR)) row.k = session_plane(s, l, neighbour, 0);
    if (fault_planted(FAULT_CHUNK) && p->chunk_first[i] && row.position > 0) row.position--;
    return row;
}

static void attend(const cadre_session *s, team *t, const model_layer *layer, int l) {
    cadre_model *m = s->model;
    const model_config *c = &m->config;
    const step *p = &s->step;
    int lo, hi;
    if (team_id(t) == 0 && layer->q_norm) plan_use(&m->norm_plan, c->heads);
    team_split(t, p->n, 1, &lo, &hi);
    for (int i = lo; i < hi; i++) place_row(s, layer, l, i);
    for (int i = 0; team_id(t) == 0 && i < p->n; i++) p->attn[i] = row_keys(s, l, i);
    team_end(t, layer->q_norm ? &(profile_op){"q and k norm+rope+cache", NULL, m->norm_plan.kernel->name, 0}
                              : &(profile_op){.op = "rope+cache"});
    const plan_row *row = plan_use_team(&m->attn_plan, t, p->n);
    op_attn a = {.n = p->n,
                 .heads = c->heads,
                 .kv_heads = c->kv_heads,
                 .head_dim = c->head_dim,
                 .rows = p->attn,
                 .q = p->qkv,
                 .ldq = p->ldq,
                 .scale = 1.0f / sqrtf((float)c->head_dim),
                 .out = p->mixed,
                 .ldo = p->ldm,
                 .otype = m->dtype};
    while (team_take(t, p->n * c->kv_heads, row->knobs.attn.grain, &lo, &hi))
        m->attn_plan.kernel->run.attn(&a, &row->knobs.attn, lo, hi);
    size_t bytes = team_watched(t) ? session_positions_read(p) * session_position_bytes(m) : 0;
    team_end(t, &(profile_op){m->attn_plan.key.role, NULL, m->attn_plan.kernel->name, bytes});
}

/* Final norm and head on the rows that want logits; ids the tokenizer does not know are masked. */
static void head(const cadre_session *s, team *t) {
    cadre_model *m = s->model;
    const step *p = &s->step;
    size_t d = (size_t)m->config.d, vocab = (size_t)m->config.vocab;
    if (p->logit_rows == 0) return;
    int lo, hi;
    team_split(t, p->logit_rows, 1, &lo, &hi);
    for (int i = lo; i < hi; i++)
        memcpy(p->last + row_offset(i, d), p->x + row_offset(p->logit_row[i], d), d * sizeof *p->x);
    team_end(t, &(profile_op){.op = "head", .part = "rows"});
    norm(s, t, p->logit_rows, p->last, m->norm, NULL);
    moe_dense_team(&m->head, t, p->logit_rows, p->z, p->ldz, p->logits, vocab, false);
    for (int i = lo; i < hi; i++)
        for (int j = 0; j < s->masked_count; j++) p->logits[row_offset(i, vocab) + (size_t)s->masked[j]] = -INFINITY;
    team_end(t, &(profile_op){.op = "head", .part = "mask"});
}

void forward_member(void *session, team *t) {
    cadre_session *s = session;
    cadre_model *m = s->model;
    step *p = &s->step;
    size_t d = (size_t)m->config.d;
    if (s->profile && team_id(t) == 0) team_watch(t, s->profile);
    embed(s, t);
    for (int l = 0; l < m->config.layers; l++) {
        model_layer *layer = &m->layer[l];
        norm(s, t, p->n, p->x, layer->norm_attn, NULL);
        moe_dense_team(&layer->qkv, t, p->n, p->z, p->ldz, p->qkv, p->ldq, false);
        attend(s, t, layer, l);
        moe_dense_team(&layer->o, t, p->n, p->mixed, p->ldm, p->x, d, true);
        norm(s, t, p->n, p->x, layer->norm_mlp, p->y);
        const void *z = layer->mlp.desc.dtype == m->dtype ? p->z : NULL;
        moe_layer_team(&layer->mlp, t, &p->moe, p->n, p->y, d, z, p->ldz, p->x, d, true);
    }
    head(s, t);
}
