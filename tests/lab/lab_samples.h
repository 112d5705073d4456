/* lab_samples.h: samples written shortly: one line of text per visit, "arm: value value value". Orders and visits are
 * those of the lines. */
#ifndef CADRE_TEST_LAB_SAMPLES_H
#define CADRE_TEST_LAB_SAMPLES_H
#include "base/base.h"
#include "lab/lab.h"
#include "test.h"
#include <math.h>

/* The lines of `text`; `more` ends each sample, as ",\"tokens\":5". */
static __attribute__((unused)) lab_samples *visits_of(const char *metric, const char *unit, const char *text,
                                                      const char *more) {
    static char made[200000];
    size_t len = 0;
    int order = 0;
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n'), *colon = strchr(line, ':');
        int iteration = 0;
        order++;
        for (const char *p = colon + 1; p < end;) {
            char *stop;
            double v = strtod(p, &stop);
            len += (size_t)snprintf(made + len, sizeof made - len,
                                    "{\"arm\":\"%.*s\",\"order\":%d,\"iteration\":%d,\"metric\":\"%s\",\"unit\":\"%s\","
                                    "\"value\":%.10g%s}\n",
                                    (int)(colon - line), line, order, ++iteration, metric, unit, v, more);
            p = stop;
        }
        line = end + 1;
    }
    lab_samples *s = NULL;
    must(lab_samples_parse("t", made, len, &s, fail_out));
    return s;
}

static __attribute__((unused)) lab_verdict *judge(const lab_samples *s, const lab_question *q) {
    lab_verdict *v = NULL;
    must(lab_verdict_new(s, q, &v, fail_out));
    return v;
}

static __attribute__((unused)) const lab_gate *gate_of(const lab_verdict *v, const char *name) {
    for (int i = 0; i < v->gate_count; i++)
        if (!strcmp(v->gates[i].name, name)) return &v->gates[i];
    return NULL;
}

#define assert_near(a, b, tolerance)                                                              \
    do {                                                                                          \
        double a_ = (a), b_ = (b);                                                                \
        if (!(fabs(a_ - b_) <= (tolerance))) fail_msg("%s is %.10g, expected %.10g", #a, a_, b_); \
    } while (0)

/* A7: a throughput in tokens/s, off and on, two visits each, interleaved. */
static __attribute__((unused)) const char a7[] = "OFF:23027.5 22998.0 23008.3 22993.6 23024.4\n"
                                                 "ON:23580.0 23510.6 23535.9 23548.9 23522.6\n"
                                                 "OFF:23050.6 22997.1 23032.6 23014.0 23018.1\n"
                                                 "ON:23547.3 23517.0 23543.0 23553.0 23576.3\n";
#endif
