/* folders: malformed model folders through the command. Each is a small model with one thing broken by a line of shell.
 * The answer is exit status 2, nothing on stdout and one line: which file, what is wrong, what was expected. */
#include "command.h"

typedef struct broken {
    const char *what;
    const char *base;  /* of tests/golden/models */
    const char *file;  /* that is broken and named; "": the folder itself */
    const char *shell; /* run in the folder, $f is the file; NULL: add_expert */
    const char *says;  /* "a\0b\0": all of them, in the refusal */
} broken;

/* ---- ways to break ---- */

#define BASE    "qwen3_moe_base"
#define SHARDS  "qwen3_moe_sharded"
#define WEIGHTS "model.safetensors"
#define INDEX   "model.safetensors.index.json"
#define SECOND  "model-00002-of-00003.safetensors"

/* A value of config.json, a value of the index, bytes of a header (of equal length). */
#define VALUE(key, from, to) "sed -i 's|\"" key "\": " from "|\"" key "\": " to "|' $f"
#define HEADER(from, to)     "LC_ALL=C sed -i 's|" from "|" to "|' $f"
/* The first bytes of the file; the 8 of a header's length. */
#define FRONT(bytes) "printf '" bytes "' | dd of=$f conv=notrunc status=none"
/* Text is first cut by this pattern. */
#define CUT(pattern)                                                                                              \
    "sed -i 's|\"pre_tokenizer\":|\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" pattern "\"}," \
    "\"behavior\":\"Isolated\",\"invert\":false},\"unused\":|' $f"

/* The header's last '}' becomes an entry more; 4 bytes more of data. */
static void add_expert(const char *path) {
    char *file, *grown, entry[160];
    size_t len, n = 0;
    assert_int_equal(file_read(path, 1 << 24, &file, &len, NULL), CADRE_OK);
    for (int i = 0; i < 8; i++) n |= (size_t)(unsigned char)file[i] << (8 * i);
    size_t end = 8 + n, data = len - end;
    while (file[end - 1] != '}') end--;
    int more = snprintf(entry, sizeof entry,
                        ",\"model.layers.1.mlp.experts.8.up_proj.weight\":{\"dtype\":\"F32\",\"shape\":[1],"
                        "\"data_offsets\":[%zu,%zu]}}",
                        data, data + 4);
    size_t header = end - 1 - 8 + (size_t)more;
    grown = mem_new(8 + header + data + 4);
    for (int i = 0; i < 8; i++) grown[i] = (char)(header >> (8 * i));
    memcpy(grown + 8, file + 8, end - 1 - 8);
    memcpy(grown + end - 1, entry, (size_t)more);
    memcpy(grown + 8 + header, file + 8 + n, data);
    assert_int_equal(file_write(path, grown, 8 + header + data + 4, NULL), CADRE_OK);
    mem_free(file);
    mem_free(grown);
}

