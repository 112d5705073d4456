/* foreign.h: tuned-config tables of vLLM, SGLang and torchada: file names, JSON, folders, and look-up exactly as each
 * system does it. cadre's own tables are table.h. docs/tables.md shows the formats.
 */
#ifndef CADRE_PLAN_FOREIGN_H
#define CADRE_PLAN_FOREIGN_H
#include "plan/gemm.h"

typedef enum foreign_system { FOREIGN_VLLM, FOREIGN_SGLANG, FOREIGN_TORCHADA, FOREIGN_SYSTEM_COUNT } foreign_system;
extern const char *const foreign_names[FOREIGN_SYSTEM_COUNT]; /* "vllm", "sglang", "torchada" */

/* ---- names (foreign_name.c) ---- */

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
    char unknown[96]; /* "" or the first field that is not known, "H=3072"; an unknown type, "dtype=fp4", counts too */
} foreign_name;
/* name: the last part of a path. Errors: FORMAT, saying which part of the name. */
cadre_err foreign_name_parse(const char *name, foreign_name *out, cadre_fail *why);
/* The name `system` would look for. device: the run-time string, blanks allowed; vLLM makes one name of the H200
 * family, names no type for int8_w8a8, and knows neither per-channel scales nor down tables. false: does not fit, or
 * the system has no such table. */
bool foreign_name_print(foreign_system system, const foreign_name *name, char *text, size_t size);
/* The N a table is keyed by: w2's inner width as w2 is stored. rows: shard_intermediate; gated halves it. int4 puts two
 * values in a byte: vLLM counts values, the others bytes. */
int foreign_n(foreign_system system, gemm_dtype dtype, int shard_intermediate, bool gated);

/* ---- text (foreign_json.c) ---- */

typedef struct foreign_row {
    int m;
    gemm_config config;
    int line;            /* in its file */
    const char *unknown; /* first field that is not known, NULL: none; borrowed from the table */
} foreign_row;
typedef struct foreign_table {
    foreign_name name; /* e is 0 if the file's name is no table's */
    char *path;
    char sha256[65];  /* of the file's bytes */
    char triton[32];  /* "triton_version", "" if absent */
    int triton_line;  /* of it, 0: absent */
    const char *meta; /* the first key that starts with '_', NULL: none; borrowed from doc */
    int meta_line;
    foreign_row *rows; /* in file order */
    int count;
    json_doc *doc; /* holds what rows borrow */
} foreign_table;

/* What a reader meets that is not good, for lint; reading goes on after it. line: 0 if it is the file's or its name's.
 * Rules: "bad-key", "bad-value" (the row is left out); "unknown-field", "missing-field", "zero-evidence",
 * "metadata-key", "no-rows", "bad-name" (the row is kept: a system would use it). */
typedef void foreign_note(void *ctx, int line, const char *rule, const char *key, const char *text);
/* Parses a table's text; path names it in errors. With `note`, what is wrong with rows is told there; without, the
 * first is the error (FORMAT: file:line, what was found, what was expected); num_warps and num_stages may then be
 * missing, since systems launch such rows. Always errors: no JSON object, a key given
 * twice, more than 4096 rows; NOMEM. Metadata are the triton_version and keys that start with '_'. A file name that is
 * no table's is no error: the file was named by hand. */
cadre_err foreign_parse(const char *path, const char *text, size_t len, foreign_note *note, void *ctx,
                        foreign_table **out, cadre_fail *why);
cadre_err foreign_read(const char *path, foreign_note *note, void *ctx, foreign_table **out, cadre_fail *why);
void foreign_free(foreign_table *table); /* NULL is fine */
/* Would the system's loader stop at this table? All make every key an integer; vLLM's alone takes triton_version out
 * before. Errors: FORMAT: file:line and the key it stops at. */
cadre_err foreign_stop(foreign_system system, const foreign_table *table, cadre_fail *why);
/* The JSON of a table, one row per line, as the torchada generator writes it (source: 1105 bytes for the S5000 table).
 * triton: NULL or "": none. text: mem_new memory. Errors: UNSUPPORTED for a row with an unknown field, which would be
 * lost; NOMEM. */
cadre_err foreign_print(const foreign_row *rows, int count, const char *triton, char **text, size_t *len,
                        cadre_fail *why);

/* ---- look-up (foreign_lookup.c) ---- */

/* The row a system takes for m: least |key - m|, the first in file order on a tie; no limit of distance. */
typedef struct foreign_match {
    int index;              /* of table->rows */
    int distance;           /* |key - m| */
    int tie;                /* index of the row that lost a tie, -1: none */
    int reach_lo, reach_hi; /* the m that take this row; reach_hi INT_MAX: no end */
} foreign_match;
/* Errors: RANGE: m < 1, or a table without rows (all three systems then take their default). */
cadre_err foreign_lookup(foreign_system rule, const foreign_table *table, int m, foreign_match *out, cadre_fail *why);

/* A down table beside its base: equal BLOCK_SIZE_M at every m in 1..m_max, else RANGE naming both files and the first
 * range of m where they differ. The tokens are sorted once, in blocks of the base's BLOCK_SIZE_M. */
cadre_err foreign_pair(foreign_system rule, const foreign_table *base, const foreign_table *down, int m_max,
                       cadre_fail *why);

/* ---- folders (foreign_find.c) ---- */

/* The file a system would open under `folder`. vLLM: there. SGLang and torchada: in triton_X_Y_Z below it, the running
 * version first, then every other by number from new to old. */
typedef struct foreign_place {
    char path[1024];    /* "" when there is none */
    char tried[16384];  /* every path looked at, one per line; folder/triton_* stands for folders that are not there */
    char closest[1024]; /* on a miss: the existing file whose name says the same or almost, in the folder or a version's
                           folder below it, also where the system does not look; "" if there is none */
    bool no_versions;   /* the system looks into folders of versions, and there are none */
    bool other_version; /* found, but in the folder of another Triton version */
} foreign_place;
/* "3.4.0", "3.2.0+git1", "3.2.0rc1": a number first, then letters, numbers, '.', '+', '-'. */
bool foreign_is_version(const char *triton);
/* folder: vLLM's with the files, the others' "configs". triton: the running version, "3.2.0+git1" is fine; NULL or "":
 * not known. A miss is no error. Errors: RANGE for a name the system does not have, IO, NOMEM. */
cadre_err foreign_find(foreign_system system, const char *folder, const char *triton, const foreign_name *name,
                       foreign_place *out, cadre_fail *why);
#endif
