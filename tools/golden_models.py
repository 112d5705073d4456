#!/usr/bin/env python3
"""Makes the golden vectors of whole models and of single MoE layers.

    golden_models.py                 write tests/golden/models and tests/golden/moe
    golden_models.py --check         compute again and compare with what is there (exit 1 if it differs)
    golden_models.py --only NAME ..  only the cases whose name contains one of these
    golden_models.py --demo DIR      write tests/golden/demo.safetensors from the demo model

The models are tiny and random, saved by transformers and loaded again from the folder before anything is computed.
tests/golden/README.md tells what every case and every tensor is. The MoE layers do not use transformers: golden_moe.py
computes them from the formulas alone.
"""
import argparse
import contextlib
import filecmp
import hashlib
import json
import os
import shutil
import sys
import tempfile
import types

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file

import golden_moe
from golden_file import write_tensors

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(os.path.dirname(HERE), "tests", "golden")
STEPS = 8

# --------------------------------------------------------------------------------------------------- the cases
COMMON = dict(vocab_size=96, num_hidden_layers=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=1,
              eos_token_id=2)
# nh*d = 64 is not H, f = 20 fills no tile, k = 3 makes the order of the sum visible.
BASE = dict(COMMON, hidden_size=48, num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=56,
            moe_intermediate_size=20, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True)
SMALL = dict(COMMON, hidden_size=40, num_attention_heads=4, num_key_value_heads=2, head_dim=12, intermediate_size=44,
             moe_intermediate_size=18, num_experts=7, num_experts_per_tok=3, norm_topk_prob=True)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)


def case(arch, cfg, seed, **more):
    return dict(dict(arch=arch, cfg=cfg, seed=seed, dtype="float32", tokens=24, shard=None, stacked=False,
                     ties=False), **more)


CASES = {
    "qwen3_moe_base": case("qwen3_moe", BASE, 802),
    "qwen3_moe_bf16": case("qwen3_moe", BASE, 802, dtype="bfloat16"),
    "qwen3_moe_f16": case("qwen3_moe", BASE, 802, dtype="float16"),
    "qwen3_moe_stacked": case("qwen3_moe", BASE, 802, stacked=True),
    "qwen3_moe_sharded": case("qwen3_moe", BASE, 802, shard="110KB"),
    # head_dim is left out here: H / nh
    "qwen3_moe_norm_false": case("qwen3_moe", {k: v for k, v in dict(
        SMALL, norm_topk_prob=False, num_experts_per_tok=4, num_attention_heads=5, num_key_value_heads=1).items()
        if k != "head_dim"}, 117),
    "qwen3_moe_dense_bias": case("qwen3_moe", dict(SMALL, mlp_only_layers=[0], attention_bias=True), 149),
    "qwen3_moe_sparse2_tied": case("qwen3_moe", dict(SMALL, decoder_sparse_step=2, tie_word_embeddings=True,
                                                     num_hidden_layers=3), 156),
    # 72 tokens: past original_max_position_embeddings
    "qwen3_moe_yarn": case("qwen3_moe", dict(SMALL, rope_parameters=YARN), 391, tokens=72),
    "qwen3_moe_ties": case("qwen3_moe", SMALL, 107, ties=True),
    "qwen2_moe_base": case("qwen2_moe", {k: v for k, v in dict(
        SMALL, shared_expert_intermediate_size=28, norm_topk_prob=False).items() if k != "head_dim"}, 126),
}
ARCHS = {
    "qwen3_moe": (transformers.Qwen3MoeConfig, transformers.Qwen3MoeForCausalLM),
    "qwen2_moe": (transformers.Qwen2MoeConfig, transformers.Qwen2MoeForCausalLM),
}
TIED_EXPERTS = (2, 5)  # their router rows are one and the same


# ------------------------------------------------------------------------------------------------- the weights
def bell(seed, name, shape):
    """Bell-shaped numbers of variance 1, the same bits everywhere: four uniforms added, no libm."""
    key = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:8], "little")
    draw = np.random.Generator(np.random.PCG64(key))
    total = np.zeros(shape)
    for _ in range(4):
        total = total + (draw.random(shape) - 0.5)
    return torch.from_numpy((total * np.sqrt(3.0)).astype(np.float32))


def spread(name, p):
    """Scales that keep routing far from uniform and logits a few units wide."""
    if name.endswith("norm.weight"):
        return 1.0, 0.2
    if name.endswith(".bias"):
        return 0.0, 0.3
    if name == "model.embed_tokens.weight":
        return 0.0, 0.5
    gain = 2.5 if name.endswith("mlp.gate.weight") or name == "lm_head.weight" else 1.3
    return 0.0, gain / p.shape[-1] ** 0.5


