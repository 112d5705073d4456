/* report: verdicts made by hand, so that each figure of a report has one place that it can come from; names that try to
 * become markup; refused differences that must not be told; memory that runs out at every allocation. */
#include "test.h"

#include "base/base.h"
#include "lab/lab.h"
#include <math.h>

/* ---- a decode experiment: two arms, two visits of five samples (its figures are public) ---- */

static const double off[] = {23027.5, 22998.0, 23008.3, 22993.6, 23024.4, 23050.6, 22997.1, 23032.6, 23014.0, 23018.1};
static const double on[] = {23580.0, 23510.6, 23535.9, 23548.9, 23522.6, 23547.3, 23517.0, 23543.0, 23553.0, 23576.3};
static const double off_means[] = {23010.36, 23022.48}, on_means[] = {23539.60, 23547.32}, pairs[] = {.0230, .0228};

typedef struct made {
    lab_sample items[32];
    lab_samples *samples;
    json_doc *manifests[2];
    lab_arm_figures arms[2];
    lab_contrast contrast;
    lab_verdict verdict;
    lab_report report;
} made;

#define COMMAND "\"command\":[\"cadre\",\"bench\",\"count\",\"--tokens\",\"256,1024\",\"--blocks\","
static const char *const manifest_texts[] = {
    "{" COMMAND
    "\"1024\",\"--capacity\",\"16384\",\"--repeat\",\"5\"],\"env\":[\"BLOCK=1024\"],\"device\":{\"name\":\"GPU "
    "one\"},\"protocol\":{\"batch\":256},\"visit\":{\"seconds\":9}}",
    "{" COMMAND
    "\"128\",\"--capacity\",\"16384\",\"--repeat\",\"5\"],\"env\":[\"BLOCK=128\"],\"device\":{\"name\":\"GPU "
    "one\"},\"protocol\":{\"batch\":256},\"visit\":{\"seconds\":8}}",
};

static lab_sample sample_of(int arm, int i, const made *m, const char *name) {
    return (lab_sample){.run = "r1",
                        .arm = name,
                        .visit = 1 + i / 5,
                        .order = 1 + arm + 2 * (i / 5),
                        .iteration = 1 + i % 5,
                        .metric = "tokens_per_s",
                        .unit = "tok/s",
                        .value = arm ? on[i] : off[i],
                        .tokens = NAN,
                        .failed = NAN,
                        .accepted = NAN,
                        .drafts = NAN,
                        .draft_tokens = NAN,
                        .active = LAB_ACTIVE_UNKNOWN,
                        .load = 0.5 + arm,
                        .mhz = NAN,
                        .celsius = NAN,
                        .manifest = json_root(m->manifests[arm])};
}

static void make_arms(made *m, const char *reference, const char *arm) {
    m->arms[0] = (lab_arm_figures){.name = reference,
                                   .n = 10,
                                   .visits = 2,
                                   .values = off,
                                   .visit_means = off_means,
                                   .mean = 23016.42,
                                   .median = 23016.05,
                                   .sd = 18.026,
                                   .low = 22993.6,
                                   .high = 23050.6,
                                   .within_sd = 17.88};
    m->arms[1] = (lab_arm_figures){.name = arm,
                                   .n = 10,
                                   .visits = 2,
                                   .left_out = 1,
                                   .values = on,
                                   .visit_means = on_means,
                                   .mean = 23543.46,
                                   .median = 23545.15,
                                   .sd = 23.145,
                                   .low = 23510.6,
                                   .high = 23580.0,
                                   .within_sd = 24.17};
    for (int i = 0; i < 2; i++) {
        lab_arm_figures *a = &m->arms[i];
        a->acceptance_length = a->accepted_per_draft = a->acceptance_rate = a->per_step = a->tokens = NAN;
        a->active = LAB_ACTIVE_UNKNOWN;
    }
}

