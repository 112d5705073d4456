/* switch.h: the registry of switches (law L4). Each is one line here; knobs of kernels are added by plan.
 * Parsing, range checks and the list for `doctor --switches` follow from the lines. */
#ifndef CADRE_BASE_SWITCH_H
#define CADRE_BASE_SWITCH_H
#include "cadre.h"
#include "fault.h"

/* X(id, "name", default, low, high, "what it does; what the default restores") */
#define CADRE_SWITCHES(X)                                                                                         \
    X(ISA, "isa", 9, 0, 9, "highest kernel set: 0 ref, 1 avx2, 2 avx512, 3 avx512bf16, 9 whatever the CPU has")   \
    X(PIN, "pin", 1, 0, 1, "tie worker threads to CPUs where the program asks for it")                            \
    X(SIBLINGS, "siblings", 0, 0, 1, "count hardware threads of a core too when choosing the number of threads")  \
    X(SPIN, "spin", 2000, 0, 1000000, "microseconds a worker spins before it sleeps between runs")                \
    X(AHEAD, "ahead", 1, 0, 1, "claim work one piece ahead, and fetch the head of its weights")                   \
    X(HUGE_PAGES, "huge_pages", 1, 0, 1, "ask for huge pages for weights and caches")                             \
    X(SPREAD, "spread", 1, 0, 1, "spread weights and caches over the memory nodes of a machine with several")     \
    X(FIT, "fit", 1, 0, 1, "refuse what needs more memory than there is; 0 only warns")                           \
    X(MEMORY, "memory", 0, 0, 1L << 40, "take this many MB for the memory there is; 0 asks the system")           \
    X(TABLES, "tables", 1, 0, 2,                                                                                  \
      "tables of measured settings: 0 off, 1 on, 2 force (rows whose evidence has ended too)")                    \
    X(ORDER, "order", 1, 0, 1,                                                                                    \
      "runs of a GPU's layers on several streams go one after the other; 0 leaves that to the caller")            \
    X(SMALL_M, "small_m", 1, 0, 1,                                                                                \
      "tiers for few tokens in the defaults of BI-V100 and MUSA; 0 restores the defaults before them")            \
    X(PLANT, "plant", 0, 0, FAULT_COUNT - 1, "plant one fault (src/base/fault.h) to prove that a check finds it") \
    X(POISON, "poison", 0, 0, 1, "fill scratch with NaN patterns between uses")

typedef enum switch_id {
#define X(id, name, def, lo, hi, what) SWITCH_##id,
    CADRE_SWITCHES(X)
#undef X
        SWITCH_COUNT
} switch_id;

long switch_get(switch_id id);

/* Switches whose value is a text, a path as a rule. X(id, "name", "what it does"); "" restores the default. */
#define CADRE_TEXT_SWITCHES(X)                                                                                   \
    X(CUDA, "cuda", "the CUDA driver's library; default: libcuda.so.1, where the loader finds it")               \
    X(NVRTC, "nvrtc", "NVIDIA's run-time compiler, a library; default: libnvrtc.so, where the loader finds it")  \
    X(CACHE, "cache", "folder that keeps compiled kernels, or off; default: the user's cache folder")            \
    X(TABLES_DIR, "tables_dir", "folder of your tables; default: cadre/tables in the user's folder of settings") \
    X(TABLES_SHIPPED, "tables_shipped", "folder of the tables that come with cadre; default: where it's installed")

typedef enum switch_text_id {
#define X(id, name, what) SWITCH_##id,
    CADRE_TEXT_SWITCHES(X)
#undef X
        SWITCH_TEXT_COUNT
} switch_text_id;
enum { SWITCH_TEXT_MAX = 1024 };

typedef struct switch_text_def {
    const char *name, *what;
} switch_text_def;
extern const switch_text_def switch_text_defs[SWITCH_TEXT_COUNT];

/* The value: what was set, else the default that the program named, else "". Never NULL; borrowed until it's set. */
const char *switch_text(switch_text_id id);
bool switch_text_is_set(switch_text_id id);
/* "name=text": true if `assignment` names a text switch; *err: CADRE_OK and it's set, or RANGE (no value, too long).
 * Before other threads read it. */
bool switch_text_parse(const char *assignment, cadre_err *err, cadre_fail *why);
/* What switch_text gives where nothing is set. Cut off silently it would be another path: too long a text is ignored.
 */
void switch_text_default(switch_text_id id, const char *text);

/* The names of the kernel sets, by the numbers that switch isa takes. */
enum { SWITCH_ISAS = 4 };
extern const char *const switch_isas[SWITCH_ISAS];

/* One integer setting of any registry: base's own, or a kernel knob. */
typedef struct switch_def {
    const char *name;
    long def, low, high;
    const char *what;
} switch_def;
extern const switch_def switch_defs[SWITCH_COUNT];

/* "name=value" against a registry: *index and *value on success. RANGE names the switch and its legal range;
 * an unknown name is RANGE too, with *index = -1. For isa the names of the sets are accepted beside the numbers, for
 * tables off, on and force. */
cadre_err switch_parse(const switch_def *defs, int count, const char *assignment, int *index, long *value,
                       cadre_fail *why);
void switch_set(switch_id id, long value);
/* The word for a value that is told by one ("force"), else NULL. */
const char *switch_word(switch_id id, long value);
#endif