def build(c):
    config_class, model_class = ARCHS[c["arch"]]
    model = model_class(config_class(**c["cfg"])).eval().float()
    with torch.no_grad():
        for name, p in model.named_parameters():
            mean, std = spread(name, p)
            p.copy_(mean + std * bell(c["seed"], name, tuple(p.shape)))
        if c["ties"]:
            low, high = TIED_EXPERTS
            for layer in model.model.layers:
                layer.mlp.gate.weight[high] = layer.mlp.gate.weight[low]
    return model.to(getattr(torch, c["dtype"]))


def to_v4(config):
    """The same config as transformers 4 spelled it."""
    old = {k: v for k, v in config.items() if k not in ("rope_parameters", "dtype", "num_local_experts", "layer_types")}
    rope = dict(config["rope_parameters"])
    old["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    old["rope_scaling"] = None if kind == "default" else dict(rope, type=kind)
    old["torch_dtype"] = config["dtype"]
    old["num_experts"] = config.get("num_local_experts", config.get("num_experts"))
    old["transformers_version"] = "4.51.0"
    return old


def stack_experts(path):
    """Rewrites the per-expert tensors in the stacked spelling: gate rows first, then up rows; no `.weight`."""
    tensors = load_file(path)
    count = 1 + max(int(n.split(".experts.")[1].split(".")[0]) for n in tensors if ".experts." in n)
    out = {n: t for n, t in tensors.items() if ".experts." not in n}
    for prefix in sorted({n.split(".experts.")[0] for n in tensors if ".experts." in n}):
        part = lambda e, what: tensors[f"{prefix}.experts.{e}.{what}_proj.weight"]
        out[f"{prefix}.experts.gate_up_proj"] = np.stack(
            [np.concatenate([part(e, "gate"), part(e, "up")]) for e in range(count)])
        out[f"{prefix}.experts.down_proj"] = np.stack([part(e, "down") for e in range(count)])
    write_tensors(path, out, {"format": "pt"})


def save(folder, c):
    model = build(c)
    model.save_pretrained(folder, **({"max_shard_size": c["shard"]} if c["shard"] else {}))
    if c["stacked"]:
        stack_experts(os.path.join(folder, "model.safetensors"))
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    with open(os.path.join(folder, "config.v4.json"), "w", encoding="utf-8") as f:
        f.write(json.dumps(to_v4(config), indent=2, sort_keys=True) + "\n")


# ------------------------------------------------------------------------------------------- what is computed
def load(folder, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, attn_implementation="eager", experts_implementation="eager", dtype=getattr(torch, dtype))
    assert model.config._attn_implementation == "eager" and model.config._experts_implementation == "eager"
    return model.eval()


@contextlib.contextmanager
def exact_ties(model):
    """A GEMM may add up two equal rows in two orders; the tie case needs logits equal to the bit."""
    low, high = TIED_EXPERTS

    def linear(x, weight):
        logits = torch.nn.functional.linear(x, weight)
        logits[:, high] = logits[:, low]
        return logits

    code = sys.modules[type(model).__module__]  # its F is used by the router alone
    kept, code.F = code.F, types.SimpleNamespace(linear=linear)
    try:
        yield
    finally:
        code.F = kept


def lower_id_topk(x, k, dim=-1):
    """torch.topk leaves the order of equal values open; here equal values go to the lower index first."""
    values, index = torch.sort(x, dim=dim, descending=True, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), index.narrow(dim, 0, k)))


class Router:
    """Notes what each router chose and how far the k-th probability was above the next."""

    def __init__(self, model):
        self.seen, self.hooks = {}, []
        for i, layer in enumerate(model.model.layers):
            if hasattr(layer.mlp, "gate"):
                self.hooks.append(layer.mlp.gate.register_forward_hook(self.note(i)))

    def note(self, i):
        def hook(_module, _inputs, output):
            self.seen[i] = tuple(t.detach().clone() for t in output)  # logits, weights, ids
        return hook

    def done(self):
        for h in self.hooks:
            h.remove()

    def margin(self, ties):
        least = float("inf")
        for logits, _, ids in self.seen.values():
            p = torch.sort(torch.softmax(logits.float(), -1), descending=True).values
            gap = p[:, ids.shape[1] - 1] - p[:, ids.shape[1]]
            least = min(least, float(gap[gap > 0].min() if ties else gap.min()))
        return least


def f32(t):
    return t.detach().float().numpy()


def i64(t):
    return t.detach().to(torch.int64).numpy()


