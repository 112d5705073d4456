/* doctor.c: `cadre doctor`: what this machine is, what runs on it and why, what is missing, and proofs on request. */
#include "commands.h"
#include "doctor_cuda.h"
#include "measure.h"
#include "moe/bits.h"
#include "op/kernel.h"
#include "open.h"
#include "plan/plan.h"
#include "verify.h"
#include "verify_gpu.h"
#include <math.h>
#include <string.h>

typedef struct doctor_opts {
    opts_common common;
    bool quick, verify, switches;
} doctor_opts;

#define O(letter, name, kind, arg, member, low, high, what) \
    OPTS_ROW(doctor_opts, letter, name, kind, arg, member, low, high, what)
static const opts_def defs[] = {
    O(0, "--quick", OPTS_FLAG, NULL, quick, 0, 0, "measure nothing"),
    O(0, "--switches", OPTS_FLAG, NULL, switches, 0, 0, "list every switch with its range"),
    O(0, "--verify", OPTS_FLAG, NULL, verify, 0, 0,
      "prove the numerics ids here: vdpbf16ps, every kernel against op/ref, a GPU's configurations; exit status 1 if "
      "one fails"),
    O(0, "--device", OPTS_TEXT, "NAME", common.device, 0, 0,
      "a GPU that must be there, and whose kernels --verify proves: cuda or cuda:N, or cpu (default: the CPU's and the "
      "first GPU's)"),
    OPTS_ALWAYS(doctor_opts),
};
#undef O

static const char *const examples[] = {
    "cadre doctor",
    "device, ceilings, models, what is missing",
    "cadre doctor --verify",
    "prove that the kernels of this CPU agree bit for bit",
    "cadre doctor --switches --quick",
    "every switch, its value and its range",
    NULL,
};

enum { PROOFS = 64, MISSING = 8 };
typedef struct proof {
    char name[48], text[160];
    bool ok, skipped;
} proof;

typedef struct doctor {
    const doctor_opts *o;
    cadre_device *device, *gpu; /* gpu: the one that --device names, or whose kernels are proven */
    dev_ceiling ceiling;
    bool measured;
    uint64_t memory;
    char huge[64]; /* the kernel's word for huge pages */
    doctor_cuda cuda;
    char isa_why[96], demo[OPEN_PATH_MAX];
    bool has_demo;
    proof proofs[PROOFS];
    int proof_count, failed;
    char missing[MISSING][256];
    int missing_count;
} doctor;

/* ---- looking ---- */

/* text NULL: nothing is. */
static void miss(doctor *d, const char *text) {
    if (text && d->missing_count < MISSING) snprintf(d->missing[d->missing_count++], sizeof d->missing[0], "%s", text);
}

/* "always [madvise] never" -> "madvise" */
static void look_at_huge_pages(doctor *d) {
    char *text;
    size_t len;
    snprintf(d->huge, sizeof d->huge, "unknown");
    if (file_read("/sys/kernel/mm/transparent_hugepage/enabled", 4096, &text, &len, NULL)) return;
    const char *from = strchr(text, '[');
    if (from) snprintf(d->huge, sizeof d->huge, "%.*s", (int)strcspn(from + 1, "]\n"), from + 1);
    mem_free(text);
    if (!strcmp(d->huge, "never"))
        miss(d, "huge pages are off: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root)");
}

static void look_at_isa(doctor *d) {
    long asked = switch_get(SWITCH_ISA);
    unsigned f = d->device->features;
    int best = f & DEV_AVX512BF16 ? 3 : f & DEV_AVX512 ? 2 : f & DEV_AVX2_FMA ? 1 : 0, use = d->device->isa;
    if (use == best)
        snprintf(d->isa_why, sizeof d->isa_why, "the best this CPU has");
    else if (asked < best && use == asked)
        snprintf(d->isa_why, sizeof d->isa_why, "switch isa=%ld; the CPU has %s", asked, switch_isas[best]);
    else
        snprintf(d->isa_why, sizeof d->isa_why, "%s does not keep docs/numerics.md on this CPU", switch_isas[best]);
    if (best == 0) miss(d, "vector kernels: this CPU lacks AVX2 with FMA, so the plain reference runs");
}

static void look(doctor *d) {
    d->memory = dev_memory_available();
    d->has_demo = open_find_demo(d->demo);
    look_at_huge_pages(d);
    look_at_isa(d);
    if (!d->has_demo) miss(d, "the demo model: run from the source tree, or make install");
    doctor_cuda_look(&d->cuda, d->gpu ? d->gpu->gpu : NULL, !d->o->quick);
    miss(d, doctor_cuda_no_driver(&d->cuda));
    miss(d, doctor_cuda_no_nvrtc(&d->cuda));
}

