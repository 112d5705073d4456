"""What is measured on the finished demo model, and the folder with its card. Used by train_demo.py."""

import hashlib
import json
import math
import os
import platform
from dataclasses import asdict

import numpy as np
import tokenizers
import torch
import torch.nn.functional as F

from demo_model import EOT, generate, plain_copy, rms


@torch.no_grad()
def held_out(models, text, batch, mixed=True):
    """(nats per token, bits per byte) over the held-out stories, of the mean of the models' distributions."""
    total, count = 0.0, 0
    for ids, labels in text.held_rows(batch):
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=mixed):
            p = sum(m.head(m.eval()(ids)[0]).float().softmax(-1) for m in models) / len(models)
        total += F.nll_loss(p.log().flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="sum").item()
        count += int((labels >= 0).sum())
    return total / count, total / math.log(2) / text.held_bytes


@torch.no_grad()
def acceptance(model, ids, first, depth):
    """Share of positions where draft step j equals the trunk's greedy choice, given that the steps before did; the ids
    are what the decoder emitted. Positions before `first` are prompt."""
    model.eval()
    right, tried = [0] * depth, [0] * depth
    for part in ids.split(32):
        hidden, _ = model(part[:, :-1])
        greedy = model.head(hidden).argmax(-1)
        states, _ = model.draft(hidden, part[:, 1:], depth)
        t = greedy.shape[1]
        alive = torch.ones_like(greedy, dtype=torch.bool)
        alive[:, : max(0, first - 1)] = False
        alive[:, t - depth :] = False
        for j, state in enumerate(states):
            tried[j] += int(alive.sum())
            alive &= model.head(state).argmax(-1) == greedy.roll(-(j + 1), 1)
            right[j] += int(alive.sum())
    return [r / max(1, t) for r, t in zip(right, tried)], tried[0]


@torch.no_grad()
def expert_load(model, text, batch):
    """Per layer: busiest expert over the mean, and the coefficient of variation, on the held-out stories. The MTP
    module's layer comes last."""
    model.eval()
    counts = [torch.zeros(model.s.experts, device=model.embed.device) for _ in range(model.s.layers + 1)]

    def watch(block, into, x, cos, sin):
        q, k, v = block.qkv(x, cos, sin)
        x = x + F.linear(
            F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2), block.o
        )
        n = rms(x, block.norm2, block.s.eps)
        into += block.route(n.flatten(0, 1))[3]
        return x + block.mix(n)[0]

    for ids, _ in text.held_rows(batch):
        cos, sin = model.tables(0, ids.shape[1])
        x = model.lookup(ids)
        for block, into in zip(model.blocks, counts):
            x = watch(block, into, x, cos, sin)
        z = model.mtp.enter(model.lookup(ids.roll(-1, 1)), rms(x, model.norm, model.s.eps))
        watch(model.mtp.block, counts[-1], z, cos, sin)
    return [dict(max_over_mean=float(c.max() / c.mean()), cv=float(c.std(correction=0) / c.mean())) for c in counts]


def eight_grams(stories):
    """Set of hashes of all runs of eight words."""
    out = []
    for s in stories:
        w = np.array(
            [int.from_bytes(hashlib.blake2b(x.encode(), digest_size=8).digest(), "little") for x in s.split()],
            dtype=np.uint64,
        )
        if len(w) >= 8:
            h = np.zeros(len(w) - 7, dtype=np.uint64)
            for i in range(8):
                h = h * np.uint64(0x9E3779B97F4A7C15) + w[i : len(w) - 7 + i]
            out.append(h)
    return np.concatenate(out) if out else np.zeros(0, np.uint64)


