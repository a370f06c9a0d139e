#!/usr/bin/env python3
"""Predictions of `train plan-modes` beside what runs take: writes the tables and the chart of docs/reports/modes.md.

    .venv/bin/python bench/train/predicted.py lenet resnet18 resnet18-224        the machine must be idle; ten minutes a round

In each round the machine is measured once, before any mode runs; then each row runs, and its steps after the first ones
count: the mean over the records of metrics.jsonl. A table has the means over --rounds of what was predicted and of what was
measured: a processor that is shared with other machines is up to twice as fast in one minute as in the next one, and a median
of a few rounds would be one of its speeds.
It stands in the document between <!-- predicted-NAME --> and <!-- /predicted-NAME -->; what is between them is replaced.
Results are kept in --out, so that the tables can be written again (--only-write) and a measurement that was stopped goes on.
"""
import argparse
import itertools
import json
import math
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/reports/modes.md"
CHART = ROOT / "docs/reports/modes-predicted.svg"


def split_sizes(cut, counts=(1, 2, 4, 8, 16, 32), schedule="gpipe"):
    return [f"pipeline(cut={cut},schedule={schedule},micro-batches={count})" for count in counts]


SETTINGS = {
    "lenet": (["-a", "lenet", "-b", "64", "--data", "digits(count=19200)"], "1,2,4", "20",
              ["single", "ddp", "zero", "zero(stage=2)", "ddp(local-steps=4)", "ddp(local-steps=4,outer=nesterov)", "mp", "pipeline",
               "pipeline(balance=time,schedule=zero-bubble)", "pipeline(data=2)", *split_sizes("conv2", (2, 8, 32))]),
    # Compression measures its error in every step that is printed, at the cost of a sum: one of 4.
    "resnet18": (["-a", "resnet18", "-b", "64", "--data", "digits(count=768,size=64)"], "1,2,4", "4",
                 ["single", "ddp", "ddp(compress=fp16)", "ddp(compress=powersgd)", "ddp(sync-bn=true)", "zero", "zero(stage=2)",
                  "zero(stage=3)", "zero(stage=3,sync-bn=true)", "mp(balance=time)", "pipeline", "pipeline(balance=time)",
                  "pipeline(balance=time,schedule=zero-bubble)", "pipeline(balance=time,schedule=zb-v)",
                  "pipeline(balance=time,schedule=dualpipe-v)", "pipeline(data=2)", *split_sizes("layer2")]),
    "resnet18-224": (["-a", "resnet18", "-b", "32", "--data", "digits(count=160,size=224)"], "1,2", "1",
                     ["single", "ddp", "mp(balance=time)", "pipeline(balance=time)"]),
}  # fmt: skip
COMMON = ["--epochs", "1", "--device", "cpu", "--threads", "1", "--workers", "1", "--eval-at-end"]


def quoted(word):
    return word if re.fullmatch(r"[\w.,:=/+-]+", word) else f"'{word}'"


def plan_command(name):
    flags, ranks, _, modes = SETTINGS[name]
    return ["train", "plan-modes", "--modes", ",".join(modes), "--nproc", ranks, *flags, *COMMON]


def measure(options, name, out):
    out.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    if not (out / "plan.json").exists():
        command = plan_command(name)
        start = time.monotonic()
        subprocess.run([options.bin / command[0], *command[1:], "--save-machine", out / "machine.json", "--json", out / "plan.json"],
                       check=True, env=env)  # fmt: skip
        (out / "seconds").write_text(f"{time.monotonic() - start:.1f}")
    flags, _, freq, _ = SETTINGS[name]
    rows = list(enumerate(json.loads((out / "plan.json").read_text())["rows"]))
    random.Random(out.name).shuffle(rows)  # so that a slow minute falls on other rows in each round
    for number, row in rows:
        folder = out / f"{number:02d}"
        if "step_seconds" not in row or (folder / "summary.json").exists():
            continue
        shutil.rmtree(folder, ignore_errors=True)
        microseconds = f"{1e6 * row['step_seconds']:.0f}us"
        done = subprocess.run([options.bin / "train", *flags, *COMMON, "--print-freq", freq, "--mode", row["mode"], "--nproc",
                               str(row["ranks"]), "--predicted-step", microseconds, "--out", folder], env=env, capture_output=True,
                              text=True)  # fmt: skip
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("prediction:", "train:", "[rank"))]
        for weights in folder.glob("*.safetensors"):  # 400 MB of a ResNet-18, of which nothing is read
            weights.unlink()
        print(row["mode"], row["ranks"], *lines, sep=" | ", flush=True)


