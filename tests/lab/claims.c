/* claims: what the checker of reports finds, what it leaves alone, and that hostile texts end in a result or one line.
 */
#include "lab/lab.h"
#include "test.h"
#include <math.h>

static lab_claims *check(const char *text, size_t len, const lab_samples *samples) {
    lab_claims *c = NULL;
    must(lab_claims_new(text, len, samples, &c, fail_out));
    return c;
}

/* ---- whole reports: what is wrong in them, and what deserves a note ---- */

typedef struct finding {
    int line;
    const char *rule;
    double stated; /* NAN: the claim is in words */
    bool note;
} finding;

static void findings(const char *path, const finding *expected, int count) {
    char *text;
    size_t len;
    int n = 0;
    must(file_read(path, 1 << 20, &text, &len, fail_out));
    lab_claims *c = check(text, len, NULL);
    for (int i = 0; i < lab_claims_count(c); i++) {
        const lab_claim *x = lab_claims_at(c, i);
        if (x->ok && !x->note) continue;
        if (n == count) fail_msg("%s:%d: [%s] %g was not expected: %s", path, x->line, x->rule, x->stated, x->why);
        const finding *f = &expected[n++];
        bool same = isnan(f->stated) ? isnan(x->stated) : fabs(x->stated - f->stated) <= 1e-9 * fabs(f->stated);
        if (x->line != f->line || strcmp(x->rule, f->rule) || x->note != f->note || x->ok != f->note || !same)
            fail_msg("%s:%d: [%s] %g, expected %d: [%s] %g", path, x->line, x->rule, x->stated, f->line, f->rule,
                     f->stated);
        assert_true(*x->text && *x->why && !strchr(x->why, '\n'));
    }
    if (n < count) fail_msg("%s: %d findings, expected %d", path, n, count);
    lab_claims_free(c);
    mem_free(text);
}

#define FINDINGS(path, list) findings(path, list, (int)(sizeof(list) / sizeof *(list)))

static void faults(void **state) {
    static const finding expected[] = {
        {3, "product", 262, false},      {3, "ratio", 2.5, false},         {4, "within", 4.5, false},
        {13, "difference", -1.1, false}, {13, "derived", 3200, true},      {13, "change", 2.6, false},
        {13, "tokens", 19990, false},    {13, "tokens", 18990, false},     {14, "difference", 90, false},
        {14, "conversion", 0.88, false}, {18, "mean", 3199.1, false},      {19, "sd", 2.9, false},
        {21, "min", 3368.8, false},      {21, "difference", 156.8, false}, {21, "noise", 90, false},
        {26, "change", 18.85, false},    {27, "isolation", 2300, true},    {29, "equal", 3.9, false},
        {29, "per-step", NAN, false},    {33, "change", 0.1, false},       {35, "change", 2, false},
        {35, "count", 120, false},       {35, "product", 240, false},      {36, "count", 3, false},
        {36, "product", 786, false},     {36, "share", 95, false},         {38, "product", 90, false},
        {38, "count", 28, false},        {39, "saving", 60, false},        {44, "share", 53, false},
        {52, "sum", 6.4, false},         {61, "stack", -25, false},        {66, "per-step", 24, false},
        {68, "change", -13.5, false},    {68, "count", 2, false},
    };
    (void)state;
    FINDINGS("tests/lab/claims/faults.md", expected);
    puts("vector V39 ok"); /* the same kinds of faults as in the reports below */
}

