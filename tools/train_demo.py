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
import math
import os
import sys
import time
from dataclasses import asdict, dataclass

import torch

from demo_card import acceptance, held_out, ship
from demo_model import EOT, Model, Shape, generate, plain_copy, round_to_bf16, speed_up, token_losses

HELD_OUT_ONE_IN = 50
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass
class Recipe:
    """Everything that shapes a run besides the model. Times are shares of the minutes left after preparation."""

    teachers: int = 3
    teacher_share: float = 0.36  # all of them
    trunk_share: float = 0.47
    batch: int = 64
    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    teacher_decay: float = 0.5
    trunk_decay: float = 0.2
    adam_decay: float = 0.1
    teacher_dropout: float = 0.3
    trunk_dropout: float = 0.0
    soft: float = 0.9  # share of the teachers' distribution in the trunk's target
    written_rows: int = 8192  # windows of text that the first teacher writes
    written_share: float = 0.5  # share of them in a trunk batch
    mtp_weight: float = 0.1  # depth-1 MTP loss while the trunk trains
    draft_depth: int = 4
    draft_decay: float = 0.8
    draft_rows: int = 2048  # windows of text that the trunk writes for the drafter
    balance: float = 0.01
    z: float = 1e-4
    warmup: float = 0.03
    hold: float = 0.3  # constant rate until here, then linear to zero


