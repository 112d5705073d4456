/* safetensors.c against files made to deceive it, and against the golden ones. */
#include "model/folder.h"

#include <fcntl.h>
#include <limits.h>

static cadre_err open_named(const char *name, cadre_fail *why) {
    char path[1024];
    tensors *t = NULL;
    folder_path(path, dir, name);
    cadre_err err = tensors_open_file(path, &t, why);
    if (err)
        assert_null(t);
    else
        tensors_close(t);
    return err;
}

static void refuse_file(const char *what, const void *data, size_t len, cadre_err code, const char *text) {
    cadre_fail why = {0};
    folder_write(dir, "x.safetensors", data, len);
    print_message("%s\n", what);
    cadre_err err = open_named("x.safetensors", &why);
    check_refusal(err, &why, code, TEXTS("x.safetensors", text));
}

static void refuse_header(const char *header, size_t bytes, const char *text) {
    cadre_fail why = {0};
    folder_tensors(dir, "x.safetensors", header, bytes);
    cadre_err err = open_named("x.safetensors", &why);
    print_message("%.60s -> %s\n", header, why.text);
    check_refusal(err, &why, CADRE_FORMAT, TEXTS("x.safetensors", text));
}

static void accept_header(const char *header, size_t bytes, int count) {
    char path[1024];
    tensors *t = NULL;
    folder_tensors(dir, "x.safetensors", header, bytes);
    folder_path(path, dir, "x.safetensors");
    must(tensors_open_file(path, &t, fail_out));
    assert_int_equal(tensors_count(t), count);
    tensors_close(t);
}

/* ---- the prefix ---- */

static void prefix_is_checked(void **state) {
    (void)state;
    unsigned char file[64] = {0};
    refuse_file("empty file", file, 0, CADRE_FORMAT, "0 bytes, expected at least the 8");
    refuse_file("seven bytes", file, 7, CADRE_FORMAT, "7 bytes, expected at least the 8");
    refuse_file("length 0", file, 8, CADRE_FORMAT, "expected a header that starts with '{'");
    file[0] = 57;
    refuse_file("longer than the file", file, 64, CADRE_FORMAT, "header length 57, but 56 bytes follow");
    memset(file, 0xFF, 8);
    refuse_file("2^64 - 1", file, 64, CADRE_FORMAT, "18446744073709551615, expected at most 100000000");
    file[0] = 0xFB;
    refuse_file("2^64 - 5, wraps with 8", file, 64, CADRE_FORMAT, "18446744073709551611, expected at most 100000000");
    memset(file, 0, 8);
    file[7] = 0x80;
    refuse_file("2^63", file, 64, CADRE_FORMAT, "9223372036854775808, expected at most 100000000");
    memcpy(file, "\2\0\0\0\0\0\0\0[]", 10);
    refuse_file("array as root", file, 10, CADRE_FORMAT, "starts with '{'");
}

