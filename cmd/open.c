/* open.c: devices and models by the options of the command line. */
#include "open.h"
#include "dev/dev.h"
#include "op/kernel.h"
#include <stdlib.h>
#include <string.h>

/* ---- the demo model ---- */

enum { PARENTS = 5 }; /* of the executable's folder: builds may lie some folders deep in the source tree */

/* Beside the installed command, in the source tree it was built in, under the prefix. */
static const char *place(int i, const char *installed, const char *in_tree, char path[OPEN_PATH_MAX]) {
    static const char up[] = "../../../../../"; /* PARENTS times "../" */
    char program[OPEN_PATH_MAX], beside[64];
    if (i < 0 || i > PARENTS + 1) return NULL;
    if (i > PARENTS) {
        snprintf(path, OPEN_PATH_MAX, CADRE_PREFIX "/share/cadre/%s", installed);
        return path;
    }
    snprintf(beside, sizeof beside, "%s%s", i ? up + 3 * (PARENTS - i) : "../share/cadre/", i ? in_tree : installed);
    if (file_program_dir(program, sizeof program, NULL) || !file_join(path, OPEN_PATH_MAX, program, beside))
        path[0] = 0;
    return path;
}

const char *open_demo_place(int i, char path[OPEN_PATH_MAX]) {
    static const char here[] = "models/demo"; /* under the current folder, at last */
    if (i == PARENTS + 2) return memcpy(path, here, sizeof here);
    return place(i, "demo", here, path);
}

bool open_find_demo(char path[OPEN_PATH_MAX]) {
    char config[OPEN_PATH_MAX];
    for (int i = 0; open_demo_place(i, path); i++)
        if (*path && file_join(config, sizeof config, path, "config.json") && file_exists(config)) {
            char full[OPEN_PATH_MAX];
            if (!file_canonical(path, full, sizeof full, NULL)) strcpy(path, file_short(full));
            return true;
        }
    return false;
}

/* ---- tables ---- */

/* The README tells our folder from another of that name. */
void open_find_tables(void) {
    char path[OPEN_PATH_MAX], full[OPEN_PATH_MAX], readme[OPEN_PATH_MAX];
    for (int i = 0; place(i, "tables", "tables", path); i++)
        if (*path && file_join(readme, sizeof readme, path, "README.md") && file_exists(readme)) {
            if (!file_canonical(path, full, sizeof full, NULL)) switch_text_default(SWITCH_TABLES_SHIPPED, full);
            return;
        }
}

/* ---- device and model ---- */

cadre_err open_where(const opts_common *o, int *gpu, cadre_fail *why) {
    *gpu = DEV_CPU;
    if (!o->device || (!dev_name_read(o->device, gpu, NULL) && *gpu != DEV_CURRENT)) return CADRE_OK;
    return cadre_fail_set(why, CADRE_RANGE, "--device is '%.60s', expected cpu, cuda or cuda:N", o->device);
}

cadre_err open_device(const opts_common *o, cadre_device **out, cadre_fail *why) {
    int gpu;
    cadre_err err = open_where(o, &gpu, why);
    if (err) return err;
    open_find_tables();
    return cadre_device_open(&(cadre_device_options){o->device, o->threads, true}, out, why);
}

cadre_err open_model(cadre_device *device, const char *dir, const char *weights, cadre_model **out, cadre_fail *why) {
    char full[OPEN_PATH_MAX];
    if (!file_exists(dir))
        return cadre_fail_set(why, CADRE_IO, "%.300s: no such folder (-m names a model folder)", dir);
    cadre_err err = file_canonical(dir, full, sizeof full, why);
    if (err) return err;
    if (!file_is_dir(dir)) return cadre_fail_set(why, CADRE_IO, "%.300s: expected a model folder, found a file", dir);
    return cadre_model_prepare(device, dir, &(cadre_model_options){weights}, out, why);
}

cadre_err open_both(const opts_common *o, const char *dir, const char *weights, opened *out, cadre_fail *why) {
    cadre_err err = open_prepared(o, dir, weights, out, why);
    if (err) return err;
    err = cadre_model_load(out->model, why);
    if (err) open_close(out);
    return err;
}

