/* Every case of tests/golden/tokenizers against the ids and the text that the tokenizers library gave. */
#include "model/model.h"
#include "test.h"

#include <dirent.h>

#define ROOT "tests/golden/tokenizers"

/* Cases that differ on purpose; they count as skipped. */
typedef struct known {
    const char *start; /* of the decoded text, in every variant */
    const char *reason;
} known;
/* A row of fallback bytes, part of it ill-formed: the reference gives U+FFFD for every byte of the row. A stream gives
 * the row's first character before it can know that. */
#define ROW "an ill-formed row of fallback bytes"
static const known differ[] = {
    {"]irs]daaTVver", ROW},
    {"thou\xEF\xBF\xBD"
     "enm",
     ROW},
    {"th\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD", ROW},
    {"\xEF\xBF\xBD"
     "es \xEF\xBF\xBD\xEF\xBF\xBD",
     ROW},
    {"\xEF\xBF\xBD\xEF\xBF\xBD<unk>RGto", ROW},
    {"\xEF\xBF\xBD\xEF\xBF\xBDRGto", ROW},
    {"of the &at ", ROW},
    {NULL, NULL},
};

typedef struct tally {
    int variants, cases, skipped, bad;
} tally;

typedef struct one {
    const char *variant;
    const tokenizer *t;
    const json *v;
    char *text; /* the case's text; NULL: ids only */
    size_t len;
    int32_t *ids;
    size_t n;
} one;

static void print_ids(const char *what, const int32_t *ids, size_t n) {
    printf("    %s %zu:", what, n);
    for (size_t i = 0; i < n && i < 40; i++) printf(" %d", ids[i]);
    printf("%s\n", n > 40 ? " ..." : "");
}

static void print_text(const char *what, const char *text, size_t len) {
    json_out o = {0};
    json_put_text_n(&o, NULL, text, len < 200 ? len : 200);
    printf("    %s %zu bytes: %s\n", what, len, o.text ? o.text : "");
    json_out_free(&o);
}

/* {"repeat": [text, n]} or a text, in memory of its own. */
static char *text_of(const json *v, size_t *len) {
    const json *list = json_get(v, "repeat"), *unit = list ? list->child : v;
    size_t times = list ? (size_t)unit->next->integer : 1;
    char *out = malloc(unit->len * times + 1);
    assert_non_null(out);
    for (size_t i = 0; i < times; i++) memcpy(out + i * unit->len, unit->text, unit->len);
    *len = unit->len * times;
    return out;
}

/* The ids a list or {"runs"} gives; NULL for {"sha256"}. */
static int32_t *ids_of(const json *v, size_t *n) {
    const json *runs = json_get(v, "runs");
    size_t room = 0;
    *n = 0;
    if (json_get(v, "sha256")) return NULL;
    for (const json *r = runs ? runs->child : NULL; r; r = r->next) room += (size_t)r->child->next->integer;
    if (!runs) room = (size_t)v->count;
    int32_t *ids = malloc((room + 1) * sizeof *ids);
    assert_non_null(ids);
    for (const json *r = runs ? runs->child : NULL; r; r = r->next)
        for (int64_t i = 0; i < r->child->next->integer; i++) ids[(*n)++] = (int32_t)r->child->integer;
    for (const json *r = runs ? NULL : v->child; r; r = r->next) ids[(*n)++] = (int32_t)r->integer;
    return ids;
}

static bool same_hash(const json *want, const void *data, size_t len) {
    char hex[65];
    cadre_sha256(data, len, hex);
    return json_is(json_get(want, "sha256"), hex);
}

static bool check_ids(const one *c) {
    const json *want = json_get(c->v, "ids");
    size_t n;
    int32_t *ids = ids_of(want, &n);
    bool ok;
    if (ids)
        ok = n == c->n && !memcmp(ids, c->ids, n * sizeof *ids);
    else
        ok = json_get(want, "count")->integer == (int64_t)c->n && same_hash(want, c->ids, c->n * sizeof *c->ids);
    if (!ok) {
        printf("%s: ids differ\n", c->variant);
        print_text("text", c->text, c->len);
        if (ids) print_ids("want", ids, n);
        print_ids("got ", c->ids, c->n);
    }
    free(ids);
    return ok;
}