/* Long enough for a pattern that explodes. */
static const char prompt[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";

static const broken all[] = {
    {"weights: empty file", BASE, WEIGHTS, ": >$f", "0 bytes, expected at least the 8\0"},
    {"weights: five bytes", BASE, WEIGHTS, "printf 12345 >$f", "5 bytes, expected at least the 8\0"},
    {"weights: a byte short", BASE, WEIGHTS, "truncate -s -1 $f", "truncated\0"},
    {"weights: a byte too many", BASE, WEIGHTS, "printf x >>$f", "expected\0"},
    {"weights: truncated shard", SHARDS, SECOND, "truncate -s 50000 $f", "truncated\0"},
    {"weights: header longer than the file", BASE, WEIGHTS, FRONT("\\0\\0\\0\\2\\0\\0\\0\\0"),
     "header length 33554432\0bytes follow\0"},
    {"weights: header length 2^63", BASE, WEIGHTS, FRONT("\\0\\0\\0\\0\\0\\0\\0\\200"), "header length\0expected\0"},
    {"weights: header length 2^64 - 1", BASE, WEIGHTS, FRONT("\\377\\377\\377\\377\\377\\377\\377\\377"),
     "header length\0expected\0"},
    {"weights: header that nests", BASE, WEIGHTS,
     "{ printf '\\240\\206\\1\\0\\0\\0\\0\\0{\"a\":'; yes '[' | tr -d '\\n' | head -c 99995; } >$f", "deep\0"},
    {"weights: the same tensor twice", BASE, WEIGHTS, HEADER("layers.0.mlp.experts.1.up", "layers.0.mlp.experts.0.up"),
     "was given before\0"},
    {"weights: transposed shape", BASE, WEIGHTS,
     HEADER("lm_head.weight\":{\"dtype\":\"F32\",\"shape\":\\[96,48",
            "lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[48,96"),
     "lm_head.weight\0shape [48, 96]\0expected [96, 48]\0"},
    {"weights: product of the shape beyond 64 bits", BASE, WEIGHTS,
     HEADER("{\"__metadata__\":{\"format\":\"pt\"},\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":\\[96,48\\],",
            "{            \"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,16],"),
     "beyond 64 bits\0"},
    {"weights: missing expert", BASE, WEIGHTS, HEADER("layers.1.mlp.experts.7.down", "layers.1.mlp.experts.9.down"),
     "no tensor 'model.layers.1.mlp.experts.7.down_proj.weight'\0"},
    {"weights: an expert too many", BASE, WEIGHTS, NULL,
     "experts.8.up_proj.weight' has no place\0"
     "8 experts\0"},
    {"weights: unknown type", BASE, WEIGHTS, HEADER("\"F32\"", "\"F93\""), "F93\0expected\0"},
    {"weights: a pipe", BASE, WEIGHTS, "rm $f && mkfifo $f", "expected a regular file\0"},
    {"weights: a folder", BASE, WEIGHTS, "rm $f && mkdir $f", "expected a file, found a folder\0"},
    {"weights: a link to itself", BASE, WEIGHTS, "rm $f && ln -s $f $f",
     "cannot open: Too many levels of symbolic links\0"},
    {"weights: none", BASE, "", "rm " WEIGHTS, "expected model.safetensors or model.safetensors.index.json\0"},
    {"index: leads out of the folder", SHARDS, INDEX, VALUE("lm_head.weight", "[^,]*", "\"../../etc/passwd\""),
     "is '../../etc/passwd', expected the name of a file beside the index\0"},
    {"index: names a number", SHARDS, INDEX, VALUE("lm_head.weight", "[^,]*", "7"), "expected the name of a file\0"},
    {"index: wrong shard", SHARDS, INDEX, VALUE("lm_head.weight", "[^,]*", "\"" SECOND "\""),
     "lm_head.weight\0" SECOND "\0"},
    {"index: missing shard", SHARDS, SECOND, "rm $f", "missing\0incomplete download?\0"},
    {"config: empty file", BASE, "config.json", ": >$f", "expected\0"},
    {"config: nesting", BASE, "config.json", "yes '[' | tr -d '\\n' | head -c 100000 >$f", "deep\0"},
    {"config: a text for a number", BASE, "config.json", VALUE("hidden_size", "48", "\"48\""),
     ".hidden_size\0expected a whole number\0"},
    {"config: the same key twice", BASE, "config.json", VALUE("hidden_size", "48", "48, \"hidden_size\": 64"),
     "hidden_size\0was given before\0"},
    {"config: more experts per token than experts", BASE, "config.json", VALUE("num_experts_per_tok", "3", "9"),
     ".num_experts_per_tok\0expected\0"},
    {"config: a billion layers", BASE, "config.json", VALUE("num_hidden_layers", "2", "1000000000"),
     ".num_hidden_layers\0expected a whole number in\0"},
    {"config: heads that don't divide", BASE, "config.json", VALUE("num_key_value_heads", "2", "3"),
     ".num_key_value_heads\0expected\0"},
    {"config: unknown architecture", BASE, "config.json", VALUE("model_type", "[^,]*", "\"mixturetron\""),
     "mixturetron\0expected\0"},
    {"config: a pipe", BASE, "config.json", "rm $f && mkfifo $f", "expected\0"},
    {"config: a folder", BASE, "config.json", "rm $f && mkdir $f", "expected a file, found a folder\0"},
    {"config: a link to itself", BASE, "config.json", "rm $f && ln -s $f $f", "symbolic links\0"},
    {"config: none", BASE, "config.json", "rm $f", "No such file\0"},
    {"tokenizer: pattern that doesn't compile", BASE, "tokenizer.json", CUT("(a"), "does not compile\0"},
    {"tokenizer: no byte-pair vocabulary", BASE, "tokenizer.json", "sed -i 's|\"BPE\"|\"Unigram\"|' $f",
     "Unigram\0only BPE\0"},
    {"tokenizer: truncated", BASE, "tokenizer.json", "truncate -s 900 $f", "expected\0"},
    {"tokenizer: the same id twice", BASE, "tokenizer.json", "sed -i 's|\"b\":70|\"b\":69|' $f", "another token has\0"},
};

/* ---- the check ---- */

static void break_one(const broken *b, char dir[160]) {
    char line[2000], path[200];
    snprintf(dir, 160, "%s/broken", scratch);
    snprintf(line, sizeof line, "rm -rf '%s' && cp -r '%s' '%s' && cd '%s' && f='%s' && %s", dir,
             command_model(b->base), dir, dir, b->file, b->shell ? b->shell : ":");
    if (system(line)) fail_msg("%s: could not be made: %s", b->what, line);
    snprintf(path, sizeof path, "%s/%s", dir, b->file);
    if (!b->shell) add_expert(path);
}

/* The whole of stderr is one line: nothing failed twice, and these models give no notes. */
static const char *judge(const broken *b, const ran *r, const char *dir) {
    char start[220];
    snprintf(start, sizeof start, "cadre: %s%s%s", dir, *b->file ? "/" : "", b->file);
    if (r->status != 2) return "exit status";
    if (r->out_len) return "something on stdout";
    const char *end = strchr(r->err, '\n');
    if (!end || end[1]) return "not one line";
    if (strncmp(r->err, start, strlen(start))) return "the file is not named first";
    for (const char *s = b->says; *s; s += strlen(s) + 1)
        if (!strstr(r->err, s)) return s;
    return NULL;
}

static void each_is_refused(void **state) {
    (void)state;
    char dir[160];
    int bad = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        break_one(&all[i], dir);
        ran r = command_after("timeout 120", "run -m '%s' -p '%s' -n 1", dir, prompt);
        const char *wrong = judge(&all[i], &r, dir);
        if (wrong) print_error("%s: %s\n  status %d, %.400s\n", all[i].what, wrong, r.status, r.err);
        bad += wrong != NULL;
        command_free(&r);
    }
    assert_int_equal(bad, 0);
}