cadre_err open_load(cadre_model *model, const char *name, const cadre_session_options *session, cadre_memory *memory,
                    cadre_fail *why) {
    cadre_err err = cadre_memory_plan(model, session, memory, why);
    if (!err) err = cadre_memory_check(memory, name, why);
    return err ? err : cadre_model_load(model, why);
}

cadre_err open_prepared(const opts_common *o, const char *dir, const char *weights, opened *out, cadre_fail *why) {
    *out = (opened){0};
    if (dir)
        snprintf(out->dir, sizeof out->dir, "%s", dir);
    else if (!open_find_demo(out->dir))
        return cadre_fail_set(why, CADRE_IO,
                              "the demo model is not installed; name a model folder with -m "
                              "(cadre doctor tells where it was looked for)");
    cadre_err err = open_device(o, &out->device, why);
    if (!err) err = open_model(out->device, out->dir, weights, &out->model, why);
    if (err)
        open_close(out);
    else
        cadre_model_get_info(out->model, &out->info);
    return err;
}

void open_close(opened *o) {
    if (o->model) cadre_model_close(o->model);
    cadre_device_close(o->device);
    *o = (opened){0};
}

/* ---- what results say ---- */

const char *open_switches(char text[512]) {
    const char *s;
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; (s = cadre_switch(i)) && n < 511; i++)
        n += (size_t)snprintf(text + n, 512 - n, "%s%s", i ? " " : "", s);
    return *text ? text : "none";
}

/* The decimal number that the float was written as. */
static double as_written(float v) {
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)v);
    return strtod(text, NULL);
}

void open_put_sampling(json_out *o, const cadre_sampling *s) {
    json_open(o, "sampling", '{');
    json_put_real(o, "temperature", as_written(s->temperature));
    json_put_int(o, "top_k", s->top_k);
    json_put_real(o, "top_p", as_written(s->top_p));
    json_put_int(o, "seed", (int64_t)s->seed);
    json_close(o, '}');
}

void open_put_switches(json_out *o) {
    const char *s;
    json_open(o, "switches", '[');
    for (int i = 0; (s = cadre_switch(i)); i++) json_put_text(o, NULL, s);
    json_close(o, ']');
}

void open_put_memory(json_out *o, const cadre_memory *plan) {
    const char *name;
    size_t bytes;
    mem_use use;
    mem_usage(&use);
    json_open(o, "memory", '{');
    json_open(o, "plan", '{');
    for (int i = 0; (name = cadre_memory_part(plan, i, &bytes)); i++) json_put_int(o, name, (int64_t)bytes);
    json_put_int(o, "total", (int64_t)plan->total);
    json_put_int(o, "available", (int64_t)plan->available);
    json_close(o, '}');
    json_put_int(o, "mapped", (int64_t)use.mapped);
    json_put_int(o, "resident", (int64_t)use.resident);
    json_put_int(o, "own", (int64_t)use.own);
    json_put_int(o, "peak", (int64_t)use.peak);
    json_close(o, '}');
}

void open_say_memory(const cadre_memory *plan) {
    char a[24], b[24], c[24], d[24], list[400] = "";
    const char *name;
    size_t bytes, n = 0;
    mem_use use;
    mem_usage(&use);
    for (int i = 0; (name = cadre_memory_part(plan, i, &bytes)) && n < sizeof list; i++)
        if (bytes)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s %s", n ? ", " : "", name,
                                  say_bytes((double)bytes, a));
    say_pair("memory", "%s planned of %s: %s", say_bytes((double)plan->total, a), say_bytes((double)plan->available, b),
             list);
    say_pair("in use", "%s resident, %s of it its own, %s at most, %s mapped", say_bytes((double)use.resident, a),
             say_bytes((double)use.own, b), say_bytes((double)use.peak, c), say_bytes((double)use.mapped, d));
}

enum { RECEIPTS = 256 };

static int receipts_of(const cadre_model *model, cadre_receipt **out) {
    *out = mem_new_array(RECEIPTS, sizeof **out);
    int n = *out ? cadre_model_receipts(model, *out, RECEIPTS) : 0;
    return n < RECEIPTS ? n : RECEIPTS;
}

