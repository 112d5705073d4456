/* command.h: runs the built command as a user would, and makes a tiny model that has a tokenizer.
 * The command is $CADRE_BUILD/cadre; tests run from the root of the source tree. */
#ifndef TESTS_CMD_COMMAND_H
#define TESTS_CMD_COMMAND_H
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

/* What a run of the command gave. */
typedef struct ran {
    int status; /* exit status, -1: killed by a signal */
    char *out, *err;
    size_t out_len;
} ran;

static char scratch[] = "/tmp/cadre-test-XXXXXX"; /* a folder for the whole program */

static inline char *command_read(const char *name, size_t *len) {
    char path[128], *text;
    assert_true(file_join(path, sizeof path, scratch, name));
    assert_int_equal(file_read(path, 1 << 28, &text, len, NULL), CADRE_OK);
    return text;
}

/* Under a container's quota every run says how many threads it takes; that line is no part of what a test expects. */
static inline void command_drop_threads(char *text) {
    static const char told[] = " by the container's quota, ";
    size_t to = 0, n;
    for (size_t at = 0; text[at]; at += n) {
        n = strcspn(text + at, "\n");
        n += text[at + n] == '\n';
        if (memmem(text + at, n, told, sizeof told - 1)) continue;
        memmove(text + to, text + at, n);
        to += n;
    }
    text[to] = 0;
}

static inline void command_free(ran *r) {
    mem_free(r->out);
    mem_free(r->err);
    *r = (ran){0};
}

/* "run -n 3 | head": %s is the rest of a shell line after the command's name; `before` goes in front of it. */
static inline ran command_with(const char *before, const char *format, va_list args) {
    char line[4096], rest[3000];
    const char *build = getenv("CADRE_BUILD");
    ran r;
    size_t n;
    vsnprintf(rest, sizeof rest, format, args);
    snprintf(line, sizeof line, "%s '%s/cadre' %s >'%s/out' 2>'%s/err'", before, build ? build : "build", rest, scratch,
             scratch);
    int status = system(line);
    r.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    r.out = command_read("out", &r.out_len);
    r.err = command_read("err", &n);
    command_drop_threads(r.err);
    return r;
}

