/* kernel.c: the registry and the arithmetic of knobs. */
#include "probe.h"

static void families(void **state) {
    (void)state;
    static const char *const names[] = {"dense", "experts", "norm", "attn"};
    for (int f = 0; f < OP_FAMILY_COUNT; f++) {
        const op_family_def *family = &op_families[f];
        assert_string_equal(family->name, names[f]);
        assert_in_range(family->count, 1, OP_KNOBS_MAX);
        for (int i = 0; i < family->count; i++) { /* low, then doubling up to high, the default among them */
            const op_knob_def *d = &family->knobs[i];
            bool found = false;
            int v = d->low;
            for (; v < d->high; v *= 2) found |= v == d->def;
            assert_int_equal(v, d->high);
            assert_true((found || v == d->def) && d->what[0] != 0);
        }
    }
    assert_string_equal(op_families[OP_EXPERTS].knobs[3].name, "columns");
    assert_int_equal(op_families[OP_EXPERTS].knobs[3].high, 8);
}

/* Names are <family>[_<type>]_<isa>, each once, and lie in the order that op_find needs. */
static void registry(void **state) {
    (void)state;
    for (int i = 0; op_kernels[i] != NULL; i++) {
        const op_kernel *k = op_kernels[i];
        char name[64];
        bool typed = k->family != OP_NORM;
        snprintf(name, sizeof name, "%s%s%s_%s", op_families[k->family].name, typed ? "_" : "",
                 typed ? op_dtype_name(k->dtype) : "", switch_isas[k->isa]);
        assert_string_equal(k->name, name);
        assert_true(k->dtype == CADRE_F32 || (k->dtype == CADRE_BF16 && typed) ||
                    (op_is_quant(k->dtype) && k->family == OP_EXPERTS));
        for (int j = 0; j < i; j++) {
            bool same = op_kernels[j]->family == k->family && op_kernels[j]->dtype == k->dtype;
            assert_true(!same || op_kernels[j]->isa < k->isa);
        }
        op_knobs lowest = {0};
        for (int n = 0; n < op_families[k->family].count; n++) lowest.v[n] = op_families[k->family].knobs[n].low;
        assert_true(k->ok(&lowest)); /* op_knobs_fit ends there */
    }
}

static void find(void **state) {
    (void)state;
    for (int f = 0; f < OP_FAMILY_COUNT; f++) {
        for (int t = CADRE_F32; t <= CADRE_F16; t++) {
            op_isa last = OP_ISA_REF;
            for (int isa = OP_ISA_REF; isa < OP_ISA_COUNT; isa++) {
                const op_kernel *k = op_find((op_family)f, (cadre_dtype)t, (op_isa)isa);
                assert_non_null(k);
                assert_int_equal(k->family, f);
                assert_true(k->isa <= (op_isa)isa && k->isa >= last);
                assert_true(f == OP_NORM || (k->dtype == CADRE_BF16) == (t == CADRE_BF16));
                last = k->isa;
            }
        }
        assert_int_equal(op_find((op_family)f, CADRE_BF16, OP_ISA_REF)->isa, OP_ISA_REF);
    }
    assert_string_equal(op_numerics(CADRE_BF16), "cpu-bf16-pair");
    assert_string_equal(op_numerics(CADRE_F32), "cpu-f32-chain");
}

/* ---- knobs ---- */

static bool all_fit(const op_knobs *knobs) {
    (void)knobs;
    return true;
}
static bool small_tiles(const op_knobs *knobs) {
    return knobs->dense.rows * knobs->dense.panels <= 4;
}
static bool one_panel(const op_knobs *knobs) {
    return knobs->dense.panels == 1;
}

static op_kernel stand_in(bool (*ok)(const op_knobs *)) {
    return (op_kernel){.family = OP_DENSE, .ok = ok};
}

static void next_walks_all(void **state) {
    (void)state;
    op_kernel all = stand_in(all_fit), some = stand_in(small_tiles);
    bool seen[9][5][65] = {{{false}}};
    op_knobs knobs;
    long index = 0, count = 0;
    for (; op_knobs_next(&all, &index, &knobs); count++) {
        assert_false(seen[knobs.dense.rows][knobs.dense.panels][knobs.dense.grain]);
        seen[knobs.dense.rows][knobs.dense.panels][knobs.dense.grain] = true;
    }
    assert_int_equal(count, 4 * 3 * 7);
    assert_true(seen[1][1][1] && seen[8][4][64] && seen[4][2][4]);
    assert_false(op_knobs_next(&all, &index, &knobs));
    count = 0;
    for (index = 0; op_knobs_next(&some, &index, &knobs); count++) assert_true(small_tiles(&knobs));
    assert_int_equal(count, (3 + 2 + 1) * 7); /* 1x1 1x2 1x4, 2x1 2x2, 4x1 */
}

static void fitted(bool (*ok)(const op_knobs *), int rows, int panels, int grain, int want_rows, int want_panels,
                   int want_grain) {
    op_kernel kernel = stand_in(ok);
    op_knobs knobs = {.dense = {rows, panels, grain}};
    op_knobs_fit(&kernel, &knobs);
    assert_int_equal(knobs.dense.rows, want_rows);
    assert_int_equal(knobs.dense.panels, want_panels);
    assert_int_equal(knobs.dense.grain, want_grain);
}

static void fit_halves_the_largest(void **state) {
    (void)state;
    fitted(all_fit, 8, 4, 64, 8, 4, 64);
    fitted(small_tiles, 8, 4, 16, 2, 2, 16);
    fitted(small_tiles, 8, 1, 1, 4, 1, 1);
    fitted(one_panel, 8, 4, 1, 1, 1, 1);
    fitted(all_fit, 3, 100, 0, 2, 4, 1); /* values between two legal ones, or past the ends, are rounded down */
}

static void defaults_and_text(void **state) {
    (void)state;
    op_knobs knobs;
    char text[100], cut[8];
    memset(&knobs, 0xff, sizeof knobs);
    op_knobs_default(OP_DENSE, &knobs);
    op_knobs_text(OP_DENSE, &knobs, text, sizeof text);
    assert_string_equal(text, "rows=4 panels=2 grain=4");
    assert_int_equal(knobs.v[3], 0);
    op_knobs_text(OP_DENSE, &knobs, cut, sizeof cut);
    assert_string_equal(cut, "rows=4 ");
    op_knobs_text(OP_DENSE, &knobs, cut, 0);
    op_knobs_default(OP_EXPERTS, &knobs);
    op_knobs_text(OP_EXPERTS, &knobs, text, sizeof text);
    assert_string_equal(text, "rows=4 panels=2 chunk=4 columns=2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families),
        cmocka_unit_test(registry),
        cmocka_unit_test(find),
        cmocka_unit_test(next_walks_all),
        cmocka_unit_test(fit_halves_the_largest),
        cmocka_unit_test(defaults_and_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
