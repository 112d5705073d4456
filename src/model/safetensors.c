/* safetensors.c: the names of a checkpoint and the mapped bytes behind them. It never reads a tensor's values.
 *
 *   file:    8 bytes: N, little endian | N bytes: JSON header | tensor bytes, no holes, no overlaps, to the end
 *   header:  {"name": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}, ..., "__metadata__": {"k": "v"}}
 *   folder:  model.safetensors, or model.safetensors.index.json whose weight_map names the shard of each tensor
 *
 * Nothing in a header is believed: offsets are checked against the file, spans against shapes, names against each
 * other. Names are found by binary search in a sorted list: no hash, so no file can be made to degrade it. */
#include "model/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, PREFIX = 8, DIMS_MAX = 8, SHARDS_MAX = 4096, HEADER_MAX = 100 * 1000 * 1000 };

typedef struct pair {
    const char *key, *value;
} pair;

typedef struct shard {
    char *path;
    const char *name; /* last part of path */
    file_map map;
    size_t start; /* of the tensor bytes */
    char *texts;  /* names, metadata */
    pair *meta;
    int meta_count;
} shard;

struct tensors {
    char *source; /* the file or index that was opened, for messages */
    shard *shard;
    int shards;
    tensor_entry *entry;
    int count, cap;
    const tensor_entry **by_name;
    bool *used; /* [count]: asked for by tensors_need */
};

/* ---- one header ---- */

