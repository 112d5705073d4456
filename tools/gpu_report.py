"""Makes the GPU tables of docs/performance.md from raw samples: python3 tools/gpu_report.py docs/samples/gpu-moe.tsv, or of sweeps:
gpu-sweep.tsv, gpu-passes.tsv"""
import collections
import random
import statistics
import sys


def read_rows(path):
    with open(path, encoding="utf-8") as lines:
        return [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]


def sweep(rows):
    """A row for each configuration, a column for each m: medians."""
    head, times = rows[0], collections.defaultdict(list)
    labels = [i for i, name in enumerate(head) if name not in ("m", "us")]
    for row in rows[1:]:
        times[tuple(row[i] for i in labels), int(row[head.index("m")])].append(float(row[head.index("us")]))
    columns = sorted({m for _, m in times})
    print("| " + " | ".join([head[i] for i in labels] + [f"{m} tokens" for m in columns]) + " |")
    print("|--" * len(labels) + "|--:" * len(columns) + "|")
    for about in dict.fromkeys(about for about, _ in times):
        cells = (times.get((about, m)) for m in columns)
        print("| " + " | ".join([*about, *(f"{statistics.median(v):.1f}" if v else "" for v in cells)]) + " |")


def read(rows):
    """{(shape, routing): {m: {(who, config): [us]}}} and {(shape, routing, m): (touched, floor)} of cadre."""
    times = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    about = {}
    for who, shape, routing, m, config, touched, floor, us in rows[1:]:
        times[shape, routing][int(m)][who, config].append(float(us))
        if who == "cadre":
            about[shape, routing, int(m)] = touched, floor
    return times, about


def interval(ours, theirs, rounds=2000):
    """95 % of the ratio of medians, by resampling both."""
    draw = random.Random(1)
    ratios = sorted(statistics.median(draw.choices(ours, k=len(ours))) / statistics.median(draw.choices(theirs, k=len(theirs)))
                    for _ in range(rounds))
    return ratios[rounds // 40], ratios[-rounds // 40 - 1]


def main():
    rows = read_rows(sys.argv[1])
    if "set" in rows[0]:
        return sweep(rows)
    times, about = read(rows)
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