static cadre_err measure(doctor *d, cadre_fail *why) {
    enum { REPEATS = 3 };
    say_progress("measuring ceilings");
    cadre_err err = dev_measure(d->device, measure_probe_bytes(d->device), REPEATS, &d->ceiling, why);
    say_progress_end();
    d->measured = !err;
    return err;
}

/* ---- proofs ---- */

static proof *add_proof(doctor *d, const char *name) {
    proof *p = &d->proofs[d->proof_count < PROOFS - 1 ? d->proof_count++ : PROOFS - 1];
    *p = (proof){.ok = true};
    snprintf(p->name, sizeof p->name, "%s", name);
    return p;
}

static void prove_pairs(doctor *d) {
    enum { CASES = 4000000 };
    uint64_t bad;
    proof *p = add_proof(d, "vdpbf16ps is the pair of fused multiply-adds");
    if (!(dev_features() & DEV_AVX512BF16)) {
        p->skipped = true;
        snprintf(p->text, sizeof p->text, "the CPU lacks the instruction");
        return;
    }
    p->ok = dev_bf16_pair_exact(CASES, 1, &bad);
    snprintf(p->text, sizeof p->text, "%llu of %d cases differ", (unsigned long long)bad, CASES);
    d->failed += !p->ok;
}

static cadre_err prove_kernel(doctor *d, const op_kernel *k, cadre_fail *why) {
    enum { PROBLEMS = 40 };
    static const unsigned need[OP_ISA_COUNT] = {0, DEV_AVX2_FMA, DEV_AVX512, DEV_AVX512BF16};
    uint64_t bad = 0;
    proof *p = add_proof(d, k->name);
    if ((dev_features() & need[k->isa]) != need[k->isa]) {
        p->skipped = true;
        snprintf(p->text, sizeof p->text, "the CPU lacks %s", switch_isas[k->isa]);
        return CADRE_OK;
    }
    say_progress("proving %s", k->name);
    cadre_err err = verify_kernel(d->device, k, PROBLEMS, 7, &bad, why);
    p->ok = !bad;
    snprintf(p->text, sizeof p->text, "%llu of %d runs differ from op/ref", (unsigned long long)bad, PROBLEMS * 4);
    d->failed += !p->ok;
    return err;
}

/* What keeps a proof from being run is told in its line, and ends nothing. */
static void end_proof(doctor *d, proof *p, cadre_err err, bool ok, const cadre_fail *why) {
    p->skipped = err == CADRE_UNSUPPORTED;
    p->ok = !err && ok;
    if (err) snprintf(p->text, sizeof p->text, "%.*s", (int)sizeof p->text - 1, why->text);
    d->failed += !p->ok && !p->skipped;
}

static proof *add_proof_on(doctor *d, const char *name) {
    char text[48];
    snprintf(text, sizeof text, "%.40s %d", name, d->cuda.ordinal);
    return add_proof(d, text);
}

/* One id spans decoding and prefill because these instructions agree. */
static void prove_instructions(doctor *d) {
    cadre_fail why = {0};
    moe_bits b = {0};
    proof *p = add_proof_on(d, "mma.sync and wgmma agree on gpu");
    say_progress("proving %s", p->name);
    cadre_err err = moe_bits_compare(d->gpu->gpu, 1, &b, &why);
    int64_t bad = b.swapped + b.wgmma_8 + b.wgmma_32 + b.shared;
    snprintf(p->text, sizeof p->text, "%lld of %lld outputs differ; steps backward %lld do", (long long)bad,
             4 * (long long)b.outputs, (long long)b.backward);
    end_proof(d, p, err, moe_bits_ok(&b), &why);
}

static void prove_layers(doctor *d) {
    cadre_fail why = {0};
    gpu_proofs g = {0};
    proof *p = add_proof_on(d, "sm90-bf16-k16 on gpu");
    say_progress("proving %s", p->name);
    cadre_err err = verify_gpu(d->gpu, &g, &why);
    snprintf(p->text, sizeof p->text, "%d of %d runs differ, over all configurations", g.runs_bad, g.runs);
    end_proof(d, p, err, !g.runs_bad, &why);
    if (err) return;
    p = add_proof(d, "its rows alone, and in another order");
    snprintf(p->text, sizeof p->text, "%d of %d rows differ", g.rows_bad, g.rows);
    end_proof(d, p, err, !g.rows_bad, &why);
    p = add_proof(d, "its experts against their meaning");
    snprintf(p->text, sizeof p->text, "relative error %.1e, at most %.1e", g.error, g.most);
    end_proof(d, p, err, g.error <= g.most, &why);
}

