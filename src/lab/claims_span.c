/* claims_span.c: units, and arithmetic over the intervals that printed figures stand for. */
#include "claims.h"
#include <math.h>
#include <string.h>

#define T(name, scale) \
    { name, CLAIMS_TIME, 1, 0, scale, true }
#define R(name, bytes, scale) \
    { name, CLAIMS_RATE, -1, bytes, scale, true }
#define B(name, scale) \
    { name, CLAIMS_SIZE, 0, 1, scale, true }
#define O(name, scale) \
    { name, CLAIMS_OTHER, 0, 0, scale, true }
/* Longer names before those that begin them. */
const claims_unit claims_units[] = {
    {"", CLAIMS_PLAIN, 0, 0, 1, false},
    {"%", CLAIMS_PERCENT, 0, 0, 1, true},
    {"percent", CLAIMS_PERCENT, 0, 0, 1, true},
    {"\xC3\x97", CLAIMS_FOLD, 0, 0, 1, true},
    {"x", CLAIMS_FOLD, 0, 0, 1, true},
    R("tokens/s", 0, 1),
    R("token/s", 0, 1),
    R("tok/s", 0, 1),
    R("t/s", 0, 1),
    R("TPS", 0, 1),
    R("tps", 0, 1),
    R("req/s", 0, 1),
    R("requests/s", 0, 1),
    R("steps/s", 0, 1),
    R("it/s", 0, 1),
    R("GiB/s", 1, 1073741824.0),
    R("GB/s", 1, 1e9),
    R("MB/s", 1, 1e6),
    R("TB/s", 1, 1e12),
    R("GFLOP/s", 0, 1e9),
    R("TFLOP/s", 0, 1e12),
    R("GFLOPS", 0, 1e9),
    R("TFLOPS", 0, 1e12),
    B("KiB", 1024),
    B("MiB", 1048576.0),
    B("GiB", 1073741824.0),
    B("kB", 1e3),
    B("KB", 1e3),
    B("MB", 1e6),
    B("GB", 1e9),
    B("TB", 1e12),
    B("bytes", 1),
    T("ns", 1e-9),
    T("us", 1e-6),
    T("\xC2\xB5s", 1e-6),
    T("\xCE\xBCs", 1e-6),
    T("msec", 1e-3),
    T("ms", 1e-3),
    T("seconds", 1),
    T("sec", 1),
    T("minutes", 60),
    T("s", 1),
    O("GHz", 1e9),
    O("MHz", 1e6),
    O("W", 1),
    O("J", 1),
    {NULL, CLAIMS_PLAIN, 0, 0, 0, false},
};
#undef T
#undef R
#undef B
#undef O

