#!/usr/bin/env python3
# The library first: cc -shared -o libcadre.so -Wl,--whole-archive build/libcadre.a -Wl,--no-whole-archive -lpcre2-8 -lutf8proc -lm -ldl -pthread
"""torch_experts: cadre's MoE layer beside PyTorch on one GPU, through ctypes alone.

    python3 examples/torch_experts.py ./libcadre.so [libnvrtc.so.13 [folder to keep kernels in]]

The layer runs in PyTorch's context, on PyTorch's current stream, on PyTorch's tensors; eagerly and inside torch.cuda.graph.
It is compared with the same layer in PyTorch. Exit status 1: something differs; 2: it could not run.
"""
import ctypes as c
import glob
import os
import sys

F32, BF16 = 0, 1  # cadre_dtype
D, F, E, K, MOST = 2048, 768, 32, 8, 256


# ---- the parts of include/cadre.h that are needed ----
class Fail(c.Structure):
    _fields_ = [("code", c.c_int), ("text", c.c_char * 508)]


class DeviceOptions(c.Structure):
    _fields_ = [("name", c.c_char_p), ("threads", c.c_int), ("pin", c.c_bool)]


class Desc(c.Structure):
    _fields_ = [("d", c.c_int), ("f", c.c_int), ("e", c.c_int), ("k", c.c_int), ("max_tokens", c.c_int),
                ("dtype", c.c_int), ("act", c.c_int), ("limit", c.c_float), ("gate", c.c_int), ("renormalize", c.c_bool),
                ("scale", c.c_float), ("groups", c.c_int), ("topk_groups", c.c_int), ("shared_f", c.c_int)]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("dtype", c.c_int)]


class Weights(c.Structure):
    _fields_ = [("router", Tensor), ("bias", Tensor), ("gate", c.POINTER(Tensor)), ("up", c.POINTER(Tensor)),
                ("down", c.POINTER(Tensor)), ("shared_gate", Tensor), ("shared_up", Tensor), ("shared_down", Tensor),
                ("shared_expert_gate", Tensor)]


class Cadre:
    """The library; a failure becomes an exception with cadre's own line."""

    def __init__(self, path):
        self.lib = c.CDLL(os.path.abspath(path))
        for name in "cadre_moe_free", "cadre_moe_workspace_free", "cadre_device_close":
            getattr(self.lib, name).argtypes = [c.c_void_p]
            getattr(self.lib, name).restype = None
        self.lib.cadre_moe_explain.argtypes = [c.c_void_p, c.c_int, c.c_char_p, c.c_size_t]
        self.lib.cadre_moe_explain.restype = None
        p, i = c.c_void_p, c.c_int
        self.lib.cadre_moe_enqueue.argtypes = [p, p, p, i, p, i, p, p, p, i, p]

    def call(self, name, *args):
        why = Fail()
        if getattr(self.lib, name)(*args, c.byref(why)):
            raise RuntimeError(f"{name}: {why.text.decode()}")


class Experts:
    """One layer: weights are host tensors in bf16, router [E][D], gate and up [E][F][D], down [E][D][F]."""

    def __init__(self, cadre, router, gate, up, down, k, most):
        self.cadre = cadre
        e, f, d = gate.shape
        self.device, self.moe, self.space = c.c_void_p(), c.c_void_p(), c.c_void_p()
        cadre.call("cadre_device_open", c.byref(DeviceOptions(b"cuda:current", 0, False)), c.byref(self.device))
        lists = [(Tensor * e)(*[Tensor(w[i].data_ptr(), BF16) for i in range(e)]) for w in (gate, up, down)]
        weights = Weights(router=Tensor(router.data_ptr(), BF16), gate=lists[0], up=lists[1], down=lists[2])
        desc = Desc(d=d, f=f, e=e, k=k, max_tokens=most, dtype=BF16, renormalize=True)
        cadre.call("cadre_moe_new", self.device, c.byref(desc), c.byref(weights), c.byref(self.moe))
        cadre.call("cadre_moe_workspace_new", self.moe, c.byref(self.space))

    def run(self, stream, x, out):
        """Queued on the stream; x and out: contiguous bf16 [n][d] on the GPU."""
        self.cadre.call("cadre_moe_enqueue", self.moe, self.space, stream, x.shape[0], x.data_ptr(), BF16, None, None,
                        out.data_ptr(), BF16)

    def explain(self, n):
        text = c.create_string_buffer(4096)
        self.cadre.lib.cadre_moe_explain(self.moe, n, text, len(text))
        return text.value.decode().rstrip()

    def close(self):
        self.cadre.lib.cadre_moe_workspace_free(self.space)
        self.cadre.lib.cadre_moe_free(self.moe)
        self.cadre.lib.cadre_device_close(self.device)


