/* cuda_stamps.c: events between the launches of a stream, and the times between them.
 *
 *   stamp(NULL)  router  stamp(router)  experts  stamp(experts)      ops [-, router, experts]
 *   in a graph the same, as nodes that every replay passes
 */
#include "dev/cuda.h"
#include "dev/cuda_gpu.h"

enum { MOST = 1 << 14 };

struct dev_cuda_stamps {
    dev_cuda *gpu;
    int made, count;
    bool full;
    struct {
        void *event;
        profile_op op; /* op NULL: a start */
        bool node;     /* of a graph */
    } at[MOST];
};

cadre_err dev_cuda_stamps_new(dev_cuda *gpu, dev_cuda_stamps **out, cadre_fail *why) {
    dev_cuda_stamps *s = mem_new(sizeof *s);
    if (!s) return cadre_fail_set(why, CADRE_NOMEM, "no memory for a profile");
    *s = (dev_cuda_stamps){.gpu = gpu};
    cadre_err err = CADRE_OK;
    while (s->made < MOST && !(err = dev_cuda_event_new(gpu, &s->at[s->made].event, why))) s->made++;
    if (err)
        dev_cuda_stamps_free(s);
    else
        *out = s;
    return err;
}

void dev_cuda_stamps_free(dev_cuda_stamps *s) {
    if (!s) return;
    for (int i = 0; i < s->made; i++) dev_cuda_event_free(s->gpu, s->at[i].event);
    mem_free(s);
}

cadre_err dev_cuda_stamp(dev_cuda_stamps *stamps, const profile_op *op, void *stream, cadre_fail *why) {
    if (stamps->count == stamps->made) {
        stamps->full = true;
        return CADRE_OK;
    }
    int captured = 0, i = stamps->count;
    void *event = stamps->at[i].event;
    cuda_scope s = cuda_enter(stamps->gpu, why);
    CALL(s, cuStreamIsCapturing, stream, &captured);
    CALL(s, cuEventRecordWithFlags, event, stream, captured ? DRIVER_EVENT_NODE : 0);
    if (!s.err) {
        stamps->at[i].op = op ? *op : (profile_op){0};
        stamps->at[i].node = captured != 0;
        stamps->count++;
    }
    return cuda_leave(&s);
}

/* Those of graphs stay. Events change places, none is lost. */
static void drop_read(dev_cuda_stamps *s) {
    int kept = 0;
    for (int i = 0; i < s->count; i++) {
        if (!s->at[i].node) continue;
        void *free_event = s->at[kept].event;
        s->at[kept] = s->at[i];
        if (kept != i) s->at[i].event = free_event;
        kept++;
    }
    s->count = kept;
}

cadre_err dev_cuda_stamps_read(dev_cuda_stamps *s, profiler *p, cadre_fail *why) {
    cadre_err err = CADRE_OK;
    double ms = 0;
    if (s->full)
        return cadre_fail_set(why, CADRE_RANGE, "a profile of more than %d launches: collect earlier", s->made);
    for (int i = 1; i < s->count && !err; i++) {
        if (!s->at[i].op.op) continue;
        err = dev_cuda_event_ms(s->gpu, s->at[i - 1].event, s->at[i].event, &ms, why);
        if (!err) profile_book(p, &s->at[i].op, (uint64_t)(ms * 1e6 + 0.5), 0);
    }
    if (!err) drop_read(s);
    return err;
}

void dev_cuda_stamps_forget(dev_cuda_stamps *s) {
    s->count = 0;
    s->full = false;
}
