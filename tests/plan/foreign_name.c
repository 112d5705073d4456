/* foreign_name: names of the three systems both ways (V18), which N they carry (V19), and names that are no table's. */
#include "plan/foreign.h"
#include "test.h"

static void vector(const char *id) {
    printf("vector %s ok\n", id);
}
static void field(const char *id) {
    printf("field %s ok\n", id);
}

static foreign_name named(int e, int n, const char *device) {
    foreign_name name = {.e = e, .n = n};
    snprintf(name.device, sizeof name.device, "%s", device);
    return name;
}

static foreign_name parsed(const char *text) {
    foreign_name name;
    must(foreign_name_parse(text, &name, fail_out));
    return name;
}

static void prints(foreign_system system, const foreign_name *name, const char *want) {
    char text[256];
    assert_true(foreign_name_print(system, name, text, sizeof text));
    assert_string_equal(text, want);
}

static void both_ways(void **state) {
    (void)state;
    foreign_name s5000 = named(128, 1856, "MTT S5000"), h200 = named(128, 768, "NVIDIA H200");
    for (int s = 0; s < FOREIGN_SYSTEM_COUNT; s++)
        prints((foreign_system)s, &s5000, "E=128,N=1856,device_name=MTT_S5000.json");
    s5000.dtype = GEMM_FP16; /* bf16 and fp16 share a table */
    prints(FOREIGN_VLLM, &s5000, "E=128,N=1856,device_name=MTT_S5000.json");
    s5000.dtype = GEMM_FP32;
    prints(FOREIGN_SGLANG, &s5000, "E=128,N=1856,device_name=MTT_S5000,dtype=float32.json");
    h200.dtype = GEMM_FP8_W8A8, h200.block_n = h200.block_k = 128;
    const char *close = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
    const char *spaced = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json";
    prints(FOREIGN_VLLM, &h200, close);
    prints(FOREIGN_SGLANG, &h200, spaced);
    prints(FOREIGN_TORCHADA, &h200, spaced);
    foreign_name a = parsed(close), b = parsed(spaced);
    assert_false(a.block_spaced);
    assert_true(b.block_spaced);
    prints(FOREIGN_SGLANG, &a, spaced);
    prints(FOREIGN_VLLM, &b, close);
    assert_int_equal(a.e, 128);
    assert_int_equal(a.n, 768);
    assert_string_equal(a.device, "NVIDIA_H200");
    assert_int_equal(a.dtype, GEMM_FP8_W8A8);
    assert_true(a.dtype_written && a.block_n == 128 && a.block_k == 128 && !a.per_channel && !a.down && !*a.unknown);
    h200.block_n = 0; /* one size of 0: no block part */
    prints(FOREIGN_SGLANG, &h200, "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json");
    h200.per_channel = h200.down = true;
    prints(FOREIGN_TORCHADA, &h200,
           "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,per_channel_quant=True_down.json");
    char text[256];
    assert_false(foreign_name_print(FOREIGN_VLLM, &h200, text, sizeof text)); /* vLLM has no down tables */
    h200.down = false;
    prints(FOREIGN_VLLM, &h200, "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8.json");
    assert_false(foreign_name_print(FOREIGN_SGLANG, &h200, text, 40));
    foreign_name none = named(8, 8, "");
    assert_false(foreign_name_print(FOREIGN_SGLANG, &none, text, sizeof text));
    foreign_name odd = named(8, 7168, "AMD  Radeon / Pro"), int8 = named(8, 7168, "X");
    int8.dtype = GEMM_INT8_W8A8;
    prints(FOREIGN_VLLM, &odd, "E=8,N=7168,device_name=AMD_Radeon_Pro.json");
    prints(FOREIGN_SGLANG, &odd, "E=8,N=7168,device_name=AMD__Radeon_/_Pro.json");
    prints(FOREIGN_VLLM, &int8, "E=8,N=7168,device_name=X.json");
    prints(FOREIGN_SGLANG, &int8, "E=8,N=7168,device_name=X,dtype=int8_w8a8.json");
    vector("V18");
}

static void one_name_for_h200(void **state) {
    (void)state;
    static const char *const family[] = {"NVIDIA H200", "NVIDIA H200 NVL", "NVIDIA_H200_141GB_HBM3e", "H200"};
    for (int i = 0; i < 4; i++) {
        foreign_name name = named(8, 7168, family[i]);
        prints(FOREIGN_VLLM, &name, "E=8,N=7168,device_name=NVIDIA_H200.json");
    }
    foreign_name nvl = named(8, 7168, "NVIDIA H200 NVL"), h20 = named(8, 7168, "NVIDIA H20"),
                 gh = named(8, 7168, "NVIDIA GH200 480GB");
    prints(FOREIGN_SGLANG, &nvl, "E=8,N=7168,device_name=NVIDIA_H200_NVL.json");
    prints(FOREIGN_VLLM, &h20, "E=8,N=7168,device_name=NVIDIA_H20.json");
    prints(FOREIGN_VLLM, &gh, "E=8,N=7168,device_name=NVIDIA_GH200_480GB.json");
}