/* The GPU that is named, which is open, or the first, if there is one. */
static void prove_gpu(doctor *d) {
    cadre_fail why = {0};
    if (!d->gpu && !d->cuda.status.devices) return;
    cadre_err err = d->gpu ? CADRE_OK : cadre_device_open(&(cadre_device_options){.name = "cuda"}, &d->gpu, &why);
    if (err) {
        end_proof(d, add_proof_on(d, "sm90-bf16-k16 on gpu"), err, false, &why);
        return;
    }
    prove_instructions(d);
    prove_layers(d);
}

static cadre_err prove(doctor *d, cadre_fail *why) {
    bool named = d->o->common.device != NULL, cpu = !d->gpu;
    cadre_err err = CADRE_OK;
    if (cpu) prove_pairs(d);
    if (!named || !cpu) prove_gpu(d);
    for (int i = 0; cpu && op_kernels[i] && !err; i++)
        if (op_kernels[i]->isa != OP_ISA_REF) err = prove_kernel(d, op_kernels[i], why);
    say_progress_end();
    return err;
}

/* ---- report ---- */

static const struct {
    unsigned bit;
    const char *name;
} features[] = {{DEV_AVX2_FMA, "avx2+fma"}, {DEV_AVX512, "avx512"}, {DEV_AVX512BF16, "avx512bf16"}};

static void put_switches(json_out *o) {
    switch_def def;
    long value;
    json_open(o, "all_switches", '[');
    for (int i = 0; plan_switch_at(i, &def, &value); i++) {
        json_open(o, NULL, '{');
        json_put_text(o, "name", def.name);
        json_put_int(o, "value", value);
        json_put_int(o, "default", def.def);
        json_put_int(o, "low", def.low);
        json_put_int(o, "high", def.high);
        json_put_text(o, "what", def.what);
        json_close(o, '}');
    }
    for (int i = 0; i < SWITCH_TEXT_COUNT; i++) {
        json_open(o, NULL, '{');
        json_put_text(o, "name", switch_text_defs[i].name);
        json_put_text(o, "value", switch_text((switch_text_id)i));
        json_put_null(o, "default"), json_put_null(o, "low"), json_put_null(o, "high");
        json_put_text(o, "what", switch_text_defs[i].what);
        json_close(o, '}');
    }
    json_close(o, ']');
}

static void put_ceilings(json_out *o, const doctor *d) {
    if (!d->measured) {
        json_put_null(o, "ceilings");
        return;
    }
    json_open(o, "ceilings", '{');
    json_put_real(o, "read_gbps", d->ceiling.read_gbps);
    json_put_real(o, "read_one_thread_gbps", d->ceiling.read1_gbps);
    json_put_real(o, "fma_gflops", d->ceiling.fma_gflops);
    json_put_real(o, "bf16_gflops", d->ceiling.bf16_gflops > 0 ? d->ceiling.bf16_gflops : NAN);
    json_close(o, '}');
}

static void put_proofs(json_out *o, const doctor *d) {
    if (!d->o->verify) {
        json_put_null(o, "proofs");
        return;
    }
    json_open(o, "proofs", '[');
    for (int i = 0; i < d->proof_count; i++) {
        const proof *p = &d->proofs[i];
        json_open(o, NULL, '{');
        json_put_text(o, "name", p->name);
        if (p->skipped)
            json_put_null(o, "ok");
        else
            json_put_bool(o, "ok", p->ok);
        json_put_text(o, "text", p->text);
        json_close(o, '}');
    }
    json_close(o, ']');
}

/* Memory nodes as [{node, cpus}, ...]. */
static void put_cpus(json_out *o, const cpus *c) {
    json_put_int(o, "cpus_online", c->online);
    json_put_int(o, "cpus_allowed", c->count);
    if (c->quota < c->count)
        json_put_int(o, "cpus_quota", c->quota);
    else
        json_put_null(o, "cpus_quota");
    json_put_int(o, "cores", c->cores);
    json_open(o, "nodes", '[');
    for (int i = 0; i < c->nodes; i++) {
        json_open(o, NULL, '{');
        json_put_int(o, "node", c->node_id[i]);
        json_put_int(o, "cpus", cpus_at_node(c, i));
        json_close(o, '}');
    }
    json_close(o, ']');
}

