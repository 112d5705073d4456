"""Recomputes the tables of docs/performance.md from the raw samples in docs/samples.

usage: python3 tools/moe_report.py docs/samples/moe-*.tsv

A sample is one timed step over the layers, in microseconds per layer. Arms take turns in every round, in rotated order;
the read bandwidth is probed before and after each turn. The ratio is that of the per-round medians, with a bootstrap
95 % interval over rounds. Standard library only.
"""
import random
import statistics
from collections import defaultdict

import samples

median = statistics.median
COLUMNS = [("arm", str), ("tokens", int), ("round", int), ("us", float), ("bytes", float), ("GB/s", float)]


def interval(ratios, draws=4000):
    rng = random.Random(1)
    means = sorted(median(rng.choices(ratios, k=len(ratios))) for _ in range(draws))
    return means[int(0.025 * draws)], means[int(0.975 * draws)]


def report(rows):
    arms = list(dict.fromkeys(r[0] for r in rows))
    by = defaultdict(lambda: defaultdict(list))  # (arm, n) -> round -> us
    size, probe = defaultdict(list), defaultdict(list)
    for arm, n, rnd, us, nbytes, gbps in rows:
        by[arm, n][rnd].append(us)
        size[n].append(nbytes)
        probe[arm, n].append(gbps)
    head = ["tokens"] + [f"{a}, µs (GB/s)" for a in arms]
    head += ["cadre, % of probe", "cadre, GFLOP/s"] + [f"cadre / {a}" for a in arms[1:]]
    print("| " + " | ".join(head) + " |")
    print("|" + "--:|" * len(head))
    for n in sorted({r[1] for r in rows}):
        us = {a: median([u for r in by[a, n].values() for u in r]) for a in arms}
        nbytes = statistics.mean(size[n])
        cells = [str(n)] + [f"{us[a]:.0f} ({nbytes / us[a] / 1e3:.1f})" for a in arms]
        mine = arms[0]
        cells.append(f"{100 * nbytes / us[mine] / 1e3 / median(probe[mine, n]):.0f}")
        cells.append(f"{2 * 3 * 2048 * 768 * 8 * n / us[mine] / 1e3:.0f}")
        for a in arms[1:]:
            ratios = [median(by[mine, n][r]) / median(by[a, n][r]) for r in by[mine, n] if r in by[a, n]]
            low, high = interval(ratios)
            cells.append(f"{median(ratios):.3f} [{low:.3f}, {high:.3f}]")
        print("| " + " | ".join(cells) + " |")
    print()


names = samples.files("files, such as docs/samples/moe-*.tsv")
for name, rows in [(name, samples.typed(name, samples.read(name), COLUMNS)) for name in names]:
    print(f"### {name}\n")
    report(rows)
