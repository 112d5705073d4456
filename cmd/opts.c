/* opts.c: argv and the environment become typed values, or one line that says why not. */
#include "opts.h"
#include "say.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int arg_count;
static char **arg;
static int first = 1; /* first argument after the command's name */

void opts_start(int argc, char **argv) {
    arg_count = argc;
    arg = argv;
}

const char *opts_temp_dir(void) {
    const char *dir = getenv("TMPDIR");
    return dir && *dir ? dir : "/tmp";
}

/* Where compiled kernels are kept unless switch cache says otherwise: XDG's place; the standard ignores relative ones.
 */
static void name_cache(void) {
    char dir[SWITCH_TEXT_MAX];
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (cache && *cache == '/')
        n = snprintf(dir, sizeof dir, "%s/cadre", cache);
    else if (home && *home == '/')
        n = snprintf(dir, sizeof dir, "%s/.cache/cadre", home);
    if (n > 0 && n < (int)sizeof dir) switch_text_default(SWITCH_CACHE, dir);
}

/* The same for the user's tables, which are settings. */
static void name_tables(void) {
    char dir[SWITCH_TEXT_MAX];
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int n = -1;
    if (config && *config == '/')
        n = snprintf(dir, sizeof dir, "%s/cadre/tables", config);
    else if (home && *home == '/')
        n = snprintf(dir, sizeof dir, "%s/.config/cadre/tables", home);
    if (n > 0 && n < (int)sizeof dir) switch_text_default(SWITCH_TABLES_DIR, dir);
}

bool opts_state_path(const char *name, char *out, size_t size) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n = -1;
    if (state && *state == '/')
        n = snprintf(out, size, "%s/%s", state, name);
    else if (home && *home == '/')
        n = snprintf(out, size, "%s/.local/state/%s", home, name);
    return n > 0 && (size_t)n < size;
}

const char *opts_line(void) {
    static char line[2048];
    size_t n = 0;
    for (int i = 0; i < arg_count && n < sizeof line; i++) {
        const char *a = arg[i];
        bool quote = !*a || strpbrk(a, " \t\n\"'$&|;<>()*?") != NULL;
        int w = snprintf(line + n, sizeof line - n, quote ? "%s'%s'" : "%s%s", i ? " " : "", i ? a : "cadre");
        n += w < 0 ? 0 : (size_t)w;
    }
    return line;
}

/* ---- single values ---- */

bool opts_word(const char *words, const char *text) {
    size_t n = strlen(text);
    while (words && *words) {
        size_t w = strcspn(words, "|");
        if (w == n && !memcmp(words, text, n)) return true;
        words += w + (words[w] == '|');
    }
    return false;
}

static bool whole(const char *text, long *out) {
    const char *digits = text + (*text == '-');
    if (*digits < '0' || *digits > '9') return false;
    char *end;
    errno = 0;
    *out = strtol(text, &end, 10);
    return !*end && !errno;
}

cadre_err opts_int(const char *name, const char *text, int low, int high, int *out, cadre_fail *why) {
    long v;
    if (!whole(text, &v) || v < low || v > high)
        return cadre_fail_set(why, CADRE_RANGE, "%s is '%.100s', expected a whole number in %d..%d", name, text, low,
                              high);
    *out = (int)v;
    return CADRE_OK;
}

cadre_err opts_real(const char *name, const char *text, double low, double high, double *out, cadre_fail *why) {
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v) || v < low || v > high)
        return cadre_fail_set(why, CADRE_RANGE, "%s is '%.100s', expected a number in %g..%g", name, text, low, high);
    *out = v;
    return CADRE_OK;
}

static cadre_err read_seed(const opts_def *d, const char *text, uint64_t *out, cadre_fail *why) {
    char *end;
    errno = 0;
    long long v = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : (end = NULL, 0);
    if (!end || *end || errno)
        return cadre_fail_set(why, CADRE_RANGE, "%s is '%.100s', expected a whole number in 0..%lld", d->name, text,
                              (long long)INT64_MAX);
    *out = (uint64_t)v;
    return CADRE_OK;
}

/* "a|b|c" -> "a, b, c" */
static const char *listed(const char *words, char text[128]) {
    size_t n = 0;
    for (; *words && n < 124; words++) {
        text[n++] = *words == '|' ? ',' : *words;
        if (*words == '|') text[n++] = ' ';
    }
    text[n] = 0;
    return text;
}

static cadre_err read_word(const opts_def *d, const char *text, const char **out, cadre_fail *why) {
    char words[128];
    if (opts_word(d->later, text))
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "%s %s is not in this version; it has %s", d->name, text,
                              listed(d->arg, words));
    if (!opts_word(d->arg, text))
        return cadre_fail_set(why, CADRE_RANGE, "%s is '%.100s', expected %s", d->name, text, listed(d->arg, words));
    *out = text;
    return CADRE_OK;
}

