/* pack.c: one matrix packed by a whole team, from memory or from wherever a source reads.
 *
 *   source:  | rows of a piece | rows of a piece | ...     each member takes the next piece, reads it into its own part
 *   packed:  | panels          | panels          | ...     of the buffer and packs it from there
 *
 * So a checkpoint is never in memory as a whole beside its packed weights. */
#include "moe/pack.h"

#include <stdatomic.h>
#include <string.h>

enum { PANELS = 8, PIECE = 256 << 10 }; /* most panels at a time; bytes of the source at a time, at least one panel */

typedef struct pack_job {
    cadre_dtype dtype;
    int out, in, grain;
    const cadre_tensor *w, *up;
    void *dst;
    moe_source *from;
    size_t side; /* bytes of the buffer for one matrix of one member */
    _Atomic bool failed;
    cadre_fail why; /* of the first that failed */
} pack_job;

/* ---- reading ---- */

static size_t row_bytes(const pack_job *j, const cadre_tensor *t) {
    return (size_t)j->in * op_dtype_size(t->dtype);
}

/* As many panels as a piece holds. */
static void size_pieces(pack_job *j) {
    size_t row = row_bytes(j, j->w), other = j->up ? row_bytes(j, j->up) : 0;
    size_t panel = OP_LANES * (row > other ? row : other);
    j->grain = panel * PANELS <= PIECE ? PANELS : panel < PIECE ? (int)(PIECE / panel) : 1;
    j->side = ((size_t)j->grain * panel + 63) / 64 * 64;
}

static bool grow(moe_source *s, size_t bytes) {
    if (s->bytes >= bytes) return true;
    mem_free(s->buffer);
    s->buffer = mem_new(bytes);
    s->bytes = s->buffer ? bytes : 0;
    return s->buffer != NULL;
}

void moe_source_done(moe_source *s) {
    mem_free(s->buffer);
    *s = (moe_source){0};
}

cadre_err moe_source_read(moe_source *s, const void *from, size_t n, void *dst, cadre_fail *why) {
    if (s) return s->read(s->ctx, from, n, dst, why);
    memcpy(dst, from, n);
    return CADRE_OK;
}

/* Rows of t from row `first` on, in *out. */
static bool fetch(pack_job *j, const cadre_tensor *t, int first, int rows, char *buffer, cadre_tensor *out) {
    size_t row = row_bytes(j, t);
    const char *from = (const char *)t->data + (size_t)first * row;
    cadre_fail why = {0};
    *out = (cadre_tensor){j->from ? buffer : from, t->dtype};
    if (!j->from || !moe_source_read(j->from, from, (size_t)rows * row, buffer, &why)) return true;
    if (!atomic_exchange(&j->failed, true)) j->why = why;
    return false;
}

/* ---- packing ---- */

static void pack_panels(pack_job *j, int member, int lo, int hi) {
    cadre_tensor w, up = {0};
    char *buffer = j->from ? j->from->buffer + 2 * (size_t)member * j->side : NULL;
    int first = lo * OP_LANES, left = j->out - first, rows = (hi - lo) * OP_LANES < left ? (hi - lo) * OP_LANES : left;
    if (!fetch(j, j->w, first, rows, buffer, &w)) return;
    if (j->up && !fetch(j, j->up, first, rows, j->from ? buffer + j->side : NULL, &up)) return;
    char *dst = (char *)j->dst + (size_t)lo * op_panel_bytes(j->dtype, j->in, j->up != NULL);
    op_pack(j->dtype, rows, j->in, w, up, 0, hi - lo, dst);
}

static void pack_member(void *ctx, team *t) {
    pack_job *j = ctx;
    int lo, hi;
    while (team_take(t, op_panels(j->out), j->grain, &lo, &hi))
        if (!atomic_load_explicit(&j->failed, memory_order_relaxed)) pack_panels(j, team_id(t), lo, hi);
    team_barrier(t);
}

cadre_err moe_pack(cadre_device *device, cadre_dtype dtype, int out, int in, const cadre_tensor *w,
                   const cadre_tensor *up, moe_source *from, void *dst, cadre_fail *why) {
    pack_job job = {.dtype = dtype, .out = out, .in = in, .grain = PANELS, .w = w, .up = up, .dst = dst, .from = from};
    if (from) {
        size_pieces(&job);
        if (!grow(from, 2 * job.side * (size_t)pool_threads(device->threads)))
            return cadre_fail_set(why, CADRE_NOMEM, "no memory for reading weights");
    }
    pool_run(device->threads, pack_member, &job);
    if (!job.failed) return CADRE_OK;
    return cadre_fail_set(why, job.why.code, "%s", job.why.text);
}