static void make_contrast(made *m) {
    m->contrast = (lab_contrast){.arm = &m->arms[1],
                                 .reference = &m->arms[0],
                                 .outcome = LAB_WIN,
                                 .why = "the interval lies above 1 %",
                                 .delta = 527.04,
                                 .ratio = 1.022898,
                                 .interval = {1.0195, 1.0263},
                                 .estimator = "Welch t on logs of visit means, 2 + 2 visits",
                                 .bootstrap = {1.02215, 1.02366},
                                 .log_ratio = {1.02204, 1.02376},
                                 .p = 1.0825e-5,
                                 .p_floor = 1.0825e-5,
                                 .p_interval = 0.001,
                                 .p_visits = 1.0 / 3,
                                 .p_visits_floor = 1.0 / 3,
                                 .p_adjusted = 0.001,
                                 .separation = 460.0,
                                 .pairs = pairs,
                                 .pair_count = 2,
                                 .per_step_ratio = NAN,
                                 .noise = 0.0004,
                                 .noise_floor = 0.0017,
                                 .visits_needed = 3};
}

static void make(made *m, const char *reference, const char *arm) {
    *m = (made){0};
    for (int i = 0; i < 2; i++)
        must(json_parse("manifest", manifest_texts[i], strlen(manifest_texts[i]), &m->manifests[i], fail_out));
    for (int i = 0; i < 20; i++)
        m->items[i] = sample_of(i / 5 % 2, i % 5 + 5 * (i / 10), m, i / 5 % 2 ? arm : reference);
    m->items[20] = sample_of(1, 0, m, arm); /* a warm-up far off */
    m->items[20].warmup = true;
    m->items[20].iteration = 6;
    m->items[20].value = 1000;
    must(lab_samples_new(m->items, 21, &m->samples, fail_out));
    make_arms(m, reference, arm);
    make_contrast(m);
    m->verdict = (lab_verdict){
        .outcome = LAB_WIN,
        .run = "r1",
        .runs = 1,
        .metric = "tokens_per_s",
        .unit = "tok/s",
        .better = LAB_HIGHER,
        .question = {.effect = 0.01, .level = 0.05, .power = 0.8},
        .arms = m->arms,
        .arm_count = 2,
        .contrasts = &m->contrast,
        .gates = {{"family", true, false, 0, "no sample tells its outputs"}, {"interleaved", true, true, 0, "a b a b"}},
        .gate_count = 2,
        .drift = 0.000527,
        .drift_sd = 0.7,
        .samples = m->samples};
    m->report = (lab_report){.verdict = &m->verdict, .command = "cadre ab report x.jsonl"};
}

static void unmake(made *m) {
    lab_samples_free(m->samples);
    for (int i = 0; i < 2; i++) json_free(m->manifests[i]);
}

static char *written(const made *m, lab_format format) {
    char *text;
    size_t len;
    must(lab_report_write(&m->report, format, &text, &len, fail_out));
    assert_int_equal(strlen(text), len);
    return text;
}

/* Each line of `all` occurs in text. */
static void holds(const char *text, const char *const *all) {
    for (; *all; all++)
        if (!strstr(text, *all)) fail_msg("no '%s' in\n%s", *all, text);
}

static int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part)) n++;
    return n;
}

/* ---- what a report says ---- */