/* Four reports of others, which are no part of this project: tested where they lie beside it. */
static void reports(void **state) {
    static const finding count[] = {
        {28, "within", 1.3, false},     {39, "derived", 23016.42, true},
        {41, "tokens", 11121.5, false}, {41, "tokens", 10866.6, false},
        {57, "sd", 18, true},           {57, "sd", 23.2, true},
        {78, "product", 2280, false},   {78, "product", 2280, false},
        {97, "within", 1.3, false},
    };
    static const finding table[] = {
        {112, "per-step", 8.473, true}, {113, "per-step", NAN, false}, {186, "per-step", 7.99, true},
        {212, "unquoted", NAN, true},   {220, "change", 0.02, false},  {261, "count", 3, true},
        {270, "mixed", 5.5659, true},
    };
    static const finding reuse[] = {
        {9, "saving", 192, false},
    };
    static const finding tiny[] = {
        {26, "isolation", 2632, true},
        {70, "equal", 3.95, false},
        {124, "change", 3, false},
        {155, "change", -4.6, true},
    };
    static const char *const folders[] = {"../shared/reports", "../../shared/reports"};
    char path[100];
    (void)state;
    for (int i = 0; i < 2; i++) {
        if (!file_is_dir(folders[i])) continue;
        snprintf(path, sizeof path, "%s/report-000-token-count.txt", folders[i]);
        FINDINGS(path, count);
        snprintf(path, sizeof path, "%s/report-001-tuned-table.txt", folders[i]);
        FINDINGS(path, table);
        snprintf(path, sizeof path, "%s/report-002-buffer-reuse.txt", folders[i]);
        FINDINGS(path, reuse);
        snprintf(path, sizeof path, "%s/report-004-tiny-m-default.txt", folders[i]);
        FINDINGS(path, tiny);
        return;
    }
    print_message("skipped: the four reports are not beside the project (%s)\n", folders[0]);
    skip();
}

/* ---- one sentence, one verdict ---- */

typedef struct sentence {
    const char *text, *rule;
    double stated;
    bool ok;
} sentence;

static void one(const sentence *s) {
    lab_claims *c = check(s->text, strlen(s->text), NULL);
    const lab_claim *found = NULL;
    for (int i = 0; i < lab_claims_count(c); i++)
        if (fabs(lab_claims_at(c, i)->stated - s->stated) < 1e-9) found = lab_claims_at(c, i);
    if (!found) fail_msg("'%s': nothing about %g", s->text, s->stated);
    if (strcmp(found->rule, s->rule) || found->ok != s->ok)
        fail_msg("'%s': [%s] %s: %s", s->text, found->rule, found->ok ? "follows" : "wrong", found->why);
    lab_claims_free(c);
}

/* A figure stands for all that is printed like it: 8.594 / 11.635 is -26.129 to -26.144 %. */
static void intervals(void **state) {
    static const sentence sentences[] = {
        {"It went 11.635 -> 8.594 ms (-26.13%).", "change", -26.13, true},
        {"It went 11.635 -> 8.594 ms (-26.14%).", "change", -26.14, true},
        {"It went 11.635 -> 8.594 ms (-26.15%).", "change", -26.15, false},
        {"It went 11.635 -> 8.594 ms (-26.12%).", "change", -26.12, false},
        {"23016.42 -> 23543.46 tok/s, +2.290%", "change", 2.290, true},
        {"23016.42 -> 23543.46 tok/s, +2.291%", "change", 2.291, false},
        {"12 -> 9 ms (-25%)", "change", -25, true},
        {"12 -> 9 ms (-29%)", "change", -29, true}, /* 12.5 to 8.5 ms would be 32 % */
        {"12.0 -> 9.0 ms (-29%)", "change", -29, false},
        {"7.636 -> 7.971 ms, so it costs 4-5%", "change", 4, true},
        {"7.636 -> 7.971 ms, so it costs 3-4%", "change", 3, false},
        {"10.00 -> 8.04 ms, about 20% less", "change", 20, true},
        {"10.00 -> 8.04 ms, 20.0% less", "change", 20, false},
        {"10.00 vs 9.70 ms, at most 4% less", "change", 4, true},
        {"10.00 vs 9.70 ms, at most 2% less", "change", 2, false},
        {"10.00 vs 9.70 ms, more than 2% less", "change", 2, true},
    };
    (void)state;
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) one(&sentences[i]);
}