/* A pattern that is sound but explodes on a text is refused when that text comes, not before. */
static void explosion(void **state) {
    (void)state;
    char dir[160];
    break_one(&(broken){"exploding pattern", BASE, "tokenizer.json", CUT("(a+)+$"), ""}, dir);
    ran r = command_after("timeout 120", "run -m '%s' -p abc -n 1", dir);
    assert_int_equal(r.status, 0);
    command_free(&r);
    r = command_after("timeout 120", "run -m '%s' -p '%s' -n 1", dir, prompt);
    assert_int_equal(strchr(r.err, '\n')[1], 0);
    command_refused(r, "a pattern of the tokenizer can't cope with this text: match limit exceeded");
}

/* What is named with -m, and is no folder at all. */
static void no_folders(void **state) {
    (void)state;
    char line[400];
    snprintf(line, sizeof line, "cd '%s' && touch plain && ln -s circle circle && ln -s nothing link", scratch);
    assert_int_equal(system(line), 0);
    command_refused(command("run -m '%s/none'", scratch), "/none: no such folder (-m names a model folder)");
    command_refused(command("run -m '%s/link'", scratch), "/link: no such folder");
    command_refused(command("run -m '%s/plain'", scratch), "/plain: expected a model folder, found a file");
    command_refused(command("run -m '%s/circle'", scratch), "/circle: cannot find: Too many levels of symbolic links");
    command_refused(command("run -m ''"), "no such folder");
}

/* What the table breaks runs when it isn't broken; so every refusal is for what was broken. */
static void whole_ones_run(void **state) {
    (void)state;
    for (const char *base = BASE "\0" SHARDS "\0"; *base; base += strlen(base) + 1) {
        ran r = command("run -m '%s' -p '%s' -n 1", command_model(base), prompt);
        assert_int_equal(r.status, 0);
        assert_string_equal(r.err, "");
        command_free(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_ones_run), cmocka_unit_test(each_is_refused),
                                       cmocka_unit_test(explosion), cmocka_unit_test(no_folders)};
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
