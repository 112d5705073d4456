/* foreign_find: folders of the three systems, versions by number (T07), and what a miss tells (T08). */
#include "s5000.h"

#include <sys/stat.h>
#include <unistd.h>

static void field(const char *id) {
    printf("field %s ok\n", id);
}

static char root[] = "/tmp/cadre-find-XXXXXX";
static char made[64][600]; /* what to remove, the newest last */
static int made_count;

static const char *keep(const char *path) {
    assert_true(made_count < 64);
    snprintf(made[made_count], sizeof made[0], "%s", path);
    return made[made_count++];
}

/* An empty file below root, with its folder. */
static void put(const char *folder, const char *name) {
    char path[300];
    assert_true(file_join(path, sizeof path, root, folder));
    if (!file_is_dir(path)) {
        assert_int_equal(mkdir(path, 0755), 0);
        keep(path);
    }
    if (!name) return;
    char file[600];
    assert_true(file_join(file, sizeof file, path, name));
    must(file_write(keep(file), "{}", 2, fail_out));
}

static void clear(void) {
    while (made_count) remove(made[--made_count]);
}

static int set_up(void **state) {
    (void)state;
    return !mkdtemp(root);
}

static int tear_down(void **state) {
    (void)state;
    clear();
    return rmdir(root);
}

static const char *below(const char *path) {
    return *path ? path + strlen(root) + 1 : "";
}

#define NAME "E=8,N=7168,device_name=X.json"
static const foreign_name x = {.e = 8, .n = 7168, .device = "X"};

static foreign_place place; /* large */
/* The file found below root, "" if none. */
static const char *find(foreign_system system, const char *triton, const foreign_name *name) {
    must(foreign_find(system, root, triton, name, &place, fail_out));
    return below(place.path);
}

/* tried, below root, with blanks between. */
static const char *tried(void) {
    static char text[4096];
    *text = 0;
    for (const char *p = place.tried; *p;) {
        size_t n = strcspn(p, "\n");
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%.*s", *text ? " " : "",
                 (int)(n - strlen(root) - 1), p + strlen(root) + 1);
        p += n + (p[n] == '\n');
    }
    return text;
}

static void exact_then_new_to_old(void **state) {
    (void)state;
    static const foreign_system both[] = {FOREIGN_SGLANG, FOREIGN_TORCHADA};
    put("triton_3_1_0", NAME);
    put("triton_3_2_0", NAME);
    put("triton_3_3_1", NULL);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(find(both[i], "3.3.1", &x), "triton_3_2_0/" NAME);
        assert_true(place.other_version);
        assert_string_equal(tried(), "triton_3_3_1/" NAME " triton_3_2_0/" NAME);
        assert_string_equal(find(both[i], "3.1.0", &x), "triton_3_1_0/" NAME);
        assert_false(place.other_version);
        assert_string_equal(find(both[i], NULL, &x), "triton_3_2_0/" NAME);
        assert_string_equal(find(both[i], "", &x), "triton_3_2_0/" NAME);
    }
    put("triton_3_9_0", NAME);
    put("triton_3_10_0", NAME);
    put("triton_next", NAME);
    put("other_9_9_9", NAME);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(find(both[i], "3.3.1", &x), "triton_3_10_0/" NAME); /* by number, not text */
        assert_string_equal(find(both[i], "3.9.0", &x), "triton_3_9_0/" NAME);
    }
    foreign_name missing = x;
    missing.n = 1;
    assert_string_equal(find(FOREIGN_SGLANG, "4.0.0", &missing), "");
    assert_string_equal(tried(), "triton_4_0_0/E=8,N=1,device_name=X.json triton_3_10_0/E=8,N=1,device_name=X.json "
                                 "triton_3_9_0/E=8,N=1,device_name=X.json triton_3_3_1/E=8,N=1,device_name=X.json "
                                 "triton_3_2_0/E=8,N=1,device_name=X.json triton_3_1_0/E=8,N=1,device_name=X.json "
                                 "triton_next/E=8,N=1,device_name=X.json");
    clear();
    field("T07");
}

/* torchada cuts what follows the release; SGLang looks for the version as it is written. */
static void local_versions(void **state) {
    (void)state;
    put("triton_3_2_0", NAME);
    put("triton_3_6_0", NAME);
    static const char *const same[] = {"3.2.0+gitabc", "3.2.0.post1", "3.2.0rc1", "3.2.0"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(find(FOREIGN_TORCHADA, same[i], &x), "triton_3_2_0/" NAME);
        assert_int_equal(place.other_version, false);
        assert_string_equal(find(FOREIGN_SGLANG, same[i], &x), i < 3 ? "triton_3_6_0/" NAME : "triton_3_2_0/" NAME);
    }
    assert_string_equal(find(FOREIGN_TORCHADA, "main", &x), "triton_3_6_0/" NAME);
    assert_string_equal(find(FOREIGN_SGLANG, "../triton_3.2.0", &x), "triton_3_6_0/" NAME); /* no path in a version */
    clear();
}

