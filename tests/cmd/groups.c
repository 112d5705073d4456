/* groups: what `cadre run` prints of each group, from inside: a text that could not be decoded fails the run, also when
 * later ones could. cmd/run.c is compiled in; the parts that it calls are played here. */
#include "command.h"

#include "../../cmd/run.c"

/* ---- played ---- */

/* Ids are digits; 7, 8 and 9 have no text. */
cadre_err prompts_decode(const cadre_model *model, const int32_t *ids, int count, growing *g, cadre_fail *why) {
    (void)model;
    if (ids[0] >= 7) return cadre_fail_set(why, CADRE_NOMEM, "no text for %d", (int)ids[0]);
    g->text = mem_new((size_t)count + 1);
    for (int i = 0; i < count; i++) g->text[g->len++] = (char)('0' + ids[i]);
    return CADRE_OK;
}

cadre_err job_run(job *j, const gen_options *options, void (*done)(void *ctx, int first, int n), gen_result *total,
                  cadre_fail *why) {
    (void)total, (void)why;
    for (int first = 0; first < j->count; first += j->batch)
        done(options->ctx, first, j->batch < j->count - first ? j->batch : j->count - first);
    return CADRE_OK;
}

#define PLAYED __attribute__((unused))
int expect_model(const expect_opts *e PLAYED, const cadre_model *m PLAYED, int status) {
    return status;
}
cadre_err job_init(job *j PLAYED, cadre_model *m PLAYED, const prompts *p PLAYED, const job_options *o PLAYED,
                   cadre_fail *why PLAYED) {
    return CADRE_OK;
}
void job_done(job *j PLAYED) {}
cadre_err open_prepared(const opts_common *o PLAYED, const char *dir PLAYED, const char *weights PLAYED,
                        opened *m PLAYED, cadre_fail *why PLAYED) {
    return CADRE_OK;
}
void open_close(opened *m PLAYED) {}
bool opts_read(const opts_command *command PLAYED, void *out PLAYED, int *status PLAYED) {
    return false;
}
bool opts_only_zero(const char *name PLAYED, const char *text PLAYED, cadre_fail *why PLAYED) {
    return true;
}
cadre_err prompts_add_text(prompts *p PLAYED, const cadre_model *m PLAYED, const char *text PLAYED, size_t len PLAYED,
                           cadre_fail *why PLAYED) {
    return CADRE_OK;
}
cadre_err prompts_add_lines(prompts *p PLAYED, const cadre_model *m PLAYED, const char *name PLAYED,
                            const char *text PLAYED, size_t len PLAYED, cadre_fail *why PLAYED) {
    return CADRE_OK;
}
cadre_err prompts_repeat(prompts *p PLAYED, int n PLAYED, cadre_fail *why PLAYED) {
    return CADRE_OK;
}
void prompts_done(prompts *p PLAYED) {}
int run_chat(const run_opts *o PLAYED, const opened *m PLAYED, cadre_fail *why PLAYED) {
    return 0;
}
int run_report(const run_opts *o PLAYED, const opened *m PLAYED, const job *j PLAYED, const gen_result *g PLAYED) {
    return 0;
}
int say_failed(const cadre_fail *why PLAYED) {
    return EXIT_COULD_NOT;
}
void say_to_stderr(bool on PLAYED) {}

/* ---- tests ---- */

/* Runs requests of one id each, in groups; ids ends with 0. */
static cadre_err run_ids(const int32_t *ids, int batch, cadre_fail *why) {
    static cadre_model model;
    int32_t copies[8];
    gen_request requests[8] = {0};
    run_opts o = {0};
    opened m = {.model = &model};
    job j = {.requests = requests, .batch = batch};
    talk t = {.o = &o, .m = &m};
    gen_result result = {0};
    for (; ids[j.count]; j.count++) {
        copies[j.count] = ids[j.count];
        requests[j.count] = (gen_request){.ids = &copies[j.count], .count = 1};
    }
    return run_job(&t, &j, &result, why);
}

static void first_failure_is_kept(void **state) {
    (void)state;
    static const struct {
        int32_t ids[8];
        int batch;
        const char *says; /* NULL: fine */
    } runs[] = {
        {{1, 2, 3, 4}, 2, NULL},
        {{7, 2, 3, 4}, 4, "no text for 7"},
        {{1, 8, 3, 4}, 2, "no text for 8"},
        {{1, 2, 3, 9}, 2, "no text for 9"},
        {{1, 8, 7, 4}, 1, "no text for 8"},
        {{9, 8, 7}, 3, "no text for 9"},
    };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        cadre_fail why = {0};
        cadre_err err = run_ids(runs[i].ids, runs[i].batch, &why);
        if (err != (runs[i].says ? CADRE_NOMEM : CADRE_OK) || strcmp(why.text, runs[i].says ? runs[i].says : ""))
            fail_msg("run %zu: %d '%s'", i, err, why.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_failure_is_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