static void text_has_the_figures(void **state) {
    static const char *const all[] = {
        "Does ON change tokens_per_s by 1 % or more against OFF?",
        "Win: tokens_per_s of ON is 2.29 % higher than that of OFF (95 % interval +1.95 % to +2.63 %)",
        "higher\nis better.", /* lines are broken at 100 characters */
        "Welch t on logs of visit means, 2 + 2 visits  +2.29 %  1.0229  1.0195  1.0263",
        "ON                +527.0       460.0  1.08e-05   1.08e-05          0.333      0.333              0.001",
        "ON   1.0221 to 1.0237                    1.0220 to 1.0238",
        "Pairs, ON against OFF: +2.30 %, +2.28 %.",
        "power of 80 % from 3 visits per arm on; there are 2 and 2.",
        "OFF (reference)  10       2  23016.4  23016.0  18.0       17.9  22993.6  23050.6                   0",
        "ON               10       2  23543.5  23545.2  23.1       24.2  23510.6  23580.0                   1",
        "family       not told             no sample tells its outputs",
        "interleaved  ok                   a b a b",
        "Drift of OFF from its first to its last visit: +0.0527 % (0.7 sds of its noise); not taken out.",
        "command          ... --blocks 1024 ...  ... --blocks 128 ...",
        "env              BLOCK=1024             BLOCK=128",
        "This holds for: device GPU one; M 256.",
        "Not told by the manifests: CPU, driver, toolchain, CPUs,",
        "No transfer is claimed outside it.",
        "cadre ab report x.jsonl",
        NULL,
    };
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    char *text = written(&m, LAB_TEXT);
    holds(text, all);
    assert_null(strstr(text, "seconds")); /* of a visit, no difference between arms */
    mem_free(text);
    unmake(&m);
}

static void refuse(made *m);

static void predictions_stand_beside_what_came(void **state) {
    static const lab_arm arms[] = {{.name = "OFF", .predicted = NAN},
                                   {.name = "ON", .prediction = "7 of 8 pairs go away", .predicted = 0.026}};
    static const lab_experiment e = {.name = "count", .asks = "Do small blocks help?", .arms = arms, .arm_count = 2};
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    m.report.experiment = &e;
    char *text = written(&m, LAB_TEXT);
    holds(text, (const char *const[]){"count\n=====\nDo small blocks help?\n",
                                      "ON   7 of 8 pairs go away    +2.60 %   +2.29 %                  0.88", NULL});
    mem_free(text);
    refuse(&m);
    text = written(&m, LAB_TEXT);
    holds(text, (const char *const[]){"ON   7 of 8 pairs go away    +2.60 %         -                     -", NULL});
    mem_free(text);
    unmake(&m);
}

/* A ceiling is told and claims nothing, in words and in colours. */
static void ceilings_are_no_wins(void **state) {
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    m.contrast.ceiling = true;
    char *text = written(&m, LAB_TEXT), *html = written(&m, LAB_HTML);
    holds(text, (const char *const[]){"Ceiling: tokens_per_s of ON is 2.29 % higher than that of OFF",
                                      "what it leaves out can bring no more.", "ON   ceiling  Welch t", NULL});
    assert_null(strstr(text, "Win:"));
    assert_non_null(strstr(html, "<div class=\"outcome within_noise\">"));
    assert_null(strstr(html, "<div class=\"outcome win\">"));
    mem_free(text);
    mem_free(html);
    unmake(&m);
}

static const double nothing[2] = {NAN, NAN};

static void unknown_figures_are_dashes(void **state) {
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    m.contrast.p_visits = m.contrast.p_visits_floor = m.contrast.noise = NAN;
    memcpy(m.contrast.interval, nothing, sizeof nothing);
    memcpy(m.contrast.bootstrap, nothing, sizeof nothing);
    memcpy(m.contrast.log_ratio, nothing, sizeof nothing);
    m.contrast.outcome = LAB_UNDERPOWERED;
    m.contrast.visits_needed = 0;
    m.verdict.drift = NAN;
    char *text = written(&m, LAB_TEXT), *html = written(&m, LAB_HTML);
    holds(text, (const char *const[]){"Underpowered: tokens_per_s of ON is", "that is not enough to tell.",
                                      "460.0  1.08e-05   1.08e-05              -          -              0.001",
                                      "Drift: not known", NULL});
    assert_null(strstr(text, "nan"));
    assert_null(strstr(html, "nan"));
    mem_free(text);
    mem_free(html);
    unmake(&m);
}

