/* switch: the registry and its parser. */
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static int slot;
static long got;
static cadre_fail why;

static cadre_err parse(const char *text) {
    slot = -7;
    got = -7;
    return switch_parse(switch_defs, SWITCH_COUNT, text, &slot, &got, &why);
}

static void sets(const char *text, int index, long value) {
    assert_int_equal(parse(text), CADRE_OK);
    assert_int_equal(slot, index);
    assert_int_equal(got, value);
}

static void refuses(const char *text, const char *message) {
    assert_int_equal(parse(text), CADRE_RANGE);
    assert_string_equal(why.text, message);
    assert_int_equal(got, -7);
}

static void defaults(void **state) {
    (void)state;
    for (int i = 0; i < SWITCH_COUNT; i++) {
        assert_int_equal(switch_get((switch_id)i), switch_defs[i].def);
        assert_in_range(switch_defs[i].def, switch_defs[i].low, switch_defs[i].high);
        assert_true(*switch_defs[i].name && *switch_defs[i].what);
    }
    switch_set(SWITCH_SPIN, 5);
    assert_int_equal(switch_get(SWITCH_SPIN), 5);
    assert_int_equal(switch_get(SWITCH_PIN), 1);
    switch_set(SWITCH_SPIN, switch_defs[SWITCH_SPIN].def);
}

static void parsing(void **state) {
    (void)state;
    sets("pin=0", SWITCH_PIN, 0);
    sets("spin=1000000", SWITCH_SPIN, 1000000);
    sets("isa=2", SWITCH_ISA, 2);
    sets("isa=avx512bf16", SWITCH_ISA, 3);
    sets("isa=ref", SWITCH_ISA, 0);
    sets("plant=9", SWITCH_PLANT, 9);
    refuses("pin=2", "switch pin is '2', expected a whole number in 0..1");
    refuses("pin=-1", "switch pin is '-1', expected a whole number in 0..1");
    refuses("pin=", "switch pin is '', expected a whole number in 0..1");
    refuses("pin= 1", "switch pin is ' 1', expected a whole number in 0..1");
    refuses("pin=1 ", "switch pin is '1 ', expected a whole number in 0..1");
    refuses("pin=+1", "switch pin is '+1', expected a whole number in 0..1");
    refuses("pin=0x1", "switch pin is '0x1', expected a whole number in 0..1");
    refuses("pin=ref", "switch pin is 'ref', expected a whole number in 0..1");
    refuses("spin=99999999999999999999",
            "switch spin is '99999999999999999999', expected a whole number in 0..1000000");
    refuses("isa=avx", "switch isa is 'avx', expected a whole number in 0..9");
    refuses("pin", "switch pin needs a value: pin=0..1");
    assert_int_equal(slot, -7);
    refuses("pi=1", "no switch is called 'pi'");
    assert_int_equal(slot, -1);
    refuses("=1", "no switch is called ''");
    refuses("PIN=1", "no switch is called 'PIN'");
}

/* Other registries: names with dots, negative ranges, no special names. */
static void others(void **state) {
    (void)state;
    static const switch_def defs[] = {{"isa", 0, -5, 5, "x"}, {"dense.rows", 4, 1, 8, "y"}};
    assert_int_equal(switch_parse(defs, 2, "isa=-5", &slot, &got, &why), CADRE_OK);
    assert_int_equal(got, -5);
    assert_int_equal(switch_parse(defs, 2, "dense.rows=8", &slot, &got, &why), CADRE_OK);
    assert_int_equal(slot, 1);
    assert_int_equal(switch_parse(defs, 2, "isa=ref", &slot, &got, &why), CADRE_RANGE);
    assert_int_equal(switch_parse(defs, 2, "isa=1", &slot, &got, NULL), CADRE_OK);
}

static void text(void **state) {
    (void)state;
    cadre_err err = CADRE_BUSY;
    char line[SWITCH_TEXT_MAX + 16];
    assert_string_equal(switch_text(SWITCH_CACHE), "");
    assert_true(switch_text_parse("cache=/a b=c", &err, &why));
    assert_int_equal(err, CADRE_OK);
    switch_text_default(SWITCH_CACHE, "/default");
    assert_string_equal(switch_text(SWITCH_CACHE), "/a b=c");
    assert_true(switch_text_is_set(SWITCH_CACHE) && !switch_text_is_set(SWITCH_CUDA));
    assert_true(switch_text_parse("cache=", &err, &why));
    assert_string_equal(switch_text(SWITCH_CACHE), "/default");
    assert_false(switch_text_is_set(SWITCH_CACHE));

    assert_true(switch_text_parse("nvrtc", &err, &why));
    assert_int_equal(err, CADRE_RANGE);
    assert_string_equal(why.text, "switch nvrtc needs a value: nvrtc=TEXT");
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = 0;
    memcpy(line, "cuda=", 5);
    assert_true(switch_text_parse(line, &err, &why));
    assert_int_equal(err, CADRE_RANGE);
    assert_string_equal(switch_text(SWITCH_CUDA), "");
    line[5 + SWITCH_TEXT_MAX - 1] = 0;
    assert_true(switch_text_parse(line, &err, &why));
    assert_int_equal(err, CADRE_OK);
    assert_string_equal(switch_text(SWITCH_CUDA), line + 5);
    err = CADRE_BUSY;
    assert_false(switch_text_parse("isa=1", &err, &why) || switch_text_parse("caches=1", &err, &why) ||
                 switch_text_parse("cach=1", &err, &why) || switch_text_parse("", &err, &why));
    assert_int_equal(err, CADRE_BUSY);
}

static void faults(void **state) {
    (void)state;
    for (int f = 0; f < FAULT_COUNT; f++) assert_false(fault_planted((fault)f));
    switch_set(SWITCH_PLANT, FAULT_TAIL);
    for (int f = 0; f < FAULT_COUNT; f++) assert_int_equal(fault_planted((fault)f), f == FAULT_TAIL);
    switch_set(SWITCH_PLANT, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults), cmocka_unit_test(parsing), cmocka_unit_test(others),
        cmocka_unit_test(text),     cmocka_unit_test(faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
