/* log.h: lines a user should hear; they go to the cadre_listen() callback, never to a stream. */
#ifndef CADRE_BASE_LOG_H
#define CADRE_BASE_LOG_H
#include <stdbool.h>

void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* As log_line, but a line equal to one said before is dropped (the last 64 different lines are remembered). */
void log_once(const char *format, ...) __attribute__((format(printf, 1, 2)));
#endif