bool opts_only_zero(const char *name, const char *text, cadre_fail *why) {
    if (!text || !strcmp(text, "0")) return true;
    for (const char *p = text; *p && strcmp(text, "auto"); p++)
        if ((*p < '0' || *p > '9') && *p != ',') {
            cadre_fail_set(why, CADRE_RANGE, "%s is '%.100s', expected a whole number or auto", name, text);
            return false;
        }
    cadre_fail_set(why, CADRE_UNSUPPORTED, "%s %.100s is not in this version; only 0 is", name, text);
    return false;
}

/* ---- lists ---- */

static cadre_err add_range(const char *name, char *part, int low, int high, int *values, int cap, int *count,
                           cadre_fail *why) {
    int a, b;
    char *dots = strstr(part, "..");
    if (dots) *dots = 0;
    cadre_err err = opts_int(name, part, low, high, &a, why);
    if (!err) err = dots ? opts_int(name, dots + 2, low, high, &b, why) : (b = a, CADRE_OK);
    if (err) return err;
    if (b < a) return cadre_fail_set(why, CADRE_RANGE, "%s holds %d..%d, which runs backwards", name, a, b);
    if (b - a >= cap - *count) return cadre_fail_set(why, CADRE_RANGE, "%s has more than %d values", name, cap);
    for (int v = a; v <= b; v++) values[(*count)++] = v;
    return CADRE_OK;
}

cadre_err opts_numbers(const char *name, const char *text, int low, int high, int *values, int cap, int *count,
                       cadre_fail *why) {
    *count = 0;
    for (const char *p = text;;) {
        char part[64];
        size_t n = strcspn(p, ",");
        if (n >= sizeof part) n = sizeof part - 1;
        memcpy(part, p, n);
        part[n] = 0;
        cadre_err err = add_range(name, part, low, high, values, cap, count, why);
        if (err) return err;
        p += strcspn(p, ",");
        if (!*p++) return CADRE_OK;
    }
}

/* ---- help ---- */

static const opts_def *of_letter(const opts_command *c, char letter) {
    for (int i = 0; i < c->count; i++)
        if (letter && c->defs[i].letter == letter) return &c->defs[i];
    return NULL;
}

static const opts_def *of_name(const opts_command *c, const char *name, size_t len) {
    for (int i = 0; i < c->count; i++)
        if (strlen(c->defs[i].name) == len && !memcmp(c->defs[i].name, name, len)) return &c->defs[i];
    return NULL;
}

static void help_line(const opts_def *d) {
    char left[96];
    int n = 0;
    if (d->letter) n = snprintf(left, sizeof left, "-%c, ", d->letter);
    snprintf(left + n, sizeof left - (size_t)n, "%s%s%s", d->name, d->arg ? " " : "", d->arg ? d->arg : "");
    printf("  %-26s", left);
    /* A long left side takes a line of its own; the text is folded at 94 columns. */
    if (strlen(left) > 25) printf("\n%28s", "");
    int column = 0;
    for (const char *p = d->what; *p;) {
        int w = (int)strcspn(p, " ");
        if (column && column + 1 + w > 66) printf("\n%28s", ""), column = 0;
        column += printf("%s%.*s", column ? " " : "", w, p);
        p += w + (p[w] == ' ');
    }
    putchar('\n');
}

static void help(const opts_command *c) {
    printf("cadre %s: %s\n\noptions:\n", c->name, c->what);
    for (int i = 0; i < c->count; i++) help_line(&c->defs[i]);
    if (c->notes) printf("\n%s", c->notes);
    printf("\nexamples:\n");
    for (const char *const *e = c->examples; *e; e += 2) printf("  %s\n      %s\n", e[0], e[1]);
}

/* ---- unknown names ---- */

/* Edits (one character more, less or other) between two short words. */
static int distance(const char *a, const char *b) {
    enum { MOST = 40 };
    int n = (int)strlen(b), row[MOST + 1];
    if (n > MOST || strlen(a) > MOST) return MOST;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 1; *a; a++, i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = diagonal + (*a != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[n];
}

static cadre_err unknown_option(const opts_command *c, const char *text, cadre_fail *why) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    const char *near = NULL;
    int best = 3;
    for (int i = 0; i < c->count; i++) {
        int d = distance(name, c->defs[i].name);
        if (d < best) best = d, near = c->defs[i].name;
    }
    return near ? cadre_fail_set(why, CADRE_RANGE, "%s has no option '%s'; did you mean %s?", c->name, name, near)
                : cadre_fail_set(why, CADRE_RANGE, "%s has no option '%s' (cadre %s --help lists them)", c->name, name,
                                 c->name);
}

