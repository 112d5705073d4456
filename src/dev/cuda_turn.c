/* cuda_turn.c: turns on a GPU. Work whose blocks wait for each other takes all multiprocessors; two such runs at once,
 * on streams that nobody ordered, could each hold what the other waits for. An event after each run, which the next
 * one's stream waits for if it is another, puts them one after the other. On one stream that costs an event and no
 * wait. */
#include "base/base.h"
#include "dev/cuda.h"
#include "dev/cuda_gpu.h"

cadre_err dev_cuda_turns_new(dev_cuda *gpu, cadre_fail *why) {
    void *made = NULL;
    pthread_mutex_lock(&gpu->turn.lock);
    if (gpu->turn.event) {
        pthread_mutex_unlock(&gpu->turn.lock);
        return CADRE_OK;
    }
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuEventCreate, &made, DRIVER_NO_TIMING);
    if (!s.err) gpu->turn.event = made;
    cadre_err err = cuda_leave(&s);
    pthread_mutex_unlock(&gpu->turn.lock);
    return err;
}

void cuda_turns_free(dev_cuda *gpu) {
    dev_cuda_event_free(gpu, gpu->turn.event);
    pthread_mutex_destroy(&gpu->turn.lock);
}

cadre_err dev_cuda_turn_begin(dev_cuda *gpu, void *stream, cadre_fail *why) {
    cuda_turn *t = &gpu->turn;
    int capturing = 0;
    pthread_mutex_lock(&t->lock);
    t->on = t->event && switch_get(SWITCH_ORDER);
    if (!t->on) return CADRE_OK;
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuStreamIsCapturing, stream, &capturing);
    t->on = !capturing;
    if (t->on && t->pending && t->stream != stream) CALL(s, cuStreamWaitEvent, stream, t->event, 0);
    cadre_err err = cuda_leave(&s);
    if (err) pthread_mutex_unlock(&t->lock);
    return err;
}

cadre_err dev_cuda_turn_end(dev_cuda *gpu, void *stream, cadre_fail *why) {
    cuda_turn *t = &gpu->turn;
    cadre_err err = CADRE_OK;
    if (t->on) {
        cuda_scope s = cuda_enter(gpu, why);
        CALL(s, cuEventRecord, t->event, stream);
        if (!s.err) t->pending = true, t->stream = stream;
        err = cuda_leave(&s);
    }
    pthread_mutex_unlock(&t->lock);
    return err;
}
