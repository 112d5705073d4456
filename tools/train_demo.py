#!/usr/bin/env python3
"""Train the demo model that ships in models/demo, and write its card.

What it makes: a small Mixture-of-Experts model in the Qwen3-MoE shape, plus one multi-token-prediction (MTP) module in
the DeepSeek-V3 shape, as a Hugging Face folder. Every figure in the card comes from this script.

The text is short (about five million tokens) and the GPU is fast, so the risk is memorising, not training too little.
Three stages, by the clock:

    teachers   larger dense models with much dropout, trained on the text, never shipped
    trunk      the shipped model, taught by the teachers' distributions over the text and over text that they wrote
    drafter    the MTP module, unrolled four steps deep on the finished (bf16) trunk, taught by the trunk itself

Needs: torch, tokenizers, safetensors, numpy; transformers for the cross-check at the end (skipped with a line if absent).

    tools/train_demo.py --text fairytales.txt                 # about ten minutes on one GPU, writes models/demo
    tools/train_demo.py --text fairytales.txt --resume        # goes on from build/train_demo.pt
    tools/train_demo.py --text fairytales.txt --tiny --minutes 1 --out /tmp/demo     # the same path, tiny, on a CPU
"""
import argparse
import hashlib
import json
import math
import os
import sys
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

EOT = "<|endoftext|>"
HELD_OUT_ONE_IN = 50
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass
class Shape:
    vocab: int
    d: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    top_k: int
    expert_width: int
    context: int = 1024
    rope_theta: float = 10000.0
    eps: float = 1e-6


@dataclass
class Recipe:
    """Everything that shapes a run besides the model. Times are shares of the minutes left after preparation."""

    teachers: int = 2
    teacher_share: float = 0.23  # each
    trunk_share: float = 0.42
    batch: int = 64
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    muon_decay: float = 0.1
    adam_decay: float = 0.1
    teacher_dropout: float = 0.2
    trunk_dropout: float = 0.0
    soft: float = 0.9  # share of the teachers' distribution in the trunk's target
    written_rows: int = 8192  # windows of text that the teachers write
    written_share: float = 0.5  # share of them in a trunk batch
    mtp_weight: float = 0.1  # depth-1 MTP loss while the trunk trains
    draft_depth: int = 4
    draft_decay: float = 0.8
    draft_batch: int = 48
    draft_rows: int = 4096
    balance: float = 0.01
    z: float = 1e-4
    warmup: float = 0.03
    hold: float = 0.3  # constant rate until here, then linear to zero


SHIPPED = dict(d=256, layers=5, heads=8, kv_heads=2, head_dim=32, experts=18, top_k=4, expert_width=64)
TEACHER = dict(d=512, layers=8, heads=8, kv_heads=4, head_dim=64, experts=1, top_k=1, expert_width=1408)
TINY = dict(d=64, layers=2, heads=2, kv_heads=1, head_dim=32, experts=6, top_k=2, expert_width=32, context=128)


# ---- model ----------------------------------------------------------------------------------------------------------


def rms(x, weight, eps):
    v = x.float()
    return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype) * weight.to(x.dtype)


def rope_tables(shape, length, device):
    half = shape.head_dim // 2
    inv = shape.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    ang = torch.arange(length, dtype=torch.float64)[:, None] * inv[None]
    return ang.cos().float().to(device), ang.sin().float().to(device)  # [length][head_dim/2]


