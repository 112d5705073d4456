"""Recomputes the tables "Whole steps" of docs/performance.md from the raw samples in docs/samples.

usage: python3 tools/step_report.py docs/samples/step-*.tsv

A sample is one timed decode step. The two arms of a run take turns in every round, in changing order; the read bandwidth
is probed before and after each turn. The bound is the bytes of a step over the probe; "of bound" is bound over time, the
median over steps. The ratio is that of the per-round medians, with a bootstrap 95 % interval over rounds. Standard
library only.
"""
import random
import statistics
from collections import defaultdict

import samples

median = statistics.median
COLUMNS = [("run", str), ("arm", str), ("sequences", int), ("round", int), ("us", float), ("bytes", float), ("GB/s", float)]


def read(path):
    """run -> [(arm, sequences, round, us, bytes, probe)], runs and arms in the order of the file."""
    runs = defaultdict(list)
    for run, *row in samples.typed(path, samples.read(path), COLUMNS):
        runs[run].append(tuple(row))
    return runs


def interval(ratios, draws=4000):
    rng = random.Random(1)
    medians = sorted(median(rng.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def rounds_of(rows, arm, n):
    by = defaultdict(list)
    for a, b, rnd, us, _, _ in rows:
        if (a, b) == (arm, n):
            by[rnd].append(us)
    return {rnd: median(us) for rnd, us in by.items()}


def cells_of(rows, arm, n):
    mine = [r for r in rows if r[:2] == (arm, n)]
    us = median(r[3] for r in mine)
    bound = median(r[4] / r[5] / 1e3 / r[3] for r in mine)
    return f"{us / 1e3:.1f} ({n * 1e6 / us:.0f})", f"{bound:.2f}"


def report(rows):
    arms = list(dict.fromkeys(r[0] for r in rows))
    head = ["sequences", "MB per step", "probe, GB/s"] + [f"{a}, ms (tokens/s)" for a in arms]
    head += [f"{a}, of bound" for a in arms] + [f"{arms[0]} / {a}" for a in arms[1:]]
    print("| " + " | ".join(head) + " |")
    print("|" + "--:|" * len(head))
    for n in sorted({r[1] for r in rows}):
        mine = [r for r in rows if r[1] == n]
        cells = [str(n), f"{statistics.mean(r[4] for r in mine) / 1e6:.0f}", f"{median(r[5] for r in mine):.0f}"]
        pairs = [cells_of(rows, a, n) for a in arms]
        cells += [p[0] for p in pairs] + [p[1] for p in pairs]
        base = rounds_of(rows, arms[0], n)
        for a in arms[1:]:
            other = rounds_of(rows, a, n)
            ratios = [base[r] / other[r] for r in base if r in other]
            low, high = interval(ratios)
            cells.append(f"{median(ratios):.3f} [{low:.3f}, {high:.3f}]")
        print("| " + " | ".join(cells) + " |")
    print()


names = samples.files("files, such as docs/samples/step-*.tsv")
for name, runs in [(name, read(name)) for name in names]:
    for rows in runs.values():
        print(f"### {name}\n")
        report(rows)
