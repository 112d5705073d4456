/* lint_names.c: whose table a file is, and whether a look-up would ever open it: name, folder, device string, N.
 *
 * What systems do was read from vLLM (fork CentML/vllm at 4f819f8) and SGLang 0.5.23; docs/tables.md says more.
 */
#include "plan/lint_subject.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* ---- whose file is it? ---- */

static const char *last_part(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* triton_3_4_0 */
static bool is_version_folder(const char *folder) {
    const char *last = last_part(folder);
    if (strncmp(last, "triton_", 7)) return false;
    last += 7;
    return *last >= '0' && *last <= '9' && strspn(last, "0123456789_") == strlen(last);
}

/* Does the folder hold folders of Triton versions? Then it is the root of SGLang's or torchada's. */
static bool is_version_root(const char *folder) {
    const char **names;
    int count;
    bool found = false;
    if (file_list(folder, "", &names, &count, NULL)) return false;
    for (int i = 0; i < count && !found; i++) found = is_version_folder(names[i]);
    mem_free(names);
    return found;
}

/* vLLM keeps all files in one folder and writes neither blanks nor the last two fields. */
foreign_system lint_system(const lint_subject *s) {
    const foreign_name *n = &s->t->name;
    if (s->l->options.system >= 0) return (foreign_system)s->l->options.system;
    bool versions = is_version_folder(s->folder) || n->block_spaced || n->per_channel || n->down;
    if (!versions) versions = is_version_root(s->folder);
    if (versions) return strstr(n->device, "MTT") ? FOREIGN_TORCHADA : FOREIGN_SGLANG;
    return FOREIGN_VLLM;
}

/* ---- names ---- */

/* Devices that no driver reports so, and what drivers do report. */
static const char *const wrong_devices[][2] = {
    {"NVIDIA_H100", "NVIDIA_H100_80GB_HBM3, NVIDIA_H100_PCIe or NVIDIA_H100_NVL"},
    {"NVIDIA_A100", "NVIDIA_A100-SXM4-80GB or NVIDIA_A100_80GB_PCIe"},
    {"NVIDIA_A100-PCIe-40GB", "NVIDIA_A100-PCIE-40GB"},
};

static void check_device(lint_subject *s) {
    const char *device = s->t->name.device;
    char text[320];
    if (!strncmp(device, "gfx", 3) && device[3] >= '0' && device[3] <= '9') {
        snprintf(text, sizeof text, "device_name=%s is an architecture; look-ups ask for the device's name", device);
        lint_tell(s, "dead-file", NULL, text);
    }
    for (size_t i = 0; i < sizeof wrong_devices / sizeof *wrong_devices; i++) {
        if (strcmp(device, wrong_devices[i][0])) continue;
        snprintf(text, sizeof text, "no driver reports %s; it reports %s", device, wrong_devices[i][1]);
        lint_tell(s, "dead-file", NULL, text);
    }
}

/* torchada makes aliases without blanks of its own names. */
static bool same_but_blanks(const char *a, const char *b) {
    for (; *a || *b; a++, b++) {
        while (*a == ' ') a++;
        while (*b == ' ') b++;
        if (*a != *b) return false;
        if (!*a) break;
    }
    return true;
}

/* Edits that make b of a. */
static int edits(const char *a, const char *b) {
    enum { MOST = 256 };
    int row[MOST + 1], n = (int)strlen(b);
    if (n > MOST) return INT_MAX;
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 0; a[i]; i++) {
        int corner = row[0]++;
        for (int j = 0; j < n; j++) {
            int best = corner + (a[i] != b[j]);
            corner = row[j + 1];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (corner + 1 < best) best = corner + 1;
            row[j + 1] = best;
        }
    }
    return row[n];
}

/* The other file of the folder whose name is nearest to what is asked for; "" if none is near. */
static void nearest_name(const lint_subject *s, const char *wanted, char *near, size_t size) {
    enum { NEAR_MOST = 16 };
    const char **names;
    int count, best = NEAR_MOST + 1;
    *near = 0;
    if (file_list(s->folder, ".json", &names, &count, NULL)) return;
    for (int i = 0; i < count; i++) {
        int d = strcmp(names[i], s->name) ? edits(wanted, names[i]) : INT_MAX;
        if (d >= best) continue;
        best = d;
        snprintf(near, size, "%s", names[i]);
    }
    mem_free(names);
}