def rotate(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Block(nn.Module):
    """One decoder layer: attention with per-head norms, then the experts. All experts are computed and masked, which
    at this size is faster than gathering and gives the same sum."""

    def __init__(self, s, dropout):
        super().__init__()
        self.s, self.dropout = s, dropout
        w = lambda *size: nn.Parameter(torch.randn(*size) * 0.02)
        self.norm1, self.norm2 = nn.Parameter(torch.ones(s.d)), nn.Parameter(torch.ones(s.d))
        self.q_norm, self.k_norm = nn.Parameter(torch.ones(s.head_dim)), nn.Parameter(torch.ones(s.head_dim))
        self.q, self.o = w(s.heads * s.head_dim, s.d), w(s.d, s.heads * s.head_dim)
        self.k, self.v = w(s.kv_heads * s.head_dim, s.d), w(s.kv_heads * s.head_dim, s.d)
        self.router = w(s.experts, s.d)
        self.gate, self.up = w(s.experts, s.expert_width, s.d), w(s.experts, s.expert_width, s.d)
        self.down = w(s.experts, s.expert_width, s.d)  # transposed: [e][f][d]
        for p in (self.o, self.down):
            p.data.mul_(1 / math.sqrt(2 * s.layers))
        # Muon scales an update by sqrt(out/in) where out > in.
        self.down.out_in = (s.d, s.expert_width)

    def qkv(self, x, cos, sin):
        s, (b, t, _) = self.s, x.shape
        n = rms(x, self.norm1, s.eps)
        q = F.linear(n, self.q).view(b, t, s.heads, s.head_dim)
        k = F.linear(n, self.k).view(b, t, s.kv_heads, s.head_dim)
        v = F.linear(n, self.v).view(b, t, s.kv_heads, s.head_dim)
        q, k = rms(q, self.q_norm, s.eps).transpose(1, 2), rms(k, self.k_norm, s.eps).transpose(1, 2)
        return rotate(q, cos, sin), rotate(k, cos, sin), v.transpose(1, 2)

    def route(self, x):
        """x [n][d] -> weights [n][experts], zero where not chosen, and the balance and z losses."""
        s = self.s
        with torch.autocast(x.device.type, enabled=False):
            logits = x.float() @ self.router.float().t()
            p = logits.softmax(-1)
            top, index = p.topk(s.top_k, -1)
            w = torch.zeros_like(p).scatter(1, index, top / top.sum(-1, keepdim=True))
            used = (w > 0).float().mean(0) / s.top_k
            balance = s.experts * (used * p.mean(0)).sum()
            z = logits.logsumexp(-1).pow(2).mean()
        return w, balance, z, used

    def experts(self, x):
        s, shape = self.s, x.shape
        x = x.reshape(-1, s.d)
        h = F.silu(F.linear(x, self.gate.view(-1, s.d))) * F.linear(x, self.up.view(-1, s.d))
        if s.experts == 1:
            return (h @ self.down[0].to(h.dtype)).view(shape), x.new_zeros(2, dtype=torch.float32)
        w, balance, z, _ = self.route(x)
        h = (h.view(-1, s.experts, s.expert_width) * w.to(h.dtype)[:, :, None]).view(h.shape)
        return (h @ self.down.view(-1, s.d).to(h.dtype)).view(shape), torch.stack([balance, z])

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout else x

    def finish(self, x, attended):
        b, _, t, _ = attended.shape
        x = x + self.drop(F.linear(attended.transpose(1, 2).reshape(b, t, -1), self.o))
        y, aux = self.experts(rms(x, self.norm2, self.s.eps))
        return x + self.drop(y), aux

    def forward(self, x, cos, sin):
        """Plain causal pass. Returns x, the losses, and this layer's keys and values."""
        q, k, v = self.qkv(x, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x, aux = self.finish(x, a)
        return x, aux, k, v

    def chained(self, x, cos, sin, past):
        """Draft step j >= 2, all starting positions at once. The query that started at t sees the first step's keys at
        0..t and, of the later steps, only those of its own chain: just what a decoder's cache holds then."""
        q, k, v = self.qkv(x, cos, sin)
        rep = self.s.heads // self.s.kv_heads
        wide = lambda y: y.repeat_interleave(rep, 1)
        chain = past + [(k, v)]
        scale, t = self.s.head_dim**-0.5, x.shape[1]
        score = (q @ wide(chain[0][0]).transpose(2, 3)).float() * scale
        keep = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        score = score.masked_fill(~keep, float("-inf"))
        own = [(q.float() * wide(ck).float()).sum(-1, keepdim=True) * scale for ck, _ in chain[1:]]
        top = torch.maximum(score.amax(-1, keepdim=True), torch.cat(own, -1).amax(-1, keepdim=True)).detach()
        e = (score - top).exp()
        own = [(y - top).exp() for y in own]
        total = e.sum(-1, keepdim=True) + sum(own)
        a = e.to(q.dtype) @ wide(chain[0][1])
        for y, (_, cv) in zip(own, chain[1:]):
            a = a + y.to(q.dtype) * wide(cv)
        x, aux = self.finish(x, (a.float() / total).to(q.dtype))
        return x, aux, k, v

    def cached(self, x, cos, sin, keys, values, at):
        """Decode or prefill with a cache; keys and values are [b][kv_heads][length][head_dim], filled up to `at`."""
        q, k, v = self.qkv(x, cos, sin)
        end = at + x.shape[1]
        keys[:, :, at:end], values[:, :, at:end] = k, v
        a = F.scaled_dot_product_attention(
            q, keys[:, :, :end], values[:, :, :end], is_causal=x.shape[1] > 1, enable_gqa=True
        )
        return self.finish(x, a)[0]


class Model(nn.Module):
    """Trunk with tied head and, if asked for, one MTP module."""

    def __init__(self, s, dropout=0.0, mtp=False):
        super().__init__()
        self.s, self.dropout = s, dropout
        self.embed = nn.Parameter(torch.randn(s.vocab, s.d) * 0.02)
        self.blocks = nn.ModuleList(Block(s, dropout) for _ in range(s.layers))
        self.norm = nn.Parameter(torch.ones(s.d))
        self.mtp = Drafter(s, dropout) if mtp else None
        self.rope = None

    def tables(self, first, length):
        if self.rope is None or self.rope[0].device != self.embed.device:
            self.rope = rope_tables(self.s, self.s.context + 16, self.embed.device)
        return self.rope[0][first : first + length], self.rope[1][first : first + length]

    def lookup(self, ids):
        return F.embedding(ids, self.embed)

    def forward(self, ids):
        """ids [b][t] -> hidden after the last norm [b][t][d], summed losses [2]."""
        cos, sin = self.tables(0, ids.shape[1])
        x, aux = self.lookup(ids), 0
        if self.dropout and self.training:
            x = F.dropout(x, self.dropout)
        for block in self.blocks:
            x, a, _, _ = block(x, cos, sin)
            aux = aux + a
        return rms(x, self.norm, self.s.eps), aux

    def draft(self, hidden, following, depth):
        """hidden [b][t][d] of the trunk, following [b][t] = the next token at each position. Step j's output at t
        predicts the token at t + j + 1; its last j positions hold rolled-in values and must be masked out."""
        states, past, aux = [], [], 0
        for j in range(depth):
            cos, sin = self.tables(j, hidden.shape[1])
            z = self.mtp.enter(self.lookup(following.roll(-j, 1)), hidden)
            z, a, k, v = self.mtp.block(z, cos, sin) if j == 0 else self.mtp.block.chained(z, cos, sin, past)
            past, aux = past + [(k, v)], aux + a
            hidden = rms(z, self.mtp.norm, self.s.eps)
            states.append(hidden)
        return states, aux

    def head(self, hidden):
        return F.linear(hidden, self.embed)


class Drafter(nn.Module):
    def __init__(self, s, dropout):
        super().__init__()
        self.s = s
        self.enorm, self.hnorm = nn.Parameter(torch.ones(s.d)), nn.Parameter(torch.ones(s.d))
        self.proj = nn.Parameter(torch.randn(s.d, 2 * s.d) * 0.02)
        self.block = Block(s, dropout)
        self.norm = nn.Parameter(torch.ones(s.d))

    def enter(self, embedded, hidden):
        both = torch.cat([rms(embedded, self.enorm, self.s.eps), rms(hidden, self.hnorm, self.s.eps)], -1)
        return F.linear(both.to(embedded.dtype), self.proj.to(embedded.dtype) if embedded.dtype != torch.float32 else self.proj)


def token_losses(hidden, embed, labels, soft, share, z):
    """Mean loss over positions with a label >= 0, and the plain cross-entropy. `soft` is a target distribution or None."""
    logits = F.linear(hidden, embed).float()
    lse = logits.logsumexp(-1)
    weight = (labels >= 0).float()
    weight = weight / weight.sum()
    hard = lse - logits.gather(-1, labels.clamp(min=0)[:, None])[:, 0]
    loss = hard
    if soft is not None:
        p = soft.float()
        # The target's own entropy is a constant: what is left is cross-entropy against it.
        loss = (1 - share) * hard + share * (lse - (p * logits).sum(-1))
    return ((loss + z * lse.pow(2)) * weight).sum(), (hard * weight).sum().detach()


# ---- optimiser ------------------------------------------------------------------------------------------------------


def orthogonal(g):
    """Newton-Schulz iteration of Muon on a batch of matrices [n][r][c]."""
    x = g.bfloat16()
    tall = x.shape[1] > x.shape[2]
    x = x.transpose(1, 2) if tall else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        a = x @ x.transpose(1, 2)
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, decay, momentum=0.95):
        super().__init__([{"params": list(params)}], dict(lr=lr, decay=decay, momentum=momentum))

    @torch.no_grad()
    def step(self):
        group = self.param_groups[0]
        lr, decay, momentum = group["lr"], group["decay"], group["momentum"]
        buckets = {}
        for p in group["params"]:
            if p.grad is None:
                continue
            buf = self.state[p].setdefault("m", torch.zeros_like(p))
            buf.lerp_(p.grad, 1 - momentum)
            out, inn = getattr(p, "out_in", p.shape[-2:])
            g = p.grad.lerp(buf, momentum).view(-1, *p.shape[-2:])
            buckets.setdefault((tuple(p.shape[-2:]), max(1.0, out / inn) ** 0.5), []).append((p, g))
        for (_, scale), items in buckets.items():
            whole = orthogonal(torch.cat([g for _, g in items]))
            at = 0
            for p, g in items:
                p.mul_(1 - lr * decay)
                p.add_(whole[at : at + len(g)].view(p.shape).to(p.dtype), alpha=-lr * scale)
                at += len(g)


class Optimiser:
    """Muon for the matrices inside layers, AdamW for embedding, router and norms."""

    def __init__(self, params, recipe, fused):
        matrix = [p for n, p in params if p.dim() >= 2 and not n.endswith(("embed", "router"))]
        other = [p for n, p in params if p.dim() >= 2 and n.endswith(("embed", "router"))]
        gains = [p for n, p in params if p.dim() < 2]
        self.parts = [
            Muon(matrix, recipe.muon_lr, recipe.muon_decay),
            torch.optim.AdamW(
                [dict(params=other, weight_decay=recipe.adam_decay), dict(params=gains, weight_decay=0.0)],
                lr=recipe.adam_lr, betas=(0.9, 0.95), eps=1e-10, fused=fused,
            ),
        ]  # fmt: skip
        self.base = [recipe.muon_lr, recipe.adam_lr]

    def step(self, factor):
        for part, base in zip(self.parts, self.base):
            for group in part.param_groups:
                group["lr"] = base * factor
            part.step()
            part.zero_grad(set_to_none=True)

    def state(self):
        return [p.state_dict() for p in self.parts]

    def load(self, state):
        for part, s in zip(self.parts, state):
            part.load_state_dict(s)


def rate(progress, recipe):
    warm = min(1.0, progress / recipe.warmup + 0.02)
    fall = min(1.0, (1 - progress) / (1 - recipe.hold))
    return max(0.0, min(warm, fall))


# ---- text -----------------------------------------------------------------------------------------------------------


def read_stories(path):
    with open(path, encoding="utf-8", newline="") as f:
        stories = [s.strip() for s in f.read().split(EOT)]
    stories = [s for s in stories if s]
    held = [int(hashlib.sha256(s.encode()).hexdigest()[:8], 16) % HELD_OUT_ONE_IN == 0 for s in stories]
    return [s for s, h in zip(stories, held) if not h], [s for s, h in zip(stories, held) if h]


def make_tokenizer(stories, vocab):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    t = Tokenizer(models.BPE())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    t.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(
        stories, trainers.BpeTrainer(vocab_size=vocab - 1, initial_alphabet=alphabet, show_progress=False)
    )
    t.add_special_tokens([AddedToken(EOT, special=True, normalized=False)])
    return t


class Text:
    """Tokens of the training stories on the device, and the held-out windows."""

    def __init__(self, path, tokenizer, vocab, device, context):
        with open(path, "rb") as f:
            self.sha256 = hashlib.sha256(f.read()).hexdigest()
        self.train, self.held = read_stories(path)
        self.tokenizer = tokenizer or make_tokenizer(self.train, vocab)
        self.eot = self.tokenizer.token_to_id(EOT)
        self.device, self.context = device, context
        self.tokens = self.stream(self.train)
        self.held_tokens = self.stream(self.held)
        self.held_bytes = sum(len(s.encode()) for s in self.held)
        self.train_bytes = sum(len(s.encode()) for s in self.train)

    def stream(self, stories):
        ids = [self.eot]
        for e in self.tokenizer.encode_batch(stories, add_special_tokens=False):
            ids += e.ids
            ids.append(self.eot)
        return torch.tensor(ids, dtype=torch.int32, device=self.device)

    def held_rows(self, batch):
        """Windows side by side over the held-out stream: ids, labels (-1 = no label)."""
        c, n = self.context, len(self.held_tokens) - 1
        ids = torch.full((math.ceil(n / c) * c,), self.eot, dtype=torch.long, device=self.device)
        labels = torch.full_like(ids, -1)
        ids[:n], labels[:n] = self.held_tokens[:-1].long(), self.held_tokens[1:].long()
        ids, labels = ids.view(-1, c), labels.view(-1, c)
        pad = -len(ids) % batch
        ids = torch.cat([ids, ids[:1].expand(pad, c)])
        labels = torch.cat([labels, torch.full_like(labels[:1], -1).expand(pad, c)])
        return zip(ids.split(batch), labels.split(batch))


def windows(tokens, length, batch, generator):
    """Endless batches of windows [batch][length + 1]; each pass over the text starts at a new random offset."""
    spread = torch.arange(length + 1, device=tokens.device)
    left = torch.empty(0, dtype=torch.long)
    while True:
        while len(left) < batch:
            offset = int(torch.randint(length, (1,), generator=generator))
            starts = torch.arange(offset, len(tokens) - length - 1, length)
            left = torch.cat([left, starts[torch.randperm(len(starts), generator=generator)]])
        take, left = left[:batch], left[batch:]
        yield tokens[take.to(tokens.device)[:, None] + spread].long()


def rows(table, batch, generator):
    while True:
        take = torch.randint(len(table), (batch,), generator=generator)
        yield table[take.to(table.device)].long()


# ---- use ------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def generate(model, ids, count, temperature, top_p=1.0, seed=0, mixed=True):
    """ids [b][p] -> [b][p + count]; temperature 0 is greedy. Continues past the end token."""
    model.eval()
    s, device = model.s, ids.device
    gen = torch.Generator(device=device).manual_seed(seed)
    dtype = torch.bfloat16 if mixed else torch.float32
    shape = (len(ids), s.kv_heads, ids.shape[1] + count, s.head_dim)
    caches = [(torch.empty(shape, dtype=dtype, device=device), torch.empty(shape, dtype=dtype, device=device)) for _ in model.blocks]
    out, step = [ids], ids
    with torch.autocast(device.type, torch.bfloat16, enabled=mixed):
        at = 0
        for _ in range(count):
            cos, sin = model.tables(at, step.shape[1])
            x = model.lookup(step)
            x = x.bfloat16() if mixed else x
            for block, (k, v) in zip(model.blocks, caches):
                x = block.cached(x, cos, sin, k, v, at)
            at += step.shape[1]
            logits = model.head(rms(x[:, -1], model.norm, s.eps)).float()
            step = choose(logits, temperature, top_p, gen)
            out.append(step)
    return torch.cat(out, 1)


def choose(logits, temperature, top_p, gen):
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    p = (logits / temperature).softmax(-1)
    if top_p < 1:
        sorted_p, index = p.sort(-1, descending=True)
        sorted_p[sorted_p.cumsum(-1) - sorted_p > top_p] = 0
        return index.gather(1, torch.multinomial(sorted_p, 1, generator=gen))
    return torch.multinomial(p, 1, generator=gen)


@torch.no_grad()
def held_out(model, text, batch, mixed=True):
    """(nats per token, bits per byte) over the held-out stories."""
    model.eval()
    total, count = 0.0, 0
    for ids, labels in text.held_rows(batch):
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=mixed):
            logits = model.head(model(ids)[0]).float()
        total += F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-1, reduction="sum").item()
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
        x = x + F.linear(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True).transpose(1, 2).flatten(2), block.o)
        n = rms(x, block.norm2, block.s.eps)
        into += block.route(n.flatten(0, 1))[3]
        return x + block.experts(n)[0]

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
        w = np.array([int.from_bytes(hashlib.blake2b(x.encode(), digest_size=8).digest(), "little") for x in s.split()], dtype=np.uint64)
        if len(w) >= 8:
            h = np.zeros(len(w) - 7, dtype=np.uint64)
            for i in range(8):
                h = h * np.uint64(0x9E3779B97F4A7C15) + w[i : len(w) - 7 + i]
            out.append(h)
    return np.concatenate(out) if out else np.zeros(0, np.uint64)