static void which_n(void **state) {
    (void)state;
    for (int s = 0; s < FOREIGN_SYSTEM_COUNT; s++) {
        assert_int_equal(foreign_n((foreign_system)s, GEMM_BF16, 3712, true), 1856);
        assert_int_equal(foreign_n((foreign_system)s, GEMM_BF16, 1856, false), 1856);
        assert_int_equal(foreign_n((foreign_system)s, GEMM_INT8_W8A16, 3712, true), 1856);
    }
    /* w2 holds two int4 values in a byte: vLLM doubles its inner width, the others take it as it is. */
    assert_int_equal(foreign_n(FOREIGN_VLLM, GEMM_INT4_W4A16, 3712, true), 1856);
    assert_int_equal(foreign_n(FOREIGN_SGLANG, GEMM_INT4_W4A16, 3712, true), 928);
    assert_int_equal(foreign_n(FOREIGN_TORCHADA, GEMM_INT4_W4A16, 1856, false), 928);
    vector("V19");
}

/* Fields in any order; one that is not known means "not for me", never a wrong match. */
static void fields_by_name(void **state) {
    (void)state;
    foreign_name a = parsed("H=3072,E=256,N=256,device_name=MXC500,dtype=int8_w8a8.json");
    assert_string_equal(a.unknown, "H=3072");
    assert_true(a.e == 256 && a.n == 256 && a.dtype == GEMM_INT8_W8A8);
    foreign_name b = parsed("E=128,N=704,device_name=NVIDIA_L20,dtype=fp8_w8a8,per_channel_quant=True.json");
    assert_true(b.per_channel && !b.down && !*b.unknown && b.n == 704);
    foreign_name c = parsed("per_channel_quant=True,device_name=X,block_shape=[64, 32],N=2,E=1_down.json");
    assert_true(c.e == 1 && c.n == 2 && c.block_n == 64 && c.block_k == 32 && c.per_channel && c.down && !*c.unknown);
    assert_false(c.dtype_written);
    assert_int_equal(c.dtype, GEMM_BF16);
    foreign_name d = parsed("E=1,N=2,device_name=X,dtype=mxfp4.json");
    assert_string_equal(d.unknown, "dtype=mxfp4");
    assert_string_equal(parsed("E=1,N=2,device_name=X,per_channel_quant=False.json").unknown,
                        "per_channel_quant=False");
    assert_string_equal(parsed("E=1,N=2,device_name=X,a=1,b=2.json").unknown, "a=1");
    field("T13");
}

static void not_a_name(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"", "name ''"},
        {".json", "name part ''"},
        {"_down.json", "name part ''"},
        {"E=1,N=2,device_name=X", "expected one that ends in .json"},
        {"E=1,N=2.json", "no device_name="},
        {"N=2,device_name=X.json", "no E="},
        {"E=1,device_name=X.json", "no N="},
        {"E=0,N=2,device_name=X.json", "name part 'E=0'"},
        {"E=01,N=2,device_name=X.json", "name part 'E=01'"},
        {"E=-1,N=2,device_name=X.json", "name part 'E=-1'"},
        {"E=1,N=2147483648,device_name=X.json", "name part 'N=2147483648'"},
        {"E=1,N=99999999999999999999,device_name=X.json", "name part 'N=9"},
        {"E=1,E=1,N=2,device_name=X.json", "expected each field once"},
        {"E=1,N=2,device_name=.json", "name part 'device_name='"},
        {"E=1,N=2,device_name=MTT S5000.json", "underscores"},
        {"E=1,N=2,device_name=X=Y.json", "underscores"},
        {"E=1,N=2,device_name=X_down,dtype=fp8_w8a8.json", "underscores"},
        {"E=1,,N=2,device_name=X.json", "name part ''"},
        {"E=1,N=2,device_name=X,=1.json", "name part '=1'"},
        {"E=1,N=2,device_name=X,block_shape=[128].json", "[128,128]"},
        {"E=1,N=2,device_name=X,block_shape=[128,].json", "[128,128]"},
        {"E=1,N=2,device_name=X,block_shape=[128,  128].json", "[128,128]"},
        {"E=1,N=2,device_name=X,block_shape=[128,0].json", "[128,128]"},
        {"E=1,N=2,device_name=X,block_shape=128.json", "[128,128]"},
        {"E=1,N=2,device_name=X,block_shape=[128,128.json", "[128,128]"},
        {"moe_gfx950.json", "NAME=VALUE"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        foreign_name name = {.e = 7};
        cadre_fail why = {0};
        if (foreign_name_parse(bad[i][0], &name, &why) != CADRE_FORMAT) fail_msg("'%s' was accepted", bad[i][0]);
        if (!strstr(why.text, bad[i][1])) fail_msg("'%s': '%s' does not say '%s'", bad[i][0], why.text, bad[i][1]);
        assert_int_equal(name.e, 7);
    }
    char huge[400] = "E=1,N=2,device_name=";
    memset(huge + strlen(huge), 'x', 120);
    strcat(huge, ".json");
    foreign_name name;
    assert_int_equal(foreign_name_parse(huge, &name, NULL), CADRE_FORMAT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways),      cmocka_unit_test(one_name_for_h200), cmocka_unit_test(which_n),
        cmocka_unit_test(fields_by_name), cmocka_unit_test(not_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
