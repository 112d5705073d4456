/* foreign.h: tuned-config tables of vLLM, SGLang and torchada: file names, JSON, folders, and look-up exactly as each
 * system does it. cadre's own tables are table.h.
 */
#ifndef CADRE_PLAN_FOREIGN_H
#define CADRE_PLAN_FOREIGN_H
#include "plan/gemm.h"

typedef enum foreign_system { FOREIGN_VLLM, FOREIGN_SGLANG, FOREIGN_TORCHADA, FOREIGN_SYSTEM_COUNT } foreign_system;
extern const char *const foreign_names[FOREIGN_SYSTEM_COUNT]; /* "vllm", "sglang", "torchada" */

/* What a file name says:
 * E=128,N=1856,device_name=MTT_S5000[,dtype=..][,block_shape=[128,128]][,per_channel_quant=True][_down].json Fields are
 * parsed by name in any order; one that is not known makes the name someone else's (unknown holds it). */
typedef struct foreign_name {
    int e, n;
    char device[96]; /* as written: blanks are underscores */
    gemm_dtype dtype;
    bool dtype_written;
    int block_n, block_k; /* 0: none */
    bool block_spaced;    /* "[128, 128]" rather than "[128,128]" */
    bool per_channel, down;
    char unknown[96]; /* "" or the first field that is not known, "H=3072" */
} foreign_name;
/* name: the last part of a path. Errors: FORMAT, saying which part of the name. */
cadre_err foreign_name_parse(const char *name, foreign_name *out, cadre_fail *why);
/* The name `system` would look for. device: the run-time string, blanks allowed. false: does not fit. */
bool foreign_name_print(foreign_system system, const foreign_name *name, char *text, size_t size);

typedef struct foreign_row {
    int m;
    gemm_config config;
    int line;            /* of the key in its file */
    const char *unknown; /* first field that is not known, NULL: none; borrowed from the table */
} foreign_row;
typedef struct foreign_table {
    foreign_name name;
    char *path;
    char sha256[65];   /* of the file's bytes */
    char triton[32];   /* "triton_version", "" if absent */
    foreign_row *rows; /* in file order */
    int count;
} foreign_table;

/* What a reader meets that is not a good row, for lint; reading goes on after it. line: 0 if it is the name's. */
typedef void foreign_note(void *ctx, int line, const char *rule, const char *key, const char *text);
/* Parses a table's text; path names it in errors. With `note`, faults of rows are told there and the rows left out;
 * without, the first is the error (FORMAT: file:line, what was found, what was expected). */
cadre_err foreign_parse(const char *path, const char *text, size_t len, foreign_note *note, void *ctx,
                        foreign_table **out, cadre_fail *why);
cadre_err foreign_read(const char *path, foreign_note *note, void *ctx, foreign_table **out, cadre_fail *why);
void foreign_free(foreign_table *table);
/* The JSON of a table, one row per line, as the torchada generator writes it (source: 1105 bytes for the S5000 table).
 */
cadre_err foreign_print(const foreign_row *rows, int count, const char *triton, char **text, size_t *len,
                        cadre_fail *why);

/* The row a system takes for m: least |key - m|, the first in file order on a tie; no limit of distance. */
typedef struct foreign_match {
    int index;              /* of table->rows */
    int distance;           /* |key - m| */
    int tie;                /* index of the row that lost a tie, -1: none */
    int reach_lo, reach_hi; /* the m that take this row; reach_hi INT_MAX: no end */
} foreign_match;
cadre_err foreign_lookup(foreign_system rule, const foreign_table *table, int m, foreign_match *out, cadre_fail *why);

/* The file a system would open under `folder`: exact Triton version first, then the system's own fallback order by
 * number, not text. tried: every path looked at, one per line, and the closest existing name on a miss. */
typedef struct foreign_place {
    char path[1024]; /* "" when there is none */
    char tried[4096];
    bool other_version; /* found, but in the folder of another Triton version */
} foreign_place;
cadre_err foreign_find(foreign_system system, const char *folder, const char *triton, const foreign_name *name,
                       foreign_place *out, cadre_fail *why);

/* A down table beside its base: equal BLOCK_SIZE_M at every m in 1..m_max, else RANGE naming both files and the first
 * range of m where they differ. */
cadre_err foreign_pair(foreign_system rule, const foreign_table *base, const foreign_table *down, int m_max,
                       cadre_fail *why);
/* The N a table is keyed by: w2's inner width. rows: shard_intermediate; gated halves it. int4 packs as the system
 * says. */
int foreign_n(foreign_system system, gemm_dtype dtype, int shard_intermediate, bool gated);
#endif
