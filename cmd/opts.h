/* opts.h: the only reader of argv and the environment. A subcommand is a table of options; parsing, range checks, the
 * help text and the one-line refusals follow from the table. */
#ifndef CMD_OPTS_H
#define CMD_OPTS_H
#include "cadre.h"

typedef enum opts_kind {
    OPTS_FLAG, /* bool */
    OPTS_INT,  /* int, low..high */
    OPTS_REAL, /* double, low..high */
    OPTS_SEED, /* uint64_t, below 2^63 so that JSON can hold it */
    OPTS_TEXT, /* const char * */
    OPTS_WORD, /* const char *, one of the words of `arg` ("bf16|f32"); `later` lists words of a later version */
    OPTS_SET,  /* --set, handed to cadre_set() */
    OPTS_REST, /* opts_rest: arguments that are no options; `name` is what help calls them, "FILE|DIR..." */
    OPTS_MANY, /* opts_rest: an option that may be repeated */
    OPTS_HELP,
} opts_kind;

typedef struct opts_def {
    char letter;      /* 0: none */
    const char *name; /* "--temp" */
    opts_kind kind;
    const char *arg; /* shown in help; OPTS_WORD: the legal words */
    size_t at;       /* offset in the subcommand's struct */
    double low, high;
    const char *what;
    const char *later; /* OPTS_WORD: words that are refused as "not in this version" */
} opts_def;

/* What OPTS_REST and OPTS_MANY fill; items point into argv. */
enum { OPTS_REST_MOST = 4096 };
typedef struct opts_rest {
    const char *items[OPTS_REST_MOST];
    int count;
} opts_rest;

/* What every subcommand takes; the first member of its struct. */
typedef struct opts_common {
    bool json;
    const char *device;
    int threads;
} opts_common;

typedef struct opts_command {
    const char *name;  /* "bench moe" */
    const char *what;  /* one line */
    const char *notes; /* shown under the options, or NULL */
    const opts_def *defs;
    int count;
    const char *const *examples; /* pairs: command line, what it does; NULL ends */
    int (*run)(void);            /* exit status */
} opts_command;

#define OPTS_ROW(T, letter, name, kind, arg, member, low, high, what) \
    { letter, name, kind, arg, offsetof(T, member), low, high, what, NULL }
/* All but --device. */
#define OPTS_ALWAYS(T)                                                                                                  \
    {0,                                                                                                                 \
     "--threads",                                                                                                       \
     OPTS_INT,                                                                                                          \
     "N",                                                                                                               \
     offsetof(T, common.threads),                                                                                       \
     1,                                                                                                                 \
     1024,                                                                                                              \
     "threads (default: one per core this process may use)",                                                            \
     NULL},                                                                                                             \
        {0, "--set", OPTS_SET, "NAME=VALUE", 0, 0, 0, "set a switch; may be repeated (cadre doctor --switches)", NULL}, \
        {0,   "--json", OPTS_FLAG, NULL, offsetof(T, common.json), 0, 0, "one JSON object on stdout, text on stderr",   \
         NULL},                                                                                                         \
    {                                                                                                                   \
        'h', "--help", OPTS_HELP, NULL, 0, 0, 0, "this text", NULL                                                      \
    }
#define OPTS_EVERYWHERE(T) \
    {0, "--device", OPTS_WORD, "cpu", offsetof(T, common.device), 0, 0, "where to run", "cuda"}, OPTS_ALWAYS(T)
#define OPTS_WEIGHTS(T, member)                                                                         \
    {                                                                                                   \
        0, "--weights", OPTS_WORD, "auto|bf16|f32|q8|q4", offsetof(T, member), 0, 0,                    \
            "type of packed weights; q8, q4: of the experts (default auto: the checkpoint's own)", NULL \
    }
#define OPTS_MODEL(T, member) \
    OPTS_ROW(T, 'm', "--model", OPTS_TEXT, "DIR", member, 0, 0, "Hugging Face folder (default: the demo model)")
#define OPTS_TABLE(defs) (defs), (int)(sizeof(defs) / sizeof *(defs))

/* Keeps argv; nothing is parsed yet. */
void opts_start(int argc, char **argv);
typedef enum opts_ask { OPTS_ASK_DONE, OPTS_ASK_OVERVIEW, OPTS_ASK_VERSION, OPTS_ASK_RUN } opts_ask;
/* What argv asks for. RUN: *command is set (the longest name wins). DONE: "help X" was answered (*status 0), or the
 * name is unknown (*status 2, one line on stderr). */
opts_ask opts_pick(const opts_command *const *commands, const opts_command **command, int *status);
/* Applies CADRE_SET, then the command's own arguments, to *out (defaults are in it already). False: stop with *status;
 * help was shown (0) or one line told what is wrong (2). Says which switches are in force. */
bool opts_read(const opts_command *command, void *out, int *status);

/* `text` (may be NULL: default) must be "0". Else false, and *why tells that it's for a later version, or nonsense. */
bool opts_only_zero(const char *name, const char *text, cadre_fail *why);
/* "1,8,32" and "1..8" in any mix -> values in low..high, ascending order kept as given, at most cap. */
cadre_err opts_numbers(const char *name, const char *text, int low, int high, int *values, int cap, int *count,
                       cadre_fail *why);
cadre_err opts_int(const char *name, const char *text, int low, int high, int *out, cadre_fail *why);
cadre_err opts_real(const char *name, const char *text, double low, double high, double *out, cadre_fail *why);
/* Is `text` one of the words in "a|b|c"? */
bool opts_word(const char *words, const char *text);

const char *opts_line(void);     /* the command line as one text, for manifests */
const char *opts_temp_dir(void); /* TMPDIR or /tmp */
/* `name` below the user's folder of state (XDG_STATE_HOME, else ~/.local/state); false: there is none, or no room. */
bool opts_state_path(const char *name, char *out, size_t size);
#endif
