/* sample_line.c: one sample as a line of a file. What was not told is left out, so that a line says what was measured
 * and nothing else. */
#include "lab.h"
#include <math.h>
#include <string.h>

static void put_text(json_out *o, const char *key, const char *text) {
    if (text) json_put_text(o, key, text);
}
static void put_real(json_out *o, const char *key, double v) {
    if (!isnan(v)) json_put_real(o, key, v);
}
static void put_int(json_out *o, const char *key, int v) {
    if (v) json_put_int(o, key, v);
}
static void put_value(json_out *o, const char *key, const json *v) {
    if (v) json_put_value(o, key, v);
}

static void end_line(json_out *o) {
    if (o->failed) return;
    if (o->len + 2 > o->cap) {
        char *text = mem_resize(o->text, o->len, o->cap + 64);
        o->failed = !text;
        if (!text) return;
        o->text = text;
        o->cap += 64;
    }
    memcpy(o->text + o->len, "\n", 2);
    o->len++;
    o->comma = false;
}

void lab_sample_write(const lab_sample *s, json_out *o) {
    json_open(o, NULL, '{');
    json_put_text(o, "kind", "ab");
    put_text(o, "run", s->run);
    put_text(o, "arm", s->arm);
    put_int(o, "visit", s->visit);
    put_int(o, "order", s->order);
    put_int(o, "iteration", s->iteration);
    if (s->warmup) json_put_bool(o, "warmup", true);
    put_text(o, "metric", s->metric);
    put_text(o, "unit", s->unit);
    json_put_real(o, "value", s->value);
    put_real(o, "tokens", s->tokens);
    put_real(o, "failed", s->failed);
    put_text(o, "family", s->family);
    put_value(o, "requests", s->requests);
    put_real(o, "accepted", s->accepted);
    put_real(o, "drafts", s->drafts);
    put_real(o, "draft_tokens", s->draft_tokens);
    if (s->active != LAB_ACTIVE_UNKNOWN) json_put_bool(o, "active", s->active == LAB_ACTIVE_YES);
    put_text(o, "why", s->why);
    put_text(o, "started", s->started);
    put_real(o, "load", s->load);
    put_real(o, "mhz", s->mhz);
    put_real(o, "celsius", s->celsius);
    put_value(o, "manifest", s->manifest);
    json_close(o, '}');
    end_line(o);
}