# ---- training -------------------------------------------------------------------------------------------------------


class Run:
    """The clock, the record and the checkpoint of one training run."""

    def __init__(self, args, recipe, device):
        self.args, self.recipe, self.device = args, recipe, device
        self.total, self.start, self.log = args.minutes * 60, time.monotonic(), []
        self.saved = {}
        self.done = {}  # stage name -> weights
        if args.resume and os.path.exists(args.state):
            self.saved = torch.load(args.state, map_location="cpu", weights_only=False)
            self.start -= self.saved["spent"]
            self.log, self.done = self.saved["log"], self.saved["done"]
            print(f"resumed after {self.saved['spent']:.0f} s", flush=True)

    def spent(self):
        return time.monotonic() - self.start

    def save(self, stage=None):
        os.makedirs(os.path.dirname(os.path.abspath(self.args.state)), exist_ok=True)
        state = dict(spent=self.spent(), log=self.log, done=self.done, stage=stage)
        torch.save(state, self.args.state + ".tmp")
        os.replace(self.args.state + ".tmp", self.args.state)

    def train(self, name, model, params, loss_of, until, check):
        """Train `params` of `model` until the clock shows `until` seconds. `loss_of()` draws a batch and returns the
        loss, the plain cross-entropy and the tokens in it; `check()` is the held-out (nats, bits per byte)."""
        if name in self.done:
            model.load_state_dict(self.done[name])
            return
        opt = Optimiser(params, self.recipe, self.device.type == "cuda")
        step, tokens, used = 0, 0, 0.0
        stage = self.saved.pop("stage", None)
        if stage and stage["name"] == name:
            model.load_state_dict(stage["model"])
            opt.load(stage["opt"])
            step, tokens, used = stage["step"], stage["tokens"], stage["used"]
        began, length = None, None
        next_check, next_save = 0.0, 60.0
        gap = max(2.0, self.total / 40)
        while True:
            if began is not None:
                at = used + time.monotonic() - began
                progress = at / length
                if progress >= 1:
                    break
            else:
                at, progress = used, 0.0
            model.train()
            loss, plain, count = loss_of()
            loss.backward()
            opt.step(rate(progress, self.recipe))
            step, tokens = step + 1, tokens + count
            if began is None:  # compiling is over: the schedule starts here
                plain.item()
                began = time.monotonic()
                length = max(1.0, used + until - self.spent())
            if step % 8 == 0:
                plain_now = plain.item()  # keeps the host from running far ahead of the clock
                if not math.isfinite(plain_now):
                    sys.exit(f"{name}: the loss is not finite at step {step}")
                if at >= next_check:
                    self.note(name, at, step, tokens, rate(progress, self.recipe), plain_now, check())
                    next_check = at + gap
                if at >= next_save and length - at > 20:
                    self.save(dict(name=name, model=model.state_dict(), opt=opt.state(), step=step, tokens=tokens, used=at))
                    next_save = at + 60
        self.note(name, at, step, tokens, 0.0, plain.item(), check())
        self.done[name] = {k: v.detach().clone() for k, v in model.state_dict().items()}
        self.save()

    def note(self, name, at, step, tokens, factor, plain, held):
        self.log.append((name, at, step, tokens, factor, plain, *held))
        print(f"{self.spent():6.1f} s  {name:9s} {at:6.1f} s  step {step:6d}  {tokens/1e6:8.1f} Mtok  loss {plain:.4f}"
              f"  held-out {held[0]:.4f}  {held[1]:.4f} bits/byte", flush=True)  # fmt: skip


