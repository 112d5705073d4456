/* kernel.c: the registry of kernels and the arithmetic of knobs; all of it follows from the lists in kernels.h and
 * knobs.h. */
#include "op/kernel.h"

#include <stdio.h>
#include <string.h>

#include "op/kernels.h"
#if __has_include("sources.h")
#    include "sources.h" /* made by tools/sources.sh in the build folder */
#endif

_Static_assert((int)OP_ISA_COUNT == (int)SWITCH_ISAS, "every kernel set has a name");

#define K(name) extern const op_kernel name;
CADRE_KERNELS(K)
#undef K

const op_kernel *const op_kernels[] = {
#define K(name) &name,
    CADRE_KERNELS(K)
#undef K
        NULL,
};

#define X(name, def, low, high, what) {#name, def, low, high, what},
#define F(id, family, knobs)          static const op_knob_def family##_defs[] = {knobs(X)};
CADRE_FAMILIES(F)
#undef F
#undef X

const op_family_def op_families[OP_FAMILY_COUNT] = {
#define F(id, family, knobs) {#family, family##_defs, (int)(sizeof family##_defs / sizeof family##_defs[0])},
    CADRE_FAMILIES(F)
#undef F
};

#define F(id, family, knobs) \
    _Static_assert(sizeof(family##_knobs) <= sizeof(int[OP_KNOBS_MAX]), "raise OP_KNOBS_MAX for " #family);
CADRE_FAMILIES(F)
#undef F

const op_kernel *op_find(op_family family, cadre_dtype dtype, op_isa isa) {
    if (family == OP_NORM || dtype == CADRE_F16) dtype = CADRE_F32; /* norms serve every type; f16 is packed as f32 */
    const op_kernel *best = NULL;
    for (const op_kernel *const *k = op_kernels; *k != NULL; k++) {
        if ((*k)->family == family && (*k)->dtype == dtype && (*k)->isa <= isa) best = *k;
    }
    return best;
}

const op_kernel *op_kernel_named(const char *name) {
    for (const op_kernel *const *k = op_kernels; *k != NULL; k++)
        if (!strcmp((*k)->name, name)) return *k;
    return NULL;
}

const char *op_kernel_source(const op_kernel *kernel) {
#ifdef OP_SOURCES
#    define S(family, isa, hash) [OP_##family][OP_ISA_##isa] = hash,
    static const char *const hashes[OP_FAMILY_COUNT][OP_ISA_COUNT] = {OP_SOURCES(S)};
#    undef S
    const char *hash = hashes[kernel->family][kernel->isa];
    return hash ? hash : "";
#else
    (void)kernel;
    return "";
#endif
}

const char *op_numerics(cadre_dtype dtype) {
    static const char *const ids[] = {[CADRE_F32] = "cpu-f32-chain",
                                      [CADRE_BF16] = "cpu-bf16-pair",
                                      [CADRE_F16] = "cpu-f32-chain",
                                      [CADRE_Q8] = "cpu-q8-block32",
                                      [CADRE_Q4] = "cpu-q4-block32"};
    return ids[dtype];
}
const char op_numerics_all[] = "cpu-bf16-pair cpu-f32-chain cpu-q8-block32 cpu-q4-block32";

/* ---- knobs ---- */

void op_knobs_default(op_family family, op_knobs *knobs) {
    *knobs = (op_knobs){.v = {0}}; /* {0} alone zeroes the first member only */
    for (int i = 0; i < op_families[family].count; i++) knobs->v[i] = op_families[family].knobs[i].def;
}

/* The largest legal value that is at most v, or the lowest. */
static int legal_below(const op_knob_def *def, int v) {
    int legal = def->low;
    while (legal <= def->high / 2 && legal * 2 <= v) legal *= 2;
    return legal;
}

/* The first two knobs of a family are the sides of its register tile. */
void op_knobs_fit(const op_kernel *kernel, op_knobs *knobs) {
    const op_family_def *family = &op_families[kernel->family];
    for (int i = 0; i < family->count; i++) knobs->v[i] = legal_below(&family->knobs[i], knobs->v[i]);
    while (!kernel->ok(knobs)) {
        int i = knobs->v[1] > knobs->v[0] ? 1 : 0;
        if (knobs->v[i] <= family->knobs[i].low) i = 1 - i;
        if (knobs->v[i] <= family->knobs[i].low) return; /* the smallest tile: a kernel must allow it */
        knobs->v[i] /= 2;
    }
}

static int choices(const op_knob_def *def) {
    int n = 1;
    for (int v = def->low; v <= def->high / 2; v *= 2) n++;
    return n;
}

/* An index is a number whose digits, one per knob and the last one fastest, count doublings. */
static bool decode(const op_family_def *family, long index, op_knobs *knobs) {
    *knobs = (op_knobs){.v = {0}};
    for (int i = family->count - 1; i >= 0; i--) {
        int n = choices(&family->knobs[i]);
        knobs->v[i] = family->knobs[i].low << index % n;
        index /= n;
    }
    return index == 0;
}

bool op_knobs_next(const op_kernel *kernel, long *index, op_knobs *knobs) {
    op_knobs next;
    while (decode(&op_families[kernel->family], *index, &next)) {
        ++*index;
        if (!kernel->ok(&next)) continue;
        *knobs = next;
        return true;
    }
    return false;
}

void op_knobs_text(op_family family, const op_knobs *knobs, char *text, size_t size) {
    size_t used = 0;
    if (size > 0) text[0] = 0;
    for (int i = 0; i < op_families[family].count && used < size; i++) {
        int n =
            snprintf(text + used, size - used, "%s%s=%d", i ? " " : "", op_families[family].knobs[i].name, knobs->v[i]);
        used += (size_t)n;
    }
}