static void sentences(void **state) {
    static const sentence sentences[] = {
        {"TTFT 1513.5 -> 1513.2 ms (+0.02%)", "change", 0.02, false},
        {"TTFT 1513.5 -> 1513.2 ms (-0.02%)", "change", -0.02, true},
        {"It fell from 412.5 to 366.0 MB, 11.3% less.", "change", 11.3, true},
        {"It rose from 366.0 to 412.5 MB, 11.3% more.", "change", 11.3, false},
        {"10.00 ms, down from 12.50 ms (20.0% less)", "change", 20, true},
        {"12.50 -> 10.00 ms, 25.0% faster", "change", 25, true}, /* as a rate */
        {"12.50 -> 10.00 ms, 20.0% faster", "change", 20, true}, /* as a time */
        {"12.50 -> 10.00 ms, 22.0% faster", "change", 22, false},
        {"100.0 -> 125.0 tok/s, 25.0% faster", "change", 25, true},
        {"100.0 -> 125.0 tok/s, 20.0% faster", "change", 20, false},
        {"8.08 \xE2\x86\x92 2.11 \xC2\xB5s, 3.83\xC3\x97 faster", "ratio", 3.83, true},
        {"8.08 \xC2\xB5s \xE2\x86\x92 2.11 ms, 3.83\xC3\x97 slower", "ratio", 3.83, false}, /* the unit */
        {"11.1225 -> 10.8735 ms (-0.2490 ms/step)", "difference", -0.2490, true},
        {"11.1225 -> 10.8735 ms (-249 us)", "difference", -249, true},
        {"11.1225 -> 10.8735 ms (-294 us)", "difference", -294, false},
        {"The harness reads 8.08 us against the trace's 7.95 us, a 1.6% match.", "change", 1.6, true},
        {"In all 189 + 192 = 381 calls.", "sum", 381, true},
        {"In all 189 + 192 = 378 calls.", "sum", 378, false},
        {"At 381 \xC3\x97 395 = 150,495 calls.", "product", 150495, true},
        {"At 381 x 395 = 150,945 calls.", "product", 150945, false},
        {"256 / 11.1225 ms = 23016 tok/s", "ratio", 23016, true},
        {"256 / 11.1225 ms = 23.0 tok/s", "ratio", 23, false},
        {"48 \xC3\x97 7.95 \xC2\xB5s = 381.6 \xC2\xB5s", "product", 381.6, true},
        {"48 \xC3\x97 7.95 \xC2\xB5s = 0.382 ms", "product", 0.382, true},
        {"48 \xC3\x97 7.95 \xC2\xB5s = 3.816 ms", "product", 3.816, false},
        {"There are 24 = 2 x 3 x 4 of them.", "product", 24, true},
        {"There are 26 = 2 x 3 x 4 of them.", "product", 26, false},
        {"All 60 cases: 5 seeds x 4 sizes x blocks {1, 2, 4}.", "product", 60, true},
        {"All 61 cases: 5 seeds x 4 sizes x blocks {1, 2, 4}.", "product", 61, false},
        {"We tried four sizes {1, 2, 4}.", "count", 4, false},
        {"We ran 3 arms (control, new, both).", "count", 3, true},
        {"We ran 4 arms (control, new, both).", "count", 4, false},
        {"Runs: 11.61, 11.65, 11.64, 11.63 and 11.66 ms (mean 11.638, sd 0.019).", "sd", 0.019, true},
        {"Runs: 11.61, 11.65, 11.64, 11.63 and 11.66 ms (mean 11.638, sd 0.091).", "sd", 0.091, false},
        {"Runs: 11.61, 11.65, 11.64 ms; the median is 11.65 ms.", "median", 11.65, false},
        {"313 were accepted over 100 drafts, an acceptance length of 4.13.", "acceptance", 4.13, true},
        {"313 were accepted over 100 drafts, an acceptance length of 3.13.", "acceptance", 3.13, false},
        {"11.635 x 4.13 = 48.053 -> 9.563 x 3.98 = 38.061 (-20.79%)", "change", -20.79, true},
        {"11.635 x 4.13 = 48.053 -> 9.563 x 3.98 = 38.061 (-17.81%)", "change", -17.81, false},
        {"In 5 seeds x 4 sizes, 22 cases in all, they were equal.", "product", 22, false},
        {"Predicted -282.1 us/step, measured -249.0 us/step: a conversion of 0.888.", "conversion", 0.888, false},
        {"48 layers at 12.5 us each make 605 us.", "product", 605, false},
        {"It went down by 1.6 ms, from 12.0 to 10.5 ms.", "difference", 1.6, true}, /* 1.4 to 1.6 */
        {"It went down by 1.9 ms, from 12.0 to 10.5 ms.", "difference", 1.9, false},
        {"Cut by 30.0% to 9.0 GB from 12.0 GB.", "change", 30, false},
        {"The gate is 8.5 ms of 43.8 ms (19.4%).", "share", 19.4, true},
        {"17 of 20 (85%)", "share", 85, true},
        {"17/20 cases (75%)", "share", 75, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof sentences / sizeof *sentences; i++) one(&sentences[i]);
}

/* Figures that no words relate; names, versions, dates, settings and code. */
static void tables(void **state) {
    static const char runs[] =
        "| arm | r1 | r2 | mean |\n|-|-|-|-|\n| OFF | 100.2 | 100.4 | 100.3 |\n| ON | 102.5 | 102.7 | 102.6 |\n\n";
    static const char rows[] =
        "| op | a, us | b, us | total, us |\n|-|-|-|-|\n| x | 1.0 | 2.0 | 3.0 |\n| y | 4.0 | 5.0 | 9.0 |\n"
        "| z | 7.0 | 8.5 | 15.0 |\n";
    static const char means[] =
        "| op | a | b |\n|-|-|-|\n| x | 1.0 | 2.0 |\n| y | 4.0 | 5.0 |\n| z | 7.0 | 8.5 |\n| mean | 4.4 | 5.2 |\n";
    static const char logs[] =
        "Name     Before (ms)    After (ms)    Speedup\n-------------------------------------------\n"
        "a           12.000         6.000      2.000\nb           12.000         8.000      1.600\n"
        "c           12.000         3.000      4.000\n";
    static const char spread[] =
        "| m | t/s main | t/s PR | Speedup |\n|-|-|-|-|\n| a | 10.00 \xC2\xB1 0.1 | 12.00 \xC2\xB1 0.1 | 1.20 |\n"
        "| b | 10.00 \xC2\xB1 0.2 | 15.00 \xC2\xB1 0.3 | 1.55 |\n| c | 20.00 | 30.00 | 1.50 |\n";
    char text[600];
    (void)state;
    snprintf(text, sizeof text, "%sON is 2.29%% faster than OFF.", runs);
    one(&(sentence){text, "change", 2.29, true});
    snprintf(text, sizeof text, "%sON is 2.92%% faster than OFF.", runs);
    one(&(sentence){text, "change", 2.92, false});
    snprintf(text, sizeof text, "%smin(ON) - max(OFF) = 2.3 tok/s", runs);
    one(&(sentence){text, "difference", 2.3, false});
    one(&(sentence){rows, "sum", 15, false});
    one(&(sentence){means, "mean", 4.4, false});
    one(&(sentence){means, "mean", 5.2, true});
    one(&(sentence){logs, "ratio", 1.6, false});
    one(&(sentence){logs, "ratio", 4, true});
    one(&(sentence){spread, "ratio", 1.55, false});
}

static void left_alone(void **state) {
    static const char *const texts[] = {
        "Needs gcc 12.2.0 or 13.1, glibc 2.36 and 24 GB. Released 2026-09-19 at 12:30, 95% of users took it.",
        "Two rows fell from 62 to 47 and from 58 to 34 GB/s; asking for each line cost 5 to 10% of the rate.",
        "TTFT 1516.5 -> 1520.5 ms, throughput +2.3%, acceptance 6.04 -> 6.05, power 4% less.",
        "25.7 us against 40.9 and 35.7 (1.4x); see #241, v0.28.0, S5000, 4k/128, E=128,N=1856 and `7 -> 9 (+50%)`.",
        "Rows 16/128/128/1/4/3 at M = 2; 4.3 = 4.0 + two fixes; int{32,64}_t; K=8 is 2.1x faster than before.",
        "| a | b | a / b |\n|---|---|---|\n| 10.0 | 20.0 | 0.52 [0.48, 0.55] |\n| 11.0 | 20.0 | 0.51 [0.50, 0.54] |\n",
        "| run | mean | total |\n|---|---|---|\n| x | 1.5 | 7 |\n| y | 2.5 | 9 |\n",
        "```\n12 -> 9 ms (-99%)\n```\n",
        "Pairs, 16 against 64: -4.72 %, -4.72 %, -4.95 %.",
        "A 95% interval of 9.1 to 9.4 ms; 4.51 -> 1.56 us and 8.22 -> 8.21 us: no effect, p99 12 ms.",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lab_claims *c = check(texts[i], strlen(texts[i]), NULL);
        const lab_claim *x = lab_claims_at(c, 0);
        if (x) fail_msg("'%s': [%s] %g: %s", texts[i], x->rule, x->stated, x->why);
        lab_claims_free(c);
    }
    lab_claims *c = check("about 12 of 16 and 3.5 ms", 25, NULL);
    assert_int_equal(lab_claims_unchecked(c), 3);
    assert_null(lab_claims_at(c, 0));
    lab_claims_free(c);
}

/* ---- samples ---- */

/* Two arms of one run, TPOT and TTFT; before them a warm-up and an older run. */
static lab_samples *two_arms(void) {
    static const double off[] = {10.02, 10.01, 10.06, 10.03}, on[] = {9.01, 9.04, 9.02, 9.05};
    char text[4000];
    int n =
        snprintf(text, sizeof text,
                 "{\"run\":\"r\",\"arm\":\"on\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":99,\"warmup\":true}\n"
                 "{\"run\":\"old\",\"arm\":\"on\",\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":12}\n");
    for (int i = 0; i < 8; i++) {
        double v = (i & 1 ? on : off)[i / 2];
        n += snprintf(
            text + n, sizeof text - (size_t)n,
            "{\"run\":\"r\",\"arm\":\"%s\",\"visit\":1,\"metric\":\"tpot_ms\",\"unit\":\"ms\",\"value\":%.2f}\n"
            "{\"run\":\"r\",\"arm\":\"%s\",\"visit\":1,\"metric\":\"ttft_ms\",\"unit\":\"ms\",\"value\":%.2f}\n",
            i & 1 ? "on" : "off", v, i & 1 ? "on" : "off", 100 * v);
    }
    lab_samples *s = NULL;
    must(lab_samples_parse("two", text, (size_t)n, &s, fail_out));
    return s;
}

/* off: mean 10.03, median 10.025, sd 0.0216; on: mean 9.03, median 9.03, sd 0.0183; exact p 2 / 70. */
static void samples(void **state) {
    static const struct {
        const char *text;
        int wrong, claims;
    } texts[] = {
        {"| arm | mean TPOT | median TPOT | sd TPOT | n TPOT |\n|-|-|-|-|-|\n"
         "| off | 10.030 ms | 10.025 ms | 0.022 ms | 4 |\n| on | 9.030 ms | 9.030 ms | 0.018 ms | 4 |\n",
         0, 8},
        {"| arm | mean TPOT | median TPOT | sd TPOT | n TPOT |\n|-|-|-|-|-|\n"
         "| off | 10.050 ms | 10.035 ms | 0.032 ms | 5 |\n| on | 9.030 ms | 9.030 ms | 0.018 ms | 4 |\n",
         4, 8},
        {"| arm | TPOT (us) | TTFT (ms) |\n|-|-|-|\n| off | 10030 | 1003.0 |\n| on | 9031 | 903.1 |\n", 2, 4},
        {"| arm | mean |\n|-|-|\n| off | 10.99 ms |\n| on | 9.99 ms |\n", 0, 0}, /* of which metric? */
        {"The mean of off is 10.03 ms, max(on) = 9.05 ms, TPOT; on vs off -9.97%, p = 0.0286.", 0, 4},
        {"The mean of off is 10.04 ms, max(on) = 9.04 ms, TPOT; on vs off -9.79%, p = 0.0268.", 4, 4},
        {"The mean of neither is 10.04 ms; off and on are arms.", 0, 0},
    };
    (void)state;
    lab_samples *s = two_arms();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        lab_claims *c = check(texts[i].text, strlen(texts[i].text), s);
        int wrong = 0;
        for (int k = 0; k < lab_claims_count(c); k++) wrong += !lab_claims_at(c, k)->ok;
        if (wrong != texts[i].wrong || lab_claims_count(c) != texts[i].claims)
            fail_msg("'%s': %d wrong of %d", texts[i].text, wrong, lab_claims_count(c));
        lab_claims_free(c);
    }
    lab_samples_free(s);
}

