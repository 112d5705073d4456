/* log.c: lines for the one listener of the process. */
#include "log.h"
#include "cadre.h"
#include "err.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

enum { REMEMBERED = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cadre_listener listener;
static void *listener_ctx;
static uint64_t said[REMEMBERED]; /* hashes of lines, a ring */
static unsigned said_count;

/* A new listener has heard nothing yet, so what was said before may be said again. */
void cadre_listen(cadre_listener fn, void *ctx) {
    pthread_mutex_lock(&lock);
    listener = fn;
    listener_ctx = ctx;
    said_count = 0;
    pthread_mutex_unlock(&lock);
}

static uint64_t hash(const char *line) {
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *line; line++) h = (h ^ (unsigned char)*line) * 0x100000001b3u;
    return h;
}

/* True if the line was remembered; remembers it otherwise. */
static bool known(const char *line) {
    uint64_t h = hash(line);
    unsigned n = said_count < REMEMBERED ? said_count : REMEMBERED;
    for (unsigned i = 0; i < n; i++)
        if (said[i] == h) return true;
    said[said_count++ % REMEMBERED] = h;
    return false;
}

/* The listener runs outside the lock: it may log or listen itself. */
static void say(bool once, const char *format, va_list args) {
    char line[512];
    if (vsnprintf(line, sizeof line, format, args) < 0) return;
    err_one_line(line);
    pthread_mutex_lock(&lock);
    cadre_listener fn = listener;
    void *ctx = listener_ctx;
    if (fn && once && known(line)) fn = NULL;
    pthread_mutex_unlock(&lock);
    if (fn) fn(ctx, line);
}

void log_line(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(false, format, args);
    va_end(args);
}

void log_once(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(true, format, args);
    va_end(args);
}