static void sparse_header_is_refused(void **state) {
    (void)state;
    char path[1024];
    cadre_fail why = {0};
    unsigned char n[8] = {0x01, 0xE1, 0xF5, 0x05}; /* 100,000,001 */
    folder_write(dir, "x.safetensors", n, 8);
    folder_path(path, dir, "x.safetensors");
    assert_int_equal(truncate(path, 8 + 100000001), 0);
    cadre_err err = open_named("x.safetensors", &why);
    check_refusal(err, &why, CADRE_FORMAT, TEXTS("header length 100000001, expected at most 100000000"));
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    char path[1024];
    cadre_fail why = {0};
    folder_path(path, dir, "x.safetensors");
    check_refusal(open_named("x.safetensors", &why), &why, CADRE_IO, TEXTS("x.safetensors"));
    assert_int_equal(mkdir(path, 0700), 0);
    check_refusal(open_named("x.safetensors", &why), &why, CADRE_IO, TEXTS("x.safetensors", "folder"));
    rmdir(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_refusal(open_named("x.safetensors", &why), &why, CADRE_IO, TEXTS("x.safetensors", "regular file"));
    unlink(path);
    assert_int_equal(symlink("x.safetensors", path), 0);
    check_refusal(open_named("x.safetensors", &why), &why, CADRE_IO, TEXTS("x.safetensors"));
}

/* ---- the header ---- */

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

static void json_is_strict(void **state) {
    (void)state;
    refuse_header("{" A, 8, "x.safetensors:1:");
    refuse_header("{" A "}x", 8, "expected the end");
    refuse_header("{" A ",}", 8, "expected a key");
    refuse_header("{\"\xFF\":1}", 8, "UTF-8");
    refuse_header("{\"\\ud800\":1}", 8, "lone surrogate");
    refuse_header("{" A "," A "}", 8, "given before");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8,
                  "given before");
    refuse_header("{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "NUL");
    static char deep[100002];
    deep[0] = '{', deep[1] = '"', deep[2] = 'a', deep[3] = '"', deep[4] = ':';
    memset(deep + 5, '[', sizeof deep - 6);
    refuse_header(deep, 8, "nested");
    accept_header("{" A "}   ", 8, 1); /* spaces pad real files */
}

static void nul_padding_is_refused(void **state) {
    (void)state;
    unsigned char file[128] = {0};
    size_t n = strlen("{" A "}");
    memcpy(file + 8, "{" A "}", n);
    file[0] = (unsigned char)(n + 3);
    refuse_file("header padded with NUL", file, 8 + n + 3 + 8, CADRE_FORMAT, "expected the end");
}

static void members_are_checked(void **state) {
    (void)state;
    refuse_header("{\"a\":1}", 8, ".a expected {dtype, shape, data_offsets}");
    refuse_header("{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ".a.dtype");
    refuse_header("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, ".a has no dtype");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8, ".a has no shape");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, ".a has no data_offsets");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,8]}}", 8, ".a.shape");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8, ".a.shape[0]");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,8]}}", 8, ".a.shape[0]");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1e308],\"data_offsets\":[0,8]}}", 8, ".a.shape[0]");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,18446744073709551615]}}", 8,
                  ".a.data_offsets[1]");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}", 8, "at most 8");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "at most 2");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8]}}", 8, "begin and end");
    refuse_header("{" A ",\"__metadata__\":{\"k\":1}}", 8, ".__metadata__.k expected a text");
    refuse_header("{" A ",\"__metadata__\":[]}", 8, ".__metadata__");
}

static void spans_are_checked(void **state) {
    (void)state;
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-16,0]}}", 8, ".a.data_offsets[0]");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "begin after they end");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,1099511627776]}}", 8,
                  "end at 1099511627776, but 8 bytes follow");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[32,8],\"data_offsets\":[0,65536]}}", 65536,
                  "span 65536 bytes, but the shape in F32 needs 1024");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[32,8],\"data_offsets\":[0,512]}}", 512,
                  "span 512 bytes, but the shape in F32 needs 1024");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,16],\"data_offsets\":[0,8]}}", 8,
                  "64 bits");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[65536,65536,65536,65536],\"data_offsets\":[0,0]}}", 0,
                  "64 bits");
    refuse_header("{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}", 4, "64 bits");
    refuse_header("{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", 1, "needs 2");
    refuse_header("{" A "}", 7, "end at 8, but 7 bytes follow");
    refuse_header("{" A "}", 9, "tensors end at data byte 8, expected the end of the file at 9");
    refuse_header("{}", 1, "tensors end at data byte 0");
}

#define AT(name, lo, hi) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[50],\"data_offsets\":[" #lo "," #hi "]}"

static void cover_is_checked(void **state) {
    (void)state;
    refuse_header("{" AT("w", 0, 50) "," AT("v", 25, 75) "}", 75,
                  "'v' begins at data byte 25, expected 50 (an overlap)");
    refuse_header("{" AT("w", 0, 50) "," AT("v", 0, 50) "}", 50, "an overlap");
    refuse_header("{" AT("w", 0, 50) "," AT("v", 51, 101) "}", 101, "'v' begins at data byte 51, expected 50 (a hole)");
    refuse_header("{" AT("w", 4, 54) "}", 54, "'w' begins at data byte 4, expected 0 (a hole)");
    accept_header("{" AT("w", 50, 100) "," AT("v", 0, 50) "}", 100, 2); /* any order of names */
}