static inline ran command(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline ran command(const char *format, ...) {
    va_list args;
    va_start(args, format);
    ran r = command_with("", format, args);
    va_end(args);
    return r;
}

/* Something in front: "printf 'a\nb' |", "CADRE_SET=isa=1". */
static inline ran command_after(const char *before, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline ran command_after(const char *before, const char *format, ...) {
    va_list args;
    va_start(args, format);
    ran r = command_with(before, format, args);
    va_end(args);
    return r;
}

/* A member that must be there, of that kind. */
static inline double command_number(const json *v, const char *key) {
    const json *m = json_get(v, key);
    if (!m || m->kind != JSON_NUMBER) fail_msg("%s is no number", key);
    return m->number;
}
static inline const char *command_text(const json *v, const char *key) {
    const json *m = json_get(v, key);
    if (!m || m->kind != JSON_TEXT) fail_msg("%s is no text", key);
    return m->text;
}

/* Exit status 2, nothing on stdout, one line on stderr that begins with "cadre: " and holds `text`. */
static inline void command_refused(ran r, const char *text) {
    char *line = strrchr(r.err, '\n');
    assert_non_null(line);
    *line = 0; /* notes may come before; the refusal is the last line */
    line = strrchr(r.err, '\n');
    line = line ? line + 1 : r.err;
    if (r.status != 2 || r.out_len || strncmp(line, "cadre: ", 7) || !strstr(line, text))
        fail_msg("status %d, stdout '%.200s', stderr '%.300s', expected '%s'", r.status, r.out, line, text);
    command_free(&r);
}

/* ---- a run that is watched while it goes ---- */

typedef struct started {
    pid_t pid;
    int in; /* the end of its standard input that is written to */
} started;

/* Its output goes to scratch/out and scratch/err. */
static inline started command_start(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline started command_start(const char *format, ...) {
    char line[4096], rest[3000];
    int ends[2];
    va_list args;
    va_start(args, format);
    vsnprintf(rest, sizeof rest, format, args);
    va_end(args);
    snprintf(line, sizeof line, "exec '%s/cadre' %s >'%s/out' 2>'%s/err'", getenv("CADRE_BUILD"), rest, scratch,
             scratch);
    for (const char *f = "out\0err\0"; *f; f += strlen(f) + 1) { /* what an earlier run said is gone */
        char path[128];
        snprintf(path, sizeof path, "%s/%s", scratch, f);
        assert_int_equal(file_write(path, "", 0, NULL), CADRE_OK);
    }
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        dup2(ends[0], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(127);
    }
    close(ends[0]);
    return (started){pid, ends[1]};
}

/* Exit status, -1: killed by a signal. Its input is held open until then. */
static inline int command_end(started *s) {
    int status;
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    close(s->in);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Tries every 10 ms, for minutes if need be: a slow machine only takes longer. A command that ends meanwhile fails. */
static inline void command_until(const started *s, bool (*there)(const started *s, const char *text),
                                 const char *text) {
    for (int i = 0; i < 30000 && !there(s, text); i++) {
        siginfo_t info = {0};
        if (!waitid(P_PID, (id_t)s->pid, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid == s->pid) break;
        usleep(10000);
    }
    if (!there(s, text)) {
        kill(s->pid, SIGKILL);
        fail_msg("the command never came to '%s'", text);
    }
}

static inline bool command_says(const char *name, const char *text) {
    size_t n;
    char *all = command_read(name, &n);
    bool there = strstr(all, text) != NULL;
    mem_free(all);
    return there;
}
static inline bool command_out_has(const started *s, const char *text) {
    (void)s;
    return command_says("out", text);
}
static inline bool command_err_has(const started *s, const char *text) {
    (void)s;
    return command_says("err", text);
}
/* Its first thread waits in the kernel. */
static inline bool command_sleeps(const started *s, const char *text) {
    char path[64], *all;
    size_t n;
    (void)text;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)s->pid);
    assert_int_equal(file_read(path, 4096, &all, &n, NULL), CADRE_OK);
    const char *state = strrchr(all, ')');
    bool sleeps = state && state[1] == ' ' && state[2] == 'S';
    mem_free(all);
    return sleeps;
}

/* ---- JSON ---- */

/* stdout as exactly one JSON object with schema 1. */
static inline json_doc *command_json(const ran *r) {
    json_doc *doc;
    cadre_fail why = {0};
    if (json_parse("stdout", r->out, r->out_len, &doc, &why)) fail_msg("%s: '%.200s'", why.text, r->out);
    const json *schema = json_get(json_root(doc), "schema");
    assert_non_null(schema);
    assert_int_equal(schema->integer, 1);
    return doc;
}

/* Every key of "a b c" is a member of v. */
static inline void command_has(const json *v, const char *keys) {
    assert_non_null(v);
    for (const char *p = keys; *p; p += strcspn(p, " "), p += *p == ' ')
        if (!json_get_n(v, p, strcspn(p, " "))) fail_msg("no key %.*s", (int)strcspn(p, " "), p);
}

/* ---- a model: a golden one with a tokenizer of single characters ---- */

/* ids: 0 <pad>, 1 <s>, 2 </s>, 3 newline, 4 space, 5.. '!' to '{' */
static inline int32_t model_id(char c) {
    return c == '\n' ? 3 : c == ' ' ? 4 : 5 + (c - '!');
}

static inline void put_token(json_out *o, int id, const char *content) {
    json_open(o, NULL, '{');
    json_put_int(o, "id", id);
    json_put_text(o, "content", content);
    for (const char *k = "single_word\0lstrip\0rstrip\0normalized\0"; *k; k += strlen(k) + 1)
        json_put_bool(o, k, false);
    json_put_bool(o, "special", true);
    json_close(o, '}');
}

static inline void put_byte_level(json_out *o, const char *key) {
    json_open(o, key, '{');
    json_put_text(o, "type", "ByteLevel");
    json_put_bool(o, "add_prefix_space", false);
    json_put_bool(o, "trim_offsets", true);
    json_put_bool(o, "use_regex", false);
    json_close(o, '}');
}

static inline void put_tokenizer(json_out *o) {
    static const char *const specials[] = {"<pad>", "<s>", "</s>"};
    json_open(o, NULL, '{');
    json_put_text(o, "version", "1.0");
    json_open(o, "added_tokens", '[');
    for (int i = 0; i < 3; i++) put_token(o, i, specials[i]);
    json_close(o, ']');
    put_byte_level(o, "pre_tokenizer");
    put_byte_level(o, "decoder");
    json_open(o, "model", '{');
    json_put_text(o, "type", "BPE");
    json_open(o, "vocab", '{');
    for (int i = 0; i < 3; i++) json_put_int(o, specials[i], i);
    json_put_int(o, "\xC4\x8A", 3); /* newline and space in the byte-level alphabet */
    json_put_int(o, "\xC4\xA0", 4);
    for (char c = '!'; c <= '{'; c++) json_put_int(o, (char[2]){c, 0}, model_id(c));
    json_close(o, '}');
    json_open(o, "merges", '[');
    json_close(o, ']');
    json_close(o, '}');
    json_close(o, '}');
}

/* scratch/NAME, a copy of tests/golden/models/NAME with tokenizer.json; made once. */
static inline const char *command_model(const char *name) {
    static char path[160];
    char line[600], file[200];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    if (file_is_dir(path)) return path;
    snprintf(line, sizeof line, "cp -r 'tests/golden/models/%s' '%s'", name, path);
    assert_int_equal(system(line), 0);
    json_out o = {0};
    put_tokenizer(&o);
    snprintf(file, sizeof file, "%s/tokenizer.json", path);
    assert_int_equal(file_write(file, o.text, o.len, NULL), CADRE_OK);
    json_out_free(&o);
    return path;
}

static inline int command_setup(void **state) {
    (void)state;
    return mkdtemp(scratch) ? 0 : -1;
}

static inline int command_teardown(void **state) {
    char line[100];
    (void)state;
    snprintf(line, sizeof line, "rm -rf '%s'", scratch);
    return system(line) ? -1 : 0;
}
#endif
