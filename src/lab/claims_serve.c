/* claims_serve.c: what must hold for serving, whoever measured it.
 *
 *   latency >= (tokens - 1) x TPOT          a report whose OSL says more tokens than latency / TPOT is wrong
 *   throughput = batch / TPOT               one measurement told twice: a note
 *   step = TPOT x acceptance length         "equal" acceptance that differs hides a difference per step
 *   an arm with one change alone            leaves other metrics where they were: a note when it does not
 *   two arms that differ by more changes than the sentence names: a note */
#include "claims.h"
#include <math.h>
#include <string.h>

/* "latency 11121.5 -> 10866.6 ms": the arrow; -1: no such pair, -2: several. */
static int pair_of(const claims_doc *d, const char *metric) {
    int found = -1;
    for (int i = 1; i + 1 < d->token_count; i++) {
        if (d->tokens[i].kind != CLAIMS_ARROW || !claims_figure(d, i - 1) || !claims_figure(d, i + 1)) continue;
        if (!d->tokens[i + 1].unit || claims_find(d, i - 5, i - 1, metric) < 0) continue;
        if (found >= 0) return -2;
        found = i;
    }
    return found;
}

static claims_span side(const claims_doc *d, int arrow, int which) {
    claims_token t = d->tokens[which ? arrow + 1 : arrow - 1];
    if (!t.unit) t.unit = d->tokens[arrow + 1].unit;
    return claims_base_of(&t);
}

/* The figure behind a word, "OSL 1024", "OSL=1024", "batch 256", "batch size 64"; -1: none, or several that differ. */
static int setting(const claims_doc *d, const char *word, const char *filler) {
    int found = -1;
    for (int i = 0; i < d->token_count; i++) {
        if (!claims_word(d, i, word)) continue;
        int f = i + 1 + claims_word(d, i + 1, filler);
        if (claims_kind_at(d, f) != CLAIMS_FIGURE || d->tokens[f].unit || !isnan(d->tokens[f].high)) continue;
        if (found >= 0 && d->tokens[found].value != d->tokens[f].value) return -1;
        found = f;
    }
    return found;
}

static void tokens(claims_doc *d, int tpot, int latency) {
    int osl = setting(d, "osl", "of");
    if (osl < 0 || tpot < 0 || latency < 0) return;
    double n = d->tokens[osl].value;
    claims_span at[2];
    for (int s = 0; s < 2; s++) at[s] = claims_div(side(d, latency, s), side(d, tpot, s));
    for (int s = 0; s < 2; s++) {
        int figure = s ? latency + 1 : latency - 1;
        double least = (n - 1) * side(d, tpot, s).lo / claims_scale_of(&d->tokens[latency + 1]);
        if (!claims_known(at[s]) || at[s].hi >= n - 1) continue;
        claims_tell(d, figure, "tokens", false, least,
                    "at this TPOT it lasts %.5g tokens, the text says %g; the arms emitted %.6g and %.6g",
                    claims_mid(at[s]), n, claims_mid(at[0]), claims_mid(at[1]));
    }
}

static void derived(claims_doc *d, int tpot, int throughput) {
    int batch = setting(d, "batch|concurrency", "size");
    if (batch < 0 || tpot < 0 || throughput < 0) return;
    claims_span b = claims_whole(d->tokens[batch].value);
    for (int s = 0; s < 2; s++)
        if (!claims_meet(claims_div(b, side(d, tpot, s)), side(d, throughput, s))) return;
    claims_tell(d, throughput - 1, "derived", true, claims_mid(claims_div(b, side(d, tpot, 0))),
                "%g / TPOT gives it in both arms: throughput and TPOT are one measurement", b.lo);
}

/* ---- "equal across arms (4.13 / 4.13 / 3.95)" ---- */

static void equal(claims_doc *d, const claims_part *p) {
    int word = claims_find(d, p->first, p->end, "equal|unchanged|identical|constant|flat|same");
    for (int i = word < 0 ? p->end : word + 1; i + 4 < p->end; i++) {
        int n = 1, low = i, high = i;
        if (!claims_figure(d, i) || claims_kind_at(d, i - 1) != CLAIMS_OPEN || claims_exact(&d->tokens[i])) continue;
        for (int k = i + 1; k + 1 < p->end && d->tokens[k].kind == CLAIMS_SLASH && claims_figure(d, k + 1);
             k += 2, n++) {
            if (d->tokens[k + 1].value < d->tokens[low].value) low = k + 1;
            if (d->tokens[k + 1].value > d->tokens[high].value) high = k + 1;
        }
        if (n < 3) continue;
        claims_span apart = claims_change(claims_span_of(&d->tokens[high]), claims_span_of(&d->tokens[low]));
        bool steps = claims_find(d, p->first, p->end, "acceptance") >= 0;
        if (apart.hi < -1)
            claims_tell(d, low, "equal", false, d->tokens[high].value, "%g is %.3g %% below %g: not equal%s",
                        d->tokens[low].value, -claims_mid(apart), d->tokens[high].value,
                        steps ? "; times per step differ from times per token by as much" : "");
        else
            claims_settle(d, low, "equal", claims_span_of(&d->tokens[low]), "%g to %g: within 1 %%",
                          d->tokens[low].value, d->tokens[high].value);
    }
}

/* ---- words ---- */