static void odd_but_valid(void **state) {
    (void)state;
    char path[1024];
    tensors *t;
    cadre_tensor out;
    cadre_fail why;
    accept_header("{}", 0, 0);
    folder_tensors(dir, "x.safetensors",
                   "{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"},"
                   "\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                   "\"empty\":{\"dtype\":\"F16\",\"shape\":[3,0],\"data_offsets\":[4,4]},"
                   "\"odd\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]},"
                   "\"half\":{\"dtype\":\"BF16\",\"shape\":[1,2],\"data_offsets\":[5,9]},"
                   "\"fp8\":{\"dtype\":\"F8_E4M3\",\"shape\":[2],\"data_offsets\":[9,11]},"
                   "\"new\":{\"dtype\":\"Q7_NOT_KNOWN\",\"shape\":[2],\"data_offsets\":[11,14]},"
                   "\"lower\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[14,18]},"
                   "\"last\":{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[18,18]}}",
                   18);
    folder_path(path, dir, "x.safetensors");
    must(tensors_open_file(path, &t, fail_out));
    assert_int_equal(tensors_count(t), 8);
    assert_int_equal(tensors_find(t, "scalar")->dims, 0);
    assert_int_equal(tensors_find(t, "empty")->bytes, 0);
    assert_null(tensors_find(t, "empty")->data);
    assert_null(tensors_find(t, "absent"));
    must(tensors_need(t, "half", 1, 2, &out, fail_out)); /* unaligned */
    assert_int_equal(out.dtype, CADRE_BF16);
    assert_memory_equal(out.data, ((unsigned char[]){5, 6, 7, 8}), 4);
    assert_false(tensors_find(t, "fp8")->known);
    assert_string_equal(tensors_find(t, "fp8")->dtype_text, "F8_E4M3");
    check_refusal(tensors_need(t, "fp8", 0, 2, &out, &why), &why, CADRE_UNSUPPORTED,
                  TEXTS(path, "'fp8' is F8_E4M3", "F32, BF16 or F16"));
    check_refusal(tensors_need(t, "new", 0, 2, &out, &why), &why, CADRE_UNSUPPORTED, TEXTS("Q7_NOT_KNOW"));
    check_refusal(tensors_need(t, "lower", 0, 1, &out, &why), &why, CADRE_UNSUPPORTED, TEXTS("f32"));
    assert_string_equal(tensors_metadata(t, "format"), "pt");
    assert_string_equal(tensors_metadata(t, ""), "");
    assert_null(tensors_metadata(t, "absent"));
    tensors_close(t);
}

