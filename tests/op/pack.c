/* pack.c: every byte of a packed matrix, from every source type, in any order of panels, and sizes past their limits.
 */
#include <limits.h>

#include "probe.h"

/* Value o, k of a test matrix: different everywhere, exact in every type. */
static float value_of(int o, int k, int part) {
    return (float)((o * 7 + k * 3 + part) % 251 - 125) * 0.25f;
}

static uint16_t f16_of(float v) { /* multiples of 0.25 within +-32: no rounding, no denormals */
    if (v == 0) return 0;
    int exponent;
    float m = frexpf(fabsf(v), &exponent);
    return (uint16_t)((v < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | ((int)(m * 2048) & 0x3ff));
}

static void put(cadre_dtype t, char *dst, float v) {
    if (t == CADRE_F32) {
        memcpy(dst, &v, 4);
    } else {
        uint16_t half = t == CADRE_BF16 ? op_bf16(v) : f16_of(v);
        memcpy(dst, &half, 2);
    }
}

/* A source that is not aligned to its type and ends at a guard page. */
static cadre_tensor source(guard *g, cadre_dtype t, int out, int in, int part) {
    size_t size = op_dtype_size(t);
    char *data = guard_take(g, (size_t)out * (size_t)in * size + 1);
    for (int o = 0; o < out; o++) {
        for (int k = 0; k < in; k++) put(t, data + ((size_t)o * (size_t)in + (size_t)k) * size, value_of(o, k, part));
    }
    return (cadre_tensor){data, t};
}

/* What the drawing in op.h says: panel, group, side, lane, element of the group. */
static float packed_at(cadre_dtype t, const char *dst, int in, bool gated, int o, int k, int part) {
    size_t kp = (size_t)op_group(t), sides = gated ? 2 : 1, groups = ((size_t)in + kp - 1) / kp;
    size_t line = ((size_t)o / 16 * groups + (size_t)k / kp) * sides + (size_t)part;
    return op_load(t, dst, line * 16 * kp + (size_t)o % 16 * kp + (size_t)k % kp);
}

static void check_layout(cadre_dtype t, cadre_dtype from, int out, int in, bool gated) {
    static guard at[3];
    size_t bytes = 0;
    assert_true(op_packed_bytes(t, out, in, gated, &bytes));
    assert_int_equal(bytes, op_panel_bytes(t, in, gated) * (size_t)op_panels(out));
    char *dst = guard_take(&at[0], bytes);
    memset(dst, 0xff, bytes);
    cadre_tensor w = source(&at[1], from, out, in, 0), up = {NULL, from};
    if (gated) up = source(&at[2], from, out, in, 1);
    for (int panel = op_panels(out); panel-- > 0;) op_pack(t, out, in, w, up, panel, panel + 1, dst);
    for (int o = 0; o < op_panels(out) * 16; o++) {
        for (int k = 0; k < op_padded(t, in); k++) {
            for (int part = 0; part < 1 + gated; part++) {
                float want = o < out && k < in ? value_of(o, k, part) : 0;
                assert_true(packed_at(t, dst, in, gated, o, k, part) == want);
            }
        }
    }
}

static void layouts(void **state) {
    (void)state;
    static const int outs[] = {1, 2, 15, 16, 17, 33, 50}, ins[] = {1, 2, 15, 16, 17, 259, 513};
    for (int i = 0; i < 7 * 7 * 12; i++) {
        cadre_dtype t = i / 49 % 2 ? CADRE_BF16 : CADRE_F32, from = (cadre_dtype)(i / 98 % 3);
        check_layout(t, from, outs[i % 7], ins[i / 7 % 7], i / 294);
    }
}

static void panels_are_apart(void **state) {
    (void)state;
    float w[40 * 3];
    char dst[3 * 2 * 64 + 64], untouched[64];
    for (int i = 0; i < 120; i++) w[i] = 1;
    memset(dst, 0x5a, sizeof dst);
    memset(untouched, 0x5a, sizeof untouched);
    size_t panel = op_panel_bytes(CADRE_BF16, 3, false);
    assert_int_equal(panel, 128);
    op_pack(CADRE_BF16, 40, 3, (cadre_tensor){w, CADRE_F32}, (cadre_tensor){NULL, CADRE_F32}, 1, 2, dst);
    assert_memory_equal(dst + panel - 64, untouched, 64);
    assert_memory_equal(dst + 2 * panel, untouched, 64);
    op_pack(CADRE_BF16, 40, 3, (cadre_tensor){w, CADRE_F32}, (cadre_tensor){NULL, CADRE_F32}, 2, 2, dst);
    assert_memory_equal(dst + 2 * panel, untouched, 64);
}

static void rounding(void **state) {
    (void)state;
    /* To bf16: nearest even, f16 denormals are normal, f32 denormals vanish; bf16 to bf16 and to f32 keep every bit. */
    const float wide[] = {1.00390625f, 1.01171875f, -0x1p-140f, 3.4e38f};
    const uint16_t half[] = {0x0001, 0x8200, 0x7bff, 0x3c01}, brain[] = {0x0001, 0x8040, 0x7f81, 0xffc0};
    cadre_tensor none = {NULL, CADRE_F32};
    uint16_t out[2 * 32];
    float exact[4 * 16];
    op_pack(CADRE_BF16, 1, 4, (cadre_tensor){wide, CADRE_F32}, none, 0, 1, out);
    assert_int_equal(out[0], 0x3f80);
    assert_int_equal(out[1], 0x3f82);
    assert_int_equal(out[32], 0x8000);
    assert_int_equal(out[33], 0x7f80);
    op_pack(CADRE_BF16, 1, 4, (cadre_tensor){half, CADRE_F16}, none, 0, 1, out);
    assert_true(op_from_bf16(out[0]) == 0x1p-24f && op_from_bf16(out[1]) == -0x1p-15f);
    assert_true(op_from_bf16(out[32]) == 65536.0f && op_from_bf16(out[33]) == 1.0f);
    op_pack(CADRE_BF16, 1, 4, (cadre_tensor){brain, CADRE_BF16}, none, 0, 1, out);
    assert_memory_equal(out, brain, 4);
    assert_memory_equal(out + 32, brain + 2, 4);
    op_pack(CADRE_F32, 1, 4, (cadre_tensor){half, CADRE_F16}, none, 0, 1, exact);
    assert_true(exact[0] == 0x1p-24f && exact[16] == -0x1p-15f && exact[32] == 65504.0f && exact[48] == 1 + 0x1p-10f);
    op_pack(CADRE_F32, 1, 4, (cadre_tensor){brain, CADRE_BF16}, none, 0, 1, exact);
    uint32_t bits[4] = {0x00010000, 0x80400000, 0x7f810000, 0xffc00000};
    for (int k = 0; k < 4; k++) assert_memory_equal(&exact[16 * k], &bits[k], 4);
}

static void sizes(void **state) {
    (void)state;
    size_t bytes = 77;
    assert_int_equal(op_panel_bytes(CADRE_BF16, INT_MAX, false), (1ULL << 30) * 64);
    assert_int_equal(op_panel_bytes(CADRE_F32, INT_MAX, true), 128ULL * INT_MAX);
    assert_true(op_packed_bytes(CADRE_BF16, 1 << 20, 1 << 20, false, &bytes));
    assert_int_equal(bytes, 1ULL << 41);
    bytes = 77;
    assert_false(op_packed_bytes(CADRE_F32, INT_MAX, INT_MAX, true, &bytes));
    assert_false(op_packed_bytes(CADRE_F32, -1, 16, false, &bytes));
    assert_false(op_packed_bytes(CADRE_F32, 16, -1, false, &bytes));
    assert_int_equal(bytes, 77);
    assert_true(op_packed_bytes(CADRE_F32, 0, 16, false, &bytes));
    assert_int_equal(bytes, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts),
        cmocka_unit_test(panels_are_apart),
        cmocka_unit_test(rounding),
        cmocka_unit_test(sizes),
    };
    probe_flush();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
