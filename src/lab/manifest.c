/* manifest.c: what an arm is, as one object that can be kept with every sample and compared with another arm's. */
#include "experiment.h"
#include "verdict.h"
#include <stdio.h>
#include <string.h>

/* ---- hashes ---- */

static cadre_err put_file(json_out *o, const char *key, const char *shown, const char *path, cadre_fail *why) {
    file_map map;
    char hex[65];
    cadre_err err = file_open_map(path, &map, why);
    if (err) return err;
    cadre_sha256(map.data, map.size, hex);
    json_open(o, key, '{');
    json_put_text(o, "path", shown);
    json_put_text(o, "sha256", hex);
    json_put_int(o, "bytes", (int64_t)map.size);
    json_close(o, '}');
    file_close_map(&map);
    return CADRE_OK;
}

static cadre_err below(const lab_experiment *e, const char *name, char *out, size_t size, cadre_fail *why) {
    int n = *name == '/' ? snprintf(out, size, "%s", name) : snprintf(out, size, "%s/%s", e->folder, name);
    return n < 0 || (size_t)n >= size ? cadre_fail_set(why, CADRE_IO, "%.200s...: path too long", name) : CADRE_OK;
}

/* "cadre" is the one that runs; a name with '/' or of a file in the experiment's folder is that file; else PATH. */
cadre_err lab_find_program(const lab_experiment *e, const char *name, const char *cadre, char *out, size_t size,
                           cadre_fail *why) {
    if (!strcmp(name, "cadre") && cadre) {
        snprintf(out, size, "%s", cadre);
        return CADRE_OK;
    }
    cadre_err err = below(e, name, out, size, why);
    if (err) return err;
    if (strchr(name, '/') || (file_exists(out) && !file_is_dir(out)))
        return file_exists(out) ? CADRE_OK : cadre_fail_set(why, CADRE_IO, "%.300s: no such program", out);
    return process_find(name, out, size, why);
}

static cadre_err put_files(json_out *o, const lab_experiment *e, const lab_arm *a, cadre_fail *why) {
    char path[4096];
    cadre_err err = CADRE_OK;
    json_open(o, "files", '[');
    for (const char *const *f = a->files; f && *f && !err; f++) {
        err = below(e, *f, path, sizeof path, why);
        if (!err) err = put_file(o, NULL, *f, path, why);
        if (err && why && !*why->text) cadre_fail_set(why, err, "arm %s: cannot read %s", a->name, *f);
    }
    json_close(o, ']');
    return err;
}

/* ---- the machine ---- */

static void first_line(const char *path, char *out, size_t size) {
    char *text;
    size_t len;
    *out = 0;
    if (file_read(path, 4096, &text, &len, NULL)) return;
    snprintf(out, size, "%.*s", (int)strcspn(text, "\n"), text);
    mem_free(text);
}

static void cpu_model(char *out, size_t size) {
    char *text, *at;
    size_t len;
    *out = 0;
    if (file_read("/proc/cpuinfo", 16 << 20, &text, &len, NULL)) return;
    if ((at = strstr(text, "model name")) && (at = strchr(at, ':')))
        snprintf(out, size, "%.*s", (int)strcspn(at + 1 + strspn(at + 1, " "), "\n"), at + 1 + strspn(at + 1, " "));
    mem_free(text);
}

static void put_machine(json_out *o) {
    char text[200];
    cpus c;
    cpus_read("", &c);
    json_open(o, "machine", '{');
    cpu_model(text, sizeof text);
    json_put_text(o, "cpu", *text ? text : NULL);
    json_put_int(o, "cpus", c.online);
    json_put_int(o, "cpus_allowed", c.count);
    json_put_int(o, "cpus_quota", c.quota);
    first_line("/proc/sys/kernel/osrelease", text, sizeof text);
    json_put_text(o, "kernel", *text ? text : NULL);
    first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", text, sizeof text);
    json_put_text(o, "governor", *text ? text : NULL);
    first_line("/proc/driver/nvidia/version", text, sizeof text);
    json_put_text(o, "nvidia_driver", *text ? text : NULL);
    json_close(o, '}');
}

/* ---- the manifest ---- */

static void put_texts(json_out *o, const char *key, const char *const *list) {
    json_open(o, key, '[');
    for (; list && *list; list++) json_put_text(o, NULL, *list);
    json_close(o, ']');
}

static void put_env(json_out *o, const char *const *env) {
    json_open(o, "env", '{');
    for (; env && *env; env++) {
        char name[200];
        size_t n = strcspn(*env, "=");
        snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : 0, *env);
        json_put_text(o, name, *env + n + 1);
    }
    json_close(o, '}');
}

