/* claims_list.c: values that a sentence lists, and what it says of them.
 *
 *   runs 11.61, 11.65, 11.64 ms (mean 11.633, sd 0.021)        313 accepted over 100 drafts: acceptance length 4.13 */
#include "claims_arm.h"
#include <math.h>

enum { VALUES_MOST = 64 };

static const char *const words[] = {"mean|average|avg", "median", "sd|stdev|std", "min|minimum|lowest",
                                    "max|maximum|highest"};

static int statistic_at(const claims_doc *d, int i) {
    for (int s = 0; s < 5; s++)
        if (claims_word(d, i, words[s])) return s;
    return -1;
}

typedef struct list {
    int figures[VALUES_MOST], count, end; /* end: the token behind it */
} list;

/* Three figures or more, commas or slashes and at most an "and" between, of one unit, none a percentage. */
static bool read_list(const claims_doc *d, int first, int end, list *out) {
    list l = {.count = 0};
    int i = first;
    while (i < end && l.count < VALUES_MOST && claims_figure(d, i) && isnan(d->tokens[i].high) &&
           !d->tokens[i].is_signed) {
        l.figures[l.count++] = i++;
        l.end = i;
        bool slash = claims_kind_at(d, i) == CLAIMS_SLASH;
        if (claims_kind_at(d, i) != CLAIMS_COMMA && !slash && !claims_word(d, i, "and")) break;
        i++;
        if (!slash && claims_word(d, i, "and")) i++;
    }
    if (l.count < 3 || claims_exact(&d->tokens[l.figures[0]])) return false;
    const claims_token *last = &d->tokens[l.figures[l.count - 1]];
    for (int k = 0; k < l.count; k++) {
        const claims_token *t = &d->tokens[l.figures[k]];
        if ((t->unit && t->unit != last->unit) || t->decimals != last->decimals) return false;
    }
    claims_shape shape = claims_shape_of(last);
    *out = l;
    return shape != CLAIMS_PERCENT && shape != CLAIMS_FOLD;
}

/* "mean 11.633", "median of 11.64", "sd is 0.021": the figure behind the word; -1: none, or the word has an arm of its
 * own. */
static int figure_of(const claims_doc *d, int word, int end) {
    int i = word + 1;
    while (i < end && (claims_word(d, i, "is|was|of|about") || claims_kind_at(d, i) == CLAIMS_EQUALS ||
                       claims_kind_at(d, i) == CLAIMS_COLON))
        i++;
    return i < end && claims_figure(d, i) && claims_kind_at(d, i + 1) != CLAIMS_SLASH ? i : -1;
}

static void statistics(claims_doc *d, const list *l, int end) {
    claims_span v[VALUES_MOST];
    const claims_token *unit = &d->tokens[l->figures[l->count - 1]];
    for (int i = l->end; i < end && i < l->end + 30; i++) {
        int s = statistic_at(d, i), f = s < 0 ? -1 : figure_of(d, i, end);
        list other;
        if (claims_figure(d, i) && read_list(d, i, end, &other)) return;
        if (f < 0 || (d->tokens[f].unit && unit->unit && !claims_same_shape(&d->tokens[f], unit))) continue;
        double scale = d->tokens[f].unit && unit->unit ? claims_scale_of(unit) / claims_scale_of(&d->tokens[f]) : 1;
        for (int k = 0; k < l->count; k++) v[k] = claims_scaled(claims_span_of(&d->tokens[l->figures[k]]), scale);
        claims_arm a = {.values = v, .count = l->count};
        claims_span readings[] = {claims_arm_statistic(&a, (claims_statistic)s),
                                  s == CLAIMS_SD ? claims_sd_of(v, l->count, 0) : (claims_span){NAN, NAN}};
        claims_settle_any(d, f, claims_statistic_names[s], readings, 2, "the %s of the %d values listed is %.6g",
                          claims_statistic_names[s], l->count, claims_mid(readings[0]));
    }
}

/* The figure beside one of the words, before it or behind it; -1: none. */
static int count_by(const claims_doc *d, const claims_part *p, const char *of) {
    int word = claims_find(d, p->first, p->end, of);
    if (word < 0) return -1;
    for (int i = word - 1; i >= p->first && i >= word - 3; i--)
        if (claims_figure(d, i) && claims_exact(&d->tokens[i])) return i;
    for (int i = word + 1; i < p->end && i <= word + 2; i++)
        if (claims_figure(d, i) && claims_exact(&d->tokens[i])) return i;
    return -1;
}

static void acceptance(claims_doc *d, const claims_part *p) {
    int length = claims_find(d, p->first, p->end, "length");
    if (length < 0 || !claims_word(d, length - 1, "acceptance|accepted|mean")) return;
    int f = figure_of(d, length, p->end), taken = count_by(d, p, "accepted"), drafts = count_by(d, p, "drafts");
    if (f < 0 || taken < 0 || drafts < 0 || taken == drafts || f == taken || f == drafts || claims_exact(&d->tokens[f]))
        return;
    claims_span v =
        claims_add(claims_whole(1), claims_div(claims_span_of(&d->tokens[taken]), claims_span_of(&d->tokens[drafts])));
    claims_settle(d, f, "acceptance", v, "1 + %g / %g = %.5g", d->tokens[taken].value, d->tokens[drafts].value,
                  claims_mid(v));
}

/* The rest of the paragraph or item may speak of a list. */
static int block_end(const claims_doc *d, int part) {
    int k = part;
    while (k + 1 < d->part_count && d->parts[k + 1].block == d->parts[part].block && k < part + 3) k++;
    return d->parts[k].end;
}

void claims_list_rules(claims_doc *d) {
    for (int k = 0; k < d->part_count && !d->failed; k++) {
        const claims_part *p = &d->parts[k];
        if (p->place == CLAIMS_CELL) continue;
        acceptance(d, p);
        for (int i = p->first; i < p->end; i++) {
            list l;
            if (!claims_figure(d, i) || !read_list(d, i, p->end, &l)) continue;
            statistics(d, &l, block_end(d, k));
            i = l.end - 1;
        }
    }
}
