/* ledger: both ways, superseding without erasing, a torn end, samples that changed. */
#include "folder.h"

#include <math.h>

static cadre_fail why;

static lab_ledger *ledger(void) {
    lab_ledger *l;
    must(lab_ledger_read(in("d/ledger.jsonl"), &l, fail_out));
    return l;
}

static void both_ways(void **state) {
    (void)state;
    char first[16], second[16];
    put("s.jsonl", "raw");
    lab_ledger *l = ledger(); /* none is there yet: empty */
    assert_int_equal(lab_ledger_count(l), 0);
    lab_ledger_free(l);
    lab_entry e = {.name = "isa",
                   .asks = "does it?",
                   .outcome = "loss",
                   .text = "line \"one\"\n",
                   .experiment_sha256 = "ab",
                   .samples = in("s.jsonl"),
                   .ratio = 1.25,
                   .interval = {1.125, 1.5}};
    must(lab_ledger_add(in("d/ledger.jsonl"), &e, first, fail_out));
    e.outcome = "win", e.supersedes = first, e.ratio = NAN, e.asks = NULL;
    must(lab_ledger_add(in("d/ledger.jsonl"), &e, second, fail_out));
    assert_int_equal(strlen(first), 8);
    assert_true(strcmp(first, second) != 0);
    char again[16]; /* the same of the same samples: nothing is added */
    must(lab_ledger_add(in("d/ledger.jsonl"), &e, again, fail_out));
    assert_string_equal(again, second);
    e.supersedes = NULL, e.outcome = "loss", e.asks = "does it?";
    must(lab_ledger_add(in("d/ledger.jsonl"), &e, again, fail_out));
    assert_string_equal(again, first);
    e.supersedes = "12345678";
    assert_int_equal(lab_ledger_has(in("d/ledger.jsonl"), second, &why), CADRE_OK);
    assert_int_equal(lab_ledger_has(in("d/ledger.jsonl"), "12345678", &why), CADRE_RANGE);
    assert_int_equal(lab_ledger_add(in("d/ledger.jsonl"), &e, NULL, &why), CADRE_RANGE);
    assert_non_null(strstr(why.text, "no entry 12345678 to supersede"));
    l = ledger();
    assert_int_equal(lab_ledger_count(l), 2);
    const lab_entry *a = lab_ledger_at(l, 0), *b = lab_ledger_at(l, 1);
    assert_string_equal(a->id, first);
    assert_string_equal(a->outcome, "loss"); /* kept, though it is superseded and no good news */
    assert_string_equal(a->text, "line \"one\"\n");
    assert_true(a->ratio == 1.25 && a->interval[0] == 1.125 && a->interval[1] == 1.5);
    assert_int_equal(strlen(a->date), 20);
    assert_ptr_equal(lab_ledger_superseder(l, 0), b);
    assert_null(lab_ledger_superseder(l, 1));
    assert_true(isnan(b->ratio) && !b->asks);
    assert_null(lab_ledger_at(l, 2));
    char hex[65];
    cadre_sha256("raw", 3, hex);
    assert_string_equal(a->samples_sha256, hex);
    assert_int_equal(lab_ledger_check(a), LAB_KEPT);
    put("s.jsonl", "raw and more");
    assert_int_equal(lab_ledger_check(a), LAB_CHANGED);
    remove(in("s.jsonl"));
    assert_int_equal(lab_ledger_check(a), LAB_GONE);
    assert_int_equal(lab_ledger_check(&(lab_entry){.name = "x"}), LAB_KEPT);
    lab_ledger_free(l);
}

/* Cut at every byte of its last entry: what stood before is read, and what is added later too. */
static void torn(void **state) {
    (void)state;
    lab_entry e = {.name = "a", .outcome = "win", .ratio = NAN, .interval = {NAN, NAN}};
    must(file_write(in("d/ledger.jsonl"), "", 0, fail_out));
    for (int i = 0; i < 2; i++) must(lab_ledger_add(in("d/ledger.jsonl"), &e, NULL, fail_out));
    char *all = get("d/ledger.jsonl");
    size_t len = strlen(all), second = (size_t)(strchr(all, '\n') - all) + 1;
    for (size_t keep = second; keep < len; keep++) {
        must(file_write(in("d/ledger.jsonl"), all, keep, fail_out));
        lab_ledger *l = ledger();
        int whole = keep == len - 1 ? 2 : 1;
        assert_int_equal(lab_ledger_count(l), whole);
        lab_ledger_free(l);
        e.name = "later";
        must(lab_ledger_add(in("d/ledger.jsonl"), &e, NULL, fail_out));
        l = ledger();
        assert_int_equal(lab_ledger_count(l), whole + 1);
        assert_string_equal(lab_ledger_at(l, whole)->name, "later");
        lab_ledger_free(l);
    }
    /* a bad line that no writer left is an error with its place */
    char bad[2000];
    snprintf(bad, sizeof bad, "{\"id\": 1}\n%s", all);
    put("d/ledger.jsonl", bad);
    lab_ledger *l;
    assert_int_equal(lab_ledger_read(in("d/ledger.jsonl"), &l, &why), CADRE_FORMAT);
    assert_non_null(strstr(why.text, "ledger.jsonl:1: an entry without id, name or outcome"));
    mem_free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_ways), cmocka_unit_test(torn)};
    return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
