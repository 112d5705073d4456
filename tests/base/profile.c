/* profile: ops are booked with the time since the op before; waiting is told apart; nothing is booked unwatched. */
#include "base/base.h"
#include "test.h"

#include <math.h>
#include <time.h>

#define assert_close(a, b, most) assert_true(fabs((a) - (b)) <= (most))

static const profile_op up = {"experts", "up", "k1", 100}, down = {"experts", "down", "k1", 50},
                        plain = {.op = "embed"};

static void rows_add_up(void **state) {
    (void)state;
    profiler p = {0};
    p.at = 1000;
    for (int step = 0; step < 3; step++) {
        uint64_t t = 1000 + (uint64_t)step * 600;
        profile_end(&p, &plain, t + 90, t + 100);
        profile_end(&p, &up, t + 350, t + 400);
        profile_end(&p, &down, t + 600, t + 600);
    }
    cadre_profile_row r[8];
    assert_int_equal(profile_tell(&p, r, 8), 3);
    static const struct {
        const char *op, *kernel;
        double us, wait, bytes;
    } want[] = {
        {"embed", "plain", 0.3, 0.03, 0}, {"experts up", "k1", 0.9, 0.15, 300}, {"experts down", "k1", 0.6, 0, 150}};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(r[i].op, want[i].op);
        assert_string_equal(r[i].kernel, want[i].kernel);
        assert_int_equal(r[i].launches, 3);
        assert_close(r[i].us, want[i].us, 1e-12);
        assert_close(r[i].wait_us, want[i].wait, 1e-12);
        assert_close(r[i].bytes, want[i].bytes, 0);
    }
    assert_close(r[0].us + r[1].us + r[2].us, (double)(p.at - 1000) / 1e3, 1e-12);
    /* An equal text at another address is the same op; another kernel is another row. */
    char name[] = "embed";
    profile_book(&p, &(profile_op){.op = name}, 7, 0);
    profile_book(&p, &(profile_op){"embed", NULL, "k2", 0}, 5, 0);
    assert_int_equal(profile_tell(&p, r, 1), 4); /* told although there is no room */
    assert_int_equal(r[0].launches, 4);
    profile_clear(&p);
    assert_int_equal(profile_tell(&p, r, 8), 0);
}

static void full(void **state) {
    (void)state;
    static char names[PROFILE_ROWS + 2][8];
    profiler p = {0};
    for (int i = 0; i < PROFILE_ROWS + 2; i++) {
        snprintf(names[i], sizeof names[i], "op%d", i);
        profile_book(&p, &(profile_op){.op = names[i]}, 1, 0);
    }
    assert_int_equal(p.count, PROFILE_ROWS);
    assert_int_equal(p.unbooked, 2);
}

/* ---- in a team ---- */

static profiler seen;

static void walk(void *ctx, team *t) {
    if (ctx && team_id(t) == 0) team_watch(t, ctx);
    assert_int_equal(team_watched(t), ctx && team_id(t) == 0);
    team_end(t, &plain);
    if (team_id(t) == 1) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    team_end(t, &up);
    if (team_id(t) == 0) nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    team_end(t, &down);
}

static void waiting(void **state) {
    (void)state;
    pool *p;
    cadre_profile_row r[3];
    assert_int_equal(pool_new(2, &p, NULL), CADRE_OK);
    seen = (profiler){0};
    pool_run(p, walk, NULL);
    assert_int_equal(seen.count, 0);
    pool_run(p, walk, &seen);
    pool_run(p, walk, NULL); /* watching ends with the run */
    assert_int_equal(profile_tell(&seen, r, 3), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(r[i].launches, 1);
    assert_true(r[1].wait_us > 15000 && r[1].us >= r[1].wait_us);   /* for the other */
    assert_true(r[2].us > 15000 && r[2].us - r[2].wait_us > 15000); /* its own work */
    pool_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_add_up), cmocka_unit_test(full),
                                       cmocka_unit_test(waiting)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
