/* err.h: the message that travels with an error code. */
#ifndef CADRE_BASE_ERR_H
#define CADRE_BASE_ERR_H
#include "cadre.h"

/* Fills *why (if not NULL) with the code and one formatted line; control characters and bytes that are no UTF-8 become
 * '?', long lines are cut.
 * Returns code, so that `return cadre_fail_set(why, CADRE_RANGE, "...")` is the idiom. */
cadre_err cadre_fail_set(cadre_fail *why, cadre_err code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes a message fit to print: each control character and each byte that is no UTF-8 becomes '?'. */
void err_one_line(char *text);

/* The condition is a law of the program, not the caller's mistake: on in every build made by `make check`. */
#ifdef CADRE_CHECKS
void cadre_assert_failed(const char *condition, const char *file, int line) __attribute__((noreturn));
/* the formatter takes #c for a directive */
/* clang-format off */
#define cadre_assert(c) ((c) ? (void)0 : cadre_assert_failed(#c, __FILE__, __LINE__))
/* clang-format on */
#else
#    define cadre_assert(c) ((void)0)
#endif
#endif
