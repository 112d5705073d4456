/* conversion.c: how much of what was predicted came. A saving that a microbenchmark shows is not yet one of the step:
 * it may hide behind other work, or move the time elsewhere.
 *
 *   conversion = measured change / predicted change of the same figure
 *   below 0.5  most of it did not arrive        above 1.1  something else changed too */
#include "lab.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double odd_low = 0.5, odd_high = 1.1;

static const lab_arm *arm_named(const lab_experiment *e, const char *name) {
    for (int i = 0; e && i < e->arm_count; i++)
        if (!strcmp(e->arms[i].name, name)) return &e->arms[i];
    return NULL;
}

/* Every sample that counts names the file that it was made from, and it is this one. */
static bool made_from(const lab_samples *s, const char *run, const char *digest) {
    bool told = false;
    for (int i = 0; digest && i < lab_samples_count(s); i++) {
        const lab_sample *x = lab_samples_at(s, i);
        if (run && x->run && strcmp(x->run, run) != 0) continue;
        const json *from = json_get(x->manifest, "experiment_sha256");
        if (!from || !json_is(from, digest)) return false;
        told = true;
    }
    return told;
}

static void convert(const lab_contrast *c, lab_conversion *out) {
    out->measured = c->ratio - 1;
    if (out->predicted == 0) return;
    out->conversion = out->measured / out->predicted;
    double a = (c->interval[0] - 1) / out->predicted, b = (c->interval[1] - 1) / out->predicted;
    out->interval[0] = a < b ? a : b;
    out->interval[1] = a < b ? b : a;
    out->odd = out->conversion < odd_low || out->conversion > odd_high;
}

bool lab_conversion_of(const lab_experiment *e, const lab_verdict *v, int contrast, lab_conversion *out) {
    const lab_contrast *c = &v->contrasts[contrast];
    const lab_arm *a = arm_named(e, c->arm->name);
    if (e && e->question.metric && strcmp(e->question.metric, v->metric) != 0) return false; /* not of this figure */
    if (!a || (!a->prediction && isnan(a->predicted) && isnan(a->predicted_delta))) return false;
    *out = (lab_conversion){a->predicted, NAN, NAN, {NAN, NAN}, false, false, false};
    if (isnan(out->predicted)) out->predicted = a->predicted_delta / c->reference->mean;
    out->before_run = made_from(v->samples, v->run, e->sha256);
    out->below_floor = v->better == LAB_LOWER && c->reference->mean * (1 + out->predicted) < v->floor;
    if (c->outcome != LAB_REFUSED) convert(c, out);
    return true;
}

void lab_conversion_say(const lab_conversion *c, char *text, size_t size) {
    int n = 0;
    *text = 0;
    if (!isnan(c->conversion)) {
        n = snprintf(text, size, "conversion %.2f", c->conversion);
        if (n > 0 && (size_t)n < size && !isnan(c->interval[0]))
            n += snprintf(text + n, size - (size_t)n, " (%.2f to %.2f)", c->interval[0], c->interval[1]);
        if (n > 0 && (size_t)n < size)
            n += snprintf(text + n, size - (size_t)n, ": %+.2f %% predicted, %+.2f %% measured%s", 100 * c->predicted,
                          100 * c->measured,
                          !c->odd             ? ""
                          : c->conversion < 0 ? "; the opposite came"
                          : c->conversion < 1 ? "; below 0.5: most of it does not arrive in what is measured here"
                                              : "; above 1.1: something else changed too");
    }
    if (c->below_floor && n >= 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, "%s%+.2f %% was predicted, which is below the floor: it can't come",
                 n ? "; " : "", 100 * c->predicted);
}
