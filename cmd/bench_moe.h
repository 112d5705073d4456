/* bench_moe.h: what `cadre bench moe` measures and reports, whichever the device: bench_moe.c on the CPU,
 * bench_moe_gpu.c on a GPU, bench_moe_report.c for both. */
#ifndef CMD_BENCH_MOE_H
#define CMD_BENCH_MOE_H
#include "attribution.h"
#include "layers.h"
#include "measure.h"
#include "open.h"
#include "plan/plan.h"

typedef struct moe_opts {
    opts_common common;
    const char *shape, *list, *routing, *spaces, *out;
    int repeat, layers, visit_ms, probe_mb;
    uint64_t seed;
    bool profile;
} moe_opts;

enum { MOE_ROWS = 64 };
typedef struct moe_row {
    layer_plan plan;
    double touched;                             /* experts per layer, mean over what is timed */
    double *us, *bytes, *probe, *floor, *ratio; /* [repeat] */
    char config[256];                           /* what runs for m tokens */
    const char *source;                         /* and from where */
    double allocations;                         /* of the host, per run of a layer; NaN: not counted */
    char sha[65];                               /* of the outputs */
    attribution_list attributions;              /* per layer, not per step over all */
} moe_row;

typedef struct moe_bench moe_bench;
struct moe_bench {
    const moe_opts *o;
    cadre_device *device;
    shape shape;
    routing routing;
    layers layers;
    probe probe; /* on the CPU */
    plan plan;   /* on the CPU */
    const char *kernel;
    const char *numerics;                                                /* NULL: none yet */
    void (*put_plan)(json_out *o, const moe_bench *b, const moe_row *r); /* `plan` of a sample */
    double peak_gflops;                                                  /* 0: not measured */
    moe_row rows[MOE_ROWS];
    int count;
    double *figures;        /* all rows' arrays */
    cadre_profile *profile; /* NULL: not wanted; of the visit */
    char run[13];
};

/* One visit of a row: what its sample says beside the row's figures. */
typedef struct moe_visit {
    int visit, order, steps, instances; /* instances: layers of a step that is timed */
    double gbps[2];                     /* read bandwidth before and after */
    const double *step_us;              /* [steps], per layer; NULL: not kept */
    double allocations;                 /* per run of a layer */
    const attribution *watched;         /* by layer; NULL: the profiler did not */
} moe_visit;

/* Fills bytes, probe, floor and ratio of the visit, from us, and keeps the sample. */
cadre_err moe_bench_keep(const moe_bench *b, moe_row *r, const moe_visit *v, cadre_fail *why);
void moe_bench_say(const moe_bench *b);
int moe_bench_json(const moe_bench *b);

/* On a GPU: everything once device, layers and rows are there. */
cadre_err moe_bench_gpu(moe_bench *b, cadre_fail *why);
#endif