def speed_up(model, device):
    if device.type == "cuda":
        for block in list(model.blocks) + ([model.mtp.block] if model.mtp else []):
            block.compile(dynamic=False)
            block.chained = torch.compile(block.chained, dynamic=False)


def train_teacher(run, text, shape, index, until, losses):
    r, device = run.recipe, run.device
    torch.manual_seed(run.args.seed + 100 + index)
    model = Model(shape, r.teacher_dropout).to(device)
    speed_up(model, device)
    batches = windows(text.tokens, shape.context, r.batch, torch.Generator().manual_seed(run.args.seed + 200 + index))

    def loss_of():
        b = next(batches)
        with torch.autocast(device.type, torch.bfloat16):
            hidden, _ = model(b[:, :-1])
            loss, plain = losses(hidden.flatten(0, 1), model.embed, b[:, 1:].flatten(), None, 0.0, r.z)
        return loss, plain, b[:, 1:].numel()

    run.train(f"teacher{index + 1}", model, list(model.named_parameters()), loss_of, until, lambda: held_out(model, text, r.batch))
    return model.eval().requires_grad_(False)


def write_text(models, text, count, length, temperature, seed):
    """Windows that the models write, each begun with a few tokens from a random place of the training text."""
    out = []
    for i, model in enumerate(models):
        gen = torch.Generator().manual_seed(seed + i)
        left = count // len(models)
        while left > 0:
            n = min(left, 2048)
            prompts = next(windows(text.tokens, 7, n, gen))[:, :8]
            out.append(generate(model, prompts, length + 1 - 8, temperature, seed=seed + 10 * i + left).int())
            left -= n
    return torch.cat(out)