static bool check_decoded(const one *c) {
    const json *want = json_get(c->v, "decoded"), *skip = json_get(c->v, "skip_special");
    size_t len = 0, cap = 64, n;
    char *text = malloc(cap);
    tokenizer_stream *s = NULL;
    must(tokenizer_stream_new(c->t, skip && skip->truth, &s, fail_out));
    for (size_t i = 0; i <= c->n; i++) {
        const char *p = i < c->n ? tokenizer_stream_push(s, c->ids[i], &n) : tokenizer_stream_end(s, &n);
        assert_int_equal(p[n], 0);
        assert_true(utf8_valid(p, n));
        while (len + n > cap) text = realloc(text, cap *= 2);
        memcpy(text + len, p, n);
        len += n;
    }
    tokenizer_stream_free(s);
    bool ok = want->kind == JSON_TEXT ? want->len == len && !memcmp(want->text, text, len)
                                      : json_get(want, "bytes")->integer == (int64_t)len && same_hash(want, text, len);
    if (!ok) {
        printf("%s: decoded text differs\n", c->variant);
        print_ids("ids ", c->ids, c->n);
        if (want->kind == JSON_TEXT) print_text("want", want->text, want->len);
        print_text("got ", text, len);
    }
    free(text);
    return ok;
}

/* Encodes the text, or takes the ids as given. */
static bool check_case(one *c, bool user) {
    const json *text = json_get(c->v, "text"), *add = json_get(c->v, "add_special");
    if (text->kind == JSON_NULL) {
        c->ids = ids_of(json_get(c->v, "ids"), &c->n);
        return check_decoded(c);
    }
    c->text = text_of(text, &c->len);
    size_t cap = c->len * 4 + 16;
    c->ids = malloc(cap * sizeof *c->ids);
    must(tokenizer_encode(c->t, c->text, c->len, !user, add && add->truth, c->ids, cap, &c->n, fail_out));
    return check_ids(c) && check_decoded(c);
}

/* Only cases that decode given ids may be known to differ. */
static const known *find_known(const one *c) {
    const json *text = json_get(c->v, "text"), *decoded = json_get(c->v, "decoded");
    for (const known *k = differ; text->kind == JSON_NULL && k->start; k++)
        if (!strncmp(decoded->text, k->start, strlen(k->start))) return k;
    return NULL;
}

static void run_line(const char *variant, const tokenizer *t, const char *line, size_t len, bool user, tally *sum) {
    json_doc *doc;
    must(json_parse(variant, line, len, &doc, fail_out));
    one c = {.variant = variant, .t = t, .v = json_root(doc)};
    const known *k = find_known(&c);
    sum->cases++;
    if (k) {
        printf("skipped decoding %s \"%s\": %s\n", variant, k->start, k->reason);
        sum->skipped++;
    } else if (!check_case(&c, user)) {
        sum->bad++;
    }
    free(c.text);
    free(c.ids);
    json_free(doc);
}

/* Cases of ROOT/name; 0 if there is no such file. */
static int run_file(const char *variant, const tokenizer *t, const char *name, bool user, tally *sum) {
    char path[512], *text;
    size_t len;
    int before = sum->cases;
    snprintf(path, sizeof path, ROOT "/%s", name);
    if (!file_exists(path)) return 0;
    must(file_read(path, 64 << 20, &text, &len, fail_out));
    for (char *p = text, *end = text + len, *eol; p < end; p = eol + 1) {
        eol = memchr(p, '\n', (size_t)(end - p));
        if (!eol) eol = end;
        if (eol > p) run_line(variant, t, p, (size_t)(eol - p), user, sum);
    }
    mem_free(text);
    return sum->cases - before;
}

static void run_variant(const char *variant, tally *sum) {
    char dir[300], cases[320], user[320];
    tokenizer *t = NULL;
    snprintf(dir, sizeof dir, ROOT "/%s", variant);
    snprintf(cases, sizeof cases, "%s/cases.jsonl", variant);
    snprintf(user, sizeof user, "%s/user.jsonl", variant);
    must(tokenizer_open(dir, &t, fail_out));
    int n = run_file(variant, t, cases, false, sum);
    if (!n) fail_msg("%s has no cases", variant);
    run_file(variant, t, user, true, sum);
    tokenizer_close(t);
    sum->variants++;
}

static void all(void **state) {
    (void)state;
    tally sum = {0};
    DIR *dir = opendir(ROOT);
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' && !strchr(e->d_name, '.')) run_variant(e->d_name, &sum);
    closedir(dir);
    printf("vector tokenizers: %d variants, %d cases, %d skipped, %d wrong\n", sum.variants, sum.cases, sum.skipped,
           sum.bad);
    assert_true(sum.variants > 0);
    assert_int_equal(sum.bad, 0);
}

/* The tokenizer of the model that comes with the project. */
static void demo(void **state) {
    (void)state;
    tally sum = {0};
    tokenizer *t = NULL;
    must(tokenizer_open("models/demo", &t, fail_out));
    assert_true(run_file("demo", t, "demo.jsonl", false, &sum) > 0);
    tokenizer_close(t);
    printf("vector tokenizers demo: %d cases, %d skipped, %d wrong\n", sum.cases, sum.skipped, sum.bad);
    assert_int_equal(sum.bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all), cmocka_unit_test(demo)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
