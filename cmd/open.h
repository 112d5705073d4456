/* open.h: from options to a device and a model; where the demo model is; what every result says about both. */
#ifndef CMD_OPEN_H
#define CMD_OPEN_H
#include "opts.h"
#include "say.h"

enum { OPEN_PATH_MAX = 4096 };
/* The folder of the demo model, relative to the current one when it's below; false if it's nowhere. Looked for: beside
 * the installed command (../share/cadre/demo), in the source tree the command was built in (models/demo under one of
 * the five folders above the command's), under the prefix, under the current folder. */
bool open_find_demo(char path[OPEN_PATH_MAX]);
/* The i-th place that is looked at, NULL past the end. */
const char *open_demo_place(int i, char path[OPEN_PATH_MAX]);

/* Names the folder of the tables that ship with cadre (switch tables_shipped), looked for like the demo model; there
 * may be none. open_device does this. */
void open_find_tables(void);

/* *gpu: the number of the GPU that --device names, or DEV_CPU. RANGE: it names nothing that a command can run on. */
cadre_err open_where(const opts_common *o, int *gpu, cadre_fail *why);
cadre_err open_device(const opts_common *o, cadre_device **out, cadre_fail *why);
/* Checked and ready for text, but no weight is packed yet (cadre_model_prepare). */
cadre_err open_model(cadre_device *device, const char *dir, const char *weights, cadre_model **out, cadre_fail *why);

/* A device and a model, both or none. */
typedef struct opened {
    cadre_device *device;
    cadre_model *model;
    cadre_model_info info;
    char dir[OPEN_PATH_MAX];
} opened;
/* dir NULL: the demo model. `both` packs the weights, `prepared` leaves that to open_load. */
cadre_err open_both(const opts_common *o, const char *dir, const char *weights, opened *out, cadre_fail *why);
cadre_err open_prepared(const opts_common *o, const char *dir, const char *weights, opened *out, cadre_fail *why);
/* Packs the weights, if they fit together with a session of these options; *memory: the plan. name: for the refusal. */
cadre_err open_load(cadre_model *model, const char *name, const cadre_session_options *session, cadre_memory *memory,
                    cadre_fail *why);
void open_close(opened *o);

/* `sampling`, `switches`, `receipts` of a result. */
void open_put_sampling(json_out *o, const cadre_sampling *s);
void open_put_switches(json_out *o);
void open_put_receipts(json_out *o, const cadre_model *model);
void open_put_list(json_out *o, const cadre_receipt *receipts, int n);
void open_say_receipts(const cadre_model *model);
/* `memory`: the plan by part, and what the process uses now; for people two lines, "memory" and "in use". */
void open_put_memory(json_out *o, const cadre_memory *plan);
void open_say_memory(const cadre_memory *plan);
const char *open_switches(char text[512]); /* "isa=1 pin=0", "none" */

/* What was run, on what, when: the manifest of raw samples, one object. numerics NULL: none. */
void open_put_manifest(json_out *o, const cadre_device *device, const char *model, const char *numerics);
const char *open_compiler(void); /* "gcc 12.2.0" */
/* Appends the text of o as a line to a samples file. */
cadre_err open_append(const char *path, const json_out *o, cadre_fail *why);
#endif
