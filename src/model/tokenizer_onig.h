/* tokenizer_onig.h: rewriting a pattern from Oniguruma's language to PCRE2's. */
#ifndef CADRE_MODEL_TOKENIZER_ONIG_H
#define CADRE_MODEL_TOKENIZER_ONIG_H
#include "model/tokenizer_parts.h"

/* *out takes the rewritten pattern (the caller frees out->p in every case). UNSUPPORTED: what[] says what stands where;
 * NOMEM. A pattern that is no pattern at all may pass here: PCRE2 finds that. */
cadre_err tok_onig(const char *regex, size_t len, tok_text *out, char what[80]);
/* Ranges to put in a class beside \p{name}: what PCRE2 may not know yet. Empty for most names. tokenizer_newer.c. */
const char *tok_newer(const char *name, size_t len);
#endif