/* Time per token is time per step over tokens per step: more accepted, less time. */
static void direction(claims_doc *d, const claims_part *p) {
    for (int i = p->first; i + 1 < p->end; i++) {
        bool higher = claims_word(d, i, "higher|greater"), lower = claims_word(d, i, "lower|smaller");
        if ((!higher && !lower) || !claims_word(d, i + 1, "acceptance")) continue;
        int end = i + 8 < p->end ? i + 8 : p->end, tpot = claims_find(d, i, end, "tpot");
        int verb = claims_find(d, i, end, higher ? "inflates|raises|increases" : "deflates|lowers|reduces");
        if (verb >= 0 && tpot > verb)
            claims_tell(d, verb, "per-step", false, NAN,
                        "TPOT is time per step over accepted length: %s acceptance %s it", higher ? "higher" : "lower",
                        higher ? "lowers" : "raises");
    }
}

/* "lands exactly on the untuned number", and no number */
static void unquoted(claims_doc *d, const claims_part *p) {
    int word = claims_find(d, p->first, p->end, "exactly");
    int noun = word < 0 ? -1 : claims_find(d, word, word + 6 < p->end ? word + 6 : p->end, "number|figure|value");
    if (noun >= 0 && claims_word(d, word + 1, "on") && claims_next_figure(d, p->first, p->end) < 0)
        claims_tell(d, word, "unquoted", true, NAN, "equality with a figure that is not quoted cannot be checked");
}

/* ---- arms ---- */

/* "X only" that moved a metric which other rows leave alone */
static void isolation(claims_doc *d, const claims_table *t) {
    for (int r = 2; r < t->rows && r < 64; r++) {
        const claims_cell *label = claims_cell_at(d, t, r, 0);
        if (!claims_text_has(d->text + label->at, label->len, "only|alone")) continue;
        for (int c = 2; c < t->columns; c++) {
            if (!claims_header_has(d, t, c, "ttft|prefill")) continue;
            int base = claims_cell_figure(d, t, 1, c, false), f = claims_cell_figure(d, t, r, c, false);
            if (base < 0 || f < 0) continue;
            claims_span moved = claims_change(claims_base_of(&d->tokens[base]), claims_base_of(&d->tokens[f]));
            if (claims_known(moved) && (moved.lo > 10 || moved.hi < -10))
                claims_tell(d, f, "isolation", true, d->tokens[base].value,
                            "%+.3g %% against the first row: more changed than this arm is about", claims_mid(moved));
        }
    }
}

/* Tokens [*first, *end) that say what a quoted figure belongs to: its row's label, or its list item. */
static bool owner(const claims_doc *d, const claims_token *figure, int besides, int *first, int *end) {
    for (int k = 0; k < d->part_count; k++) {
        const claims_part *p = &d->parts[k];
        if (k == besides || p->place == CLAIMS_PROSE) continue;
        for (int i = p->first; i < p->end; i++) {
            const claims_token *t = &d->tokens[i];
            if (t->kind != CLAIMS_FIGURE || t->value != figure->value || t->decimals != figure->decimals) continue;
            int row = k;
            while (p->place == CLAIMS_CELL && row && d->parts[row - 1].table == p->table &&
                   d->tokens[d->parts[row - 1].first].line == t->line &&
                   d->parts[row - 1].end > d->parts[row - 1].first)
                row--;
            *first = d->parts[row].first, *end = d->parts[row].end;
            return true;
        }
    }
    return false;
}

/* A "#241" in [first, end) that is not in [other, other_end); its token, -1: none. */
static int change_besides(const claims_doc *d, int first, int end, int other, int other_end) {
    for (int i = first; i < end; i++) {
        const claims_token *w = &d->tokens[i];
        if (w->kind != CLAIMS_WORD || w->len < 2 || w->len > 20 || d->text[w->at] != '#') continue;
        char name[24];
        memcpy(name, d->text + w->at, w->len);
        name[w->len] = 0;
        if (!strchr(name, '|') && claims_find(d, other, other_end, name) < 0) return i;
    }
    return -1;
}

static void mixed(claims_doc *d, int k, int versus) {
    const claims_part *p = &d->parts[k];
    int a = claims_last_figure(d, versus - 3 > p->first ? versus - 3 : p->first, versus);
    int b = claims_next_figure(d, versus + 1, versus + 4 < p->end ? versus + 4 : p->end), at[2], end[2];
    if (a < 0 || b < 0 || d->tokens[a].decimals < 2 || d->tokens[b].decimals < 2) return;
    if ((d->budget -= d->part_count) < 0) return;
    if (!owner(d, &d->tokens[a], k, &at[0], &end[0]) || !owner(d, &d->tokens[b], k, &at[1], &end[1])) return;
    int more = change_besides(d, at[0], end[0], at[1], end[1]);
    if (more < 0) more = change_besides(d, at[1], end[1], at[0], end[0]);
    if (more < 0 || change_besides(d, p->first, p->end, 0, 0) >= 0) return;
    claims_tell(d, a, "mixed", true, NAN, "%g and %g differ by %.*s too, which the sentence does not say",
                d->tokens[a].value, d->tokens[b].value, (int)d->tokens[more].len, d->text + d->tokens[more].at);
}

void claims_serve_rules(claims_doc *d) {
    int tpot = pair_of(d, "tpot"), latency = pair_of(d, "latency"), throughput = pair_of(d, "throughput");
    tokens(d, tpot, latency);
    derived(d, tpot, throughput);
    for (int k = 0; k < d->part_count && !d->failed; k++) {
        const claims_part *p = &d->parts[k];
        if (p->place == CLAIMS_CELL) continue;
        equal(d, p);
        direction(d, p);
        unquoted(d, p);
        for (int i = p->first; i < p->end; i++)
            if (claims_word(d, i, "vs|versus|against") || d->tokens[i].kind == CLAIMS_ARROW) mixed(d, k, i);
    }
    for (int t = 0; t < d->table_count && !d->failed; t++) isolation(d, &d->tables[t]);
}