/* ---- reading ---- */

static cadre_err add_rest(const opts_def *d, const char *text, opts_rest *rest, cadre_fail *why) {
    if (rest->count == OPTS_REST_MOST)
        return cadre_fail_set(why, CADRE_RANGE, "more than %d of %s", OPTS_REST_MOST, d->name);
    rest->items[rest->count++] = text;
    return CADRE_OK;
}

static cadre_err store(const opts_def *d, const char *text, void *out, cadre_fail *why) {
    void *at = (char *)out + d->at;
    switch (d->kind) {
    case OPTS_FLAG:
        *(bool *)at = true;
        return CADRE_OK;
    case OPTS_INT:
        return opts_int(d->name, text, (int)d->low, (int)d->high, at, why);
    case OPTS_REAL:
        return opts_real(d->name, text, d->low, d->high, at, why);
    case OPTS_SEED:
        return read_seed(d, text, at, why);
    case OPTS_WORD:
        return read_word(d, text, at, why);
    case OPTS_SET:
        return cadre_set(text, why);
    case OPTS_REST:
    case OPTS_MANY:
        return add_rest(d, text, at, why);
    case OPTS_TEXT:
        *(const char **)at = text;
        return CADRE_OK;
    case OPTS_HELP:
        return CADRE_OK;
    }
    return CADRE_OK;
}

/* "-n5", "-n", "--name", "--name=5" -> its definition and its value if it is in the same argument. */
static const opts_def *match(const opts_command *c, const char *text, const char **value) {
    *value = NULL;
    if (text[0] == '-' && text[1] && text[1] != '-') {
        if (text[2]) *value = text + 2;
        return of_letter(c, text[1]);
    }
    size_t n = strcspn(text, "=");
    if (text[n]) *value = text + n + 1;
    return of_name(c, text, n);
}

static bool takes_value(const opts_def *d) {
    return d->kind != OPTS_FLAG && d->kind != OPTS_HELP && d->kind != OPTS_REST;
}

/* An argument that is no option. */
static cadre_err read_plain(const opts_command *c, const char *text, void *out, cadre_fail *why) {
    for (int i = 0; i < c->count; i++)
        if (c->defs[i].kind == OPTS_REST) return store(&c->defs[i], text, out, why);
    return cadre_fail_set(why, CADRE_RANGE, "%s takes no argument '%.100s' (cadre %s --help)", c->name, text, c->name);
}

static cadre_err read_args(const opts_command *c, void *out, cadre_fail *why) {
    for (int i = first; i < arg_count; i++) {
        const char *value, *text = arg[i];
        if (text[0] != '-' || !text[1]) {
            cadre_err err = read_plain(c, text, out, why);
            if (err) return err;
            continue;
        }
        const opts_def *d = match(c, text, &value);
        if (!d) return unknown_option(c, text, why);
        if (!takes_value(d) && value) return cadre_fail_set(why, CADRE_RANGE, "%s takes no value", d->name);
        if (takes_value(d) && !value) {
            if (++i == arg_count) return cadre_fail_set(why, CADRE_RANGE, "%s needs a value: %s", d->name, d->arg);
            value = arg[i];
        }
        cadre_err err = store(d, value, out, why);
        if (err) return err;
    }
    return CADRE_OK;
}

/* CADRE_SET="name=value,name=value" */
static cadre_err read_environment(cadre_fail *why) {
    const char *p = getenv("CADRE_SET");
    while (p && *p) {
        char one[SWITCH_TEXT_MAX + 64];
        size_t n = strcspn(p, ",");
        cadre_fail inner = {0};
        snprintf(one, sizeof one, "%.*s", (int)n, p);
        if (n >= sizeof one) return cadre_fail_set(why, CADRE_RANGE, "CADRE_SET: '%.60s...' is too long", one);
        cadre_err err = n ? cadre_set(one, &inner) : CADRE_OK;
        if (err) return cadre_fail_set(why, err, "CADRE_SET: %.400s", inner.text);
        p += n + (p[n] == ',');
    }
    return CADRE_OK;
}

static void tell_switches(void) {
    char line[512];
    int n = 0;
    const char *s;
    for (int i = 0; (s = cadre_switch(i)) && n < (int)sizeof line; i++)
        n += snprintf(line + n, sizeof line - (size_t)n, " %s", s);
    if (n) say_note("switches in force:%s", line);
}