static void put_receipt(json_out *o, const cadre_receipt *r) {
    json_open(o, NULL, '{');
    json_put_text(o, "op", r->op);
    json_put_text(o, "kernel", r->kernel);
    json_put_text(o, "shape", r->shape);
    json_put_int(o, "n_lo", r->n_lo);
    json_put_int(o, "n_hi", r->n_hi);
    json_put_text(o, "config", r->config);
    json_put_text(o, "source", r->source);
    json_put_text(o, "why", r->why);
    json_put_text(o, "file", r->file);
    if (r->file && r->line)
        json_put_int(o, "line", r->line);
    else
        json_put_null(o, "line");
    json_put_text(o, "shadows", *r->shadows ? r->shadows : NULL);
    json_put_int(o, "runs", (int64_t)r->runs);
    json_close(o, '}');
}

void open_put_list(json_out *o, const cadre_receipt *r, int n) {
    json_open(o, "receipts", '[');
    for (int i = 0; i < n; i++) put_receipt(o, &r[i]);
    json_close(o, ']');
}

void open_put_receipts(json_out *o, const cadre_model *model) {
    cadre_receipt *r;
    int n = receipts_of(model, &r);
    open_put_list(o, r, n);
    mem_free(r);
}

static void range_text(int lo, int hi, char text[32]) {
    if (hi == INT32_MAX)
        snprintf(text, 32, "%d..", lo);
    else
        snprintf(text, 32, lo == hi ? "%d" : "%d..%d", lo, hi);
}

/* What a table has to do with the line: whose row runs, or which could not be read or was passed over. Equal texts of
 * lines that follow each other once. */
static void say_table_use(const cadre_receipt *r, int count) {
    char last[1200] = "";
    for (int i = 0; i < count; i++) {
        char text[sizeof last], line[16] = "";
        if (!r[i].runs || !r[i].file) continue;
        if (r[i].line) snprintf(line, sizeof line, ":%d", r[i].line);
        snprintf(text, sizeof text, "%s%s: %s", file_short(r[i].file), line, r[i].why);
        if (strcmp(text, last)) say("  %s", text);
        memcpy(last, text, sizeof last);
    }
}

/* Only what ran: the rest is in the JSON. */
void open_say_receipts(const cadre_model *model) {
    cadre_receipt *r;
    table t;
    int n = receipts_of(model, &r);
    table_open(&t, "lrlllrl");
    for (const char *h = "op\0n\0kernel\0config\0source\0runs\0shape\0"; *h; h += strlen(h) + 1)
        table_cell(&t, "%s", h);
    for (int i = 0; i < n; i++) {
        char range[32];
        if (!r[i].runs) continue;
        range_text(r[i].n_lo, r[i].n_hi, range);
        table_cell(&t, "%s", r[i].op);
        table_cell(&t, "%s", range);
        table_cell(&t, "%s", r[i].kernel);
        table_cell(&t, "%s", r[i].config);
        table_cell(&t, "%s", r[i].source);
        table_cell(&t, "%llu", (unsigned long long)r[i].runs);
        table_cell(&t, "%s", r[i].shape);
    }
    table_print(&t, say_stream(), 2);
    say_table_use(r, n);
    mem_free(r);
}

const char *open_compiler(void) {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}

void open_put_manifest(json_out *o, const cadre_device *device, const char *model, const char *numerics) {
    char date[24];
    clock_date(date);
    json_open(o, "manifest", '{');
    json_put_text(o, "version", cadre_version());
    json_put_text(o, "compiler", open_compiler());
    json_put_text(o, "command", opts_line());
    json_put_text(o, "date", date);
    json_put_text(o, "device", cadre_device_name(device));
    json_put_int(o, "threads", cadre_device_threads(device));
    json_put_text(o, "model", model);
    json_put_text(o, "numerics", numerics);
    open_put_switches(o);
    json_close(o, '}');
}

cadre_err open_append(const char *path, const json_out *o, cadre_fail *why) {
    if (o->failed) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a sample");
    char *line = mem_new(o->len + 2);
    if (!line) return cadre_fail_set(why, CADRE_NOMEM, "out of memory for a sample");
    memcpy(line, o->text, o->len);
    line[o->len] = '\n';
    cadre_err err = file_append(path, line, o->len + 1, why);
    mem_free(line);
    return err;
}
