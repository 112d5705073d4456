/* kernels.c: every kernel of the registry gives the bits of op/ref: over awkward shapes, denormal and overflowing
 * values, every legal knob and every way to cut the work, without touching a byte that is not its own.
 * CADRE_SEED=n in the environment draws other values. */
#include "problem.h"

static uint64_t seed = 1;
static bool hunting; /* a fault is planted: count differences instead of failing */
static long runs, differences;
static int visited;

static void compare(const op_kernel *kernel, const op_knobs *knobs, int cut, problem *p) {
    int output;
    size_t i;
    problem_run(kernel, knobs, cut, p);
    runs++;
    if (!problem_differs(p, &output, &i)) return;
    differences++;
    if (hunting) return;
    char text[100];
    op_knobs_text(p->family, knobs, text, sizeof text);
    const area *a = &p->out[output];
    fail_msg("%s: %s, values %d: %s, cut %d: output %d [%zu][%zu] is %a, op/ref gives %a (seed %llu)", kernel->name,
             p->text, (int)p->flavour, text, cut, output, i / a->ld, i % a->ld, (double)op_load(a->t, a->data, i),
             (double)op_load(a->t, a->want, i), (unsigned long long)p->seed);
}

/* The default, then each knob at its lowest or highest. */
static bool next_corner(const op_kernel *kernel, int *index, op_knobs *knobs) {
    const op_family_def *family = &op_families[kernel->family];
    if (*index > 1 << family->count) return false;
    op_knobs_default(kernel->family, knobs);
    for (int i = 0; i<family->count && * index> 0; i++)
        knobs->v[i] = (*index - 1) >> i & 1 ? family->knobs[i].high : family->knobs[i].low;
    op_knobs_fit(kernel, knobs);
    assert_true(kernel->ok(knobs));
    ++*index;
    return true;
}

static void all_knobs(const op_kernel *kernel, problem *p) {
    op_knobs knobs;
    for (long i = 0; op_knobs_next(kernel, &i, &knobs);) compare(kernel, &knobs, (int)(i % CUTS), p);
}

static void corner_knobs(const op_kernel *kernel, problem *p) {
    op_knobs knobs;
    for (int i = 0; next_corner(kernel, &i, &knobs);) {
        for (int cut = 0; cut < CUTS; cut++) compare(kernel, &knobs, cut, p);
    }
}

static bool build(problem *p, op_family family, cadre_dtype t, int index) {
    op_knobs knobs;
    if (!problem_build(p, family, t, index, seed)) return false;
    op_knobs_default(family, &knobs);
    problem_run(op_find(family, t, OP_ISA_REF), &knobs, CUT_WHOLE, p);
    problem_keep(p);
    return true;
}

/* The kernels of a family and type that can run here, op/ref itself among them; the others are named. */
static int runnable(op_family family, cadre_dtype t, const op_kernel *found[], int cap) {
    int n = 0;
    for (const op_kernel *const *k = op_kernels; *k != NULL; k++) {
        if ((*k)->family != family || (*k)->dtype != t) continue;
        visited++;
        const char *lack = probe_lacks((*k)->isa);
        if (lack != NULL) {
            printf("skipped: %s: cpu lacks %s\n", (*k)->name, lack);
            continue;
        }
        assert_true(n < cap);
        found[n++] = *k;
    }
    return n;
}

static void check_family(op_family family, cadre_dtype t) {
    const op_kernel *kernels[16];
    int n = runnable(family, t, kernels, 16), index = 0;
    runs = 0;
    for (problem p; build(&p, family, t, index); index++) {
        bool full = p.work > 0 && p.work < 4e5 && any(&p, 8) == 0;
        for (int i = 0; i < n; i++) {
            if (kernels[i]->isa == OP_ISA_REF) { /* its knobs do nothing; its pieces must */
                op_knobs knobs;
                op_knobs_default(family, &knobs);
                for (int cut = 0; cut < CUTS; cut++) compare(kernels[i], &knobs, cut, &p);
            } else if (full) {
                all_knobs(kernels[i], &p);
            } else {
                corner_knobs(kernels[i], &p);
            }
        }
    }
    printf("%s, type %d: %d kernels, %d problems, %ld runs\n", op_families[family].name, (int)t, n, index, runs);
    assert_true(index > 0 && runs >= index);
}

static void dense_f32(void **state) {
    (void)state;
    check_family(OP_DENSE, CADRE_F32);
}
static void dense_bf16(void **state) {
    (void)state;
    check_family(OP_DENSE, CADRE_BF16);
}
static void experts_f32(void **state) {
    (void)state;
    check_family(OP_EXPERTS, CADRE_F32);
}
static void experts_bf16(void **state) {
    (void)state;
    check_family(OP_EXPERTS, CADRE_BF16);
}
static void experts_q8(void **state) {
    (void)state;
    check_family(OP_EXPERTS, CADRE_Q8);
}
static void experts_q4(void **state) {
    (void)state;
    check_family(OP_EXPERTS, CADRE_Q4);
}
static void norm(void **state) {
    (void)state;
    check_family(OP_NORM, CADRE_F32);
}
static void attn_f32(void **state) {
    (void)state;
    check_family(OP_ATTN, CADRE_F32);
}
static void attn_bf16(void **state) {
    (void)state;
    check_family(OP_ATTN, CADRE_BF16);
}

/* Last: no line of kernels.h was left out of the walks above. */
static void none_forgotten(void **state) {
    (void)state;
    int lines = 0;
    while (op_kernels[lines] != NULL) lines++;
    assert_int_equal(visited, lines);
}

/* ---- the walk must be able to fail ---- */

static long hunt(const op_kernel *kernel, fault planted) {
    differences = 0;
    hunting = true;
    int index = 0;
    for (problem p; differences == 0 && build(&p, kernel->family, kernel->dtype, index); index++) {
        switch_set(SWITCH_PLANT, planted);
        corner_knobs(kernel, &p);
        switch_set(SWITCH_PLANT, FAULT_NONE);
    }
    hunting = false;
    return differences;
}

/* Where src/base/fault.h says that a fault sits. */
static bool holds(const op_kernel *kernel, fault f) {
    if (f == FAULT_NORM) return kernel->family == OP_NORM;
    return kernel->isa != OP_ISA_REF && (kernel->family == OP_DENSE || kernel->family == OP_EXPERTS);
}

static void planted_faults_are_found(void **state) {
    (void)state;
    static const fault planted[] = {FAULT_ORDER, FAULT_TAIL, FAULT_NORM};
    for (const op_kernel *const *k = op_kernels; *k != NULL; k++) {
        for (int i = 0; i < 3 && probe_lacks((*k)->isa) == NULL; i++) {
            if (holds(*k, planted[i]) && hunt(*k, planted[i]) == 0)
                fail_msg("%s: fault %d was not found", (*k)->name, (int)planted[i]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_f32),
        cmocka_unit_test(dense_bf16),
        cmocka_unit_test(experts_f32),
        cmocka_unit_test(experts_bf16),
        cmocka_unit_test(experts_q8),
        cmocka_unit_test(experts_q4),
        cmocka_unit_test(norm),
        cmocka_unit_test(attn_f32),
        cmocka_unit_test(attn_bf16),
        cmocka_unit_test(none_forgotten),
        cmocka_unit_test(planted_faults_are_found),
    };
    const char *text = getenv("CADRE_SEED");
    if (text != NULL) seed = strtoull(text, NULL, 10);
    probe_flush();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
