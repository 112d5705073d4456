/* json_index.h: keys of one big object, found by hash. Private to json.c. */
#ifndef CADRE_BASE_JSON_INDEX_H
#define CADRE_BASE_JSON_INDEX_H
#include "json.h"

typedef struct json_index json_index;

/* Makes an empty index and puts it at the head of *list, which json_index_free frees whole. NULL: out of memory. */
json_index *json_index_new(uint64_t seed, json_index **list);
bool json_index_add(json_index *x, const json *member); /* the key must be new; false: out of memory */
const json *json_index_find(const json_index *x, const char *key, size_t len);
void json_index_free(json_index *list);
#endif
