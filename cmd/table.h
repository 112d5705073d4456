/* table.h: what the `cadre table` commands share: a file that may be a table of cadre's, a table of another system or a
 * recipe; where results go; differences. */
#ifndef CMD_TABLE_H
#define CMD_TABLE_H
#include "commands.h"
#include "plan/recipe.h"
#include "say.h"

/* One of the three is not NULL. */
typedef struct table_file {
    const char *path;
    native_table *native;
    foreign_table *foreign;
    recipe *recipe;
} table_file;
/* Errors: IO, FORMAT (the first fault of the file), NOMEM. */
cadre_err table_file_read(const char *path, table_file *out, cadre_fail *why);
/* The same; a recipe (with one table) becomes the table that it makes. */
cadre_err table_file_read_table(const char *path, table_file *out, cadre_fail *why);
/* A table's text; path names it. */
cadre_err table_file_parse(const char *path, const char *text, size_t len, table_file *out, cadre_fail *why);
void table_file_free(table_file *f);

/* How two tables of one kind differ, one line for people per row, and `changes` of the JSON if it is not NULL. */
typedef struct table_changes {
    int added, gone, changed;
    json_out *json;
} table_changes;
cadre_err table_compare(const table_file *old, const table_file *fresh, table_changes *out, cadre_fail *why);

/* What every `table` command takes: no device is opened. */
#define TABLE_EVERYWHERE(T)                                                                                           \
    {0, "--set", OPTS_SET, "NAME=VALUE", 0, 0, 0, "set a switch; may be repeated (cadre doctor --switches)", NULL},   \
        {0,   "--json", OPTS_FLAG, NULL, offsetof(T, common.json), 0, 0, "one JSON object on stdout, text on stderr", \
         NULL},                                                                                                       \
    {                                                                                                                 \
        'h', "--help", OPTS_HELP, NULL, 0, 0, 0, "this text", NULL                                                    \
    }

/* Exactly `count` files were named; "FILE" or "OLD NEW" says which. */
bool table_files(const opts_rest *files, int count, const char *what, cadre_fail *why);
/* To the file, or to standard output if path is NULL (unless that carries JSON: then table_put_text takes it). */
cadre_err table_put(const char *path, const char *text, size_t len, bool quiet, cadre_fail *why);
/* "text" of the JSON: what was made if no file took it, else null. */
void table_put_text(json_out *o, const char *path, const char *text, size_t len);
#endif