@torch.no_grad()
def greedy(model, ids, steps):
    """The id of the largest logit each time, never stopped by an end token."""
    chosen, rows, out = [], [], model(ids, use_cache=True)
    for step in range(steps):
        row = out.logits[0, -1]
        rows.append(row)
        chosen.append(int(row.float().argmax()))
        if step + 1 < steps:
            out = model(torch.tensor([[chosen[-1]]]), cache=out.cache, use_cache=True)
    return np.array(chosen, dtype=np.int64), f32(torch.stack(rows))


@torch.no_grad()
def forward(model, ids, tail, ties=False):
    """All tensors of one model at one dtype; tail ("" or "_fp32") marks the names."""
    out, router = {}, Router(model)
    result = model(ids, output_hidden_states=True, use_cache=False)
    router.done()
    for i, h in enumerate(result.hidden_states):
        out[f"hidden{tail}.{i}"] = f32(h[0])
    out[f"logits{tail}"] = f32(result.logits[0])
    for i, (_, weights, chosen) in router.seen.items():
        out[f"router{tail}.{i}.ids"] = i64(chosen)
        out[f"router{tail}.{i}.weights"] = f32(weights)
    out[f"greedy_ids{tail}"], out[f"greedy_logits{tail}"] = greedy(model, ids, STEPS)
    out[f"one.logits{tail}"] = f32(model(ids[:, :1], use_cache=False).logits[0])
    top = np.sort(out[f"greedy_logits{tail}"], axis=1)
    weight_dtype = {str(w.dtype).removeprefix("torch.") for _, w, _ in router.seen.values()}
    facts = {f"router_margin{tail}": f"{router.margin(ties):.3g}",
             f"greedy_margin{tail}": f"{float((top[:, -1] - top[:, -2]).min()):.3g}",
             f"router_weight_dtype{tail}": ",".join(sorted(weight_dtype))}
    if ties:
        facts["tied_experts"] = ",".join(map(str, TIED_EXPERTS))
        facts["tie_decides_tokens"] = str(check_ties(router))
    return out, facts


def check_ties(router):
    """Both logits must be equal to the bit, and the tie must sit on the border of the choice for some tokens."""
    low, high = TIED_EXPERTS
    border = 0
    for logits, _, ids in router.seen.values():
        assert torch.equal(logits[:, low], logits[:, high])
        has_low, has_high = (ids == low).any(1), (ids == high).any(1)
        assert not (has_high & ~has_low).any()
        border += int((has_low & ~has_high).sum())
    assert border >= 4
    return border


def same_logits(folder, config_name, ids, dtype, want):
    """Loads the folder with another config file and asserts the same logits."""
    with tempfile.TemporaryDirectory() as other:
        for name in os.listdir(folder):
            if name.endswith((".safetensors", ".index.json")):
                shutil.copy(os.path.join(folder, name), other)
        shutil.copy(os.path.join(folder, config_name), os.path.join(other, "config.json"))
        with torch.no_grad():
            got = f32(load(other, dtype)(ids, use_cache=False).logits[0])
    assert np.array_equal(got, want), f"{folder}: {config_name} gives other logits"


def make_model(folder, name):
    c = CASES[name]
    os.makedirs(folder)
    save(folder, c)
    draw = np.random.Generator(np.random.PCG64(c["seed"]))
    ids = torch.from_numpy(draw.integers(0, c["cfg"]["vocab_size"], (1, c["tokens"]), dtype=np.int64))
    model = load(folder, c["dtype"])
    with exact_ties(model) if c["ties"] else contextlib.nullcontext():
        out, facts = forward(model, ids, "", c["ties"])
        same_logits(folder, "config.v4.json", ids, c["dtype"], out["logits"])
    if c["dtype"] != "float32":
        more, more_facts = forward(load(folder, "float32"), ids, "_fp32")
        same = all(np.array_equal(np.sort(out[n], 1), np.sort(more[n.replace("router.", "router_fp32.")], 1))
                   for n in out if n.startswith("router.") and n.endswith("ids"))
        facts.update(more_facts, router_choice_as_fp32=str(same).lower())
        out.update(more)
    out["input_ids"] = ids[0].numpy()
    out["one.input_ids"] = ids[0, :1].numpy()
    facts.update(case=name, seed=str(c["seed"]), dtype=c["dtype"], transformers=transformers.__version__,
                 torch=torch.__version__)
    write_tensors(os.path.join(folder, "expect.safetensors"), out, facts)
    size = sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))
    print(f"{name}: {size // 1024} KB", *(f"{k}={v}" for k, v in sorted(facts.items()) if "margin" in k or "_" in k))


