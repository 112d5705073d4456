/* Fuzz target: a safetensors file; or, if it begins with '{', an index over two good shards "one" and "two". What is
 * accepted must keep its promises. */
#include "folder.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char one[] =
    "\x39\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}   01234567";
static const char two[] =
    "\x39\0\0\0\0\0\0\0{\"b\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}   01234567";

static size_t check_entry(const tensors *t, const tensor_entry *e) {
    cadre_tensor out;
    cadre_err err = tensors_need_shape(t, e->name, e->shape, e->dims, &out, NULL);
    MUST(tensors_find(t, e->name) == e);
    MUST(e->dims >= 0 && e->dims <= 8);
    MUST((e->bytes == 0) == (e->data == NULL));
    MUST(err == (e->known ? CADRE_OK : CADRE_UNSUPPORTED));
    if (!err) {
        size_t bytes = op_dtype_size(out.dtype);
        for (int i = 0; i < e->dims; i++) bytes *= (size_t)e->shape[i];
        MUST(bytes == e->bytes);
    }
    volatile unsigned char touched = 0;
    if (e->bytes) touched = (unsigned char)(e->data[0] + e->data[e->bytes - 1]);
    (void)touched;
    return e->bytes;
}

static size_t check_all(tensors *t) {
    size_t bytes = 0;
    for (int i = 0; i < tensors_count(t); i++) bytes += check_entry(t, tensors_at(t, i));
    tensors_metadata(t, "format");
    tensors_close(t);
    return bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tensors *t = NULL;
    cadre_fail why = {0};
    char path[300];
    bool index = size && data[0] == '{';
    folder_make();
    if (index) {
        folder_write("one", one, sizeof one - 1);
        folder_write("two", two, sizeof two - 1);
    }
    folder_write(index ? "model.safetensors.index.json" : "file", data, size);
    snprintf(path, sizeof path, "%s/file", folder);
    cadre_err err = index ? tensors_open(folder, &t, &why) : tensors_open_file(path, &t, &why);
    if (err) {
        MUST(!t && why.code == err && *why.text && !strchr(why.text, '\n'));
        return 0;
    }
    size_t bytes = check_all(t), header = size >= 8 ? data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 : 0;
    MUST(index ? bytes == 8 || bytes == 16 : bytes + 8 + header == size); /* shards not named are not opened */
    return 0;
}

#include "replay.h"
