/* generate.h: the loop that every figure comes from: prompts in, tokens out, for a batch of sequences of one session.
 *
 *   step:  | decode row of 0 | decode row of 1 | ... | prompt piece of 4 | ...     at most `chunk` prompt rows a step
 *
 * Prompts are fed as soon as there is room, beside the rows of sequences that already decode. By law L1 the mixture
 * changes times, never tokens. */
#ifndef CMD_GENERATE_H
#define CMD_GENERATE_H
#include "say.h"
#include <signal.h>

typedef enum gen_end { GEN_RUNS, GEN_LENGTH, GEN_STOP, GEN_CONTEXT, GEN_INTERRUPTED } gen_end;
extern const char *const gen_end_names[]; /* "length", "stop", "context", "interrupted" */

/* One sequence. The caller fills the first part; ids and at_ns (NULL: not wanted) are its storage of `most` entries. */
typedef struct gen_request {
    const int32_t *prompt; /* appended to what the slot holds */
    int prompt_len;        /* >= 1 */
    int most;              /* tokens to generate, >= 0 */
    int slot;
    uint64_t sequence;              /* for the noise of sampling */
    const cadre_sampling *sampling; /* NULL: that of gen_options */
    int32_t *ids;
    uint64_t *at_ns; /* when each token came, since the start */

    int count; /* tokens generated, an end token included */
    gen_end end;
    uint64_t first_ns, last_ns; /* of the first and last token, since the start */
    int fed;                    /* prompt tokens done; used inside */
} gen_request;

typedef struct gen_options {
    const cadre_sampling *sampling;
    bool ignore_ends;
    int chunk;                         /* most prompt tokens in one step */
    cadre_profile *profile;            /* watches the decode steps; NULL: nobody does */
    const volatile sig_atomic_t *stop; /* NULL: never */
    /* Both may be NULL. `row` is the logits a token is drawn from. */
    void (*on_logits)(void *ctx, int request, const float *row);
    void (*on_token)(void *ctx, int request, int32_t id);
    void *ctx;
} gen_options;

typedef struct gen_result {
    int steps, decode_steps; /* decode: no prompt row in it */
    uint64_t wall_ns, decode_ns;
    int64_t tokens, decode_tokens; /* generated; in decode steps */
    int64_t prompt_tokens;
    uint64_t decode_bytes;               /* that decode steps had to read */
    int counted_steps;                   /* steps after the first of each call */
    uint64_t allocations;                /* in those */
    uint64_t minor_faults, major_faults; /* page faults of all steps: served from memory, from the disk */
} gen_result;

double gen_allocs_per_step(const gen_result *r); /* NaN without counted steps */

/* Rows that a session needs for this: its max_rows. */
int gen_rows(int requests, int chunk);
/* Runs all requests (each in a slot of its own) to their end. */
cadre_err generate(const cadre_model *model, cadre_session *session, gen_request *requests, int count,
                   const gen_options *options, gen_result *result, cadre_fail *why);

double gen_ttft_ms(const gen_request *r); /* start to first token; NaN without one */
double gen_tpot_ms(const gen_request *r); /* (last - first) / (tokens - 1); NaN under two tokens */
/* SHA-256 of ids as little-endian int32. */
void gen_sha(const int32_t *ids, int count, char hex[65]);
void gen_sha_add(sha256 *s, const int32_t *ids, int count);
#endif