/* ---- a refused difference is told nowhere ---- */

static const char *const request_texts[] = {
    "[{\"id\":\"q1\",\"sha256\":\"11\"},{\"id\":7,\"sha256\":\"77\"},{\"id\":\"q3\",\"sha256\":null}]",
    "[{\"id\":\"q1\",\"sha256\":\"11\"},{\"id\":7,\"sha256\":\"78\"},{\"id\":\"q3\",\"sha256\":\"33\"}]",
};
static json_doc *requests[2]; /* for the run of the program */

static void refuse(made *m) {
    for (int i = 0; i < 2 && !requests[i]; i++)
        must(json_parse("requests", request_texts[i], strlen(request_texts[i]), &requests[i], fail_out));
    m->verdict.outcome = m->contrast.outcome = LAB_REFUSED;
    snprintf(m->contrast.why, sizeof m->contrast.why, "the arms wrote different tokens");
    m->verdict.gates[0] = (lab_gate){"family", false, true, 2, "2 families"};
    m->verdict.gates[1] = (lab_gate){"acceptance", false, true, 2, "4.13 and 3.98 differ by more than 0.05"};
    lab_samples_free(m->samples);
    for (int i = 0; i < 20; i++) {
        lab_sample *s = &m->items[i];
        bool second = s->arm == m->arms[1].name;
        s->requests = json_root(requests[second]);
        s->family = second ? "bbbb" : "aaaa";
        s->drafts = 100;
        s->accepted = second ? 298 : 313;
        s->tokens = 1000;
    }
    must(lab_samples_new(m->items, 20, &m->samples, fail_out));
    m->verdict.samples = m->samples;
    for (int i = 0; i < 2; i++) m->arms[i].acceptance_length = i ? 3.98 : 4.13;
}

static void refused_difference_is_not_told(void **state) {
    static const char *const all[] = {
        "Refused: no difference between ON and OFF is told; failed gates: family, acceptance.",
        "OFF      1  aaaa          5    5000                -",
        "ON       2  bbbb          5    5000                -",
        "OFF      2     500      1565              4.130",
        "ON       1     500      1490              3.980",
        "7        77   78",
        "q3       -    33",
        "2 of 3 requests differ.",
        "family      FAILED  ON         2 families",
        NULL,
    };
    static const char *const figures[] = {"2.29", "527.0", "460.0", "1.08e-05", "1.0229", "2.300", "1.0195", NULL};
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    refuse(&m);
    char *text = written(&m, LAB_TEXT);
    holds(text, all);
    for (lab_format f = LAB_TEXT; f <= LAB_HTML; f++) {
        char *again = written(&m, f);
        for (const char *const *p = figures; *p; p++)
            if (strstr(again, *p)) fail_msg("format %d tells '%s':\n%s", f, *p, again);
        mem_free(again);
    }
    mem_free(text);
    unmake(&m);
}

/* ---- JSON ---- */

static void json_is_whole(void **state) {
    made m;
    json_doc *doc;
    (void)state;
    make(&m, "OFF", "ON");
    m.contrast.separation = NAN;
    char *text = written(&m, LAB_JSON);
    must(json_parse("report", text, strlen(text), &doc, fail_out));
    const json *v = json_root(doc), *c = json_get(v, "contrasts")->child, *gate = json_get(v, "gates")->child;
    assert_true(json_is(json_get(v, "verdict"), "win"));
    assert_true(json_get(v, "ratio")->number == 1.022898);
    assert_true(json_get(v, "interval")->child->number == 1.0195);
    assert_true(json_get(v, "p")->number == 1.0825e-5 && json_get(v, "p_floor")->number == 1.0825e-5);
    assert_int_equal(json_get(v, "separation")->kind, JSON_NULL);
    assert_int_equal(json_get(v, "contrasts")->count, 1);
    assert_true(json_is(json_get(c, "arm"), "ON") && json_get(c, "delta")->number == 527.04);
    assert_true(json_is(json_get(gate, "name"), "family") && json_get(gate, "ok")->truth);
    assert_false(json_get(gate, "told")->truth);
    assert_int_equal(json_get(json_get(v, "arms")->child, "values")->count, 10);
    json_free(doc);
    mem_free(text);
    refuse(&m);
    text = written(&m, LAB_JSON);
    must(json_parse("report", text, strlen(text), &doc, fail_out));
    v = json_root(doc);
    assert_true(json_is(json_get(v, "verdict"), "refused"));
    for (const char *const *k = (const char *const[]){"ratio", "interval", "delta", "p", "pairs", "bootstrap", NULL};
         *k; k++)
        assert_int_equal(json_get(v, *k)->kind, JSON_NULL);
    json_free(doc);
    mem_free(text);
    unmake(&m);
}

