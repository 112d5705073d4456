/* experts_shape.cuh: what all texts that run experts share: the shape, compiled in (D_MODEL, F_EXPERT, EXPERTS, CHOSEN), as
 * steps of 16 inputs and row tiles of an expert; the activation (ACT).
 */
#define UP_STEPS   ((D_MODEL + 31) / 32 * 2)
#define DOWN_STEPS ((F_EXPERT + 31) / 32 * 2)
#define UP_ROWS    (DOWN_STEPS * (ACT == 2 ? 1 : 2))
#define DOWN_ROWS  ((D_MODEL + 15) / 16)

DEVICE int ceil_div(int a, int b) {
    return (a + b - 1) / b;
}

#if ACT == 2
DEVICE float relu2(float v) {
    v = fmaxf(v, 0.0f);
    return __fmul_rn(v, v);
}
#else
DEVICE float activate(const experts_args &a, float gate, float up) {
#if ACT == 1
    gate = fminf(gate, a.limit), up = fminf(fmaxf(up, -a.limit), a.limit);
#endif
    return __fmul_rn(silu_id(gate), up);
}
#endif