static void blanks(void **state) {
    (void)state;
    static const char close[] = "E=8,N=7168,device_name=X,dtype=fp8_w8a8,block_shape=[128,128].json";
    static const char spaced[] = "E=8,N=7168,device_name=X,dtype=fp8_w8a8,block_shape=[128, 128].json";
    char want[200];
    foreign_name name = x;
    name.dtype = GEMM_FP8_W8A8, name.block_n = name.block_k = 128;
    put("", close);
    put("triton_3_2_0", close);
    assert_string_equal(find(FOREIGN_VLLM, NULL, &name), close);
    assert_string_equal(find(FOREIGN_SGLANG, "3.2.0", &name), "");
    snprintf(want, sizeof want, "triton_3_2_0/%s", close);
    assert_string_equal(below(place.closest), want); /* said, not taken: SGLang would not */
    assert_string_equal(find(FOREIGN_TORCHADA, "3.2.0", &name), want);
    put("triton_3_2_0", spaced);
    snprintf(want, sizeof want, "triton_3_2_0/%s", spaced);
    assert_string_equal(find(FOREIGN_SGLANG, "3.2.0", &name), want);
    assert_string_equal(find(FOREIGN_TORCHADA, "3.2.0", &name), want);
    clear();
}

/* A file with the short name of the card is never found: the miss shows what is wanted and what is there. */
static void a_miss_tells(void **state) {
    (void)state;
    foreign_name h100 = {.e = 8, .n = 7168, .device = "NVIDIA H100 80GB HBM3"};
    put("", "E=8,N=3584,device_name=NVIDIA_H100_80GB_HBM3.json");
    put("", "E=8,N=7168,device_name=NVIDIA_H100.json");
    put("", "E=8,N=7168,device_name=AMD_Instinct_MI300X.json");
    put("", "notes.json");
    assert_string_equal(find(FOREIGN_VLLM, NULL, &h100), "");
    assert_string_equal(tried(), "E=8,N=7168,device_name=NVIDIA_H100_80GB_HBM3.json");
    assert_string_equal(below(place.closest), "E=8,N=7168,device_name=NVIDIA_H100.json");
    remove(made[1]);
    assert_string_equal(find(FOREIGN_VLLM, NULL, &h100), "");
    assert_string_equal(below(place.closest), "E=8,N=3584,device_name=NVIDIA_H100_80GB_HBM3.json");
    foreign_name far = {.e = 512, .n = 64, .device = "MTT S5000"};
    assert_string_equal(find(FOREIGN_VLLM, NULL, &far), "");
    assert_string_equal(place.closest, "");
    clear();
    field("T08");
}

/* A folder without versions: what was looked for, and the file of just this name where the system does not look. */
static void no_versions(void **state) {
    (void)state;
    static const foreign_system both[] = {FOREIGN_SGLANG, FOREIGN_TORCHADA};
    put("", NAME);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(find(both[i], NULL, &x), "");
        assert_string_equal(tried(), "triton_*/" NAME);
        assert_true(place.no_versions);
        assert_string_equal(below(place.closest), NAME);
        assert_string_equal(find(both[i], "3.4.0", &x), "");
        assert_string_equal(tried(), "triton_3_4_0/" NAME);
        assert_true(place.no_versions);
        assert_string_equal(below(place.closest), NAME);
    }
    clear();
    put("triton_3_4_0", NAME); /* and the other way about: vLLM does not look below its folder */
    assert_string_equal(find(FOREIGN_VLLM, NULL, &x), "");
    assert_string_equal(tried(), NAME);
    assert_false(place.no_versions);
    assert_string_equal(below(place.closest), "triton_3_4_0/" NAME);
    clear();
    field("T08");
}

static void version_texts(void **state) {
    (void)state;
    static const char *const good[] = {"3.4.0", "3", "3.2.0+git1", "3.2.0rc1", "3.2.0.post1"};
    static const char *const bad[] = {"", "abc", "main", ".3", "v3.4.0", "3.4.0/..", "3 4", "3_4_0"};
    for (int i = 0; i < 5; i++) assert_true(foreign_is_version(good[i]));
    for (int i = 0; i < 8; i++) assert_false(foreign_is_version(bad[i]));
}

/* A folder in a file's place, a name that is not known, a name in another place: none is taken. */
static void never_a_wrong_match(void **state) {
    (void)state;
    put("triton_3_2_0", NULL);
    put("triton_3_2_0/" NAME, NULL); /* a folder of that name */
    put("", NAME);                   /* vLLM's place, not SGLang's */
    put("triton_3_2_0", "H=3072," NAME);
    assert_string_equal(find(FOREIGN_SGLANG, "3.2.0", &x), "");
    assert_string_equal(below(place.closest), NAME); /* just this name, in another place: told */
    assert_string_equal(find(FOREIGN_VLLM, "3.2.0", &x), NAME);
    foreign_name down = x;
    down.down = true;
    cadre_fail why = {0};
    place.path[0] = 'k';
    assert_int_equal(foreign_find(FOREIGN_VLLM, root, NULL, &down, &place, &why), CADRE_RANGE);
    assert_string_equal(why.text, "vllm has no table of this kind for device 'X'");
    assert_int_equal(foreign_find(FOREIGN_SGLANG, "/nowhere/configs", NULL, &x, &place, &why), CADRE_IO);
    assert_string_equal(why.text, "/nowhere/configs: expected a folder of tables");
    assert_int_equal(place.path[0], 'k');
    clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_then_new_to_old), cmocka_unit_test(local_versions),      cmocka_unit_test(blanks),
        cmocka_unit_test(a_miss_tells),          cmocka_unit_test(never_a_wrong_match), cmocka_unit_test(no_versions),
        cmocka_unit_test(version_texts),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