static void need_compares_shapes(void **state) {
    (void)state;
    char path[1024];
    tensors *t;
    cadre_tensor out;
    cadre_fail why;
    folder_tensors(dir, "x.safetensors", "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24);
    folder_path(path, dir, "x.safetensors");
    must(tensors_open_file(path, &t, fail_out));
    check_refusal(tensors_need(t, "w", 3, 2, &out, &why), &why, CADRE_FORMAT,
                  TEXTS(path, "'w' has shape [2, 3], expected [3, 2] (transposed?)"));
    check_refusal(tensors_need(t, "w", 0, 6, &out, &why), &why, CADRE_FORMAT, TEXTS("[2, 3], expected [6]"));
    check_refusal(tensors_need(t, "v", 2, 3, &out, &why), &why, CADRE_FORMAT, TEXTS(path, "no tensor 'v' among its 1"));
    assert_false(tensors_used(t, 0));
    must(tensors_need(t, "w", 2, 3, &out, fail_out));
    assert_true(tensors_used(t, 0));
    assert_ptr_equal(out.data, tensors_at(t, 0)->data);
    tensors_soon(t, &out, 2, 3);
    unsigned char copy[5];
    must(tensors_read(t, (const char *)out.data + 19, 5, copy, fail_out));
    for (int i = 0; i < 5; i++) assert_int_equal(copy[i], 19 + i);
    /* a file that shrinks is an error line, no signal */
    assert_int_equal(truncate(path, 70), 0);
    check_refusal(tensors_read(t, (const char *)out.data + 19, 5, copy, &why), &why, CADRE_IO,
                  TEXTS(path, "it shrank while it was read"));
    tensors_close(t);
}

/* ---- folders ---- */

static cadre_err open_folder(cadre_fail *why) {
    tensors *t = NULL;
    cadre_err err = tensors_open(dir, &t, why);
    if (!err) tensors_close(t);
    return err;
}

static void refuse_index(const char *index, cadre_err code, const char *text) {
    cadre_fail why = {0};
    folder_text(dir, "model.safetensors.index.json", index);
    cadre_err err = open_folder(&why);
    print_message("%s\n", why.text);
    check_refusal(err, &why, code, TEXTS("model.safetensors.index.json", text));
}

#define MAP(...) "{\"metadata\":{\"total_size\":16},\"weight_map\":{" __VA_ARGS__ "}}"

static void index_is_checked(void **state) {
    (void)state;
    cadre_fail why = {0};
    check_refusal(open_folder(&why), &why, CADRE_IO, TEXTS(dir, "expected model.safetensors"));
    folder_tensors(dir, "one", "{" A "}", 8);
    folder_tensors(dir, "two", "{\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8);
    folder_tensors(dir, "twin", "{" A "}", 8);
    folder_text(dir, "model.safetensors.index.json", MAP("\"a\":\"one\",\"b\":\"two\""));
    must(open_folder(fail_out));
    refuse_index(MAP("\"a\":\"../one\""), CADRE_FORMAT,
                 ".weight_map.a is '../one', expected the name of a file beside");
    refuse_index(MAP("\"a\":\"/etc/passwd\""), CADRE_FORMAT, "is '/etc/passwd'");
    refuse_index(MAP("\"a\":\"..\""), CADRE_FORMAT, "is '..'");
    refuse_index(MAP("\"a\":\"\""), CADRE_FORMAT, "is ''");
    refuse_index(MAP("\"a\":\"one\\u0000x\""), CADRE_FORMAT, "beside the index");
    refuse_index(MAP("\"a\":7"), CADRE_FORMAT, ".weight_map.a expected the name of a file");
    refuse_index(MAP("\"a\":\"one\",\"b\":\"three\""), CADRE_IO, "three: missing");
    refuse_index(MAP("\"a\":\"one\",\"b\":\"one\""), CADRE_FORMAT, ".weight_map.b says 'one', which does not hold");
    refuse_index(MAP("\"a\":\"two\",\"b\":\"one\""), CADRE_FORMAT,
                 ".weight_map.a says 'two', but the tensor is in 'one'");
    refuse_index(MAP("\"a\":\"one\",\"c\":\"two\""), CADRE_FORMAT, ".weight_map.c says 'two', which does not hold");
    refuse_index("{\"weight_map\":{}}", CADRE_FORMAT, "expected weight_map");
    refuse_index("{}", CADRE_FORMAT, "expected weight_map");
    refuse_index("[]", CADRE_FORMAT, "expected weight_map");
    refuse_index("", CADRE_FORMAT, "model.safetensors.index.json:1:1");
    folder_text(dir, "model.safetensors.index.json", MAP("\"a\":\"one\",\"b\":\"twin\""));
    check_refusal(open_folder(&why), &why, CADRE_FORMAT, TEXTS("one", "tensor 'a' is also in 'twin'"));
}

/* ---- the golden files ---- */

static void golden_shards_hold_the_same(void **state) {
    (void)state;
    tensors *one, *many;
    cadre_tensor a, b;
    must(tensors_open("tests/golden/models/qwen3_moe_base", &one, fail_out));
    must(tensors_open("tests/golden/models/qwen3_moe_sharded", &many, fail_out));
    assert_int_equal(tensors_count(one), tensors_count(many));
    assert_true(tensors_count(one) > 50);
    for (int i = 0; i < tensors_count(one); i++) {
        const tensor_entry *e = tensors_at(one, i), *f = tensors_find(many, e->name);
        assert_non_null(f);
        assert_ptr_equal(tensors_find(one, e->name), e);
        must(tensors_need_shape(one, e->name, e->shape, e->dims, &a, fail_out));
        must(tensors_need_shape(many, e->name, e->shape, e->dims, &b, fail_out));
        assert_memory_equal(a.data, b.data, e->bytes);
    }
    assert_string_equal(tensors_metadata(one, "format"), "pt");
    tensors_close(one);
    tensors_close(many);
}

static void every_failed_allocation_is_reported(void **state) {
    (void)state;
    cadre_err err = CADRE_NOMEM;
    int n = 0;
    for (; err && n < 1000; n++) {
        tensors *t = NULL;
        cadre_fail why = {0};
        mem_fail_after(n);
        err = tensors_open("tests/golden/models/qwen3_moe_sharded", &t, &why);
        mem_fail_after(-1);
        if (err) check_refusal(err, &why, CADRE_NOMEM, TEXTS("qwen3_moe_sharded"));
        tensors_close(t);
    }
    assert_true(n > 10);
    assert_false(err);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(prefix_is_checked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(sparse_header_is_refused, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(json_is_strict, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(nul_padding_is_refused, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(members_are_checked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(spans_are_checked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(cover_is_checked, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(odd_but_valid, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(need_compares_shapes, folder_make, folder_drop),
        cmocka_unit_test_setup_teardown(index_is_checked, folder_make, folder_drop),
        cmocka_unit_test(golden_shards_hold_the_same),
        cmocka_unit_test(every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
