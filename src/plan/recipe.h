/* recipe.h: what a table is made from. A table is always built from an empty start, byte for byte the same; every row
 * has an owner that says where it comes from, and figures are computed, never typed. JSON, of two kinds:
 *
 * Foreign tables: a list of entries, one table each, in the form of torchada's recipes, with `device`, and with rows
 * that a policy owns (their settings are computed):
 *   [{"name": "..", "device": "MTT S5000", "num_experts": 128, "hidden_size": 2688, "shard_intermediate_size": 1856,
 *     "topk": 6, "is_gated": false, "activation": "relu2_no_mul", "dtype": "bf16", "batch_sizes": [16, 80],
 *     "pinned_rows": {"16": {"config": {"BLOCK_SIZE_M": 16, ..}, "source": "..",
 *                            "measured": {"what": "TPOT", "unit": "ms", "with": 6.26, "without": 6.62, "runs": 5}},
 *                     "80": {"policy": {"name": "vllm", "platform": "musa", "m": 80}}}}]
 *
 * Native tables: rows from raw samples of `cadre bench moe`. runs[i] is one run of the settings, default_runs[i] one
 * of the default beside it; they must take turns in the file. Everything else of the row is in the samples:
 *   {"cadre_recipe": 1, "rows": [{"samples": "a.jsonl", "runs": [..], "default_runs": [..], "n": [9, 16]}]}
 */
#ifndef CADRE_PLAN_RECIPE_H
#define CADRE_PLAN_RECIPE_H
#include "plan/foreign.h"
#include "plan/table.h"

typedef struct recipe recipe;

/* Reads and checks the whole recipe; samples are not looked at yet. Errors: FORMAT, "file:line:column:
 * /0/pinned_rows/16 (a JSON pointer): what was found, what was expected"; IO; NOMEM. */
cadre_err recipe_parse(const char *path, const char *text, size_t len, recipe **out, cadre_fail *why);
cadre_err recipe_read(const char *path, recipe **out, cadre_fail *why);
void recipe_free(recipe *r); /* NULL is fine */
/* Is this text a recipe rather than a table? By its first keys; false for what is no JSON. */
bool recipe_is(const char *path, const char *text, size_t len);

bool recipe_is_native(const recipe *r);
int recipe_tables(const recipe *r); /* how many it makes; a native one makes one */
/* Foreign: the buckets an entry names, sorted, each once; returns how many there are. */
int recipe_batch_sizes(const recipe *r, int table, int *out, int cap);

/* Who owns a row: its key ("16", or native_key_text) and the source, with what was computed. */
typedef void recipe_owner(void *ctx, const char *key, const char *source);
typedef struct recipe_output {
    char name[300]; /* the file name the table must have */
    char *text;     /* mem_new memory */
    size_t len;
    int rows;
} recipe_output;
/* Builds the i-th table. tell (may be NULL): every row's owner. Errors: FORMAT (with the pointer: a bucket without a
 * row; samples that are missing, that do not take turns, whose settings differ; a row that does not beat the default),
 * IO, NOMEM. */
cadre_err recipe_build(const recipe *r, int table, recipe_owner *tell, void *ctx, recipe_output *out, cadre_fail *why);

/* ---- two tables (table_diff.c) ---- */

/* old NULL: only in the fresh one; fresh NULL: only in the old one; neither: they differ. key: "16", or
 * native_key_text. Rows that are equal are not told. Returns how many were told. */
typedef void table_change(void *ctx, const char *key, const char *old, const char *fresh);
int native_diff(const native_table *old, const native_table *fresh, table_change *tell, void *ctx);
int foreign_diff(const foreign_table *old, const foreign_table *fresh, table_change *tell, void *ctx);
/* The fresh rows, and the old ones that the fresh table has no row for: none is lost. old may be NULL. rows: mem_new
 * memory, sorted; strings of a foreign row stay the tables'. Errors: RANGE (ranges that meet in part), NOMEM. */
cadre_err native_merge(const native_table *old, const native_table *fresh, native_row **rows, int *count,
                       cadre_fail *why);
cadre_err foreign_merge(const foreign_table *old, const foreign_table *fresh, foreign_row **rows, int *count,
                        cadre_fail *why);
#endif