static void check_written_name(lint_subject *s) {
    const foreign_name *n = &s->t->name;
    const char *system = foreign_names[s->system];
    char wanted[512], near[300], text[900];
    bool has = foreign_name_print(s->system, n, wanted, sizeof wanted);
    if (!has && s->system == FOREIGN_VLLM)
        lint_tell(s, "dead-file", NULL, "vLLM's look-up knows neither _down nor per_channel_quant; SGLang's does");
    if (!has || !strcmp(wanted, s->name)) return;
    if (s->system == FOREIGN_TORCHADA && same_but_blanks(wanted, s->name)) return;
    nearest_name(s, wanted, near, sizeof near);
    snprintf(text, sizeof text, "%s asks for %s%s%s", system, wanted, *near ? "; nearest file here: " : "", near);
    lint_tell(s, "dead-file", NULL, text);
}

static void check_folder(lint_subject *s) {
    const char *last = last_part(s->folder);
    char text[320] = "";
    if (s->system == FOREIGN_VLLM || is_version_folder(s->folder)) return;
    if (!strncmp(last, "triton", 6))
        snprintf(text, sizeof text, "folder %.100s: %s looks for triton_ and the version with '_' for '.'", last,
                 foreign_names[s->system]);
    else if (is_version_root(s->folder))
        snprintf(text, sizeof text, "%s looks only into the folders triton_X_Y_Z below this one",
                 foreign_names[s->system]);
    if (*text) lint_tell(s, "dead-file", NULL, text);
}

static void check_shard(lint_subject *s) {
    const foreign_name *n = &s->t->name;
    const lint_options *o = &s->l->options;
    char text[320];
    if (n->block_n && n->n % n->block_n) {
        snprintf(text, sizeof text, "N=%d is no multiple of the scale block's %d: the layer cannot be sharded so", n->n,
                 n->block_n);
        lint_tell(s, "wrong-n", NULL, text);
    }
    if (o->f == 0 || n->e != o->e) return;
    int f = foreign_n(s->system, n->dtype, o->f, false);
    bool fits = o->tp ? n->n * (int64_t)o->tp == f : false;
    for (int tp = 1; !o->tp && tp <= 64; tp *= 2) fits |= n->n * (int64_t)tp == f;
    if (fits) return;
    if (o->tp)
        snprintf(text, sizeof text, "N=%d, expected %d: %d over tensor-parallel size %d", n->n, f / o->tp, f, o->tp);
    else
        snprintf(text, sizeof text, "N=%d is not %d over 1, 2, 4, .. 64%s", n->n, f,
                 n->n == 2 * (int64_t)f ? "; it is the width of gate and up together" : "");
    lint_tell(s, "wrong-n", NULL, text);
}

/* A file that was meant for the look-up but has another kind of name: "..gfx950..json". */
static void check_other_name(lint_subject *s) {
    const char *arch = strstr(s->name, "gfx");
    char text[320];
    check_folder(s);
    if (!arch || arch[3] < '0' || arch[3] > '9') return;
    snprintf(text, sizeof text, "%.*s is an architecture; look-ups ask for the device's name",
             3 + (int)strspn(arch + 3, "0123456789abcdef"), arch);
    lint_tell(s, "dead-file", NULL, text);
}

void lint_names(lint_subject *s) {
    if (!s->t->name.e) check_other_name(s);
    if (!s->t->name.e || *s->t->name.unknown) return; /* told by the reader's notes */
    check_device(s);
    check_written_name(s);
    check_folder(s);
    check_shard(s);
}

/* ---- told by the reader ---- */

/* The rule of what is wrong with a name. A type that nobody writes makes the file dead, and so does what is no name of
 * a table; other fields may be another loader's ("backend=flydsl", "H=3072"). A driver may report no name: then
 * look-ups ask for just that. */
void lint_hear_name(lint_subject *s, const char *unknown, const char *text) {
    if (!strcmp(unknown, "dtype=fp8_w8a16")) return; /* vLLM writes that one */
    bool nameless = strstr(s->name, "device_name=,") != NULL;
    s->foreign = *unknown && strncmp(unknown, "dtype=", 6);
    char other[200];
    snprintf(other, sizeof other, "this look-up does not know the field %s", unknown);
    lint_add(s->l, s->foreign ? "foreign-name" : "dead-file", nameless ? (int)LINT_NOTE : -1, s->path, 0, unknown, "%s",
             nameless     ? "the name holds no device: only drivers that report none ask for it"
             : s->foreign ? other
                          : text);
}