def step_seconds(folder):
    """Mean over the records between the fastest and the slowest tenth, as plan-modes takes it. Without the first record, in
    which kernels are prepared, and those of the first three steps, after which the heap has its shape; of fewer steps, the
    last one."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [record for record in records if record["kind"] == "step"]
    settled = [record for record in steps[1:] if record["step"] > 3] or steps[-1:]
    seconds = sorted((record["load_ms"] + record["update_ms"]) * 1e-3 for record in settled)
    cut = len(seconds) // 10
    return statistics.mean(seconds[cut : len(seconds) - cut])


def round_results(out):
    """By mode and ranks: each row of the plan that has run, with what was measured."""
    rows = {}
    for number, row in enumerate(json.loads((out / "plan.json").read_text())["rows"]):
        folder = out / f"{number:02d}"
        if "step_seconds" not in row or not (folder / "summary.json").exists():
            continue
        summary = json.loads((folder / "summary.json").read_text())
        row["measured"] = step_seconds(folder)
        row["memory"] = max(row["rank_bytes"])
        row["measured_memory"] = max(summary["peak_memory_bytes_of_ranks"])
        row["measured_bubble"] = summary.get("bubble", {}).get("measured")
        rows[row["mode"], row["ranks"]] = row
    return rows


def results(options, name):
    """Means over the rounds, fastest first as predicted."""
    rounds = [round_results(plan.parent) for plan in sorted((options.out / name).glob("*/plan.json"))]
    rows = []
    for key in set.intersection(*map(set, rounds)):
        same = [one[key] for one in rounds]
        row = {"mode": key[0], "ranks": key[1]}
        for field in ["step_seconds", "measured", "memory", "measured_memory", "bubble", "measured_bubble"]:
            values = [one[field] for one in same if one[field] is not None]
            row[field] = statistics.mean(values) if values else None
        row["error"] = row["step_seconds"] / row["measured"] - 1
        row["memory_error"] = row["memory"] / row["measured_memory"] - 1
        rows.append(row)
    return sorted(rows, key=lambda row: row["step_seconds"])


def seconds(value):
    return f"{value * 1e3:.2f} ms" if value < 0.1 else f"{value:.3f} s"


def wrong_pairs(rows):
    """Pairs that differ by more than 10 % as measured, and those of them that are predicted in the other order."""
    pairs = [(a, b) for a, b in itertools.combinations(rows, 2) if abs(math.log(a["measured"] / b["measured"])) > math.log(1.1)]
    return len(pairs), sum((a["measured"] < b["measured"]) != (a["step_seconds"] < b["step_seconds"]) for a, b in pairs)


def summary_of(rows):
    errors, memory = [abs(row["error"]) for row in rows], [abs(row["memory_error"]) for row in rows]
    count, wrong = wrong_pairs(rows)
    return (f"Seconds per step: median error {statistics.median(errors):.0%}, worst {max(errors):.0%}. Memory: median error "
            f"{statistics.median(memory):.0%}, worst {max(memory):.0%}. Of {count} pairs of modes that differ by more than 10 %, "
            f"{count - wrong} are predicted in the order in which they are.").replace("%", " %").replace("10  %", "10 %")  # fmt: skip


def table(rows):
    text = ("| mode | ranks | predicted | measured | error | predicted memory | measured memory | error | predicted bubble | "
            "measured bubble |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")  # fmt: skip
    for row in rows:
        bubble = "-" if row["measured_bubble"] is None else f"{100 * row['measured_bubble']:.0f} %"
        text += (f"| {row['mode']} | {row['ranks']} | {seconds(row['step_seconds'])} | {seconds(row['measured'])} | "
                 f"{100 * row['error']:+.0f} % | {row['memory'] / 1e6:.0f} MB | {row['measured_memory'] / 1e6:.0f} MB | "
                 f"{100 * row['memory_error']:+.0f} % | {100 * row['bubble']:.0f} % | {bubble} |\n")  # fmt: skip
    return text


def chart(all_rows):
    """Predicted over measured seconds, both logarithmic, with lines at 20 % to both sides."""
    size, margin, colours = 420, 50, ["#1f77b4", "#d62728", "#9467bd", "#2ca02c"]
    values = [value for rows in all_rows.values() for row in rows for value in (row["measured"], row["step_seconds"])]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))

    def place(value):
        return margin + (math.log10(value) - low) / (high - low) * (size - 2 * margin)

    def line(factor, dash):
        a, b = 10.0**low, 10.0**high
        return (f'<line x1="{place(a):.1f}" y1="{size - place(a * factor):.1f}" x2="{place(b):.1f}" y2="{size - place(b * factor):.1f}" '
                f'stroke="#888" stroke-dasharray="{dash}"/>')  # fmt: skip

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size} {size}" font-family="sans-serif" font-size="11">',
             f'<rect width="{size}" height="{size}" fill="white"/>', line(1, "none"), line(1.2, "3"), line(1 / 1.2, "3")]  # fmt: skip
    for power in range(low, high + 1):
        at, label = place(10.0**power), f"{10.0**power:g} s"
        parts.append(f'<text x="{at:.1f}" y="{size - margin + 16}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{margin - 6}" y="{size - at + 4:.1f}" text-anchor="end">{label}</text>')
    for (name, rows), colour in zip(all_rows.items(), colours):
        for row in rows:
            title = f"{name}: {row['mode']}, {row['ranks']} ranks: {seconds(row['step_seconds'])} predicted, {seconds(row['measured'])}"
            parts.append(f'<circle cx="{place(row["measured"]):.1f}" cy="{size - place(row["step_seconds"]):.1f}" r="3" fill="{colour}" '
                         f'fill-opacity="0.7"><title>{title}</title></circle>')  # fmt: skip
        parts.append(f'<text x="{margin + 6}" y="{margin + 14 * (1 + list(all_rows).index(name))}" '
                     f'fill="{colour}">{name}</text>')  # fmt: skip
    parts.append(f'<text x="{size / 2}" y="{size - 12}" text-anchor="middle">measured seconds per step</text>')
    parts.append(f'<text x="14" y="{size / 2}" text-anchor="middle" transform="rotate(-90 14 {size / 2})">predicted</text>')
    CHART.write_text("\n".join(parts + ["</svg>\n"]))


def write(options, names):
    all_rows = {name: results(options, name) for name in SETTINGS if list((options.out / name).glob("*/plan.json"))}
    document = DOCUMENT.read_text()
    for name in names:
        command, rows = " ".join(map(quoted, plan_command(name))), all_rows[name]
        took = [float(file.read_text()) for file in (options.out / name).glob("*/seconds")]
        block = (f"    {command}\n\nThe prediction of all rows took {statistics.median(took):.0f} s, median of {len(took)} rounds. "
                 f"{summary_of(rows)}\n\n{table(rows)}")  # fmt: skip
        if name == "resnet18":
            block += "\n![Predicted over measured seconds per step, with lines 20 % to both sides](modes-predicted.svg)\n"
        pattern = re.compile(rf"<!-- predicted-{name} -->\n.*?<!-- /predicted-{name} -->", re.DOTALL)
        if not pattern.search(document):
            print(f"docs/reports/modes.md has no place for predicted-{name}; this is its table:")
        document = pattern.sub(lambda _, n=name, b=block: f"<!-- predicted-{n} -->\n{b}<!-- /predicted-{n} -->", document)
        print(block)
    DOCUMENT.write_text(document)
    chart(all_rows)
    print("all:", summary_of([row for rows in all_rows.values() for row in rows]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=SETTINGS)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/predicted", help="folder of the runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only-write", action="store_true", help="run nothing")
    options = parser.parse_args()
    for number in range(0 if options.only_write else options.rounds):
        for name in options.names:
            measure(options, name, options.out / name / f"round-{number}")
    write(options, options.names)


if __name__ == "__main__":
    main()
