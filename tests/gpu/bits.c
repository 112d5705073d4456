/* bits: mma.sync and wgmma on the GPU at hand: bit for bit the same chain over steps of 16, which is what lets one
 * numerics id span decoding and prefill (docs/numerics.md, sm90-bf16-k16). */
#include "moe/bits.h"
#include "tap.h"

int main(int argc, char **argv) {
    dev_cuda *gpu;
    cadre_fail why;
    moe_bits b = {0};
    tap_start(argc, argv);
    if (!tap_call(dev_cuda_open(0, &gpu, &why), &why, "a GPU")) return tap_end();
    printf("# %s\n", dev_cuda_about(gpu)->name);
    for (uint64_t seed = 1; seed <= (tap_few ? 1 : 3); seed++) {
        cadre_err err = moe_bits_compare(gpu, seed, &b, &why);
        if (err == CADRE_UNSUPPORTED) {
            tap_skip("mma.sync and wgmma", why.text);
            break;
        }
        if (!tap_call(err, &why, "products by all instructions")) break;
        long long all = (long long)b.outputs;
        tap(!b.swapped, "mma.sync with the tokens first: %lld of %lld differ", (long long)b.swapped, all);
        tap(!b.wgmma_8, "wgmma, 8 tokens, weights in registers: %lld of %lld differ", (long long)b.wgmma_8, all);
        tap(!b.wgmma_32, "wgmma, 32 tokens, weights in registers: %lld of %lld differ", (long long)b.wgmma_32, all);
        tap(!b.shared, "wgmma, both in shared memory: %lld of %lld differ", (long long)b.shared, all);
        tap(b.error <= b.most, "against the meaning: relative error %.1e, at most %.1e", b.error, b.most);
        tap(b.backward > b.could / 4, "steps backward: %lld of %lld differ", (long long)b.backward, (long long)b.could);
        tap(b.fma > b.could / 4, "an fma for each input: %lld of %lld differ", (long long)b.fma, (long long)b.could);
        tap(moe_bits_ok(&b), "one id spans them");
    }
    dev_cuda_close(gpu);
    return tap_end();
}
