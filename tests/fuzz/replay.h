/* replay.h: a main for fuzz targets built without a fuzzer (-DFUZZ_REPLAY): runs each file it is given, so that the
 * corpus is a test. Include it last. The input lies in a block of its exact size: a sanitizer sees the first byte too
 * far. */
#ifdef FUZZ_REPLAY
#    include <stdint.h>
#    include <stdio.h>
#    include <stdlib.h>

static int replay(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) {
        fprintf(stderr, "%s: cannot read\n", path);
        if (f) fclose(f);
        return 1;
    }
    long size = ftell(f);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    rewind(f);
    int bad = !data || size < 0 || fread(data, 1, (size_t)size, f) != (size_t)size;
    fclose(f);
    if (!bad) LLVMFuzzerTestOneInput(data, (size_t)size);
    if (bad) fprintf(stderr, "%s: cannot read\n", path);
    free(data);
    return bad;
}

int main(int argc, char **argv) {
    int bad = 0;
    for (int i = 1; i < argc; i++) bad += replay(argv[i]);
    printf("%d inputs replayed, %d could not be read\n", argc - 1, bad);
    return bad != 0;
}
#endif
