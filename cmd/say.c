/* say.c: streams, notes, progress and tables. */
#include "say.h"
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

static bool aside, drawn;
enum { NOTES = 64 };
static char *noted[NOTES];
static int notes;

static void hear(void *ctx, const char *line) {
    (void)ctx;
    say_note("%s", file_short(line));
}

void say_start(void) {
    cadre_listen(hear, NULL);
}
void say_to_stderr(bool on) {
    aside = on;
}
FILE *say_stream(void) {
    return aside ? stderr : stdout;
}

void say(const char *format, ...) {
    va_list args;
    say_progress_end();
    va_start(args, format);
    vfprintf(say_stream(), format, args);
    va_end(args);
    fputc('\n', say_stream());
}

void say_pair(const char *label, const char *format, ...) {
    va_list args;
    FILE *f = say_stream();
    fprintf(f, "%-14s ", label);
    va_start(args, format);
    vfprintf(f, format, args);
    va_end(args);
    fputc('\n', f);
}

static bool heard(const char *line) {
    for (int i = 0; i < notes; i++)
        if (!strcmp(noted[i], line)) return true;
    if (notes < NOTES && (noted[notes] = mem_copy_text(line, strlen(line)))) notes++;
    return false;
}

void say_note(const char *format, ...) {
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (heard(line)) return;
    say_progress_end();
    fflush(stdout); /* text that was streamed comes before the note when both go to a terminal */
    fprintf(stderr, "cadre: %s\n", line);
}

int say_failed(const cadre_fail *why) {
    say_progress_end();
    fflush(stdout);
    fprintf(stderr, "cadre: %s\n", *why->text ? why->text : cadre_err_text(why->code));
    return EXIT_COULD_NOT;
}

static void open_object(json_out *o, const char *key, const char *name) {
    json_open(o, NULL, '{');
    json_put_int(o, "schema", 1);
    json_put_text(o, key, name);
}

void say_json_open(json_out *o, const char *command) {
    open_object(o, "command", command);
}
void say_sample_open(json_out *o, const char *kind) {
    open_object(o, "kind", kind);
}

int say_json(json_out *o, int status) {
    if (o->failed) {
        json_out_free(o);
        return say_failed(&(cadre_fail){CADRE_NOMEM, "out of memory for the JSON result"});
    }
    fwrite(o->text, 1, o->len, stdout);
    fputc('\n', stdout);
    json_out_free(o);
    return status;
}

int say_end(int status) {
    say_progress_end();
    bool bad = fflush(stdout) != 0 || ferror(stdout);
    for (int i = 0; i < notes; i++) mem_free(noted[i]);
    notes = 0;
    if (!bad) return status;
    fprintf(stderr, "cadre: cannot write to standard output: %s\n", strerror(errno));
    return EXIT_COULD_NOT;
}

/* ---- progress ---- */

static char doing[128]; /* what say_progress said last */

void say_progress(const char *format, ...) {
    static int terminal = -1;
    if (terminal < 0) terminal = isatty(STDERR_FILENO);
    va_list args;
    va_start(args, format);
    vsnprintf(doing, sizeof doing, format, args);
    va_end(args);
    if (!terminal) return;
    fprintf(stderr, "\r\033[K%s", doing);
    fflush(stderr);
    drawn = true;
}

void say_progress_end(void) {
    if (drawn) fputs("\r\033[K", stderr);
    drawn = false;
    doing[0] = 0;
}

/* ---- Ctrl-C ---- */

static const char *interrupted;

/* Only what a signal handler may call. Half a new text of `doing` does no harm. */
static void put_raw(const char *text) {
    for (size_t n = strnlen(text, sizeof doing); n;) {
        ssize_t put = write(STDERR_FILENO, text, n);
        if (put <= 0) return;
        text += put;
        n -= (size_t)put;
    }
}

static void on_interrupt(int number) {
    put_raw(drawn ? "\r\033[Kcadre: " : "cadre: ");
    put_raw(interrupted);
    put_raw(": interrupted");
    if (*doing) put_raw(" ("), put_raw(doing), put_raw(")");
    put_raw("\n");
    raise(number); /* the default action is back, and the signal comes when this ends */
}

void say_interrupts(const char *name) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    interrupted = name;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

/* ---- tables ---- */

void table_open(table *t, const char *align) {
    *t = (table){.align = align};
}

static bool table_room(table *t, size_t more) {
    if (t->len + more <= t->cap) return true;
    size_t cap = (t->cap + more) * 2;
    char *grown = mem_resize(t->text, t->cap, cap);
    if (!grown) return false;
    t->text = grown;
    t->cap = cap;
    return true;
}

void table_cell(table *t, const char *format, ...) {
    char cell[512];
    va_list args;
    va_start(args, format);
    vsnprintf(cell, sizeof cell, format, args);
    va_end(args);
    size_t n = strlen(cell) + 1;
    if (!table_room(t, n)) {
        t->failed = true;
        return;
    }
    memcpy(t->text + t->len, cell, n);
    t->len += n;
    t->cells++;
}

static int width_of(const char *cell) {
    int n = 0;
    for (; *cell; cell++) n += (*cell & 0xC0) != 0x80; /* characters, not bytes */
    return n;
}

static void print_cell(FILE *f, const char *cell, char align, int width, bool last) {
    int pad = width - width_of(cell);
    if (align == 'r') fprintf(f, "%*s", pad, "");
    fputs(cell, f);
    if (align != 'r' && !last) fprintf(f, "%*s", pad, "");
    fputs(last ? "\n" : "  ", f);
}

void table_print(table *t, FILE *stream, int indent) {
    enum { COLUMNS = 16 };
    int columns = (int)strlen(t->align), width[COLUMNS] = {0};
    const char *cell = t->text;
    for (int i = 0; i < t->cells; i++, cell += strlen(cell) + 1) {
        int w = width_of(cell);
        if (w > width[i % columns]) width[i % columns] = w;
    }
    cell = t->text;
    for (int i = 0; i < t->cells; i++, cell += strlen(cell) + 1) {
        int c = i % columns;
        if (!c) fprintf(stream, "%*s", indent, "");
        print_cell(stream, cell, t->align[c], width[c], c == columns - 1);
    }
    if (t->failed) fputs("(cut: out of memory)\n", stream);
    mem_free(t->text);
    *t = (table){0};
}

const char *say_bytes(double bytes, char text[24]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;
    while (bytes >= 1000 && u < 4) bytes /= 1000, u++;
    snprintf(text, 24, u ? "%.3g %s" : "%.0f %s", bytes, units[u]);
    return text;
}

int say_digits(double v) {
    return v < 1 ? 3 : v < 10 ? 2 : v < 100 ? 1 : 0;
}
