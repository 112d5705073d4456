/* tables.c: reads the folders, and chooses among the rows that fit a key. A row must have beaten the default that would
 * run now with the kernel that would run now; else the default wins, and a line says so. */
#include "plan/tables.h"
#include "plan/table_fields.h"

#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A row whose kernel this build has. */
typedef struct entry {
    const native_row *row;
    const native_table *table;
    const op_kernel *kernel;
    bool user;
} entry;

struct table_set {
    struct table_set *before; /* sets of other switches, which plans may still borrow from */
    char folder[2][SWITCH_TEXT_MAX];
    native_table **tables;
    int table_count, table_cap, user_count; /* the user's come first */
    entry *entries;
    int entry_count, rows;
    char fault[SWITCH_TEXT_MAX + 300]; /* "": none */
    int fault_line, faults;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static table_set *sets; /* newest first */

/* ---- reading ---- */

static const switch_text_id folders[2] = {SWITCH_TABLES_DIR, SWITCH_TABLES_SHIPPED};

static void set_free(table_set *set) {
    if (!set) return;
    for (int i = 0; i < set->table_count; i++) native_free(set->tables[i]);
    mem_free(set->tables);
    mem_free(set->entries);
    mem_free(set);
}

static cadre_err no_room(cadre_fail *why) {
    return cadre_fail_set(why, CADRE_NOMEM, "out of memory for tables");
}

static cadre_err add_table(table_set *set, native_table *table, cadre_fail *why) {
    if (set->table_count == set->table_cap) {
        int cap = 2 * set->table_cap + 8;
        native_table **grown =
            mem_resize(set->tables, (size_t)set->table_cap * sizeof *grown, (size_t)cap * sizeof *grown);
        if (!grown) return no_room(why);
        set->tables = grown, set->table_cap = cap;
    }
    set->tables[set->table_count++] = table;
    set->rows += table->count;
    return CADRE_OK;
}

/* What is wrong with one table never stops a plan. */
static void leave_out(table_set *set, const char *path, int line, const cadre_fail *why) {
    log_once("%s; no table is read from it", why->text);
    if (!set->faults++) {
        snprintf(set->fault, sizeof set->fault, "%s", path);
        set->fault_line = line;
    }
}

static cadre_err add_file(table_set *set, const char *dir, const char *name, cadre_fail *why) {
    enum { LIMIT = 16 << 20 };
    char path[SWITCH_TEXT_MAX + 300], *text = NULL;
    size_t len;
    int line = 0;
    native_table *table = NULL;
    cadre_fail bad = {0};
    if (!file_join(path, sizeof path, dir, name)) return CADRE_OK;
    cadre_err err = file_read(path, LIMIT, &text, &len, &bad);
    if (!err) err = native_parse_line(path, text, len, &table, &line, &bad);
    mem_free(text);
    if (err == CADRE_NOMEM) return no_room(why);
    if (err) {
        leave_out(set, path, line, &bad);
        return CADRE_OK;
    }
    err = add_table(set, table, why);
    if (err) native_free(table);
    return err;
}

/* A folder that is not there has no tables; one that the user named is missed. */
static cadre_err add_folder(table_set *set, int which, cadre_fail *why) {
    const char *dir = set->folder[which], **names;
    int count, before = set->table_count, rows = set->rows;
    cadre_fail bad = {0};
    bool asked = switch_text_is_set(folders[which]);
    if (!*dir || (!asked && !file_is_dir(dir))) return CADRE_OK;
    cadre_err err = file_list(dir, NATIVE_SUFFIX, &names, &count, &bad);
    if (err == CADRE_NOMEM) return no_room(why);
    if (err) {
        leave_out(set, dir, 0, &bad);
        return CADRE_OK;
    }
    for (int i = 0; !err && i < count; i++) err = add_file(set, dir, names[i], why);
    mem_free(names);
    if (!err && set->table_count > before)
        log_once("tables: %d file%s, %d row%s in %s", set->table_count - before,
                 set->table_count - before == 1 ? "" : "s", set->rows - rows, set->rows - rows == 1 ? "" : "s", dir);
    return err;
}

static cadre_err make_entries(table_set *set, cadre_fail *why) {
    set->entries = mem_new_array((size_t)set->rows + 1, sizeof *set->entries);
    if (!set->entries) return no_room(why);
    for (int i = 0; i < set->table_count; i++)
        for (int j = 0; j < set->tables[i]->count; j++) {
            const native_row *row = &set->tables[i]->rows[j];
            const op_kernel *kernel = op_kernel_named(row->kernel);
            if (kernel)
                set->entries[set->entry_count++] = (entry){row, set->tables[i], kernel, i < set->user_count};
            else
                log_once("%s:%d: this build has no kernel %s; the row never runs", set->tables[i]->path, row->line,
                         row->kernel);
        }
    return CADRE_OK;
}

static cadre_err set_new(table_set **out, cadre_fail *why) {
    table_set *set = mem_new(sizeof *set);
    if (!set) return no_room(why);
    for (int i = 0; i < 2; i++) snprintf(set->folder[i], sizeof set->folder[i], "%s", switch_text(folders[i]));
    cadre_err err = add_folder(set, 0, why);
    set->user_count = set->table_count;
    if (!err && strcmp(set->folder[0], set->folder[1])) err = add_folder(set, 1, why);
    if (!err) err = make_entries(set, why);
    if (err)
        set_free(set);
    else
        *out = set;
    return err;
}

static bool same_folders(const table_set *set) {
    return !strcmp(set->folder[0], switch_text(folders[0])) && !strcmp(set->folder[1], switch_text(folders[1]));
}

cadre_err tables_get(const table_set **out, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    *out = NULL;
    if (!switch_get(SWITCH_TABLES)) return CADRE_OK;
    pthread_mutex_lock(&lock);
    table_set *set = sets;
    while (set && !same_folders(set)) set = set->before;
    if (!set && !(err = set_new(&set, why))) set->before = sets, sets = set;
    pthread_mutex_unlock(&lock);
    if (!err) *out = set;
    return err;
}

void plan_tables_forget(void) {
    pthread_mutex_lock(&lock);
    while (sets) {
        table_set *before = sets->before;
        set_free(sets);
        sets = before;
    }
    pthread_mutex_unlock(&lock);
}

const char *tables_fault(const table_set *set, int *line) {
    if (!set || !set->faults) return NULL;
    *line = set->fault_line;
    return set->fault;
}

cadre_err plan_tables_look(plan_tables *out, cadre_fail *why) {
    const table_set *set;
    cadre_err err = tables_get(&set, why);
    if (err) return err;
    *out = (plan_tables){.user = switch_text(folders[0]), .shipped = switch_text(folders[1])};
    if (!set) return CADRE_OK;
    out->user_files = set->user_count;
    out->shipped_files = set->table_count - set->user_count;
    out->rows = set->rows;
    out->faults = set->faults;
    return CADRE_OK;
}

/* ---- choosing ---- */

/* "cpu-amd-avx512bf16": the maker's first word and the kernel set. */
void plan_device_class(const cadre_device *device, char *text, size_t size) {
    char maker[32];
    size_t n = 0;
    for (const char *p = device->cpu; isalnum((unsigned char)*p) && n + 1 < sizeof maker; p++)
        maker[n++] = (char)tolower((unsigned char)*p);
    maker[n] = 0;
    snprintf(text, size, "cpu-%s-%s", maker, switch_isas[device->isa]);
}

/* What is asked, with the words that rows use. */
typedef struct asked {
    const plan_key *key;
    const op_kernel *kernel;
    const char *device, *act;
    char klass[NATIVE_WORD_MAX];
    int threads;
} asked;

static bool fits(const asked *a, const entry *e) {
    const native_row *r = e->row;
    const plan_key *k = a->key;
    return e->kernel == a->kernel && r->dtype == k->dtype && r->d == k->d && r->f == k->f && r->e == k->e &&
           r->k == k->k && r->threads == a->threads && !strcmp(r->act, a->act);
}

/* 0: not for this device. */
static int rank(const asked *a, const entry *e) {
    if (!strcmp(e->table->device, a->device)) return e->user ? 3 : 2;
    return strcmp(e->table->klass, a->klass) ? 0 : 1;
}

static bool better(const asked *a, const entry *x, const entry *y) {
    int c = rank(a, x) - rank(a, y);
    if (!c) c = strcmp(x->row->date, y->row->date);
    if (!c) c = strcmp(x->row->run, y->row->run);
    if (!c) c = strcmp(y->table->path, x->table->path);
    return c > 0;
}

static table_match match_of(const asked *a, const entry *e) {
    static const char *const sources[] = {"", "class", "shipped", "user"};
    int r = rank(a, e);
    return (table_match){e->row, e->table, sources[r], r == 1};
}

/* Switch tables=force keeps rows whose evidence has ended, as long as the kernel can run them. */
static bool may_run(native_verdict v) {
    if (v == NATIVE_GOOD) return true;
    return switch_get(SWITCH_TABLES) == 2 && v != NATIVE_NO_KERNEL && v != NATIVE_ILLEGAL;
}

static table_choice choose(const table_set *set, const asked *a, int n) {
    const entry *best = NULL, *passed = NULL;
    table_choice c = {.next = INT_MAX};
    for (int i = 0; i < set->entry_count; i++) {
        const entry *e = &set->entries[i];
        const char *text;
        if (!fits(a, e) || !rank(a, e)) continue;
        if (n < e->row->n_lo && e->row->n_lo - 1 < c.next) c.next = e->row->n_lo - 1;
        if (n < e->row->n_lo || n > e->row->n_hi) continue;
        if (e->row->n_hi < c.next) c.next = e->row->n_hi;
        if (may_run(native_judge(e->row, n, NULL, &text))) {
            if (!best || better(a, e, best)) best = e;
        } else if (!passed || better(a, e, passed)) {
            passed = e;
            c.text = text;
        }
    }
    if (best) c.best = match_of(a, best);
    if (passed) c.passed = match_of(a, passed);
    return c;
}

table_choice tables_choose(const table_set *set, const cadre_device *device, const plan_key *key,
                           const op_kernel *kernel, int n) {
    if (!set) return (table_choice){.next = INT_MAX};
    asked a = {key,         kernel,
               device->cpu, key->family == OP_EXPERTS ? op_act_name(key->act) : "-",
               "",          pool_threads(device->threads)};
    plan_device_class(device, a.klass, sizeof a.klass);
    return choose(set, &a, n);
}