/* ---- names that try to become markup ---- */

/* Every element is closed, in its order; attributes are quoted. */
static void balanced(const char *html) {
    static const char empty[] = " meta link line rect circle path use ";
    char open[40][16], name[16], tagged[20];
    int depth = 0;
    for (const char *p = html; (p = strchr(p, '<')); p++) {
        if (p[1] == '!') continue;
        bool closing = p[1] == '/';
        size_t n = strcspn(p + 1 + closing, " >/");
        assert_in_range(n, 1, 14);
        snprintf(name, sizeof name, "%.*s", (int)n, p + 1 + closing);
        snprintf(tagged, sizeof tagged, " %s ", name);
        const char *end = strchr(p, '>');
        assert_non_null(end);
        if (closing) {
            if (!depth || strcmp(open[depth - 1], name) != 0)
                fail_msg("</%s> closes <%s>: %.120s", name, depth ? open[depth - 1] : "", p);
            depth--;
        } else if (end[-1] != '/' && !strstr(empty, tagged)) {
            assert_true(depth < 40);
            strcpy(open[depth++], name);
        } else if (end[-1] != '/' && !strcmp(name, "use"))
            strcpy(open[depth++], name);
        if (!strcmp(name, "style") || !strcmp(name, "script")) {
            char until[20];
            if (closing) continue;
            snprintf(until, sizeof until, "</%s>", name);
            p = strstr(p, until) - 1;
        }
    }
    if (depth) fail_msg("<%s> is open at the end", open[depth - 1]);
}

static void hostile_names_stay_text(void **state) {
    static const char *const names[] = {
        "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>",
        "a|b`c`*d*_e_[f](g)",        "\x1b[31mred\x07\n\r\tx",
        "bad \xff utf-8 \xc3",       "\342\200\256desrever",
        "&lt;b&gt;</title>",         "",
        "x' onmouseover='alert(1)",
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        made m;
        make(&m, *names[i] ? names[i] : "x", "ON");
        m.verdict.unit = names[i];
        m.report.title = names[i];
        m.report.command = names[i];
        snprintf(m.verdict.gates[0].why, sizeof m.verdict.gates[0].why, "%s", names[i]);
        m.report.profile = &(lab_profile_row){.op = names[i], .kernel = names[i], .us = 3, .share = 1, .floor_us = 1};
        m.report.profile_count = 1;
        char *html = written(&m, LAB_HTML), *text = written(&m, LAB_TEXT), *md;
        m.report.command = NULL; /* in a block of code, "<" is "<" */
        md = written(&m, LAB_MARKDOWN);
        assert_int_equal(count_of(html, "<script"), 1);
        assert_int_equal(count_of(html, "<img"), 0);
        assert_int_equal(count_of(html, "</title>"), 1 + count_of(html, "</title></use>"));
        assert_int_equal(count_of(md, "<"), 0);
        assert_null(strstr(html, "' onmouseover"));
        balanced(html);
        for (const char *const *p = (const char *const[]){html, text, md, NULL}; *p; p++) {
            assert_true(utf8_valid(*p, strlen(*p)));
            assert_null(strpbrk(*p, "\x1b\x07\r\t"));
            assert_null(strstr(*p, "\342\200\256"));
        }
        mem_free(html);
        mem_free(text);
        mem_free(md);
        unmake(&m);
    }
}

