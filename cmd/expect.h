/* expect.h: receipts that must appear after a run, and receipts that must not: absence of a line is evidence too.
 *
 * A receipt that ran is one line; a pattern is matched anywhere in it, and '*' stands for anything:
 *   experts kernel=experts_bf16_avx512bf16 source=policy config=rows=4 panels=2 n=1..16 runs=120 why=..
 *   'experts*source=policy'
 */
#ifndef CMD_EXPECT_H
#define CMD_EXPECT_H
#include "opts.h"
#include "say.h"

typedef struct expect_opts {
    opts_rest must, must_not;
} expect_opts;
#define EXPECT_OPTS(T, member)                                                                            \
    OPTS_ROW(T, 0, "--expect", OPTS_MANY, "PATTERN", member.must, 0, 0,                                   \
             "exit 1 unless a receipt of what ran matches, as 'experts*source=policy'; may be repeated"), \
        OPTS_ROW(T, 0, "--refuse", OPTS_MANY, "PATTERN", member.must_not, 0, 0,                           \
                 "exit 1 if a receipt of what ran matches, as 'source=user'; may be repeated")

bool expect_match(const char *pattern, const char *line);
/* The line of a receipt. */
void expect_line(const cadre_receipt *r, char *line, size_t size);
/* `status`, or 1 with one line on stderr for each pattern that is not met. */
int expect_receipts(const expect_opts *e, const cadre_receipt *receipts, int count, int status);
int expect_model(const expect_opts *e, const cadre_model *model, int status);
#endif
