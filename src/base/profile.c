/* profile.c: rows of a profile found and added to. */
#include "profile.h"

#include "clock.h"

#include <stdio.h>
#include <string.h>

static bool same_text(const char *a, const char *b) {
    return a == b || (a && b && !strcmp(a, b));
}

static bool same(const profile_op *a, const profile_op *b) {
    return same_text(a->op, b->op) && same_text(a->part, b->part) && same_text(a->kernel, b->kernel);
}

/* Steps repeat: the row after the one found last is tried first. */
static profile_row *find(profiler *p, const profile_op *op) {
    for (int i = 0; i < p->count; i++) {
        int at = p->next + i < p->count ? p->next + i : p->next + i - p->count;
        if (!same(&p->rows[at].what, op)) continue;
        p->next = at + 1 < p->count ? at + 1 : 0;
        return &p->rows[at];
    }
    if (p->count == PROFILE_ROWS) return NULL;
    profile_row *row = &p->rows[p->count++];
    *row = (profile_row){.what = *op};
    p->next = 0;
    return row;
}

void profile_start(profiler *p) {
    p->at = clock_ns();
}

void profile_book(profiler *p, const profile_op *op, uint64_t ns, uint64_t waited) {
    profile_row *row = find(p, op);
    if (!row) {
        p->unbooked++;
        return;
    }
    row->launches++;
    row->ns += ns;
    row->waited += waited;
    row->bytes += (double)op->bytes;
}

void profile_end(profiler *p, const profile_op *op, uint64_t arrived, uint64_t passed) {
    profile_book(p, op, passed - p->at, passed - arrived);
    p->at = passed;
}

void profile_clear(profiler *p) {
    p->count = p->next = 0;
    p->unbooked = 0;
}

int profile_tell(const profiler *p, cadre_profile_row *rows, int cap) {
    for (int i = 0; i < p->count && i < cap; i++) {
        const profile_row *from = &p->rows[i];
        const profile_op *w = &from->what;
        rows[i] = (cadre_profile_row){.kernel = w->kernel ? w->kernel : "plain",
                                      .launches = from->launches,
                                      .us = (double)from->ns / 1e3,
                                      .wait_us = (double)from->waited / 1e3,
                                      .bytes = from->bytes};
        snprintf(rows[i].op, sizeof rows[i].op, "%s%s%s", w->op, w->part ? " " : "", w->part ? w->part : "");
    }
    return p->count;
}