static bool ends_name(const char *text, size_t len) {
    return !len || !((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || *text == '_' || *text == '=');
}

/* "/token" and the like name what a time is of. */
static size_t per_length(const char *text, size_t len) {
    static const char *const of[] = {"/tokens", "/token", "/tok",     "/step", "/layer", "/call",
                                     "/launch", "/pass",  "/request", "/iter", "/round"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        size_t n = strlen(of[i]);
        if (len >= n && !memcmp(text, of[i], n) && ends_name(text + n, len - n)) return n;
    }
    return 0;
}

int claims_unit_at(const char *text, size_t len, bool glued, size_t *length) {
    for (int i = 1; claims_units[i].name; i++) {
        const claims_unit *u = &claims_units[i];
        size_t n = strlen(u->name);
        bool apart = u->shape == CLAIMS_FOLD || u->seconds + u->bytes == 0;
        if (len < n || memcmp(text, u->name, n) ||
            (!glued && apart && u->shape != CLAIMS_PERCENT && u->shape != CLAIMS_OTHER))
            continue;
        if (*text == '%') return *length = 1, i;
        if (u->shape == CLAIMS_TIME) n += per_length(text + n, len - n);
        /* "2x3" multiplies, "4 x" too; "3.8x" is a fold */
        if (!ends_name(text + n, len - n) || (u->shape == CLAIMS_TIME && n == 1 && n < len && text[n] == '/')) continue;
        return *length = n, i;
    }
    return 0;
}

static const claims_unit *unit_of(const claims_token *t) {
    return &claims_units[t->unit];
}

double claims_scale_of(const claims_token *t) {
    return unit_of(t)->scale;
}

claims_shape claims_shape_of(const claims_token *t) {
    return unit_of(t)->shape;
}

bool claims_same_shape(const claims_token *a, const claims_token *b) {
    const claims_unit *u = unit_of(a), *v = unit_of(b);
    return u->shape == v->shape && u->bytes == v->bytes;
}

bool claims_exact(const claims_token *t) {
    return t->decimals == 0 && !unit_of(t)->measured && !t->about && isnan(t->high);
}

static double unit_in_last_place(const claims_token *t) {
    double u = 1;
    for (int i = 0; i < t->decimals && i < 300; i++) u *= 10;
    u = 1 / u;
    for (int i = 0; i > t->decimals && i > -300; i--) u *= 10;
    return u;
}

/* "about 40" is anything from 35 to 45, "about 23" from 22 to 24. */
static double half_about(double value, double last) {
    double unit = last;
    while (value != 0 && fabs(value) < 1e15 && unit >= 1 && fmod(fabs(value), unit * 10) == 0) unit *= 10;
    return unit > last ? unit / 2 : last;
}

claims_span claims_span_of(const claims_token *t) {
    double last = unit_in_last_place(t), half = claims_exact(t) ? 0 : last / 2;
    if (!isnan(t->high)) {
        if (t->about) return (claims_span){fmin(t->value, t->high) - last / 2, fmax(t->value, t->high) + last / 2};
        return (claims_span){fmin(t->value, t->high), fmax(t->value, t->high)};
    }
    if (t->about) half = half_about(t->value, last);
    return (claims_span){t->value - half, t->value + half};
}

claims_span claims_base_of(const claims_token *t) {
    return claims_scaled(claims_span_of(t), claims_scale_of(t));
}

/* ---- arithmetic ---- */

claims_span claims_add(claims_span a, claims_span b) {
    return (claims_span){a.lo + b.lo, a.hi + b.hi};
}

claims_span claims_sub(claims_span a, claims_span b) {
    return (claims_span){a.lo - b.hi, a.hi - b.lo};
}

claims_span claims_mul(claims_span a, claims_span b) {
    double p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
    return (claims_span){fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s))};
}

claims_span claims_div(claims_span a, claims_span b) {
    if (!(b.lo > 0) && !(b.hi < 0)) return (claims_span){NAN, NAN};
    return claims_mul(a, (claims_span){1 / b.hi, 1 / b.lo});
}

claims_span claims_scaled(claims_span a, double by) {
    return by < 0 ? (claims_span){a.hi * by, a.lo * by} : (claims_span){a.lo * by, a.hi * by};
}

claims_span claims_whole(double v) {
    return (claims_span){v, v};
}

claims_span claims_change(claims_span from, claims_span to) {
    return claims_scaled(claims_sub(claims_div(to, from), claims_whole(1)), 100);
}

claims_span claims_abs(claims_span a) {
    if (a.lo >= 0) return a;
    if (a.hi <= 0) return (claims_span){-a.hi, -a.lo};
    return (claims_span){0, fmax(-a.lo, a.hi)};
}

double claims_mid(claims_span a) {
    return a.lo + (a.hi - a.lo) / 2;
}

bool claims_known(claims_span a) {
    return isfinite(a.lo) && isfinite(a.hi);
}

/* A value on the edge of what a figure stands for is fine, either rounding would do; two intervals that only touch at
 * their ends are apart. The last bits of the arithmetic do not count. */
bool claims_meet(claims_span a, claims_span b) {
    double slack = 1e-9 * (fabs(a.lo) + fabs(b.lo) + fabs(a.hi) + fabs(b.hi)) / 4 + 1e-300;
    double common = fmin(a.hi, b.hi) - fmax(a.lo, b.lo);
    bool wide = a.hi - a.lo > 2 * slack && b.hi - b.lo > 2 * slack;
    return wide ? common > slack : common >= -slack;
}