def tensors(model):
    """Hugging Face names; the MTP module sits at layer index `layers`, without copies of embedding and head."""
    s, out = model.s, {"model.embed_tokens.weight": model.embed, "model.norm.weight": model.norm}
    extra = f"model.layers.{s.layers}."
    for name, p in (("enorm", "enorm"), ("hnorm", "hnorm"), ("eh_proj", "proj"), ("shared_head.norm", "norm")):
        out[f"{extra}{name}.weight"] = getattr(model.mtp, p)
    for i, b in enumerate(list(model.blocks) + [model.mtp.block]):
        at = f"model.layers.{i}."
        out[at + "input_layernorm.weight"], out[at + "post_attention_layernorm.weight"] = b.norm1, b.norm2
        for name in ("q", "k", "v", "o"):
            out[f"{at}self_attn.{name}_proj.weight"] = getattr(b, name)
        out[at + "self_attn.q_norm.weight"], out[at + "self_attn.k_norm.weight"] = b.q_norm, b.k_norm
        out[at + "mlp.gate.weight"] = b.router
        for e in range(s.experts):
            out[f"{at}mlp.experts.{e}.gate_proj.weight"] = b.gate[e]
            out[f"{at}mlp.experts.{e}.up_proj.weight"] = b.up[e]
            out[f"{at}mlp.experts.{e}.down_proj.weight"] = b.down[e].t()
    return {k: v.detach().to("cpu", torch.bfloat16).contiguous() for k, v in out.items()}


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2, ensure_ascii=False)
        f.write("\n")


def export(model, text, out):
    from safetensors.torch import save_file

    os.makedirs(out, exist_ok=True)
    s, eot = model.s, text.eot
    save_file(tensors(model), os.path.join(out, "model.safetensors"), metadata={"format": "pt"})
    write_json(os.path.join(out, "config.json"), {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": s.vocab, "hidden_size": s.d,
        "intermediate_size": s.top_k * s.expert_width, "num_hidden_layers": s.layers, "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads, "head_dim": s.head_dim, "hidden_act": "silu",
        "max_position_embeddings": s.context, "rms_norm_eps": s.eps, "rope_theta": s.rope_theta, "rope_scaling": None,
        "attention_bias": False, "attention_dropout": 0.0, "use_sliding_window": False, "sliding_window": None,
        "decoder_sparse_step": 1, "mlp_only_layers": [], "moe_intermediate_size": s.expert_width,
        "num_experts": s.experts, "num_experts_per_tok": s.top_k, "norm_topk_prob": True,
        "output_router_logits": False, "router_aux_loss_coef": 0.01, "initializer_range": 0.02, "use_cache": True,
        "tie_word_embeddings": True, "bos_token_id": eot, "eos_token_id": eot, "torch_dtype": "bfloat16",
        "num_nextn_predict_layers": 1, "mtp_hidden_initial": "post", "mtp_hidden_carry": "post",
    })  # fmt: skip
    write_json(os.path.join(out, "generation_config.json"),
               {"bos_token_id": eot, "eos_token_id": eot, "do_sample": True, "temperature": 0.8, "top_p": 0.95})  # fmt: skip
    text.tokenizer.save(os.path.join(out, "tokenizer.json"), pretty=False)
    token = {
        "content": EOT,
        "lstrip": False,
        "normalized": False,
        "rstrip": False,
        "single_word": False,
        "special": True,
    }
    write_json(os.path.join(out, "tokenizer_config.json"), {
        "add_prefix_space": False, "added_tokens_decoder": {str(eot): token}, "bos_token": EOT, "eos_token": EOT,
        "clean_up_tokenization_spaces": False, "model_max_length": s.context, "tokenizer_class": "PreTrainedTokenizerFast",
    })  # fmt: skip


@torch.no_grad()
def cross_check(model, text, out):
    """The saved folder in transformers against this script's model, on held-out tokens."""
    try:
        import transformers
    except ImportError:
        print("transformers is not installed: the saved folder was not cross-checked", flush=True)
        return None
    transformers.logging.set_verbosity_error()
    ids = next(iter(text.held_rows(4)))[0][:, :256].cpu()
    model = plain_copy(model, torch.float32, "cpu")
    mine = model.head(model(ids)[0])
    result = {
        "transformers": transformers.__version__,
        "positions": ids.numel(),
        "largest_logit": float(mine.abs().max()),
    }
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        theirs = transformers.AutoModelForCausalLM.from_pretrained(out, torch_dtype=dtype).eval()
        logits = theirs(ids).logits.float()
        result[name] = {
            "max_difference": float((logits - mine).abs().max()),
            "mean_difference": float((logits - mine).abs().mean()),
            "same_greedy_token": float((logits.argmax(-1) == mine.argmax(-1)).float().mean()),
        }
    read = transformers.AutoTokenizer.from_pretrained(out)
    result["tokenizer_equal"] = read(text.held[0])["input_ids"] == text.tokenizer.encode(text.held[0]).ids
    return result