/* ---- hostile texts ---- */

static void refused(const char *text, size_t len, const char *why_is) {
    lab_claims *c = (lab_claims *)1;
    cadre_fail why = {0};
    assert_int_equal(lab_claims_new(text, len, NULL, &c, &why), CADRE_FORMAT);
    assert_string_equal(why.text, why_is);
    assert_ptr_equal(c, (lab_claims *)1);
}

/* text, n times, is checked without a stop; megabytes take a second or so. */
static void repeated(const char *text, size_t bytes, const char *why_is) {
    size_t n = strlen(text), times = bytes / n;
    char *all = mem_new(times * n + 1);
    assert_non_null(all);
    for (size_t i = 0; i < times; i++) memcpy(all + i * n, text, n);
    if (why_is)
        refused(all, times * n, why_is);
    else
        lab_claims_free(check(all, times * n, NULL));
    mem_free(all);
}

static void hostile(void **state) {
    (void)state;
    refused("one\0two", 7, "byte 3 is zero: not a text");
    repeated("1 ", 10 << 20, "more than 1048576 words and figures: not a report");
    repeated("\n", 2 << 20, "more than 1048576 lines");
    repeated("9", 10 << 20, NULL);
    repeated("`", 10 << 20, NULL);
    repeated("(", 1 << 19, NULL);
    repeated("1 -> 2 ms (-3 %) ", 1 << 20, NULL);
    repeated("2 x 3 = 6 + ", 1 << 20, NULL);
    repeated("3 runs {1, 2, ", 1 << 20, NULL);
    repeated("A -> B = -3 %. 1.25 vs 1.25 min(A) = 4, ", 1 << 20, NULL);
    repeated("| total | 1 ms | 2 ms | 3 % |\n", 1 << 20, NULL);
    repeated("||||\n", 1 << 19, NULL);
    repeated("| a |\n|-|\n\n", 1 << 19, NULL);
    repeated("\xE2\x86\xFF\xC2\xF0\x80", 1 << 20, NULL);
    static const char huge[] =
        "1e999999999 -> 1e-999999999 ms (+1e400 %), 1e308 x 1e308 = 2, 0 -> 0 ms (0%), 5 / 0 = 1";
    lab_claims_free(check(huge, sizeof huge - 1, NULL));
    lab_claims_free(check("", 0, NULL));
    lab_claims_free(check(NULL, 0, NULL));
}

/* Every allocation may fail. */
static void out_of_memory(void **state) {
    char *text;
    size_t len;
    (void)state;
    must(file_read("tests/lab/claims/faults.md", 1 << 20, &text, &len, fail_out));
    lab_samples *s = two_arms();
    uint64_t before = mem_count();
    lab_claims_free(check(text, len, s));
    int64_t all = (int64_t)(mem_count() - before);
    assert_true(all > 50);
    for (int64_t n = 0; n < all; n++) {
        lab_claims *c = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        cadre_err err = lab_claims_new(text, len, s, &c, &why);
        mem_fail_after(-1);
        assert_true(err == CADRE_NOMEM || (!err && c));
        lab_claims_free(c);
    }
    lab_samples_free(s);
    mem_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults),    cmocka_unit_test(reports), cmocka_unit_test(intervals),
        cmocka_unit_test(sentences), cmocka_unit_test(tables),  cmocka_unit_test(left_alone),
        cmocka_unit_test(samples),   cmocka_unit_test(hostile), cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
