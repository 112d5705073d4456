/* lint_print.h: findings as text, JSON, SARIF 2.1.0 and annotations of GitHub's checks. */
#ifndef CMD_LINT_PRINT_H
#define CMD_LINT_PRINT_H
#include "plan/lint.h"
#include "say.h"

/* Each prints the findings of at least `least` and returns `status`, or 2 when there is no memory for it. */
int lint_print_text(const lint *l, lint_level least, int status);
int lint_print_json(const lint *l, lint_level least, int status);
int lint_print_sarif(const lint *l, lint_level least, int status);
int lint_print_github(const lint *l, lint_level least, int status);
#endif
