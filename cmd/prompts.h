/* prompts.h: token ids of the prompts of a run, from text, lines, JSON lines or a random stream. */
#ifndef CMD_PROMPTS_H
#define CMD_PROMPTS_H
#include "say.h"

typedef struct prompt {
    int32_t *ids; /* mem_new memory */
    int count;
} prompt;

typedef struct prompts {
    prompt *at;
    int count, cap;
} prompts;

enum { PROMPTS_FILE_LIMIT = 1 << 30 };

/* Each adds to the end; what was added before stays on failure. A prompt without tokens is RANGE. */
cadre_err prompts_add_text(prompts *p, const cadre_model *model, const char *text, size_t len, cadre_fail *why);
/* One prompt per line that isn't blank; `name` is for messages. */
cadre_err prompts_add_lines(prompts *p, const cadre_model *model, const char *name, const char *text, size_t len,
                            cadre_fail *why);
/* JSON lines with the key `prompt` or `question`. */
cadre_err prompts_add_jsonl(prompts *p, const cadre_model *model, const char *path, cadre_fail *why);
/* `count` random ids below `tokens`, a function of (seed, the prompt's number). */
cadre_err prompts_add_random(prompts *p, int tokens, int count, uint64_t seed, cadre_fail *why);
/* The last prompt again, until there are n. */
cadre_err prompts_repeat(prompts *p, int n, cadre_fail *why);
int prompts_longest(const prompts *p);
void prompts_done(prompts *p);

/* Text to ids of any length; *ids is mem_new memory. specials as in cadre_encode. */
cadre_err prompts_encode(const cadre_model *model, const char *text, size_t len, bool specials, int32_t **ids,
                         size_t *count, cadre_fail *why);
/* A text that grows; zero-initialise, free with mem_free(text). */
typedef struct growing {
    char *text; /* terminated, NULL while nothing was added */
    size_t len, cap;
} growing;
/* Adds the text of ids to the end of g. */
cadre_err prompts_decode(const cadre_model *model, const int32_t *ids, int count, growing *g, cadre_fail *why);
#endif
