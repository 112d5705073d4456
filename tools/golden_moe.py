"""Golden vectors of single MoE layers, from the formulas alone (NumPy, float64; no transformers, no torch).

A case is made of random numbers rounded to F32. Everything is computed in float64 and rounded to F32 at the end. The
choice of experts is made in float32 too and must agree, so that no case hangs on a rounding error.

    scores  = softmax(x Wr^T) | sigmoid(x Wr^T)                       [n][e]
    choice  = scores + bias; groups not kept: -inf                    ids = top-k of it, ties to the lower id
    weights = scores[ids] (without bias) [/ (sum + eps)] * scale      [n][k]
    output  = sum over slots of weights * expert(x) [+ shared(x)]     [n][d]
"""
import numpy as np

from golden_file import write_tensors

N = 9


def case(seed, **more):
    return dict(dict(seed=seed, gate="softmax", bias=False, bias_mean=0.0, groups=1, topk_group=1, group_score="none",
                     normalise=True, eps=0.0, scale=1.0, act="swiglu", limit=0.0, shared="none", fs=0, gain=1.3,
                     zero_row=False), **more)


CASES = {
    "softmax_norm": case(1, d=64, f=22, e=8, k=2, zero_row=True),
    "softmax_scale": case(1, d=50, f=20, e=11, k=4, normalise=False, scale=1.75, zero_row=True),
    # the DeepSeek-V3 rule; the bias is far below zero, so a mask of 0 instead of -inf would choose masked experts
    "sigmoid_groups": case(1, d=48, f=19, e=12, k=4, gate="sigmoid", bias=True, bias_mean=-0.8, groups=4, topk_group=2,
                           group_score="top2", eps=1e-20, scale=2.5),
    # the DeepSeek-V2 rule group_limited_greedy
    "softmax_groups": case(3, d=56, f=16, e=12, k=3, groups=4, topk_group=2, group_score="max", normalise=False,
                           scale=3.0),
    "swiglu_clamp": case(1, d=48, f=27, e=8, k=3, act="swiglu_clamp", limit=1.5, gain=2.0),
    # the Nemotron rule: no gate matrix
    "relu2": case(1, d=52, f=36, e=8, k=3, gate="sigmoid", bias=True, eps=1e-20, scale=2.5, act="relu2"),
    # one shared expert as it is (DeepSeek, Nemotron), and one times sigmoid(g.x) (Qwen2-MoE)
    "shared": case(1, d=48, f=18, e=10, k=3, gate="sigmoid", bias=True, eps=1e-20, scale=2.5, shared="plain", fs=36),
    "shared_relu2": case(1, d=48, f=24, e=8, k=2, gate="sigmoid", bias=True, eps=1e-20, scale=2.5, act="relu2",
                         shared="plain", fs=40),
    "shared_gated": case(1, d=50, f=20, e=9, k=3, normalise=False, shared="gated", fs=31),
}


def bell(draw, shape, std):
    total = np.zeros(shape)
    for _ in range(4):
        total = total + (draw.random(shape) - 0.5)
    return (total * (np.sqrt(3.0) * std)).astype(np.float32)


def inputs(c):
    draw = np.random.Generator(np.random.PCG64(c["seed"]))
    d, f, e, fs = c["d"], c["f"], c["e"], c["fs"]
    t = {"x": bell(draw, (N, d), 1.0), "router.weight": bell(draw, (e, d), 2.0 / d**0.5)}
    t["x"][1] *= np.float32(4)  # one loud row: softmax must subtract its maximum
    if c["zero_row"]:
        t["x"][N - 1] = 0       # all scores equal: ids 0..k-1
    if c["bias"]:
        t["router.bias"] = bell(draw, (e,), 0.3) + np.float32(c["bias_mean"])
    gated = c["act"] != "relu2"
    for prefix, lead, width in [("experts", (e,), f)] + ([("shared", (), fs)] if fs else []):
        if gated:
            t[f"{prefix}.gate"] = bell(draw, lead + (width, d), c["gain"] / d**0.5)
        t[f"{prefix}.up"] = bell(draw, lead + (width, d), c["gain"] / d**0.5)
        t[f"{prefix}.down"] = bell(draw, lead + (d, width), 1.3 / width**0.5)
    if c["shared"] == "gated":
        t["shared.token_gate"] = bell(draw, (1, d), 1.0 / d**0.5)
    return t


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def silu(v):
    return v * sigmoid(v)


def ffn(c, x, gate, up, down):
    """One expert on rows x [m][d]."""
    u = x @ up.T
    if c["act"] == "relu2":
        return np.maximum(u, 0) ** 2 @ down.T
    g = x @ gate.T
    if c["act"] == "swiglu_clamp":
        g = np.minimum(g, c["limit"])
        u = np.clip(u, -c["limit"], c["limit"])
    return (silu(g) * u) @ down.T


