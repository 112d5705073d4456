/* json_index.c: open addressing over SipHash-1-3. Keys come from files, and the seed keeps a file from choosing keys
 * that all fall into one place. */
#include "json_index.h"
#include "mem.h"
#include <string.h>

typedef struct slot {
    uint64_t hash;
    const json *member; /* NULL: free */
} slot;

struct json_index {
    json_index *next;
    uint64_t seed;
    size_t count, mask;
    slot *slots;
};

static uint64_t rotate(uint64_t x, int n) {
    return x << n | x >> (64 - n);
}

static void round1(uint64_t v[4]) {
    v[0] += v[1], v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1], v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static uint64_t hash(uint64_t seed, const char *key, size_t len) {
    uint64_t k1 = seed * 0x9E3779B97F4A7C15u + 1, word;
    uint64_t v[4] = {seed ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, seed ^ 0x6c7967656e657261u,
                     k1 ^ 0x7465646279746573u};
    size_t left = len;
    for (; left >= 8; left -= 8, key += 8) {
        memcpy(&word, key, 8);
        v[3] ^= word;
        round1(v);
        v[0] ^= word;
    }
    word = 0;
    memcpy(&word, key, left);
    word ^= (uint64_t)len << 56;
    v[3] ^= word;
    round1(v);
    v[0] ^= word;
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++) round1(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void place(json_index *x, slot s) {
    size_t i = s.hash & x->mask;
    while (x->slots[i].member) i = (i + 1) & x->mask;
    x->slots[i] = s;
}

/* Twice the slots; at most half of them are ever taken. */
static bool grow(json_index *x) {
    size_t old = x->slots ? x->mask + 1 : 0, size = old ? old * 2 : 64;
    slot *from = x->slots, *to = mem_new_array(size, sizeof *to);
    if (!to) return false;
    x->slots = to;
    x->mask = size - 1;
    for (size_t i = 0; i < old; i++)
        if (from[i].member) place(x, from[i]);
    mem_free(from);
    return true;
}

json_index *json_index_new(uint64_t seed, json_index **list) {
    json_index *x = mem_new(sizeof *x);
    if (!x) return NULL;
    x->seed = seed;
    x->next = *list;
    *list = x;
    return grow(x) ? x : NULL;
}

bool json_index_add(json_index *x, const json *member) {
    if ((x->count + 1) * 2 > x->mask + 1 && !grow(x)) return false;
    place(x, (slot){hash(x->seed, member->key, member->key_len), member});
    x->count++;
    return true;
}

const json *json_index_find(const json_index *x, const char *key, size_t len) {
    uint64_t h = hash(x->seed, key, len);
    for (size_t i = h & x->mask; x->slots[i].member; i = (i + 1) & x->mask) {
        const json *v = x->slots[i].member;
        if (x->slots[i].hash == h && v->key_len == len && !memcmp(v->key, key, len)) return v;
    }
    return NULL;
}

void json_index_free(json_index *list) {
    for (json_index *x = list, *next; x; x = next) {
        next = x->next;
        mem_free(x->slots);
        mem_free(x);
    }
}
