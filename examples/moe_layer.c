/* moe_layer.c: one MoE layer from a program of your own: plan once, run many.
 *
 *   cc -Iinclude examples/moe_layer.c build/libcadre.a -lpcre2-8 -lutf8proc -lm -ldl -pthread -o moe_layer
 *   ./moe_layer
 */
#include <cadre.h>
#include <stdio.h>
#include <stdlib.h>

enum { D = 256, F = 128, E = 16, K = 4, N = 8 };

static float *noise(size_t n) {
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; v && i < n; i++) v[i] = (float)rand() / (float)RAND_MAX * 0.2f - 0.1f;
    return v;
}

static int die(const cadre_fail *why) {
    fprintf(stderr, "%s\n", why->text);
    return 1;
}

int main(void) {
    cadre_fail why;
    cadre_device *device;
    if (cadre_device_open(NULL, &device, &why)) return die(&why);

    /* Weights as a checkpoint holds them, row-major [out][in]; packed by cadre_moe_new, so they can be freed after it.
     */
    cadre_tensor gate[E], up[E], down[E], router = {noise(E * D), CADRE_F32};
    for (int i = 0; i < E; i++) {
        gate[i] = (cadre_tensor){noise(F * D), CADRE_F32};
        up[i] = (cadre_tensor){noise(F * D), CADRE_F32};
        down[i] = (cadre_tensor){noise(D * F), CADRE_F32};
    }
    cadre_moe_weights weights = {.router = router, .gate = gate, .up = up, .down = down};
    cadre_moe_desc desc = {.d = D, .f = F, .e = E, .k = K, .max_tokens = N, .dtype = CADRE_BF16, .renormalize = true};

    cadre_moe *moe;
    cadre_moe_workspace *workspace; /* one per thread that runs the layer */
    if (cadre_moe_new(device, &desc, &weights, &moe, &why)) return die(&why);
    if (cadre_moe_workspace_new(moe, &workspace, &why)) return die(&why);

    float *x = noise(N * D), out[N * D];
    if (cadre_moe_run(moe, workspace, N, x, out, &why)) return die(&why);
    printf("out[0] = %g %g %g ...\n", (double)out[0], (double)out[1], (double)out[2]);

    char text[1024];
    cadre_moe_explain(moe, N, text, sizeof text);
    printf("%s", text);

    cadre_moe_workspace_free(workspace);
    cadre_moe_free(moe);
    cadre_device_close(device);
    return 0;
}