static void put_machine(json_out *o, const doctor *d) {
    json_put_text(o, "device", cadre_device_name(d->device));
    json_put_text(o, "cpu", d->device->cpu);
    json_open(o, "features", '[');
    for (int i = 0; i < 3; i++)
        if (d->device->features & features[i].bit) json_put_text(o, NULL, features[i].name);
    json_close(o, ']');
    json_put_text(o, "isa", switch_isas[d->device->isa]);
    json_put_text(o, "isa_why", d->isa_why);
    json_put_int(o, "threads", cadre_device_threads(d->device));
    put_cpus(o, &d->device->cpus);
    json_open(o, "caches", '{');
    json_put_int(o, "l1d", d->device->l1d);
    json_put_int(o, "l2", d->device->l2);
    json_put_int(o, "l3", d->device->l3);
    json_close(o, '}');
    json_put_int(o, "memory_available", (int64_t)d->memory);
    json_put_text(o, "huge_pages", d->huge);
}

static void put_tables(json_out *o) {
    plan_tables t;
    if (plan_tables_look(&t, NULL)) return;
    json_open(o, "tables", '{');
    json_put_text(o, "user", *t.user ? t.user : NULL);
    json_put_int(o, "user_files", t.user_files);
    json_put_text(o, "shipped", *t.shipped ? t.shipped : NULL);
    json_put_int(o, "shipped_files", t.shipped_files);
    json_put_int(o, "rows", t.rows);
    json_put_int(o, "faults", t.faults);
    json_close(o, '}');
}

static int report_json(const doctor *d, int status) {
    json_out o = {0};
    say_json_open(&o, "doctor");
    json_put_text(&o, "version", cadre_version());
    json_put_text(&o, "compiler", open_compiler());
    put_machine(&o, d);
    json_open(&o, "numerics", '[');
    for (const char *id = op_numerics_all; *id; id += strcspn(id, " "), id += *id == ' ')
        json_put_text_n(&o, NULL, id, strcspn(id, " "));
    json_close(&o, ']');
    put_ceilings(&o, d);
    doctor_cuda_put(&d->cuda, &o);
    json_put_text(&o, "demo_model", d->has_demo ? d->demo : NULL);
    put_tables(&o);
    json_open(&o, "missing", '[');
    for (int i = 0; i < d->missing_count; i++) json_put_text(&o, NULL, d->missing[i]);
    json_close(&o, ']');
    put_proofs(&o, d);
    open_put_switches(&o);
    put_switches(&o);
    json_close(&o, '}');
    return say_json(&o, status);
}

static void say_cpus(const cpus *c, int threads) {
    char text[256];
    cpus_explain(c, threads, text, sizeof text);
    say_pair("threads", "%s", text);
    text[0] = 0;
    for (int i = 0; i < c->nodes && strlen(text) < sizeof text - 64; i++)
        snprintf(text + strlen(text), 64, "%snode %d: %d CPU%s", i ? ", " : "", c->node_id[i], cpus_at_node(c, i),
                 cpus_at_node(c, i) == 1 ? "" : "s");
    say_pair("memory nodes", "%s%s", text,
             c->nodes == 1               ? ""
             : switch_get(SWITCH_SPREAD) ? "; weights and caches are spread over them"
                                         : "; switch spread=0 leaves pages where they are touched first");
}

static void say_machine(const doctor *d) {
    char a[24], b[24], c[24], text[64] = "";
    for (int i = 0; i < 3; i++)
        if (d->device->features & features[i].bit)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? " " : "", features[i].name);
    say_pair("cadre", "%s, %s", cadre_version(), open_compiler());
    say_pair("cpu", "%s: %s", d->device->cpu, *text ? text : "no vector features that kernels use");
    say_pair("kernels", "%s: %s", switch_isas[d->device->isa], d->isa_why);
    say_cpus(&d->device->cpus, cadre_device_threads(d->device));
    say_pair("caches", "L1d %s, L2 %s, L3 %s", say_bytes((double)d->device->l1d, a),
             say_bytes((double)d->device->l2, b), say_bytes((double)d->device->l3, c));
    say_pair("memory", "%s available, huge pages %s", say_bytes((double)d->memory, a), d->huge);
    say_pair("numerics", "%s", op_numerics_all);
}