/* Rows of a Markdown table keep their columns whatever is in a cell. */
static void markdown_tables_keep_their_columns(void **state) {
    made m;
    (void)state;
    make(&m, "a|b", "c|d");
    char *md = written(&m, LAB_MARKDOWN);
    int columns = 0;
    for (const char *line = md; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        int bars = 0;
        size_t n = strcspn(line, "\n");
        for (size_t i = 0; i < n && *line == '|'; i++) bars += line[i] == '|' && (!i || line[i - 1] != '\\');
        if (columns && bars && bars != columns) fail_msg("%d columns, then: %.*s", columns, (int)n, line);
        columns = bars;
    }
    mem_free(md);
    unmake(&m);
}

/* ---- HTML ---- */

static void html_asks_nothing_of_the_network(void **state) {
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    char *html = written(&m, LAB_HTML), *again = written(&m, LAB_HTML);
    assert_string_equal(html, again);
    balanced(html);
    assert_null(strstr(html, "http://"));
    assert_null(strstr(html, "https://"));
    assert_null(strstr(html, "@import"));
    assert_null(strstr(html, "url("));
    assert_int_equal(count_of(html, "<use href=\"#m0\" class=\"pt c0"), 10);
    assert_int_equal(count_of(html, "<use href=\"#m1\" class=\"pt c1\""), 10);
    assert_int_equal(count_of(html, "class=\"pt c1 warm off\""), 1); /* beyond the scale of the others */
    assert_non_null(strstr(html, "ON, visit 2, iteration 5: 23576.3 tok/s"));
    mem_free(html);
    mem_free(again);
    unmake(&m);
}

/* ---- several arms, a stack, a profile ---- */

static void stack_shows_both_expectations(void **state) {
    static const double means[] = {11.635, 10.761, 9.553, 8.594};
    static const char *const names[] = {"none", "a", "b", "a+b"};
    lab_arm_figures arms[4];
    lab_contrast contrasts[3];
    lab_effect effects[3];
    lab_verdict v = {.outcome = LAB_UNDERPOWERED,
                     .metric = "tpot_ms",
                     .unit = "ms",
                     .arms = arms,
                     .arm_count = 4,
                     .contrasts = contrasts,
                     .drift = NAN,
                     .question = {.effect = 0.01, .level = 0.05, .power = 0.8}};
    lab_stack s = {.factors = {"a", "b"}, .factor_count = 2, .effects = effects, .verdict = &v};
    lab_report r = {.verdict = &v, .stack = &s};
    char *text, *html;
    size_t len;
    (void)state;
    for (int i = 0; i < 4; i++)
        arms[i] = (lab_arm_figures){.name = names[i],
                                    .n = 1,
                                    .visits = 1,
                                    .mean = means[i],
                                    .median = means[i],
                                    .sd = NAN,
                                    .within_sd = NAN,
                                    .low = means[i],
                                    .high = means[i],
                                    .acceptance_length = NAN,
                                    .per_step = NAN};
    for (int i = 0; i < 3; i++) {
        contrasts[i] = (lab_contrast){.arm = &arms[i + 1],
                                      .reference = arms,
                                      .outcome = LAB_UNDERPOWERED,
                                      .ratio = means[i + 1] / means[0],
                                      .interval = {NAN, NAN},
                                      .bootstrap = {NAN, NAN},
                                      .log_ratio = {NAN, NAN},
                                      .delta = means[i + 1] - means[0],
                                      .p = 1,
                                      .p_floor = 1,
                                      .p_visits = NAN,
                                      .p_visits_floor = NAN,
                                      .p_adjusted = 1,
                                      .separation = 1,
                                      .noise = NAN,
                                      .per_step_ratio = NAN};
        effects[i] = (lab_effect){.mask = (unsigned)i + 1,
                                  .alone = means[i + 1] / means[0] - 1,
                                  .interval = {NAN, NAN},
                                  .additive_interval = {NAN, NAN}};
        strcpy(effects[i].name, i == 2 ? "a x b" : names[i + 1]);
    }
    effects[2].additive = 8.679;
    effects[2].multiplicative = 8.8354;
    effects[2].additive_gap = 8.594 / 8.679 - 1;
    effects[2].multiplicative_gap = 8.594 / 8.8354 - 1;
    for (int i = 0; i < 2; i++) s.leave_one_out[i] = means[3] / means[2 - i] - 1, s.leave_interval[i][0] = NAN;
    must(lab_report_write(&r, LAB_TEXT, &text, &len, fail_out));
    must(lab_report_write(&r, LAB_HTML, &html, &len, fail_out));
    holds(text, (const char *const[]){"a x b       -26.14 %         8.594               8.679         -0.98 %",
                                      "8.835         -2.73 %", "a       -10.04 %", "b       -20.14 %", NULL});
    holds(html,
          (const char *const[]){"expected: sum of the singles", "<b>8.679</b> <span>measured -0.98\xC2\xA0% to it",
                                "<b>8.835</b> <span>measured -2.73\xC2\xA0% to it", NULL});
    balanced(html);
    mem_free(text);
    mem_free(html);
}

