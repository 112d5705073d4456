/* routing.c: routings drawn for measurements. */
#include "routing.h"
#include "opts.h"
#include <math.h>
#include <string.h>

cadre_err routing_read(const char *text, routing *out, cadre_fail *why) {
    routing r = {0};
    snprintf(r.text, sizeof r.text, "%.31s", text);
    if (!strcmp(text, "uniform")) {
        r.kind = ROUTING_UNIFORM;
    } else if (!strcmp(text, "balanced")) {
        r.kind = ROUTING_BALANCED;
    } else if (!strcmp(text, "router")) {
        r.kind = ROUTING_ROUTER;
    } else if (!strcmp(text, "router-free")) {
        r.kind = ROUTING_FREE;
    } else if (!strncmp(text, "zipf:", 5)) {
        r.kind = ROUTING_ZIPF;
        cadre_err err = opts_real("--routing zipf", text + 5, 0.01, 4, &r.exponent, why);
        if (err) return err;
    } else if (!strncmp(text, "trace:", 6)) {
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "--routing trace:FILE is not in this version");
    } else {
        return cadre_fail_set(why, CADRE_RANGE,
                              "--routing is '%.40s', expected uniform, balanced, zipf:S, router or router-free", text);
    }
    *out = r;
    return CADRE_OK;
}

/* A k-subset of a row: a partial shuffle of `order`, which stays a permutation. */
static void draw_uniform(rand_stream *random, int32_t *order, int e, int k, int32_t *ids) {
    for (int i = 0; i < k; i++) {
        int j = i + (int)rand_below(random, (uint32_t)(e - i));
        int32_t t = order[i];
        order[i] = order[j];
        order[j] = t;
        ids[i] = order[i];
    }
}

/* Walks a permutation round and round. k <= e, so k neighbours of it are distinct. */
static void draw_balanced(int32_t *order, int e, int k, int64_t token, int32_t *ids) {
    for (int i = 0; i < k; i++) ids[i] = order[(token * k + i) % e];
}

/* The k largest keys u^(1/w) are a sample without replacement with weights w (Efraimidis and Spirakis). */
static void draw_zipf(rand_stream *random, double exponent, const int32_t *deal, double *key, int e, int k,
                      int32_t *ids) {
    for (int i = 0; i < e; i++) {
        double u = ((double)rand_u32(random) + 1) / 4294967297.0;
        key[i] = m_log(u) * m_pow(i + 1, exponent);
    }
    for (int i = 0; i < k; i++) {
        int best = 0;
        for (int j = 1; j < e; j++)
            if (key[j] > key[best]) best = j;
        ids[i] = deal[best];
        key[best] = -INFINITY;
    }
}

cadre_err routing_draw(const routing *r, rand_stream *random, const int32_t *deal, int n, int e, int k, int32_t *ids,
                       cadre_fail *why) {
    int32_t *order = mem_new_array((size_t)e, sizeof *order);
    double *key = mem_new_array((size_t)e, sizeof *key);
    bool ok = order && key;
    for (int i = 0; ok && i < e; i++) order[i] = i;
    if (ok && r->kind == ROUTING_BALANCED) draw_uniform(random, order, e, e - 1, order); /* shuffles all of it */
    for (int t = 0; ok && t < n; t++, ids += k) {
        if (r->kind == ROUTING_ZIPF)
            draw_zipf(random, r->exponent, deal, key, e, k, ids);
        else if (r->kind == ROUTING_BALANCED)
            draw_balanced(order, e, k, t, ids);
        else
            draw_uniform(random, order, e, k, ids);
    }
    mem_free(order);
    mem_free(key);
    return ok ? CADRE_OK : cadre_fail_set(why, CADRE_NOMEM, "out of memory for a routing");
}

/* ---- the histogram ---- */

void routing_bucket(int i, int *low, int *high) {
    *high = i < 2 ? i : 1 << (i - 1);
    *low = i < 3 ? *high : *high / 2 + 1;
}

static int bucket_of(int rows) {
    int i = 0, low, high = 0;
    while (i < ROUTING_BUCKETS - 1 && rows > high) routing_bucket(++i, &low, &high);
    return i;
}

int routing_load_add(routing_load *load, const int32_t *ids, int pairs, int e) {
    enum { EXPERTS = 1 << 14 };
    int rows[EXPERTS] = {0}, touched = 0;
    for (int p = 0; p < pairs; p++)
        if (ids[p] >= 0 && ids[p] < e) rows[ids[p]]++;
    for (int i = 0; i < e; i++) {
        load->experts[bucket_of(rows[i])]++;
        touched += rows[i] > 0;
        if (rows[i] > load->most) load->most = rows[i];
    }
    load->layers++;
    return touched;
}

static int buckets_used(const routing_load *load) {
    int n = ROUTING_BUCKETS;
    while (n > 1 && load->experts[n - 1] == 0) n--;
    return n;
}

void routing_load_put(json_out *o, const routing_load *load) {
    json_open(o, "load", '[');
    for (int i = 0, low, high; i < buckets_used(load); i++) {
        routing_bucket(i, &low, &high);
        json_open(o, NULL, '{');
        json_put_int(o, "rows_lo", low);
        json_put_int(o, "rows_hi", high);
        json_put_real(o, "experts", load->experts[i] / load->layers);
        json_close(o, '}');
    }
    json_close(o, ']');
    json_put_int(o, "load_most", load->most);
}

const char *routing_load_text(const routing_load *load, char text[400]) {
    size_t used = 0;
    for (int i = 0, low, high; i < buckets_used(load) && used < 360; i++) {
        if (load->experts[i] == 0) continue;
        routing_bucket(i, &low, &high);
        double experts = load->experts[i] / load->layers;
        used += (size_t)snprintf(text + used, 400 - used, "%s%d", used ? ", " : "", low);
        if (high > low) used += (size_t)snprintf(text + used, 400 - used, "..%d", high);
        used += (size_t)snprintf(text + used, 400 - used, ": %.3g", experts);
    }
    snprintf(text + used, 400 - used, "; most %d", load->most);
    return text;
}