SHIPPED = dict(d=256, layers=5, heads=8, kv_heads=2, head_dim=32, experts=18, top_k=4, expert_width=64)
TEACHER = dict(d=512, layers=8, heads=8, kv_heads=4, head_dim=64, experts=1, top_k=1, expert_width=1408)
TINY = dict(d=64, layers=2, heads=2, kv_heads=1, head_dim=32, experts=6, top_k=2, expert_width=32, context=128)


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

    def __init__(self, params, recipe, decay, fused):
        matrix = [p for n, p in params if p.dim() >= 2 and not n.endswith(("embed", "router"))]
        other = [p for n, p in params if p.dim() >= 2 and n.endswith(("embed", "router"))]
        gains = [p for n, p in params if p.dim() < 2]
        self.parts = [
            Muon(matrix, recipe.muon_lr, decay),
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


# ---- training -------------------------------------------------------------------------------------------------------


class Run:
    """The clock, the record and the checkpoint of one training run."""

    def __init__(self, args, recipe, device):
        self.args, self.recipe, self.device = args, recipe, device
        self.total, self.start, self.log = args.minutes * 60, time.monotonic(), []
        self.saved = {}
        self.done = {}  # stage name -> weights; also the tokenizer and when training began
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

    def train(self, name, model, params, loss_of, until, check, parts=1):
        """Train `params` of `model` for one of `parts` equal shares of the time left until the clock shows `until`
        seconds. `loss_of()` draws a batch and returns the loss, the plain cross-entropy and the tokens in it; `check()`
        is the held-out (nats, bits per byte)."""
        if name in self.done:
            model.load_state_dict(self.done[name])
            return
        decay = self.recipe.teacher_decay if name.startswith("teacher") else self.recipe.trunk_decay
        opt = Optimiser(params, self.recipe, decay, self.device.type == "cuda")
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
                length = max(1.0, used + (until - self.spent()) / parts)
            if step % 8 == 0:
                plain_now = plain.item()  # keeps the host from running far ahead of the clock
                if not math.isfinite(plain_now):
                    sys.exit(f"{name}: the loss is not finite at step {step}")
                if at >= next_check:
                    self.note(name, at, step, tokens, rate(progress, self.recipe), plain_now, check())
                    next_check = at + gap
                if at >= next_save and length - at > 20:
                    self.save(
                        dict(name=name, model=model.state_dict(), opt=opt.state(), step=step, tokens=tokens, used=at)
                    )
                    next_save = at + 60
        self.note(name, at, step, tokens, 0.0, plain.item(), check())
        self.done[name] = {k: v.detach().clone() for k, v in model.state_dict().items()}
        self.save()

    def note(self, name, at, step, tokens, factor, plain, held):
        self.log.append((name, at, step, tokens, factor, plain, *held))
        what = "accepted at 1, 2:" if name == "drafter" else "held-out nats, bits/byte:"
        print(f"{self.spent():6.1f} s  {name:9s} {at:6.1f} s  step {step:6d}  {tokens/1e6:8.1f} Mtok  loss {plain:.4f}"
              f"  {what} {held[0]:.4f}  {held[1]:.4f}", flush=True)  # fmt: skip


def train_teacher(run, text, shape, index, until, losses):
    r, device = run.recipe, run.device
    torch.manual_seed(run.args.seed + 100 + index)
    model = Model(shape, r.teacher_dropout).to(device)
    model.compiled_eval = True
    speed_up(model, device)
    batches = windows(text.tokens, shape.context, r.batch, torch.Generator().manual_seed(run.args.seed + 200 + index))

    def loss_of():
        b = next(batches)
        with torch.autocast(device.type, torch.bfloat16):
            hidden, _ = model(b[:, :-1])
            loss, plain = losses(hidden.flatten(0, 1), model.embed, b[:, 1:].flatten(), None, 0.0, r.z)
        return loss, plain, b[:, 1:].numel()

    check = lambda: held_out([model], text, r.batch)
    run.train(f"teacher{index + 1}", model, list(model.named_parameters()), loss_of, until, check, r.teachers - index)
    return model.eval().requires_grad_(False)


def write_text(models, text, count, length, temperature, seed):
    """Windows that the models write, each begun with a few tokens from a random place of the training text."""
    out = []
    for i, model in enumerate(models):
        n = count // len(models)
        prompts = next(windows(text.tokens, 7, n, torch.Generator().manual_seed(seed + i)))
        out.append(
            generate(plain_copy(model, torch.bfloat16), prompts, length + 1 - 8, temperature, seed=seed + i).int()
        )
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
        table = write_text(teachers[:1], text, r.written_rows, t, 1.0, run.args.seed + 400)
        print(f"{run.spent():6.1f} s  the first teacher wrote {table.numel()/1e6:.1f} M tokens", flush=True)
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
                extra, _ = losses(states[0].flatten(0, 1), model.embed, shifted(labels, 1).flatten(), flat, r.soft, r.z)
                loss, aux = loss + r.mtp_weight * extra, aux + a
        return loss + r.balance * aux[0] + r.z * aux[1], plain, ids.numel()

    named = [(n, p) for n, p in model.named_parameters() if r.mtp_weight or not n.startswith("mtp.")]
    run.train("trunk", model, named, loss_of, until, lambda: held_out([model], text, r.batch))


def train_drafter(run, text, model, until, losses):
    """The trunk is frozen and already rounded to bf16: what the drafter learns to predict is what will decode."""
    r, device, t = run.recipe, run.device, model.s.context
    gen = torch.Generator().manual_seed(run.args.seed + 500)
    half = r.batch // 2  # the shapes of the trunk's batches, so that compiled parts serve again
    if "drafter" in run.done:
        batches = []
    else:
        table = write_text([model], text, r.draft_rows, t, 0.8, run.args.seed + 600)
        batches = [windows(text.tokens, t, r.batch - half, gen), rows(table, half, gen)]

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


def arguments():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--text", required=True, help=f"stories, each after a line {EOT}")
    a.add_argument("--out", default="models/demo", help="folder to write (default models/demo)")
    a.add_argument("--minutes", type=float, default=10, help="wall time of the whole run (default 10)")
    a.add_argument("--seed", type=int, default=0)
    a.add_argument("--resume", action="store_true", help="go on from the checkpoint")
    a.add_argument("--state", default="build/train_demo.pt", help="the checkpoint (default build/train_demo.pt)")
    a.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change one value of the recipe")
    a.add_argument("--tiny", action="store_true", help="a tiny model, to try the script on a CPU")
    a.add_argument("--held-out", metavar="FILE", help="write the held-out stories to FILE and stop")
    return a.parse_args()


def make_recipe(args):
    r = Recipe(batch=8, written_rows=32, draft_rows=32) if args.tiny else Recipe()
    for item in args.set:
        name, _, value = item.partition("=")
        if name not in asdict(r) or not value:
            sys.exit(f"--set {item}: expected NAME=VALUE with NAME one of {', '.join(asdict(r))}")
        setattr(r, name, type(getattr(r, name))(value))
    return r


def main():
    args = arguments()
    if args.held_out:
        with open(args.held_out, "w", encoding="utf-8") as f:
            f.write("".join(f"{EOT}\n{s}\n\n" for s in read_stories(args.text)[1]))
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch._dynamo.config.cache_size_limit = 64
        torch.backends.cuda.enable_cudnn_sdp(False)  # it plans anew for each length, which decoding changes every step
    recipe = make_recipe(args)
    run = Run(args, recipe, device)
    shape = Shape(vocab=1024 if args.tiny else 4096, **(TINY if args.tiny else SHIPPED))
    text = Text(args.text, run.done.get("tokenizer"), shape.vocab, device, shape.context)
    run.done["tokenizer"] = text.tokenizer
    print(f"{run.spent():6.1f} s  {len(text.tokens)/1e6:.2f} M tokens, {text.train_bytes/len(text.tokens):.2f} bytes each;"
          f" held out {len(text.held)} stories, {text.held_bytes} bytes", flush=True)  # fmt: skip
    losses = torch.compile(token_losses, dynamic=False) if device.type == "cuda" else token_losses
    finish = min(45, args.minutes * 60 * 0.1)
    begin, left = run.spent(), args.minutes * 60 - finish - run.spent()
    if run.saved:  # shares are of the whole run, not of what is left of it
        begin, left = run.done["begin"], args.minutes * 60 - finish - run.done["begin"]
    run.done["begin"] = begin

    big = Shape(
        vocab=shape.vocab,
        context=shape.context,
        **({k: v for k, v in TINY.items() if k != "context"} if args.tiny else TEACHER),
    )
    until, teachers, about = begin + left * (recipe.teacher_share if recipe.teachers else 0), [], None
    for i in range(recipe.teachers):
        teachers.append(train_teacher(run, text, big, i, until, losses))
    if teachers:
        last = {x[0]: x[7] for x in run.log}
        together = held_out(teachers, text, recipe.batch)
        print(f"{run.spent():6.1f} s  teachers together: {together[0]:.4f}  {together[1]:.4f} bits/byte", flush=True)
        about = {**asdict(big), "parameters": sum(p.numel() for p in teachers[0].parameters()), "together": together[1],
                 "bits_per_byte": [last[f"teacher{i + 1}"] for i in range(len(teachers))]}  # fmt: skip
    torch.manual_seed(args.seed)
    model = Model(shape, recipe.trunk_dropout, mtp=True).to(device)
    speed_up(model, device)
    train_trunk(run, text, model, teachers, until + left * recipe.trunk_share, losses)
    del teachers
    model.dropout = 0.0
    for b in list(model.blocks) + [model.mtp.block]:
        b.dropout = 0.0
    round_to_bf16(model)
    train_drafter(run, text, model, begin + left, losses)
    round_to_bf16(model)

    ship(run, text, plain_copy(model, torch.float32), about)


if __name__ == "__main__":
    main()
