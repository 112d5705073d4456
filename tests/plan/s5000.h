/* s5000.h: the table that torchada ships for the MTT S5000, E=128, N=1856: 1105 bytes with the digest below. */
#ifndef TESTS_PLAN_S5000_H
#define TESTS_PLAN_S5000_H
#include "plan/foreign.h"
#include "test.h"

#define S5000_NAME   "E=128,N=1856,device_name=MTT_S5000.json"
#define S5000_SHA256 "3e39677d2dbf5c984325f94255dbba3fa5eb2ac331fde3a86a79f75105fc531b"
enum { S5000_BYTES = 1105, S5000_ROWS = 8 };

/* M, then BLOCK_SIZE_M, N, K, GROUP_SIZE_M, SPLIT_K, num_warps, num_stages */
static __attribute__((unused)) const int s5000_values[S5000_ROWS][8] = {
    {16, 16, 64, 128, 1, 1, 4, 1},  {49, 16, 64, 128, 1, 1, 4, 4},  {80, 32, 128, 64, 1, 1, 4, 3},
    {113, 64, 128, 64, 1, 1, 4, 3}, {144, 64, 128, 64, 1, 1, 8, 3}, {511, 64, 128, 64, 1, 1, 8, 3},
    {512, 32, 64, 64, 16, 1, 8, 2}, {513, 128, 128, 64, 1, 1, 8, 3}};

static __attribute__((unused)) foreign_row s5000_row(int i) {
    foreign_row row = {.m = s5000_values[i][0]};
    for (int f = 0; f < 7; f++) row.config.v[GEMM_BM + f] = s5000_values[i][1 + f];
    row.config.has = (1u << 7) - 1;
    return row;
}

/* Its text, to be freed with mem_free. */
static __attribute__((unused)) char *s5000_text(size_t *len) {
    foreign_row rows[S5000_ROWS];
    char *text = NULL;
    for (int i = 0; i < S5000_ROWS; i++) rows[i] = s5000_row(i);
    must(foreign_print(rows, S5000_ROWS, NULL, &text, len, fail_out));
    return text;
}
#endif