static void say_ceilings(const doctor *d) {
    if (!d->measured) return;
    say_pair("read", "%.1f GB/s (one thread %.1f)", d->ceiling.read_gbps, d->ceiling.read1_gbps);
    if (d->ceiling.bf16_gflops > 0)
        say_pair("compute", "%.0f GF/s fp32, %.0f GF/s bf16 pairs", d->ceiling.fma_gflops, d->ceiling.bf16_gflops);
    else
        say_pair("compute", "%.0f GF/s fp32", d->ceiling.fma_gflops);
}

/* "1", or the word that is told for it. */
static void switch_cell(table *t, int i, long value) {
    const char *word = i < SWITCH_COUNT ? switch_word((switch_id)i, value) : NULL;
    if (word)
        table_cell(t, "%s", word);
    else
        table_cell(t, "%ld", value);
}

static void say_switches(void) {
    switch_def def;
    long value;
    table t;
    table_open(&t, "lrrll");
    for (const char *h = "switch\0value\0default\0range\0what\0"; *h; h += strlen(h) + 1) table_cell(&t, "%s", h);
    for (int i = 0; plan_switch_at(i, &def, &value); i++) {
        table_cell(&t, "%s", def.name);
        switch_cell(&t, i, value);
        switch_cell(&t, i, def.def);
        table_cell(&t, "%ld..%ld", def.low, def.high);
        table_cell(&t, "%s", def.what);
    }
    for (int i = 0; i < SWITCH_TEXT_COUNT; i++) {
        table_cell(&t, "%s", switch_text_defs[i].name);
        table_cell(&t, "%s", switch_text((switch_text_id)i));
        table_cell(&t, "%s", "");
        table_cell(&t, "text");
        table_cell(&t, "%s", switch_text_defs[i].what);
    }
    table_print(&t, say_stream(), 2);
}

static void say_proofs(const doctor *d) {
    for (int i = 0; i < d->proof_count; i++) {
        const proof *p = &d->proofs[i];
        say("  %-8s %s: %s", p->skipped ? "skipped" : p->ok ? "ok" : "FAILED", p->name, p->text);
    }
    if (d->o->verify) say(d->failed ? "%d proofs failed" : "all proofs hold", d->failed);
}

static void say_places(void) {
    char path[OPEN_PATH_MAX];
    for (int i = 0; open_demo_place(i, path); i++) say_pair(i ? "" : "looked at", "%s", path);
}

static void say_tables(void) {
    plan_tables t;
    if (plan_tables_look(&t, NULL)) return;
    say_pair("tables", "yours %s: %d; shipped %s: %d; %d rows%s", *t.user ? file_short(t.user) : "nowhere",
             t.user_files, *t.shipped ? file_short(t.shipped) : "nowhere", t.shipped_files, t.rows,
             t.faults ? ", some could not be read" : "");
}

static void say_report(const doctor *d) {
    char switches[512];
    say_machine(d);
    say_ceilings(d);
    doctor_cuda_say(&d->cuda);
    say_pair("demo model", "%s", d->has_demo ? d->demo : "not found");
    if (!d->has_demo) say_places();
    say_tables();
    say_pair("switches", "%s", open_switches(switches));
    for (int i = 0; i < d->missing_count; i++) say_pair(i ? "" : "missing", "%s", d->missing[i]);
    if (!d->missing_count) say_pair("missing", "nothing");
    if (d->o->switches) say_switches();
    say_proofs(d);
}

/* ---- the command ---- */

/* The CPU, and a GPU that is named, which must be there. */
static cadre_err open_devices(doctor *d, cadre_fail *why) {
    opts_common own = d->o->common;
    int gpu;
    own.device = NULL;
    cadre_err err = open_where(&d->o->common, &gpu, why);
    if (!err && gpu != DEV_CPU) err = open_device(&d->o->common, &d->gpu, why);
    return err ? err : open_device(&own, &d->device, why);
}

static int run(void) {
    doctor_opts o = {0};
    doctor d = {.o = &o};
    cadre_fail why = {0};
    int status;
    if (!opts_read(&doctor_command, &o, &status)) return status;
    cadre_err err = open_devices(&d, &why);
    if (!err) look(&d);
    if (!err && !o.quick) err = measure(&d, &why);
    if (!err && o.verify) err = prove(&d, &why);
    if (err) {
        status = say_failed(&why);
    } else {
        say_report(&d);
        status = d.failed ? EXIT_NO : EXIT_FINE;
        if (o.common.json) status = report_json(&d, status);
    }
    cadre_device_close(d.gpu);
    cadre_device_close(d.device);
    return status;
}

const opts_command doctor_command = {
    "doctor", "tell about this machine, prove its kernels", NULL, OPTS_TABLE(defs), examples, run};