static const struct {
    const char *name;
    int bits;
} dtypes[] = {{"F32", 32},    {"F16", 16},    {"BF16", 16},   {"F64", 64},    {"I64", 64},        {"U64", 64},
              {"I32", 32},    {"U32", 32},    {"I16", 16},    {"U16", 16},    {"I8", 8},          {"U8", 8},
              {"BOOL", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
              {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},      {"C64", 64}};

static size_t read_u64(const unsigned char *p) {
    uint64_t v = 0;
    for (int i = PREFIX - 1; i >= 0; i--) v = v << 8 | p[i];
    return (size_t)v;
}

/* Finds the header's length; the text follows the prefix. */
static cadre_err header_length(const shard *s, size_t *len, cadre_fail *why) {
    const file_map *m = &s->map;
    unsigned char front[PREFIX + 1] = {0};
    if (m->size < PREFIX)
        return cadre_fail_set(why, CADRE_FORMAT, "%.300s: %zu bytes, expected at least the 8 of a header length",
                              s->path, m->size);
    cadre_err err = file_map_read(m, s->path, 0, front, m->size > PREFIX ? sizeof front : PREFIX, why);
    if (err) return err;
    size_t n = read_u64(front);
    if (n > HEADER_MAX)
        return cadre_fail_set(why, CADRE_FORMAT, "%.300s: header length %zu, expected at most %d", s->path, n,
                              HEADER_MAX);
    if (n > m->size - PREFIX)
        return cadre_fail_set(why, CADRE_FORMAT,
                              "%.300s: header length %zu, but %zu bytes follow: truncated (incomplete download?)",
                              s->path, n, m->size - PREFIX);
    if (n == 0 || front[PREFIX] != '{')
        return cadre_fail_set(why, CADRE_FORMAT, "%.300s: byte 8: expected a header that starts with '{', found %s",
                              s->path, n == 0 ? "an empty one" : "something else: not a safetensors file");
    *len = n;
    return CADRE_OK;
}

/* A member of an entry that must be an array of whole numbers >= 0; at most `most` of them. */
static cadre_err read_counts(const json_doc *doc, const json *entry, const char *key, int most, int64_t *out,
                             int *count, cadre_fail *why) {
    const json *a = json_get(entry, key);
    if (!a) return json_fail(doc, entry, why, "has no %s, expected a list of whole numbers", key);
    if (a->kind != JSON_ARRAY) return json_fail(doc, a, why, "expected a list of whole numbers");
    if (a->count > most) return json_fail(doc, a, why, "has %d numbers, expected at most %d", a->count, most);
    int n = 0;
    for (const json *v = a->child; v; v = v->next, n++) {
        if (v->kind != JSON_NUMBER || !v->whole || v->integer < 0)
            return json_fail(doc, v, why, "expected a whole number from 0 to 2^63 - 1");
        out[n] = v->integer;
    }
    *count = n;
    return CADRE_OK;
}

static cadre_err read_dtype(const json_doc *doc, const json *entry, tensor_entry *e, int *bits, cadre_fail *why) {
    const json *v = json_get(entry, "dtype");
    if (!v) return json_fail(doc, entry, why, "has no dtype, expected a text");
    if (v->kind != JSON_TEXT) return json_fail(doc, v, why, "expected a text such as BF16");
    snprintf(e->dtype_text, sizeof e->dtype_text, "%s", v->text);
    *bits = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (json_is(v, dtypes[i].name)) *bits = dtypes[i].bits;
    e->known = json_is(v, "F32") || json_is(v, "BF16") || json_is(v, "F16");
    e->dtype = json_is(v, "BF16") ? CADRE_BF16 : json_is(v, "F16") ? CADRE_F16 : CADRE_F32;
    return CADRE_OK;
}

/* bits 0: a type of unknown size, whose span can't be checked against the shape. */
static cadre_err check_span(const json_doc *doc, const json *entry, const tensor_entry *e, int bits, cadre_fail *why) {
    size_t n = 1;
    bool fits = true;
    for (int i = 0; i < e->dims; i++) fits = fits && mem_mul(n, (size_t)e->shape[i], &n);
    fits = fits && mem_mul(n, bits ? (size_t)bits : 1, &n);
    if (!fits) return json_fail(doc, json_get(entry, "shape"), why, "has a product beyond 64 bits");
    if (bits && (n % 8 || n / 8 != e->bytes))
        return json_fail(doc, json_get(entry, "data_offsets"), why, "span %zu bytes, but the shape in %s needs %zu",
                         e->bytes, e->dtype_text, n / 8 + (n % 8 != 0));
    return CADRE_OK;
}

static cadre_err read_entry(const shard *s, const json_doc *doc, const json *v, tensor_entry *e, cadre_fail *why) {
    if (v->kind != JSON_OBJECT) return json_fail(doc, v, why, "expected {dtype, shape, data_offsets}");
    if (strlen(v->key) != v->key_len) return json_fail(doc, v, why, "has a NUL in its name");
    int64_t offsets[2];
    int n = 0, bits = 0;
    cadre_err err = read_dtype(doc, v, e, &bits, why);
    if (!err) err = read_counts(doc, v, "shape", DIMS_MAX, e->shape, &e->dims, why);
    if (!err) err = read_counts(doc, v, "data_offsets", 2, offsets, &n, why);
    if (err) return err;
    const json *at = json_get(v, "data_offsets");
    if (n != 2) return json_fail(doc, at, why, "has %d numbers, expected begin and end", n);
    if (offsets[0] > offsets[1]) return json_fail(doc, at, why, "begin after they end");
    size_t size = s->map.size - s->start;
    if ((uint64_t)offsets[1] > size)
        return json_fail(doc, at, why, "end at %lld, but %zu bytes follow the header: truncated (incomplete download?)",
                         (long long)offsets[1], size);
    e->bytes = (size_t)(offsets[1] - offsets[0]);
    e->data = s->map.data + s->start + offsets[0];
    return check_span(doc, v, e, bits, why);
}

static int by_place(const void *a, const void *b) {
    const tensor_entry *x = *(const tensor_entry *const *)a, *y = *(const tensor_entry *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Tensors laid end to end must cover the bytes after the header exactly. Empty ones may sit on any border. */
static cadre_err check_cover(const shard *s, tensor_entry *entry, int count, cadre_fail *why) {
    const tensor_entry **list = mem_new_array((size_t)count, sizeof *list);
    if (!list) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", s->path);
    for (int i = 0; i < count; i++) list[i] = &entry[i];
    if (count) qsort(list, (size_t)count, sizeof *list, by_place);
    const unsigned char *data = s->map.data + s->start, *at = data;
    cadre_err err = CADRE_OK;
    for (int i = 0; i < count && !err; at = list[i]->data + list[i]->bytes, i++)
        if (list[i]->data != at)
            err =
                cadre_fail_set(why, CADRE_FORMAT, "%.250s: tensor '%.150s' begins at data byte %zu, expected %zu (%s)",
                               s->path, list[i]->name, (size_t)(list[i]->data - data), (size_t)(at - data),
                               list[i]->data > at ? "a hole" : "an overlap");
    size_t used = (size_t)(at - data), size = s->map.size - s->start;
    if (!err && used != size)
        err = cadre_fail_set(why, CADRE_FORMAT,
                             "%.300s: tensors end at data byte %zu, expected the end of the file at %zu", s->path, used,
                             size);
    mem_free(list);
    return err;
}

static const char *keep_text(char **at, const char *text, size_t len) {
    char *start = *at;
    memcpy(start, text, len);
    *at += len + 1; /* the block is zeroed */
    return start;
}

static cadre_err read_metadata(shard *s, const json_doc *doc, const json *v, char **texts, cadre_fail *why) {
    if (v->kind != JSON_OBJECT) return json_fail(doc, v, why, "expected an object of texts");
    s->meta = mem_new_array((size_t)v->count, sizeof *s->meta);
    if (!s->meta) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", s->path);
    for (const json *m = v->child; m; m = m->next) {
        if (m->kind != JSON_TEXT) return json_fail(doc, m, why, "expected a text");
        s->meta[s->meta_count++] = (pair){keep_text(texts, m->key, m->key_len), keep_text(texts, m->text, m->len)};
    }
    return CADRE_OK;
}

static size_t texts_size(const json *root) {
    size_t n = 1;
    for (const json *v = root->child; v; v = v->next) n += v->key_len + 1;
    const json *meta = json_get(root, "__metadata__");
    for (const json *v = meta && meta->kind == JSON_OBJECT ? meta->child : NULL; v; v = v->next)
        n += v->key_len + 1 + (v->kind == JSON_TEXT ? v->len + 1 : 0);
    return n;
}

static cadre_err grow(tensors *t, int more, cadre_fail *why) {
    if (t->entry && t->cap - t->count >= more) return CADRE_OK;
    size_t cap = (size_t)t->count + (size_t)more + (size_t)t->cap;
    tensor_entry *p = cap > INT32_MAX / 2 ? NULL : mem_resize(t->entry, (size_t)t->count * sizeof *p, cap * sizeof *p);
    if (!p) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: no memory for %zu tensors", t->source, cap);
    t->entry = p;
    t->cap = (int)cap;
    return CADRE_OK;
}

static cadre_err read_header(tensors *t, shard *s, const json_doc *doc, cadre_fail *why) {
    const json *root = json_root(doc);
    char *texts = s->texts = mem_new(texts_size(root));
    if (!texts) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", s->path);
    cadre_err err = grow(t, root->count, why);
    int first = t->count;
    for (const json *v = root->child; v && !err; v = v->next) {
        if (!strcmp(v->key, "__metadata__")) {
            err = read_metadata(s, doc, v, &texts, why);
            continue;
        }
        tensor_entry *e = &t->entry[t->count++];
        *e = (tensor_entry){.file = s->path, .shard = (int)(s - t->shard)};
        e->name = keep_text(&texts, v->key, v->key_len);
        err = read_entry(s, doc, v, e, why);
    }
    if (!err) err = check_cover(s, t->entry + first, t->count - first, why);
    for (int i = first; i < t->count; i++)
        if (!t->entry[i].bytes) t->entry[i].data = NULL;
    return err;
}

static cadre_err parse_header(const shard *s, size_t len, json_doc **doc, cadre_fail *why) {
    char *text = mem_new(len);
    if (!text) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory for its header", s->path);
    cadre_err err = file_map_read(&s->map, s->path, PREFIX, text, len, why);
    if (!err) err = json_parse(s->path, text, len, doc, why);
    mem_free(text);
    return err;
}

static cadre_err open_shard(tensors *t, shard *s, cadre_fail *why) {
    size_t len = 0;
    json_doc *doc = NULL;
    cadre_err err = file_open_map(s->path, &s->map, why);
    if (!err) err = header_length(s, &len, why);
    if (!err) err = parse_header(s, len, &doc, why);
    if (err) return err;
    s->start = PREFIX + len;
    err = read_header(t, s, doc, why);
    json_free(doc);
    return err;
}

/* ---- all shards ---- */

static int by_text(const void *a, const void *b) {
    return strcmp((*(const tensor_entry *const *)a)->name, (*(const tensor_entry *const *)b)->name);
}

static cadre_err sort_names(tensors *t, cadre_fail *why) {
    t->by_name = mem_new_array((size_t)t->count, sizeof *t->by_name);
    t->used = mem_new_array((size_t)t->count, sizeof *t->used);
    if (!t->by_name || !t->used) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", t->source);
    for (int i = 0; i < t->count; i++) t->by_name[i] = &t->entry[i];
    if (t->count) qsort(t->by_name, (size_t)t->count, sizeof *t->by_name, by_text);
    for (int i = 1; i < t->count; i++) {
        const tensor_entry *a = t->by_name[i - 1], *b = t->by_name[i];
        if (!strcmp(a->name, b->name))
            return cadre_fail_set(why, CADRE_FORMAT, "%.200s: tensor '%.120s' is also in '%.100s', expected it once",
                                  a->file, a->name, t->shard[b->shard].name);
    }
    return CADRE_OK;
}

static cadre_err add_shard(tensors *t, const char *dir, const char *name, cadre_fail *why) {
    char path[PATH_SIZE];
    if (dir && !file_join(path, sizeof path, dir, name))
        return cadre_fail_set(why, CADRE_IO, "%.300s: path too long", dir);
    shard *s = &t->shard[t->shards];
    s->path = dir ? mem_copy_text(path, strlen(path)) : mem_copy_text(name, strlen(name));
    if (!s->path) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", t->source);
    const char *slash = strrchr(s->path, '/');
    s->name = slash ? slash + 1 : s->path;
    t->shards++;
    return CADRE_OK;
}

static int find_shard(const tensors *t, const char *name) {
    for (int i = t->shards - 1; i >= 0; i--) /* names of one shard come in runs */
        if (!strcmp(t->shard[i].name, name)) return i;
    return -1;
}

/* One value of weight_map: a plain name of a file beside the index. */
static cadre_err list_shard(tensors *t, const char *dir, const json_doc *doc, const json *v, cadre_fail *why) {
    if (v->kind != JSON_TEXT) return json_fail(doc, v, why, "expected the name of a file");
    bool plain =
        v->len && strlen(v->text) == v->len && !strchr(v->text, '/') && strcmp(v->text, ".") && strcmp(v->text, "..");
    if (!plain) return json_fail(doc, v, why, "is '%.100s', expected the name of a file beside the index", v->text);
    if (find_shard(t, v->text) >= 0) return CADRE_OK;
    if (t->shards == SHARDS_MAX) return json_fail(doc, v, why, "is a further file, expected at most %d", SHARDS_MAX);
    cadre_err err = add_shard(t, dir, v->text, why);
    if (!err && !file_exists(t->shard[t->shards - 1].path))
        err =
            cadre_fail_set(why, CADRE_IO, "%.250s: missing, but '%.100s' says it holds '%.80s' (incomplete download?)",
                           t->shard[t->shards - 1].path, strrchr(t->source, '/') + 1, v->key);
    return err;
}

/* Every name is where the index says. */
static cadre_err check_index(const tensors *t, const json_doc *doc, const json *map, cadre_fail *why) {
    for (const json *v = map->child; v; v = v->next) {
        const tensor_entry *e = strlen(v->key) == v->key_len ? tensors_find(t, v->key) : NULL;
        if (!e) return json_fail(doc, v, why, "says '%.100s', which does not hold this tensor", v->text);
        if (e->shard != find_shard(t, v->text))
            return json_fail(doc, v, why, "says '%.100s', but the tensor is in '%.100s'", v->text,
                             t->shard[e->shard].name);
    }
    return CADRE_OK;
}

static cadre_err open_index(tensors *t, const char *dir, const json_doc *doc, cadre_fail *why) {
    const json *map = json_get(json_root(doc), "weight_map");
    if (!map || map->kind != JSON_OBJECT || !map->count)
        return json_fail(doc, map ? map : json_root(doc), why, "expected weight_map {tensor: file}");
    t->shard = mem_new_array(SHARDS_MAX, sizeof *t->shard);
    if (!t->shard) return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", t->source);
    cadre_err err = CADRE_OK;
    for (const json *v = map->child; v && !err; v = v->next) err = list_shard(t, dir, doc, v, why);
    for (int i = 0; i < t->shards && !err; i++) err = open_shard(t, &t->shard[i], why);
    if (!err) err = sort_names(t, why);
    if (!err) err = check_index(t, doc, map, why);
    return err;
}

static cadre_err new_tensors(const char *source, tensors **out, cadre_fail *why) {
    tensors *t = mem_new(sizeof *t);
    if (t) t->source = mem_copy_text(source, strlen(source));
    if (!t || !t->source) {
        tensors_close(t);
        return cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", source);
    }
    *out = t;
    return CADRE_OK;
}

static cadre_err finish(tensors *t, cadre_err err, tensors **out) {
    if (err)
        tensors_close(t);
    else
        *out = t;
    return err;
}

cadre_err tensors_open_file(const char *path, tensors **out, cadre_fail *why) {
    tensors *t = NULL;
    cadre_err err = new_tensors(path, &t, why);
    if (err) return err;
    t->shard = mem_new_array(1, sizeof *t->shard);
    err = t->shard ? add_shard(t, NULL, path, why) : cadre_fail_set(why, CADRE_NOMEM, "%.300s: out of memory", path);
    if (!err) err = open_shard(t, t->shard, why);
    if (!err) err = sort_names(t, why);
    return finish(t, err, out);
}

cadre_err tensors_open(const char *dir, tensors **out, cadre_fail *why) {
    char path[PATH_SIZE];
    if (!file_is_dir(dir)) return cadre_fail_set(why, CADRE_IO, "%.300s: expected a folder", dir);
    if (!file_join(path, sizeof path, dir, "model.safetensors"))
        return cadre_fail_set(why, CADRE_IO, "%.300s: path too long", dir);
    if (file_exists(path)) return tensors_open_file(path, out, why);
    if (!file_join(path, sizeof path, dir, "model.safetensors.index.json") || !file_exists(path))
        return cadre_fail_set(why, CADRE_IO, "%.300s: expected model.safetensors or model.safetensors.index.json in it",
                              dir);
    tensors *t = NULL;
    json_doc *doc;
    cadre_err err = new_tensors(path, &t, why);
    if (err) return err;
    err = json_read_file(path, HEADER_MAX, &doc, why);
    if (!err) {
        err = open_index(t, dir, doc, why);
        json_free(doc);
    }
    return finish(t, err, out);
}

void tensors_close(tensors *t) {
    if (!t) return;
    for (int i = 0; i < t->shards; i++) {
        file_close_map(&t->shard[i].map);
        mem_free(t->shard[i].path);
        mem_free(t->shard[i].texts);
        mem_free(t->shard[i].meta);
    }
    mem_free(t->shard);
    mem_free(t->entry);
    mem_free(t->by_name);
    mem_free(t->used);
    mem_free(t->source);
    mem_free(t);
}

/* ---- asking ---- */

int tensors_count(const tensors *t) {
    return t->count;
}

const tensor_entry *tensors_at(const tensors *t, int i) {
    return &t->entry[i];
}

const tensor_entry *tensors_find(const tensors *t, const char *name) {
    int lo = 0, hi = t->count;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2, order = strcmp(t->by_name[mid]->name, name);
        if (order == 0) return t->by_name[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bool tensors_used(const tensors *t, int i) {
    return t->used[i];
}

static void shape_text(char *text, size_t size, const int64_t *shape, int dims) {
    size_t n = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < dims && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    if (n < size) snprintf(text + n, size - n, "]");
}

static cadre_err wrong_shape(const tensor_entry *e, const int64_t *shape, int dims, cadre_fail *why) {
    char found[180], wanted[64];
    shape_text(found, sizeof found, e->shape, e->dims);
    shape_text(wanted, sizeof wanted, shape, dims);
    bool turned = dims == 2 && e->dims == 2 && e->shape[0] == shape[1] && e->shape[1] == shape[0];
    return cadre_fail_set(why, CADRE_FORMAT, "%.150s: tensor '%.100s' has shape %s, expected %s%s", e->file, e->name,
                          found, wanted, turned ? " (transposed?)" : "");
}

cadre_err tensors_need_shape(const tensors *t, const char *name, const int64_t *shape, int dims, cadre_tensor *out,
                             cadre_fail *why) {
    const tensor_entry *e = tensors_find(t, name);
    if (!e)
        return cadre_fail_set(why, CADRE_FORMAT, "%.250s: no tensor '%.150s' among its %d", t->source, name, t->count);
    if (e->dims != dims || (dims && memcmp(e->shape, shape, (size_t)dims * sizeof *shape)))
        return wrong_shape(e, shape, dims, why);
    if (!e->known)
        return cadre_fail_set(why, CADRE_UNSUPPORTED, "%.250s: tensor '%.150s' is %s, expected F32, BF16 or F16",
                              e->file, e->name, e->dtype_text);
    t->used[e - t->entry] = true;
    *out = (cadre_tensor){e->data, e->dtype};
    return CADRE_OK;
}

cadre_err tensors_need(const tensors *t, const char *name, int64_t rows, int64_t cols, cadre_tensor *out,
                       cadre_fail *why) {
    const int64_t shape[2] = {rows ? rows : cols, cols};
    return tensors_need_shape(t, name, shape, rows ? 2 : 1, out, why);
}

/* The shard whose mapping holds this address. */
static const shard *shard_of(const tensors *t, const unsigned char *p) {
    for (int i = 0; p && i < t->shards; i++) {
        const file_map *m = &t->shard[i].map;
        if (p >= m->data && p < m->data + m->size) return &t->shard[i];
    }
    return NULL;
}

void tensors_soon(const tensors *t, const cadre_tensor *tensor, int64_t rows, int64_t cols) {
    size_t bytes = (size_t)(rows ? rows : 1) * (size_t)cols * op_dtype_size(tensor->dtype);
    const shard *s = shard_of(t, tensor->data);
    if (s) file_map_soon(&s->map, (size_t)((const unsigned char *)tensor->data - s->map.data), bytes);
}

cadre_err tensors_read(const tensors *t, const void *from, size_t n, void *dst, cadre_fail *why) {
    const unsigned char *p = from;
    if (!n) return CADRE_OK;
    const shard *s = shard_of(t, p);
    return file_map_read(&s->map, s->path, (size_t)(p - s->map.data), dst, n, why);
}

const char *tensors_metadata(const tensors *t, const char *key) {
    const shard *s = t->shard;
    for (int i = 0; i < s->meta_count; i++)
        if (!strcmp(s->meta[i].key, key)) return s->meta[i].value;
    return NULL;
}
