"""The demo model in PyTorch: Qwen3-MoE trunk, DeepSeek-V3 MTP module, decoding. Used by train_demo.py."""

import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F

EOT = "<|endoftext|>"


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

    def mix(self, x):
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
        y, aux = self.mix(rms(x, self.norm2, self.s.eps))
        return x + self.drop(y), aux

    def forward(self, x, cos, sin):
        """Plain causal pass. Returns x, the losses, and this layer's keys and values."""
        q, k, v = self.qkv(x, cos, sin)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x, aux = self.finish(x, a)
        return x, aux, k, v

    def cached(self, x, cos, sin, keys, values, at):
        """Decode or prefill with a cache; keys and values are [b][kv_heads][length][head_dim], filled up to `at`."""
        q, k, v = self.qkv(x, cos, sin)
        end = at + x.shape[1]
        keys[:, :, at:end], values[:, :, at:end] = k, v
        keys, values = keys[:, :, :end], values[:, :, :end]
        if x.shape[1] > 1:
            a = F.scaled_dot_product_attention(q, keys, values, is_causal=True, enable_gqa=True)
        else:  # one token: the heads of a group stand as rows of one query, so no key is copied
            rows = q.reshape(len(q), keys.shape[1], -1, q.shape[-1])
            a = F.scaled_dot_product_attention(rows, keys, values).reshape(q.shape)
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
        self.compiled_eval = False  # a compiled pass without gradients pays only for the teachers

    def run(self, block, *args):
        return block(*args) if torch.is_grad_enabled() or self.compiled_eval else block.forward(*args)

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
            x, a, _, _ = self.run(block, x, cos, sin)
            aux = aux + a
        return rms(x, self.norm, self.s.eps), aux

    def draft(self, hidden, following, depth):
        """hidden [b][t][d] of the trunk, following [b][t] = the next token at each position. Step j's output at t
        predicts the token at t + j + 1; its last j positions hold rolled-in values and must be masked out."""
        states, past, aux = [], [], 0
        for j in range(depth):
            cos, sin = self.tables(j, hidden.shape[1])
            z = self.mtp.enter(self.lookup(following.roll(-j, 1)), hidden)
            z, a, k, v = self.run(self.mtp.block, z, cos, sin) if j == 0 else self.mtp.chained(z, cos, sin, past)
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
        self.qkv, self.finish = self.block.qkv, self.block.finish  # replaced by compiled ones on a GPU

    def chained(self, x, cos, sin, past):
        """Draft step j >= 2, all starting positions at once. The query that started at t sees the first step's keys at
        0..t and, of the later steps, only those of its own chain: just what a decoder's cache holds then."""
        fast = torch.is_grad_enabled()
        q, k, v = (self.qkv if fast else self.block.qkv)(x, cos, sin)
        t, chain = x.shape[1], past + [(k, v)]
        rep = self.s.heads // self.s.kv_heads
        keys, values = (torch.cat([c[i] for c in chain], 2).repeat_interleave(rep, 1) for i in (0, 1))
        own = torch.eye(t, dtype=torch.bool, device=x.device)
        mask = torch.cat([torch.ones_like(own).tril()] + [own] * (len(chain) - 1), 1)
        a = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x, aux = (self.finish if fast else self.block.finish)(x, a)
        return x, aux, k, v

    def enter(self, embedded, hidden):
        both = torch.cat([rms(embedded, self.enorm, self.s.eps), rms(hidden, self.hnorm, self.s.eps)], -1)
        return F.linear(both, self.proj)


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


def speed_up(model, device):
    if device.type == "cuda":
        for block in list(model.blocks) + ([model.mtp.block] if model.mtp else []):
            block.compile(dynamic=False)
        if model.mtp:
            model.mtp.qkv = torch.compile(model.mtp.block.qkv, dynamic=False)
            model.mtp.finish = torch.compile(model.mtp.block.finish, dynamic=False)


def plain_copy(model, dtype, device=None):
    """The same weights in another type, without dropout and without compiled parts."""
    copy = Model(model.s, 0.0, mtp=model.mtp is not None).to(device or model.embed.device)
    copy.load_state_dict(model.state_dict())
    return copy.to(dtype).eval().requires_grad_(False)


@torch.no_grad()
def round_to_bf16(model):
    for p in model.parameters():
        p.copy_(p.bfloat16().float())


@torch.no_grad()
def generate(model, ids, count, temperature, top_p=1.0, seed=0):
    """ids [b][p] -> [b][p + count]; temperature 0 is greedy. Continues past the end token. Computes in the type of the
    weights."""
    s, device = model.s, ids.device
    gen = torch.Generator(device=device).manual_seed(seed)
    shape = (len(ids), s.kv_heads, ids.shape[1] + count, s.head_dim)
    caches = [[torch.empty(shape, dtype=model.embed.dtype, device=device) for _ in range(2)] for _ in model.blocks]
    out, step, at = [ids], ids, 0
    for _ in range(count):
        cos, sin = model.tables(at, step.shape[1])
        x = model.lookup(step)
        for block, (k, v) in zip(model.blocks, caches):
            x = block.cached(x, cos, sin, k, v, at)
        at += step.shape[1]
        step = choose(model.head(rms(x[:, -1], model.norm, s.eps)).float(), temperature, top_p, gen)
        out.append(step)
    return torch.cat(out, 1)


def choose(logits, temperature, top_p, gen):
    if temperature == 0:
        return logits.argmax(-1, keepdim=True)
    p, index = (logits / temperature).softmax(-1), None
    if top_p < 1:
        p, index = p.sort(-1, descending=True)
        p[p.cumsum(-1) - p > top_p] = 0
    # The largest p / exponential noise is a draw from p.
    take = (p / torch.empty_like(p).exponential_(generator=gen)).argmax(-1, keepdim=True)
    return take if index is None else index.gather(1, take)
