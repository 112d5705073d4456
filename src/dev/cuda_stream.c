/* cuda_stream.c: the order in which a GPU's work runs: streams, events, and graphs of work written down. */
#include "dev/cuda.h"
#include "dev/cuda_gpu.h"

/* ---- streams ---- */

cadre_err dev_cuda_stream_new(dev_cuda *gpu, void **stream, cadre_fail *why) {
    void *made = NULL;
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuStreamCreate, &made, DRIVER_NON_BLOCKING);
    if (!s.err) *stream = made;
    return cuda_leave(&s);
}

void dev_cuda_stream_free(dev_cuda *gpu, void *stream) {
    if (!stream) return;
    cuda_scope s = cuda_enter_free(gpu);
    CALL(s, cuStreamDestroy, stream);
    cuda_leave(&s);
}

cadre_err dev_cuda_sync(dev_cuda *gpu, void *stream, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuStreamSynchronize, stream);
    return cuda_leave(&s);
}

/* ---- events ---- */

cadre_err dev_cuda_event_new(dev_cuda *gpu, void **event, cadre_fail *why) {
    void *made = NULL;
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuEventCreate, &made, 0);
    if (!s.err) *event = made;
    return cuda_leave(&s);
}

void dev_cuda_event_free(dev_cuda *gpu, void *event) {
    if (!event) return;
    cuda_scope s = cuda_enter_free(gpu);
    CALL(s, cuEventDestroy, event);
    cuda_leave(&s);
}

cadre_err dev_cuda_event_record(dev_cuda *gpu, void *event, void *stream, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuEventRecord, event, stream);
    return cuda_leave(&s);
}

cadre_err dev_cuda_event_sync(dev_cuda *gpu, void *event, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuEventSynchronize, event);
    return cuda_leave(&s);
}

cadre_err dev_cuda_event_wait(dev_cuda *gpu, void *event, void *stream, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuStreamWaitEvent, stream, event, 0);
    return cuda_leave(&s);
}

cadre_err dev_cuda_event_ms(dev_cuda *gpu, void *from, void *to, double *ms, cadre_fail *why) {
    float took = 0;
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuEventSynchronize, to);
    CALL(s, cuEventElapsedTime, &took, from, to);
    if (!s.err) *ms = (double)took;
    return cuda_leave(&s);
}

/* ---- graphs ---- */

/* Other threads may go on calling the driver while this one captures. */
cadre_err dev_cuda_capture_begin(dev_cuda *gpu, void *stream, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuStreamBeginCapture, stream, DRIVER_CAPTURE_THREAD);
    return cuda_leave(&s);
}

cadre_err dev_cuda_capture_end(dev_cuda *gpu, void *stream, void **graph, cadre_fail *why) {
    void *written = NULL, *made = NULL;
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuStreamEndCapture, stream, &written);
    CALL(s, cuGraphInstantiate, &made, written, 0);
    if (written) gpu->cu->cuGraphDestroy(written); /* what runs is a copy */
    if (!s.err) *graph = made;
    return cuda_leave(&s);
}

cadre_err dev_cuda_graph_launch(dev_cuda *gpu, void *graph, void *stream, cadre_fail *why) {
    cuda_scope s = cuda_enter(gpu, why);
    CALL(s, cuGraphLaunch, graph, stream);
    return cuda_leave(&s);
}

void dev_cuda_graph_free(dev_cuda *gpu, void *graph) {
    if (!graph) return;
    cuda_scope s = cuda_enter_free(gpu);
    CALL(s, cuGraphExecDestroy, graph);
    cuda_leave(&s);
}