static cadre_err put_all(json_out *o, const lab_experiment *e, int arm, const char *cadre, cadre_fail *why) {
    static const char *const orders[] = {"interleaved", "balanced", "blocks"};
    const lab_arm *a = &e->arms[arm];
    char path[4096];
    json_open(o, NULL, '{');
    json_put_text(o, "experiment", e->name);
    json_put_text(o, "experiment_sha256", e->sha256);
    json_put_bool(o, "aa", e->aa);
    json_put_text(o, "order", orders[e->order]);
    json_put_text(o, "version", cadre_version());
    json_put_text(o, "role", arm == e->reference ? "reference" : "arm");
    if (e->factors) put_texts(o, "factors", a->factors);
    put_texts(o, "command", a->argv);
    put_env(o, a->env);
    put_texts(o, "switches", a->set);
    cadre_err err = lab_find_program(e, a->argv[0], cadre, path, sizeof path, why);
    if (!err) err = put_file(o, "program", a->argv[0], path, why);
    if (!err) err = put_files(o, e, a, why);
    json_put_text(o, "reader", e->program);
    if (e->protocol) json_put_value(o, "protocol", e->protocol);
    put_machine(o);
    json_close(o, '}');
    return err;
}

cadre_err lab_manifest(const lab_experiment *e, int arm, const char *cadre, json_doc **out, cadre_fail *why) {
    json_out o = {0};
    cadre_err err = put_all(&o, e, arm, cadre, why);
    if (!err && o.failed) err = cadre_fail_set(why, CADRE_NOMEM, "out of memory for a manifest");
    if (!err) err = json_parse("manifest", o.text, o.len, out, why);
    json_out_free(&o);
    return err;
}

/* ---- differences ---- */

typedef struct differ {
    void (*tell)(void *ctx, const char *path, const json *a, const json *b);
    void *ctx;
    int count;
} differ;

static bool same_leaf(const json *a, const json *b) {
    if (a->kind != JSON_ARRAY && a->kind != JSON_OBJECT) return lab_same_json(a, b);
    return a->kind == b->kind && a->count == b->count;
}

static void tell(differ *d, const char *path, const json *a, const json *b) {
    d->count++;
    if (d->tell) d->tell(d->ctx, path, a, b);
}

static void compare(differ *d, const char *path, const json *a, const json *b);

static void compare_members(differ *d, const char *path, const json *a, const json *b) {
    char inner[400];
    for (const json *c = a->child; c; c = c->next) {
        const json *other = json_get_n(b, c->key, c->key_len);
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", c->key);
        if (!strcmp(inner, "role") || !strcmp(inner, "factors")) continue; /* what an arm is for, not what it is */
        compare(d, inner, c, other);
    }
    for (const json *c = b->child; c; c = c->next) {
        if (json_get_n(a, c->key, c->key_len) || (!*path && !strcmp(c->key, "factors"))) continue;
        snprintf(inner, sizeof inner, "%s%s%s", path, *path ? "." : "", c->key);
        tell(d, inner, NULL, c);
    }
}

/* Arrays are compared as a whole: a word more in a command would otherwise move all behind it. */
static bool same_array(const json *a, const json *b) {
    const json *x = a->child, *y = b->child;
    differ quiet = {0};
    for (; x && y; x = x->next, y = y->next) compare(&quiet, "", x, y);
    return !x && !y && !quiet.count;
}

static void compare(differ *d, const char *path, const json *a, const json *b) {
    if (!b)
        tell(d, path, a, NULL);
    else if (a->kind == JSON_OBJECT && b->kind == JSON_OBJECT)
        compare_members(d, path, a, b);
    else if (a->kind == JSON_ARRAY && b->kind == JSON_ARRAY ? !same_array(a, b) : !same_leaf(a, b))
        tell(d, path, a, b);
}

int lab_manifest_diff(const json *a, const json *b,
                      void (*tell_one)(void *ctx, const char *path, const json *, const json *), void *ctx) {
    differ d = {tell_one, ctx, 0};
    compare(&d, "", a, b);
    return d.count;
}

/* ---- of all arms ---- */

/* Two names for one thing would measure noise and call it a difference. */
static cadre_err check_differences(const lab_experiment *e, json_doc *const *all, cadre_fail *why) {
    const json *reference = json_root(all[e->reference]);
    for (int i = 0; i < e->arm_count && !e->aa; i++)
        if (i != e->reference && !lab_manifest_diff(json_root(all[i]), reference, NULL, NULL))
            return cadre_fail_set(why, CADRE_RANGE,
                                  "arms %.60s and %.60s do not differ; \"aa\": true measures the noise of equal arms",
                                  e->arms[e->reference].name, e->arms[i].name);
    return CADRE_OK;
}

cadre_err lab_manifests(const lab_experiment *e, const char *cadre, json_doc **out, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    int n = 0;
    for (; n < e->arm_count && !err; n++) err = lab_manifest(e, n, cadre, &out[n], why);
    n -= err != CADRE_OK;
    if (!err) err = check_differences(e, out, why);
    for (int i = 0; i < n && err; i++) json_free(out[i]), out[i] = NULL;
    return err;
}