def shifted(labels, by):
    out = labels.roll(-by, 1).clone()
    out[:, -by:] = -1
    return out


def train_trunk(run, text, model, teachers, until, losses):
    r, device, t = run.recipe, run.device, model.s.context
    gen = torch.Generator().manual_seed(run.args.seed + 300)
    written = int(r.batch * r.written_share) if teachers and r.written_rows else 0
    if "trunk" in run.done:
        written = 0
    batches = [windows(text.tokens, t, r.batch - written, gen)]
    if written:
        table = write_text(teachers, text, r.written_rows, t, 1.0, run.args.seed + 400)
        print(f"{run.spent():6.1f} s  the teachers wrote {table.numel()/1e6:.1f} M tokens", flush=True)
        batches.append(rows(table, written, gen))

    @torch.no_grad()
    def target(ids):
        if not teachers:
            return None
        p = sum(m.head(m(ids)[0]).float().softmax(-1) for m in teachers) / len(teachers)
        return p.bfloat16()

    def loss_of():
        b = torch.cat([next(x) for x in batches])
        ids, labels = b[:, :-1], b[:, 1:]
        with torch.autocast(device.type, torch.bfloat16):
            soft = target(ids)
            hidden, aux = model(ids)
            flat = soft.flatten(0, 1) if soft is not None else None
            loss, plain = losses(hidden.flatten(0, 1), model.embed, labels.flatten(), flat, r.soft, r.z)
            if r.mtp_weight:
                states, a = model.draft(hidden, labels, 1)
                flat = soft.roll(-1, 1).flatten(0, 1) if soft is not None else None
                extra, _ = losses(states[0].flatten(0, 1), model.embed, shifted(labels, 1).flatten(), flat, r.soft, 0.0)
                loss, aux = loss + r.mtp_weight * extra, aux + a
        return loss + r.balance * aux[0] + r.z * aux[1], plain, ids.numel()

    named = [(n, p) for n, p in model.named_parameters() if r.mtp_weight or not n.startswith("mtp.")]
    run.train("trunk", model, named, loss_of, until, lambda: held_out(model, text, r.batch))