# ----------------------------------------------------------------------------------------------- write and check
def make_all(root, only):
    wanted = lambda name: not only or any(o in name for o in only)
    for name in CASES:
        if wanted(name):
            folder = os.path.join(root, "models", name)
            shutil.rmtree(folder, ignore_errors=True)
            make_model(folder, name)
    for name in golden_moe.CASES:
        if wanted(name):
            os.makedirs(os.path.join(root, "moe"), exist_ok=True)
            golden_moe.make(os.path.join(root, "moe", name + ".safetensors"), name)


def differ(mine, theirs):
    """None if equal; else one line. Expectations may differ by rounding: another CPU adds in another order."""
    if filecmp.cmp(mine, theirs, shallow=False):
        return None
    if not mine.endswith(".safetensors") or os.path.basename(mine).startswith("model"):
        return "bytes differ"
    a, b = load_file(mine), load_file(theirs)
    if a.keys() != b.keys():
        return "other tensor names"
    worst = 0.0
    for n in a:
        if a[n].shape != b[n].shape or (a[n].dtype == np.int64 and not np.array_equal(a[n], b[n])):
            return f"{n} differs"
        worst = max(worst, float(np.abs(a[n].astype(np.float64) - b[n]).max() / max(1.0, np.abs(b[n]).max())))
    bar = 2e-2 if any("_fp32" in n for n in a) else 1e-5
    print(f"  {mine}: not the same bytes, worst relative difference {worst:.2g} (bar {bar:g})", file=sys.stderr)
    return None if worst <= bar else f"worst relative difference {worst:.2g}"


def check(only):
    bad = 0
    with tempfile.TemporaryDirectory() as root:
        make_all(root, only)
        for folder, _, names in sorted(os.walk(root)):
            for name in sorted(names):
                mine = os.path.join(folder, name)
                theirs = os.path.join(GOLDEN, os.path.relpath(mine, root))
                why = differ(mine, theirs) if os.path.exists(theirs) else "missing"
                if why:
                    bad += 1
                    print(f"{os.path.relpath(theirs, GOLDEN)}: {why}", file=sys.stderr)
    print("check: " + (f"{bad} files differ" if bad else "all equal"))
    return 1 if bad else 0


# --------------------------------------------------------------------------------------------------- the demo
DEMO_STEPS = 32
DEMO_PROMPTS = {
    "once": "Once upon a time",
    "long": "There was once a miller who had three sons, and when he grew old he called them to his bedside and said: "
            "\"My dear children, I have nothing to leave you but the mill, the ass and the cat.\" The eldest took the "
            "mill, the second took the ass, and the youngest",
    "word": "Wolf",
    "end_first": "<|endoftext|>The king",
}


def make_demo(folder):
    import tokenizers
    tok = tokenizers.Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    out, facts = {}, dict(transformers=transformers.__version__, torch=torch.__version__,
                          tokenizers=tokenizers.__version__)
    models = {"_fp32": load(folder, "float32"), "_bf16": load(folder, "bfloat16")}
    for name, text in DEMO_PROMPTS.items():
        ids = tok.encode(text).ids
        out[f"{name}.input_ids"] = np.array(ids, dtype=np.int64)
        facts[f"{name}.text"] = text
        for tail, model in models.items():
            with torch.no_grad():
                out[f"{name}.logits{tail}"] = f32(model(torch.tensor([ids]), use_cache=False).logits[0, -1])
        out[f"{name}.greedy_ids_fp32"], rows = greedy(models["_fp32"], torch.tensor([ids]), DEMO_STEPS)
        top = np.sort(rows, axis=1)
        out[f"{name}.greedy_gap_fp32"] = np.ascontiguousarray(top[:, -1] - top[:, -2])
        print(f"{name}: {len(ids)} tokens, smallest gap {out[f'{name}.greedy_gap_fp32'].min():.3g}:",
              repr(tok.decode(list(out[f"{name}.greedy_ids_fp32"]), skip_special_tokens=False)))
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with open(path, "rb") as f:
                facts[f"sha256.{name}"] = hashlib.sha256(f.read()).hexdigest()
    write_tensors(os.path.join(GOLDEN, "demo.safetensors"), out, facts)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--check", action="store_true")
    p.add_argument("--only", nargs="+", default=[])
    p.add_argument("--demo", metavar="DIR")
    a = p.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(1)
    torch.topk = lower_id_topk
    if a.demo:
        return make_demo(a.demo)
    if a.check:
        return check(a.only)
    return make_all(GOLDEN, a.only)


if __name__ == "__main__":
    sys.exit(main())
