/* ab.h: what the commands of the lab share. */
#ifndef CMD_AB_H
#define CMD_AB_H
#include "lab/lab.h"
#include "open.h"
#include "opts.h"
#include "say.h"

/* The options that all of them take: no --device and no --threads, the lab runs other programs. */
#define AB_EVERYWHERE(T)                                                                                               \
    {0, "--json", OPTS_FLAG, NULL, offsetof(T, common.json), 0, 0, "one JSON object on stdout, text on stderr", NULL}, \
    {                                                                                                                  \
        'h', "--help", OPTS_HELP, NULL, 0, 0, 0, "this text", NULL                                                     \
    }

/* The one FILE of a command. RANGE: none, or more. */
cadre_err ab_one_file(const opts_rest *files, const char *command, const char **path, cadre_fail *why);
/* --ledger, else cadre/ledger.jsonl in the user's folder of state. RANGE: there is none. */
cadre_err ab_ledger_path(const char *told, char path[OPEN_PATH_MAX], cadre_fail *why);
/* "name: what it asks", the metric, and how the arms sample. */
void ab_say_experiment(const lab_experiment *e);
/* "temperature 0, seed 0", "not told" */
void ab_sampling(const json *protocol, char text[100]);

/* Adds what came out to the ledger; a refused difference has no figures there either. e NULL: samples alone. `id`: of
 * the entry. Errors: as lab_ledger_add. */
cadre_err ab_keep(const lab_experiment *e, const lab_verdict *v, const char *samples, const char *ledger,
                  const char *supersedes, char id[16], cadre_fail *why);

/* The outcome alone, and the ratio and its interval of the first contrast; NaN if that is refused. */
typedef struct ab_outcome {
    lab_outcome outcome;
    double ratio, interval[2];
} ab_outcome;
cadre_err ab_judge(const lab_experiment *e, const char *samples, ab_outcome *out, cadre_fail *why);
/* The whole experiment `times` times, each in a folder of its own below setup->folder: how often does it come to which
 * outcome? (ab_repeat.c) Returns an exit status. */
int ab_repeat(const lab_experiment *e, const lab_run_setup *setup, int times, bool as_json);

/* What a run says of itself once it is whole (ab_conclude.c): the outcome of each contrast in one line, and an entry in
 * the ledger. ledger NULL: none is kept. */
typedef struct ab_conclusion {
    lab_outcome outcome;
    char id[16]; /* of the entry, "": none */
} ab_conclusion;
cadre_err ab_conclude(const lab_experiment *e, const char *samples, const char *ledger, const char *supersedes,
                      ab_conclusion *out, cadre_fail *why);
#endif