PROMPTS = ["Once upon a time", "Once upon a time", "Once upon a time there was a king", "The old woman said to the fox",
           "In the middle of the forest"]  # fmt: skip


def samples(model, text):
    out = []
    for seed, prompt in enumerate(PROMPTS, 1):
        ids = torch.tensor([text.tokenizer.encode(prompt).ids], device=text.device)
        ids = generate(model, ids, min(120, model.s.context - 16), 0.8, 0.95, seed)[0].tolist()
        ended = text.eot in ids
        ids = ids[: ids.index(text.eot)] if ended else ids
        out.append({"seed": seed, "prompt": prompt, "text": text.tokenizer.decode(ids), "ended": ended})
    return out


def novelty(model, text):
    """Share of eight-word runs that the training text holds: of 64 samples, and of the held-out stories."""
    known = np.unique(eight_grams(text.train))
    ids = torch.tensor([text.tokenizer.encode(PROMPTS[0]).ids] * 64, device=text.device)
    ids = generate(model, ids, min(200, model.s.context - 8), 0.8, 0.95, 1000).tolist()
    made = eight_grams(
        [part for row in ids for part in text.tokenizer.decode(row, skip_special_tokens=False).split(EOT)]
    )
    own = eight_grams(text.held)
    share = lambda x: float(np.isin(x, known).mean()) if len(x) else 0.0
    return {"samples": share(made), "held_out": share(own), "sample_runs": len(made), "held_out_runs": len(own)}