static void profile_tells_floors(void **state) {
    static const lab_profile_row rows[] = {
        {"experts", "gate_up", 48, 3600, 0.72, 2484},
        {"router", NULL, 48, 1400, 0.28, NAN},
    };
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    m.report.profile = rows;
    m.report.profile_count = 2;
    char *text = written(&m, LAB_TEXT), *html = written(&m, LAB_HTML);
    holds(text, (const char *const[]){"experts  gate_up        48  3600  72.0 %       2484          0.69",
                                      "router   -              48  1400  28.0 %          -             -", NULL});
    assert_int_equal(count_of(html, "class=\"floor\""), 1);
    assert_int_equal(count_of(html, "class=\"time\""), 2);
    mem_free(text);
    mem_free(html);
    unmake(&m);
}

/* ---- memory ---- */

static void every_allocation_may_fail(void **state) {
    made m;
    (void)state;
    make(&m, "OFF", "ON");
    for (lab_format f = LAB_TEXT; f <= LAB_HTML; f++) {
        cadre_err err = CADRE_NOMEM;
        int n = 0;
        for (; err; n++) {
            cadre_fail why = {0};
            char *text = NULL;
            size_t len;
            mem_fail_after(n);
            err = lab_report_write(&m.report, f, &text, &len, &why);
            mem_fail_after(-1);
            if (err) {
                assert_int_equal(err, CADRE_NOMEM);
                assert_int_equal(why.code, CADRE_NOMEM);
                assert_null(text);
            } else
                mem_free(text);
        }
        assert_true(n > 3);
    }
    unmake(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_has_the_figures),
        cmocka_unit_test(predictions_stand_beside_what_came),
        cmocka_unit_test(ceilings_are_no_wins),
        cmocka_unit_test(unknown_figures_are_dashes),
        cmocka_unit_test(refused_difference_is_not_told),
        cmocka_unit_test(json_is_whole),
        cmocka_unit_test(hostile_names_stay_text),
        cmocka_unit_test(markdown_tables_keep_their_columns),
        cmocka_unit_test(html_asks_nothing_of_the_network),
        cmocka_unit_test(stack_shows_both_expectations),
        cmocka_unit_test(profile_tells_floors),
        cmocka_unit_test(every_allocation_may_fail),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < 2; i++) json_free(requests[i]);
    return failed;
}