static bool wants_help(const opts_command *c) {
    for (int i = first; i < arg_count; i++) {
        const char *value;
        const opts_def *d = arg[i][0] == '-' ? match(c, arg[i], &value) : NULL;
        if (d && d->kind == OPTS_HELP) return true;
        if (d && takes_value(d) && !value) i++;
    }
    return false;
}

bool opts_read(const opts_command *command, void *out, int *status) {
    cadre_fail why = {0};
    if (wants_help(command)) {
        help(command);
        *status = EXIT_FINE;
        return false;
    }
    name_cache();
    name_tables();
    cadre_err err = read_environment(&why);
    if (!err) err = read_args(command, out, &why);
    if (err) {
        *status = say_failed(&why);
        return false;
    }
    say_to_stderr(((opts_common *)out)->json);
    tell_switches();
    return true;
}

/* ---- which command ---- */

/* Words of `name` that stand at argv[at..]; 0 if not all do. */
static int words_at(const char *name, int at) {
    int words = 0;
    while (*name) {
        size_t n = strcspn(name, " ");
        if (at + words >= arg_count || strlen(arg[at + words]) != n || memcmp(arg[at + words], name, n)) return 0;
        words++;
        name += n + (name[n] == ' ');
    }
    return words;
}

static const opts_command *find(const opts_command *const *commands, int at, int *words) {
    const opts_command *best = NULL;
    *words = 0;
    for (; *commands; commands++) {
        int n = words_at((*commands)->name, at);
        if (n > *words) best = *commands, *words = n;
    }
    return best;
}

static const char *nearest(const opts_command *const *commands, const char *text) {
    const char *near = NULL;
    int best = 3;
    for (; *commands; commands++) {
        int d = distance(text, (*commands)->name);
        if (d < best) best = d, near = (*commands)->name;
    }
    return near;
}

/* A command whose first word is `text`: "plan" of "plan explain". */
static const char *longer(const opts_command *const *commands, const char *text) {
    size_t n = strlen(text);
    for (; *commands; commands++)
        if (!strncmp((*commands)->name, text, n) && (*commands)->name[n] == ' ') return (*commands)->name;
    return NULL;
}

/* "plan --help", "help plan": the help of all its second words. */
static bool help_group(const opts_command *const *commands, int at, bool asked) {
    size_t n = strlen(arg[at]);
    const char *next = at + 1 < arg_count ? arg[at + 1] : "";
    asked = asked ? !*next : !strcmp(next, "--help") || !strcmp(next, "-h");
    if (!asked || !longer(commands, arg[at])) return false;
    for (int shown = 0; *commands; commands++) {
        if (strncmp((*commands)->name, arg[at], n) || (*commands)->name[n] != ' ') continue;
        if (shown++) putchar('\n');
        help(*commands);
    }
    return true;
}

static int unknown_command(const opts_command *const *commands, int at) {
    cadre_fail why = {0};
    const char *near = nearest(commands, arg[at]), *whole_name = longer(commands, arg[at]);
    const char *second = whole_name && at + 1 < arg_count && *arg[at + 1] != '-' ? arg[at + 1] : NULL;
    char both[100];
    if (second) {
        snprintf(both, sizeof both, "%.40s %.50s", arg[at], second);
        near = nearest(commands, both);
        if (near)
            cadre_fail_set(&why, CADRE_RANGE, "no command '%s'; did you mean %s?", both, near);
        else
            cadre_fail_set(&why, CADRE_RANGE, "no command '%s' (cadre %s --help lists them)", both, arg[at]);
    } else if (whole_name)
        cadre_fail_set(&why, CADRE_RANGE, "%s needs a second word: cadre %s", arg[at], whole_name);
    else if (near)
        cadre_fail_set(&why, CADRE_RANGE, "no command '%.60s'; did you mean %s?", arg[at], near);
    else
        cadre_fail_set(&why, CADRE_RANGE, "no command '%.60s' (cadre --help lists them)", arg[at]);
    return say_failed(&why);
}

opts_ask opts_pick(const opts_command *const *commands, const opts_command **command, int *status) {
    int at = 1, words;
    bool asked = arg_count > 1 && !strcmp(arg[1], "help");
    at += asked;
    *status = EXIT_FINE;
    if (at >= arg_count || !strcmp(arg[at], "--help") || !strcmp(arg[at], "-h")) return OPTS_ASK_OVERVIEW;
    if (!strcmp(arg[at], "--version")) return OPTS_ASK_VERSION;
    *command = find(commands, at, &words);
    if (!*command && help_group(commands, at, asked)) return OPTS_ASK_DONE;
    if (!*command) *status = unknown_command(commands, at);
    if (*command && asked) help(*command);
    first = at + words;
    return *command && !asked ? OPTS_ASK_RUN : OPTS_ASK_DONE;
}
