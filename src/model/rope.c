/* rope.c: frequencies (plain and YaRN) and the tables of cos and sin per position. */
#include "model/rope.h"

static const double PI = 3.14159265358979323846;

/* The (fractional) pair index whose wave length makes `turns` turns over the original context. */
static double yarn_pair(const model_config *c, double turns) {
    return c->head_dim * m_log(c->yarn_original / (turns * 2.0 * PI)) / (2.0 * m_log(c->rope_theta));
}

static double floor_of(double v) {
    double t = (double)(int64_t)v;
    return t > v ? t - 1.0 : t;
}

/* 1 below `low` (keep the frequency), 0 above `high` (stretch it). */
static double yarn_keep(const model_config *c, int i) {
    double low = yarn_pair(c, c->yarn_beta_fast), high = yarn_pair(c, c->yarn_beta_slow);
    if (c->yarn_truncate) low = floor_of(low), high = -floor_of(-high);
    if (low < 0.0) low = 0.0;
    if (high > c->head_dim - 1) high = c->head_dim - 1;
    if (low == high) high += 0.001;
    double ramp = (i - low) / (high - low);
    return 1.0 - (ramp < 0.0 ? 0.0 : ramp > 1.0 ? 1.0 : ramp);
}

double rope_frequency(const model_config *c, int i) {
    double f = m_pow(c->rope_theta, -2.0 * i / c->head_dim);
    if (!c->yarn) return f;
    double keep = yarn_keep(c, i);
    return f / c->yarn_factor * (1.0 - keep) + f * keep;
}

typedef struct table_job {
    const model_config *config;
    int context;
    float *cos, *sin;
} table_job;

static void fill_member(void *ctx, team *t) {
    const table_job *j = ctx;
    int half = j->config->head_dim / 2, lo, hi;
    double factor = j->config->yarn ? j->config->yarn_attention_factor : 1.0;
    while (team_take(t, half, 1, &lo, &hi)) {
        double f = rope_frequency(j->config, lo);
        for (int p = 0; p < j->context; p++) {
            j->cos[(size_t)p * (size_t)half + (size_t)lo] = (float)(m_cos(p * f) * factor);
            j->sin[(size_t)p * (size_t)half + (size_t)lo] = (float)(m_sin(p * f) * factor);
        }
    }
    team_barrier(t);
}

void rope_table(cadre_device *device, const model_config *c, int context, float *cos, float *sin) {
    table_job job = {c, context, cos, sin};
    pool_run(device->threads, fill_member, &job);
}