def measure(run, model, text):
    """Everything the card says about the finished model, computed in fp32 from the bf16 weights."""
    s, depth = model.s, run.recipe.draft_depth
    size = sum(p.numel() for p in model.parameters())
    mtp = sum(p.numel() for p in model.mtp.parameters())
    idle = s.layers * (s.experts - s.top_k) * 3 * s.d * s.expert_width
    nats, bits = held_out([model], text, 32, mixed=False)
    t = min(512, s.context)
    rows_of = text.held_tokens[: (len(text.held_tokens) // t) * t].view(-1, t).long()
    prompts = rows_of[:64, :32]
    greedy = generate(model, prompts, min(128, t - 32), 0)
    drawn = generate(model, prompts, min(128, t - 32), 0.8, 0.95, 2000)
    drafts = {}
    for name, ids, first in (("greedy", greedy, 32), ("sampled", drawn, 32), ("held_out", rows_of, 0)):
        rates, count = acceptance(model, ids, first, depth)
        drafts[name] = {"per_depth": rates, "positions": count}
    return {
        "parameters": {"total": size, "trunk": size - mtp, "mtp": mtp, "active_trunk": size - mtp - idle},
        "held_out": {"nats_per_token": nats, "bits_per_byte": bits, "stories": len(text.held), "bytes": text.held_bytes,
                     "tokens": len(text.held_tokens) - 1},
        "train": {"stories": len(text.train), "bytes": text.train_bytes, "tokens": len(text.tokens) - 1},
        "load": expert_load(model, text, 32), "drafts": drafts, "novelty": novelty(model, text), "samples": samples(model, text),
    }  # fmt: skip


def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def card(m):
    s, p, h, r = m["shape"], m["parameters"], m["held_out"], m["recipe"]
    pct = lambda x: f"{100 * x:.1f} %"
    table = lambda head, rows: "\n".join(
        ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
        + ["| " + " | ".join(map(str, x)) + " |" for x in rows]
    )
    arch = table(["what", "value"], [
        ["trunk", f"{s['layers']} layers, hidden size {s['d']}, context {s['context']}"],
        ["attention", f"{s['heads']} query heads and {s['kv_heads']} key/value heads of {s['head_dim']}, per-head q/k norm, rope theta {s['rope_theta']:g}"],
        ["experts", f"{s['experts']} per layer, {s['top_k']} chosen, width {s['expert_width']}, SwiGLU, softmax router, chosen weights renormalised"],
        ["vocabulary", f"{s['vocab']} byte-level BPE tokens, tied embedding"],
        ["MTP module", f"one, the same kind of layer, trained {r['draft_depth']} steps deep"],
        ["parameters", f"{p['total']:,} in all: trunk {p['trunk']:,}, MTP module {p['mtp']:,}"],
        ["active per token", f"{p['active_trunk']:,} of the trunk's"],
        ["weights", f"bf16, {m['files']['model.safetensors']['bytes']:,} bytes, SHA-256 `{m['files']['model.safetensors']['sha256']}`"],
    ])  # fmt: skip
    names = [f"layer {i}" for i in range(s["layers"])] + ["MTP layer"]
    load = table(["layer", "busiest / mean", "coefficient of variation"],
                 [[n, f"{x['max_over_mean']:.2f}", f"{x['cv']:.2f}"] for n, x in zip(names, m["load"])])  # fmt: skip
    label = {
        "greedy": "the trunk's own greedy text",
        "sampled": "its text at temperature 0.8, top-p 0.95",
        "held_out": "held-out stories",
    }
    drafts = table(["text", "positions"] + [f"depth {j + 1}" for j in range(r["draft_depth"])],
                   [[label[k], d["positions"]] + [pct(x) for x in d["per_depth"]] for k, d in m["drafts"].items()])  # fmt: skip
    told = "\n\n".join(
        f"Seed {x['seed']}, prompt \"{x['prompt']}\"{' (ended by the model)' if x['ended'] else ''}:\n\n"
        + "\n".join(("> " + line).rstrip() for line in x["text"].split("\n"))
        for x in m["samples"]
    )
    check = "It was not compared with another implementation."
    if m["cross_check"]:
        c = m["cross_check"]
        check = (f"The saved folder in transformers {c['transformers']}, compared on a CPU with the model as trained, at {c['positions']} held-out"
                 f" positions: largest logit difference {c['fp32']['max_difference']:.2g} in fp32 and {c['bf16']['max_difference']:.2g}"
                 f" in bf16 (logits reach {c['largest_logit']:.1f}); same greedy token at {pct(c['fp32']['same_greedy_token'])} and"
                 f" {pct(c['bf16']['same_greedy_token'])}.")  # fmt: skip
    teacher = "no teachers"
    if r["teachers"]:
        t = m["teacher"]
        teacher = (f"{r['teachers']} dense teachers ({t['layers']} layers, hidden size {t['d']}, {t['parameters']:,} parameters each,"
                   f" dropout {r['teacher_dropout']:g}; alone {', '.join(f'{b:.4f}' for b in t['bits_per_byte'])} bits per byte held out,"
                   f" together {t['together']:.4f})")  # fmt: skip
    return f"""# cadre demo model

A small Mixture-of-Experts model that writes fairy tales in the English of 1850 to 1915. It ships with cadre so that every
path can be tried and tested without a download: routing, batching, the expert kernels, and drafting with an MTP module.
It knows nothing but fairy tales, it loses the thread after a few sentences, and it repeats the attitudes of its
sources. Every figure below was written by `tools/train_demo.py`; the raw values are in `run.json`, the loss curve in
`training.tsv`.

## Shape

{arch}

The folder is in the Hugging Face layout of Qwen3-MoE (`config.json`, one safetensors file with a matrix per expert). The
MTP module has the names and the arithmetic of DeepSeek-V3 and sits at layer index {s['layers']}: the next token's embedding first, the
hidden state second. The hidden state it starts from is the one after `model.norm` (`mtp_hidden_initial: post`), and the
one it hands to its next step is the one after `shared_head.norm` (`mtp_hidden_carry: post`). It was trained for this
use: its first step runs at position t and fills its own key/value cache with the trunk's hidden states; step j runs at
position t + j - 1 and sees the first step's keys up to t and the keys of its own chain after that.

{check}

## Quality

Held-out text: {h['stories']} whole stories ({h['bytes']:,} bytes, {h['tokens']:,} tokens), chosen by a hash of the story, used neither to fit
the weights nor the tokenizer (the loss on it was watched while training, and settings were chosen by it). Some tales exist in a second translation, so held-out does not mean never told. The
stories stand in one stream, each after `{EOT}`, cut into windows of {s['context']} tokens that do not overlap.

- loss **{h['nats_per_token']:.4f}** nats per token
- **{h['bits_per_byte']:.4f}** bits per byte

This is the shipped bf16 model, computed in fp32.

How evenly the experts are used, on the held-out stories:

{load}

Draft acceptance: the share of positions where draft step j is the trunk's own greedy choice, given that the steps before
it were:

{drafts}

Share of eight-word runs that occur in the training text: {pct(m['novelty']['samples'])} of 64 samples of 200 tokens (temperature 0.8, top-p 0.95, prompt
"{PROMPTS[0]}", seed 1000); {pct(m['novelty']['held_out'])} of the held-out stories themselves.

## Samples

Unedited, temperature 0.8, top-p 0.95, at most 120 tokens, drawn with PyTorch's generator on {m['device']} (the seed gives
other text elsewhere).

{told}

## Training

- text: `fairytales.txt`, SHA-256 `{m['text_sha256']}`: stories from books published before 1929, listed in `SOURCES.md`;
  {m['train']['stories']} stories, {m['train']['bytes']:,} bytes and {m['train']['tokens']:,} tokens were trained on
- command: `{m['command']}`
- one {m['device']}, {m['seconds']:.0f} s in all; Python {m['versions']['python']}, PyTorch {m['versions']['torch']}, tokenizers {m['versions']['tokenizers']}
- seed {m['seed']}. The schedule follows the clock, so a second run gives a like model, not the same bits.
- taught by {teacher}, {pct(r['soft'])} of the target being
  their mean distribution, on the text and on {r['written_rows']:,} windows that the first of them wrote; Muon for the matrices, AdamW
  for the rest; the MTP module last, on the finished trunk, half of it on text that the trunk wrote

## Licence

Weights: MIT, as cadre. The text is in the public domain in the United States.
"""


def ship(run, text, model, teacher):
    out = run.args.out
    export(model, text, out)
    m = measure(run, model, text)
    m["shape"], m["recipe"], m["seed"] = asdict(model.s), asdict(run.recipe), run.args.seed
    m["cross_check"] = cross_check(model, text, out)
    m["teacher"], m["text_sha256"] = teacher, text.sha256
    m["device"] = torch.cuda.get_device_name() if run.device.type == "cuda" else "CPU"
    m["versions"] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "tokenizers": tokenizers.__version__,
    }
    sets = "".join(f" --set {x}" for x in run.args.set)
    m["command"] = (f"tools/train_demo.py --text {os.path.basename(run.args.text)} --minutes {run.args.minutes:g}"
                    f" --seed {run.args.seed}{sets}{' --tiny' if run.args.tiny else ''}")  # fmt: skip
    m["files"] = {}
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        path = os.path.join(out, name)
        m["files"][name] = {"bytes": os.path.getsize(path), "sha256": digest(path)}
    with open(os.path.join(out, "training.tsv"), "w", encoding="utf-8") as f:
        f.write("stage\tseconds\tstep\ttokens\trate\tloss\theld_out_nats\theld_out_bits_per_byte\tdraft_1\tdraft_2\n")
        for x in run.log:
            # While the drafter trains the trunk no longer changes: its two held-out figures are acceptance at depth 1, 2.
            a, b = f"{x[6]:.4f}", f"{x[7]:.4f}"
            held = f"\t\t{a}\t{b}" if x[0] == "drafter" else f"{a}\t{b}\t\t"
            f.write(f"{x[0]}\t{x[1]:.1f}\t{x[2]}\t{x[3]}\t{x[4]:.4f}\t{x[5]:.4f}\t{held}\n")
    m["seconds"] = run.spent()
    write_json(os.path.join(out, "run.json"), m)
    with open(os.path.join(out, "README.md"), "w", encoding="utf-8") as f:
        f.write(card(m))
    brief = {
        k: m[k] for k in ("parameters", "held_out", "load", "drafts", "novelty", "cross_check", "files", "seconds")
    }
    print(json.dumps(brief, indent=1), flush=True)
    for x in m["samples"]:
        print(f"--- seed {x['seed']}\n{x['text']}", flush=True)