def train_drafter(run, text, model, until, losses):
    """The trunk is frozen and already rounded to bf16: what the drafter learns to predict is what will decode."""
    r, device, t = run.recipe, run.device, min(512, model.s.context)
    gen = torch.Generator().manual_seed(run.args.seed + 500)
    half = r.draft_batch // 2
    if "drafter" in run.done:
        batches = []
    else:
        table = write_text([model], text, r.draft_rows, t, 0.8, run.args.seed + 600)
        batches = [windows(text.tokens, t, r.draft_batch - half, gen), rows(table, half, gen)]

    def loss_of():
        b = torch.cat([next(x) for x in batches])
        ids, labels = b[:, :-1], b[:, 1:]
        with torch.autocast(device.type, torch.bfloat16):
            with torch.no_grad():
                hidden, _ = model(ids)
                soft = model.head(hidden).float().softmax(-1).bfloat16()
            states, aux = model.draft(hidden, labels, r.draft_depth)
            loss = r.balance * aux[0] + r.z * aux[1]
            for j, state in enumerate(states):
                part, plain = losses(state.flatten(0, 1), model.embed, shifted(labels, j + 1).flatten(),
                                     soft.roll(-j - 1, 1).flatten(0, 1), 1.0, 0.0)  # fmt: skip
                loss = loss + r.draft_decay**j * part
        return loss, plain, ids.numel()

    def check():
        with torch.autocast(device.type, torch.bfloat16):
            rates, _ = acceptance(model, held, 0, r.draft_depth)
        return rates[0], rates[1]

    held = text.held_tokens[: (len(text.held_tokens) // t) * t].view(-1, t).long()
    for name, p in model.named_parameters():
        p.requires_grad_(name.startswith("mtp."))
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    run.train("drafter", model, named, loss_of, until, check)


@torch.no_grad()
def round_to_bf16(model, only=""):
    for name, p in model.named_parameters():
        if name.startswith(only):
            p.copy_(p.bfloat16().float())
