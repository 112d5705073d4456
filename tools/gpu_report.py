"""Makes the GPU tables of docs/performance.md from raw samples: python3 tools/gpu_report.py docs/samples/gpu-moe.tsv, or of sweeps:
gpu-sweep.tsv, gpu-passes.tsv"""
import collections
import random
import statistics

import samples

TYPES = {"m": int, "us": float}
MOE = "who shape routing m config touched floor_us us".split()


def sweep(head, rows):
    """A row for each configuration, a column for each m: medians."""
    times = collections.defaultdict(list)
    labels = [i for i, name in enumerate(head) if name not in TYPES]
    for row in rows:
        times[tuple(row[i] for i in labels), row[head.index("m")]].append(row[head.index("us")])
    columns = sorted({m for _, m in times})
    print("| " + " | ".join([head[i] for i in labels] + [f"{m} tokens" for m in columns]) + " |")
    print("|--" * len(labels) + "|--:" * len(columns) + "|")
    for about in dict.fromkeys(about for about, _ in times):
        cells = (times.get((about, m)) for m in columns)
        print("| " + " | ".join([*about, *(f"{statistics.median(v):.1f}" if v else "" for v in cells)]) + " |")


def read(path, rows):
    """{(shape, routing): {m: {(who, config): [us]}}} and {(shape, routing, m): (touched, floor)} of cadre."""
    times = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    about = {}
    for who, shape, routing, m, config, touched, floor, us in rows:
        times[shape, routing][m][who, config].append(us)
        if who == "cadre":
            about[shape, routing, m] = touched, floor
    for (shape, routing), by_m in times.items():
        for m, arms in by_m.items():
            if ("cadre", "policy") not in arms or len(arms) < 2:
                samples.refuse(f"{path}: {shape}, {routing}, m = {m}: expected rows of cadre's policy and of another")
    return times, about


def interval(ours, theirs, rounds=2000):
    """95 % of the ratio of medians, by resampling both."""
    draw = random.Random(1)
    ratios = sorted(statistics.median(draw.choices(ours, k=len(ours))) / statistics.median(draw.choices(theirs, k=len(theirs)))
                    for _ in range(rounds))
    return ratios[rounds // 40], ratios[-rounds // 40 - 1]


def main():
    path, *more = samples.files("a file, such as docs/samples/gpu-moe.tsv")
    if more:
        samples.refuse(f"expected one file, found {more[0]} too")
    (_, head), *rows = samples.read(path)
    if head != MOE and not {"set", *TYPES} <= set(head):
        samples.refuse(f"{path}: expected the columns {' '.join(MOE)}, or those of a sweep, with set, m and us")
    rows = samples.typed(path, rows, [(name, TYPES.get(name, str)) for name in head])
    if head != MOE:
        return sweep(head, rows)
    times, about = read(path, rows)
    for (shape, routing), by_m in times.items():
        print(f"\n{shape}, {routing} routing\n")
        print("| tokens | experts touched | floor, µs | cadre, µs | floor / time | vLLM, µs (better of its configs) | cadre / vLLM |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
        for m, arms in by_m.items():
            ours = arms.pop(("cadre", "policy"))
            (_, config), theirs = min(arms.items(), key=lambda arm: statistics.median(arm[1]))
            touched, floor = about[shape, routing, m]
            us, peer = statistics.median(ours), statistics.median(theirs)
            low, high = interval(ours, theirs)
            print(f"| {m} | {touched} | {floor} | {us:.1f} | {float(floor) / us:.2f} | {peer:.1f} ({config}) "
                  f"| {us / peer:.3f} [{low:.3f}, {high:.3f}] |")


main()
