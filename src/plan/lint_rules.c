/* lint_rules.c: the rules, as data. */
#include "plan/lint.h"

#include <string.h>

const char *const lint_levels[LINT_LEVELS] = {"note", "warning", "error"};

const lint_rule lint_rules[] = {
    {"row-equals-default", LINT_WARNING, "a row says what the system's default says at its key",
     "it costs upkeep, gives nothing, and will shadow the default when that gets better",
     "delete the row; if it only keeps a neighbour's row away from these M, write down that it does"},
    {"row-shadows-newer-default", LINT_WARNING,
     "a row that came with an older default wins over the default that replaced it",
     "the newer default can never run for the M this row takes, and nothing tells so at run time",
     "measure the row against the newer default; keep it with that evidence, or delete it"},
    {"unreachable-key", LINT_WARNING, "no M can take the row",
     "it was tuned for nothing and hides that its M has no row",
     "delete the row, or tune the M that the look-up really asks for"},
    {"nearest-range", LINT_NOTE, "the M that take a row: all that are nearer to its key than to another",
     "the row also runs for M that were never measured; there is no limit of distance",
     "check that the row is good at both ends of its range"},
    {"island-row", LINT_NOTE, "a row unlike both its neighbours, which are alike",
     "a lone winner between two equal rows is often noise of one sweep",
     "measure it again, against its neighbours' configuration"},
    {"outside-grid", LINT_NOTE, "a value that the system's tuner never tries",
     "the row cannot be found again by tuning: it was written by hand or by another tuner",
     "say in the table's history where it is from, or tune again"},
    {"unknown-field", LINT_ERROR, "a field that no kernel declares",
     "the launch fails at the first call that takes the row, or the field is silently dropped",
     "delete the field, or correct its name"},
    {"missing-field", LINT_ERROR, "a field that a launch needs is absent",
     "without a tile size the launch fails; without num_warps or num_stages the compiler's own default runs unseen",
     "write the field"},
    {"bad-key", LINT_ERROR, "a key that is no number of tokens", "loaders turn every key into an integer and die on it",
     "write keys as plain whole numbers from 1; metadata do not belong among rows"},
    {"bad-value", LINT_ERROR, "a value that no kernel can be launched with", "the first call that takes the row fails",
     "correct the value; tile sizes are powers of two"},
    {"block-k-over-group", LINT_WARNING, "BLOCK_SIZE_K is larger than the group that shares a scale",
     "vLLM silently cuts it to the group, so not what was written runs; a launcher that does not cut applies one scale "
     "to "
     "several groups",
     "write the group's size, or tune with tiles that fit the group"},
    {"wrong-n", LINT_WARNING, "N is no shard of the layer", "no call will ask for this N, so the table is never used",
     "N is the expert's inner width after sharding: f divided by the tensor-parallel size"},
    {"dead-file", LINT_WARNING,
     "no look-up can open the file: its folder, name or device string is not one that is asked for",
     "the default runs instead and everyone believes in the table", "rename or move the file as told"},
    {"foreign-name", LINT_NOTE, "a name with a field that the system's look-up never writes",
     "another loader may read it; this look-up does not", "nothing, if that loader exists; else rename the file"},
    {"zero-evidence", LINT_ERROR, "figures that are all zero",
     "the row looks measured and is not; cadre does not read such a table",
     "measure it, or mark it as hand-written with a source"},
    {"hand-edited", LINT_ERROR, "the content hash is not that of the content",
     "nobody can tell which rows were measured", "build the table again from its recipe"},
    {"down-block-m-mismatch", LINT_ERROR, "the down table has another BLOCK_SIZE_M than the base table at some M",
     "tokens are sorted once, in blocks of the base's size: a down kernel with another size reads them wrongly, "
     "asserts, or "
     "is overruled (SGLang 0.5.23)",
     "give both tables the same BLOCK_SIZE_M at every M, best by the same keys"},
    {"missing-small-m", LINT_WARNING, "the smallest key is above 16",
     "decode (M = 1 and up) takes a row that was tuned for large batches",
     "tune 1, 2, 4, 8 and 16, or delete the table so that the default runs"},
    {"missing-large-m", LINT_WARNING, "the largest key is below 512", "prefill takes a row that was tuned for decode",
     "tune 512 and above; copied defaults also keep decode rows away"},
    {"unordered-keys", LINT_NOTE, "keys do not rise", "an M midway between two keys goes to the one that stands first",
     "sort the rows by key"},
    {"smem-over-device", LINT_ERROR, "a tile needs more on-chip memory than the device has",
     "the launch fails with out of resources", "lower num_stages first, then the tile"},
    {"no-table", LINT_ERROR, "the file is no table", "loaders die on it, or run the default",
     "correct the text at the place that is told"},
    {"metadata-key", LINT_ERROR, "metadata among the rows",
     "loaders turn every key into an integer and stop; vLLM's alone skips triton_version, and nothing else",
     "keep metadata in another file; `cadre table export` leaves out what the reader would stop at"},
    {"overlapping-rows", LINT_ERROR, "two rows of one key meet", "which one runs would depend on their order",
     "delete one, or cut the ranges"},
    {"dead-row", LINT_WARNING, "a row for a kernel that this build does not have, or whose source has changed",
     "it never runs", "tune again"},
    {"no-gain", LINT_WARNING, "a row whose interval reaches the default's time", "it was not shown to be faster",
     "measure more, or delete the row"},
    {0},
};

const lint_rule *lint_rule_find(const char *id) {
    for (const lint_rule *r = lint_rules; r->id; r++)
        if (!strcmp(r->id, id)) return r;
    return NULL;
}
