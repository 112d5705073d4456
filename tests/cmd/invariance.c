/* invariance: the matrix of law L1 holds on a tiny model, and each planted fault is found by it. */
#include "command.h"

static json_doc *run(const char *model, const char *options, int status) {
    ran r = command("bench invariance -m tests/golden/models/%s --json %s", model, options);
    if (r.status != status) fail_msg("%s: status %d: %s", options, r.status, r.err);
    json_doc *doc = command_json(&r);
    command_free(&r);
    return doc;
}

static int whole(const json *v, const char *key) {
    const json *m = json_get(v, key);
    assert_true(m && m->whole);
    return (int)m->integer;
}

static void equal(const char *model, const char *options) {
    json_doc *doc = run(model, options, 0);
    const json *v = json_root(doc);
    command_has(v,
                "schema cells equal axes skipped plant planted_fault_found different model numerics device switches");
    assert_true(whole(v, "cells") > 0);
    assert_int_equal(whole(v, "cells"), whole(v, "equal"));
    assert_int_equal(json_get(v, "different")->count, 0);
    assert_int_equal(json_get(v, "plant")->kind, JSON_NULL);
    assert_int_equal(json_get(v, "planted_fault_found")->kind, JSON_NULL);
    for (const json *s = json_get(v, "skipped")->child; s; s = s->next) command_has(s, "cell reason");
    json_free(doc);
}

static void all(void **state) {
    (void)state;
    equal("qwen3_moe_bf16", "");
    json_doc *doc = run("qwen3_moe_bf16", "", 0);
    const json *axes = json_get(json_root(doc), "axes");
    int cells = 0, skipped = 0;
    for (const char *a = "threads\0batch\0chunk\0rows\0isa\0knobs\0pairs\0"; *a; a += strlen(a) + 1) {
        const json *x = json_get(axes, a);
        command_has(x, "cells equal skipped");
        cells += whole(x, "cells");
        skipped += whole(x, "skipped");
    }
    assert_int_equal(cells, whole(json_root(doc), "cells"));
    assert_int_equal(skipped, json_get(json_root(doc), "skipped")->count);
    assert_true(cells + skipped >= 80);
    json_free(doc);
}

static void others(void **state) {
    (void)state;
    equal("qwen3_moe_base", "--axes threads,batch,chunk,rows,isa,pairs");
    equal("qwen2_moe_base", "--axes threads,batch,chunk,rows,isa --tokens 12");
    equal("qwen3_moe_bf16", "--axes batch,chunk --weights f32 --seed 9");
}

static void plants(void **state) {
    (void)state;
    for (int plant = 1; plant <= 5; plant++) {
        char options[80];
        snprintf(options, sizeof options, "--set plant=%d --axes threads,batch,chunk,rows --tokens 20", plant);
        json_doc *doc = run("qwen3_moe_bf16", options, 0);
        const json *v = json_root(doc);
        assert_int_equal(whole(v, "plant"), plant);
        assert_true(json_get(v, "planted_fault_found")->truth);
        assert_true(whole(v, "equal") < whole(v, "cells"));
        command_has(json_get(v, "different")->child, "cell what sequence step");
        json_free(doc);
    }
}

/* A fault that the chosen axis can't show is not found, and the exit status says so: the bench can fail. */
static void missed(void **state) {
    (void)state;
    json_doc *doc = run("qwen3_moe_bf16", "--set plant=3 --axes threads --tokens 8", 1);
    assert_false(json_get(json_root(doc), "planted_fault_found")->truth);
    assert_int_equal(whole(json_root(doc), "cells"), whole(json_root(doc), "equal"));
    json_free(doc);
}

static void people(void **state) {
    (void)state;
    ran r = command("bench invariance -m tests/golden/models/qwen3_moe_bf16 --axes rows,chunk --tokens 8");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "all 11 cells equal\n"));
    command_free(&r);
    r = command("bench invariance -m tests/golden/models/qwen3_moe_bf16 --axes rows --tokens 8 --set plant=1");
    assert_int_equal(r.status, 0);
    assert_non_null(strstr(r.out, "fault 1 found\n"));
    command_free(&r);
}

/* Field report N12: the text of five prompts alone, and beside 45 others in one batch. */
static void neighbours(void **state) {
    (void)state;
    enum { ALONE = 5, ALL = 50 };
    char path[128], text[ALL * 12] = "", sha[ALONE][65];
    const char *model = command_model("qwen3_moe_base");
    for (int i = 0; i < ALL; i++)
        snprintf(text + strlen(text), 12, "%.*s%d\n", 1 + i % 6, &"abcdef"[i % 3], i * 37 % 100);
    snprintf(path, sizeof path, "%s/fifty", scratch);
    for (int i = 0; i < ALONE; i++) {
        int at = i * 11; /* where it is among the fifty */
        const char *line = text;
        for (int k = 0; k < at; k++) line = strchr(line, '\n') + 1;
        for (int again = 0; again < 2; again++) {
            ran r = command("run -m %s -p '%.*s' -n 12 --temp 0 --ignore-eos --json", model, (int)strcspn(line, "\n"),
                            line);
            assert_int_equal(r.status, 0);
            json_doc *doc = command_json(&r);
            const char *got = json_get(json_get(json_root(doc), "requests")->child, "sha256")->text;
            if (again) assert_string_equal(got, sha[i]);
            snprintf(sha[i], sizeof sha[i], "%s", got);
            json_free(doc);
            command_free(&r);
        }
    }
    assert_int_equal(file_write(path, text, strlen(text), NULL), CADRE_OK);
    ran r = command("run -m %s -f '%s' --batch 50 -n 12 --temp 0 --ignore-eos --json", model, path);
    assert_int_equal(r.status, 0);
    json_doc *doc = command_json(&r);
    const json *request = json_get(json_root(doc), "requests")->child;
    for (int i = 0, at = 0; i < ALONE; i++) {
        for (; at < i * 11; at++) request = request->next;
        assert_string_equal(json_get(request, "sha256")->text, sha[i]);
    }
    json_free(doc);
    command_free(&r);
    printf("field N12 ok\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all),    cmocka_unit_test(others), cmocka_unit_test(plants),
        cmocka_unit_test(missed), cmocka_unit_test(people), cmocka_unit_test(neighbours),
    };
    return cmocka_run_group_tests(tests, command_setup, command_teardown);
}