def scores(c, t, real):
    logits = t["x"].astype(real) @ t["router.weight"].astype(real).T
    if c["gate"] == "sigmoid":
        return sigmoid(logits)
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


def best(v, count):
    """Indices of the largest values of one row; equal values: the lower index first."""
    return np.argsort(-v, kind="stable")[:count]


def choose(c, t, real, masked=-np.inf, group_score=None):
    """ids [n][k], and the least distance between a chosen value and the next one down."""
    choice = scores(c, t, real) + (t["router.bias"].astype(real) if c["bias"] else 0)
    width, least, ids = c["e"] // c["groups"], np.inf, []
    for row in choice:
        if c["groups"] > 1:
            by_group = np.sort(row.reshape(c["groups"], width), axis=1)[:, ::-1]
            value = by_group[:, 0] if (group_score or c["group_score"]) == "max" else by_group[:, :2].sum(1)
            order = best(value, c["groups"])
            least = min(least, value[order[c["topk_group"] - 1]] - value[order[c["topk_group"]]])
            keep = np.zeros(c["groups"], bool)
            keep[order[:c["topk_group"]]] = True
            row = np.where(np.repeat(keep, width), row, masked)
        order = best(row, c["k"] + 1)
        ids.append(order[:c["k"]])
        if not (row == row[0]).all():
            a, b = row[order[:-1]], row[order[1:]]
            least = min(least, ((a - b) / (1 if c["bias"] else a)).min())
    return np.stack(ids), least


def weigh(c, t, ids):
    w = np.take_along_axis(scores(c, t, np.float64), ids, axis=1)
    if c["normalise"]:
        w = w / (w.sum(1, keepdims=True) + c["eps"])
    return w * c["scale"]


def run(c, t, ids, weights):
    """Unweighted expert outputs per slot [n][k][d], the routed sum and the shared part [n][d]."""
    x = t["x"].astype(np.float64)
    wide = {n: v.astype(np.float64) for n, v in t.items()}
    slots = np.zeros(ids.shape + (c["d"],))
    for i in range(N):
        for j, e in enumerate(ids[i]):
            gate = wide["experts.gate"][e] if "experts.gate" in t else None
            slots[i, j] = ffn(c, x[i:i + 1], gate, wide["experts.up"][e], wide["experts.down"][e])[0]
    shared = np.zeros((N, c["d"]))
    if c["fs"]:
        shared = ffn(c, x, wide.get("shared.gate"), wide["shared.up"], wide["shared.down"])
    if c["shared"] == "gated":
        shared = sigmoid(x @ wide["shared.token_gate"].T) * shared
    return slots, (weights[:, :, None] * slots).sum(1), shared


def tell_apart(name, c, t, ids):
    """The case must be able to catch the mistakes it is there for."""
    if c["groups"] > 1:
        other = "top2" if c["group_score"] == "max" else "max"
        assert (choose(c, t, np.float64, group_score=other)[0] != ids).any(1).sum() >= 2, f"{name}: group score"
        free = dict(c, groups=1)
        assert (choose(free, t, np.float64)[0] != ids).any(1).sum() >= 3, f"{name}: groups"
    if name == "sigmoid_groups":
        assert (choose(c, t, np.float64, masked=0.0)[0] != ids).any(1).sum() >= 3, f"{name}: mask"
    if c["bias"]:
        plain = choose(dict(c, bias=False), t, np.float64)[0]
        assert (np.sort(plain, 1) != np.sort(ids, 1)).any(1).sum() >= 3, f"{name}: bias"
    if c["act"] == "swiglu_clamp":
        g = np.einsum("nd,efd->nef", t["x"], t["experts.gate"])
        u = np.einsum("nd,efd->nef", t["x"], t["experts.up"])
        part = [(g > c["limit"]).mean(), (g < -c["limit"]).mean(), (u > c["limit"]).mean(), (u < -c["limit"]).mean()]
        assert min(part) > 0.1, f"{name}: {part}"


def make(path, name):
    c = CASES[name]
    t = inputs(c)
    ids, margin = choose(c, t, np.float64)
    assert np.array_equal(ids, choose(c, t, np.float32)[0]) and margin > 2e-3, f"{name}: margin {margin}"
    tell_apart(name, c, t, ids)
    weights = weigh(c, t, ids)
    slots, routed, shared = run(c, t, ids, weights)
    out = dict(t, ids=ids.astype(np.int64), weights=weights.astype(np.float32), slots=slots.astype(np.float32),
               output=(routed + shared).astype(np.float32))
    if c["fs"]:
        out["output_routed"] = routed.astype(np.float32)
    facts = {k: str(c[k]).lower() for k in ("gate", "groups", "topk_group", "group_score", "normalise", "eps", "scale",
                                            "act", "limit", "shared", "d", "f", "e", "k", "fs", "seed")}
    write_tensors(path, out, dict(facts, n=str(N), case=name))
    print(f"moe/{name}: margin {margin:.3g}, |output| <= {np.abs(out['output']).max():.3g}")