# ---- the same in PyTorch ----
def reference(torch, x, router, gate, up, down, k):
    """The layer's meaning, and which tokens' choice of experts is no near tie."""
    score = torch.softmax(x.float() @ router.float().T, dim=-1)
    best, ids = score.topk(k + 1, dim=-1)
    clear = best[:, k - 1] > best[:, k] * 1.001
    best, ids = best[:, :k] / best[:, :k].sum(-1, keepdim=True), ids[:, :k]
    out = torch.zeros(x.shape, dtype=torch.float32, device=x.device)
    for e in ids.unique().tolist():
        token, slot = (ids == e).nonzero(as_tuple=True)
        rows = x[token].float()
        h = torch.nn.functional.silu(rows @ gate[e].float().T) * (rows @ up[e].float().T)
        y = (h.bfloat16().float() @ down[e].float().T).bfloat16().float()
        out.index_add_(0, token, y * best[token, slot, None])
    return out, clear


def find_nvrtc(torch):
    """PyTorch's wheels bring it beside torch, outside the loader's path."""
    site = os.path.dirname(os.path.dirname(torch.__file__))
    found = glob.glob(os.path.join(site, "nvidia", "*", "lib", "libnvrtc.so.1[0-9]"))
    return found[0] if found else None


def compare(torch, layer, weights, n):
    x = torch.randn(n, D, device="cuda").bfloat16()
    out = torch.full_like(x, float("nan"))
    layer.run(torch.cuda.current_stream().cuda_stream, x, out)
    want, clear = reference(torch, x, *weights, K)
    error = (((out.float() - want) * clear[:, None]).abs().max() / want.abs().max()).item()

    other = torch.randn(n, D, device="cuda").bfloat16()  # the graph is captured on these, and replayed on x
    rows, to, graph = other.clone(), torch.full_like(x, float("nan")), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        layer.run(torch.cuda.current_stream().cuda_stream, rows, to)
    rows.copy_(x)
    graph.replay()
    torch.cuda.synchronize()
    same = torch.equal(out, to)
    alone = torch.full_like(x[:1], float("nan"))
    layer.run(torch.cuda.current_stream().cuda_stream, x[n - 1:].contiguous(), alone)
    torch.cuda.synchronize()
    single = torch.equal(alone[0], out[n - 1])
    fine = error < 0.02 and same and single
    print(f"n={n}: largest error {error:.5f} of the largest value ({int(clear.sum())} of {n} tokens without a near tie), "
          f"graph {'equal' if same else 'DIFFERS'}, last token alone {'equal' if single else 'DIFFERS'}")
    return fine


def stop(line):
    print(f"torch_experts: {line}", file=sys.stderr)
    sys.exit(2)


def open_torch():
    try:
        import torch
    except ImportError as error:
        stop(f"PyTorch is needed: {error}")
    if not torch.cuda.is_available():
        stop("PyTorch sees no GPU, one of compute capability 9.0 or 8.0 is needed")
    return torch


def open_cadre(path):
    try:
        return Cadre(path)
    except (OSError, AttributeError) as error:
        stop(f"cadre as a shared library is needed (the head of this file says how to make it): {error}")


def main():
    if len(sys.argv) < 2:
        stop("expected ./libcadre.so (the head of this file says how to make it) [libnvrtc.so.13 [folder to keep kernels in]]")
    torch = open_torch()
    cadre = open_cadre(sys.argv[1])
    torch.manual_seed(1)
    torch.cuda.init()
    torch.zeros(1, device="cuda")  # now its context is current
    nvrtc = sys.argv[2] if len(sys.argv) > 2 else find_nvrtc(torch)
    if nvrtc:
        cadre.call("cadre_set", f"nvrtc={nvrtc}".encode())
    if len(sys.argv) > 3:
        cadre.call("cadre_set", f"cache={sys.argv[3]}".encode())
    weights = [(torch.randn(shape, device="cuda") * scale).bfloat16() for shape, scale in
               (((E, D), D**-0.5), ((E, F, D), D**-0.5), ((E, F, D), D**-0.5), ((E, D, F), F**-0.5))]
    host = [w.cpu() for w in weights]
    layer = Experts(cadre, *host, K, MOST)
    print(layer.explain(1))
    results = [compare(torch, layer, weights, n) for n in (1, 4, 33, MOST)]
    layer.close()
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        stop(error)
