#!/usr/bin/env python3
"""The studies of docs/reports/modes.md: runs `train study` for each and writes its tables, with the command, into the document.

    .venv/bin/python bench/train/modes.py machine machine-4 nodes sweep     emulated: they sleep, and may run beside other programs
    .venv/bin/python bench/train/modes.py cpu cpu-dp cpu-sweep                     real: the machine must be idle

A study stands in the document between <!-- NAME --> and <!-- /NAME -->; what is between them is replaced. A study that
was stopped goes on where it was. ResNet-50's emulated step takes ten times as long as the published one, over a network
a tenth as fast, so that the true bytes of its messages fit beside it on two cores. `train plan-modes` with the same flags gives
the column "predicted s".
"""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/reports/modes.md"
SLOWER = 10
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
RESNET50 = ["-a", "resnet50", "-b", "64", "--epochs", "1", "--device", "cpu", "--workers", "1", "--data",
            "digits(count=512,size=224)", "--emulate-step", "1930ms"]
RESNET18 = ["-a", "resnet18", "-b", "64", "--epochs", "1", "--device", "cpu", "--workers", "1", "--data",
            "digits(count=1280,size=64)", "--repeat", "3"]  # fmt: skip
SWEEP = (1, 2, 4, 8, 16, 32)


def sweep_of(cut):
    return ",".join(["single", f"mp(cut={cut})", *(f"pipeline(cut={cut},schedule=gpipe,micro-batches={count})" for count in SWEEP)])


STUDIES = {
    "machine": ["--modes", "single,dp,dp(devices=cpu:4),ddp,zero,mp(cut=layer3),pipeline(cut=layer3,schedule=gpipe)", "--nproc", "1,2",
                "--sim-net", "100us,1.6GB/s", *RESNET50],
    "machine-4": ["--modes", "single,ddp,zero,pipeline(cut=layer2:layer3:layer4,schedule=gpipe,micro-batches=32)", "--nproc", "1,4",
                  "--sim-net", "100us,1.6GB/s", *RESNET50],
    "nodes": ["--modes", "single,ddp", "--nproc", "1,2,4", "--sim-net", "500us,30MB/s", *RESNET50],
    "sweep": ["--modes", sweep_of("layer3"), "--nproc", "1,2", "--sim-net", "20ms,1.6GB/s", *RESNET50],
    "cpu": ["--modes", "single,ddp,zero,mp(balance=time),pipeline(balance=time)", "--nproc", "1,2", "--threads", "1", *RESNET18],
    "cpu-dp": ["--modes", "single,dp", "--nproc", "1", "--threads", "2", *RESNET18],
    "cpu-sweep": ["--modes", sweep_of("layer2"), "--nproc", "1,2", "--threads", "1", *RESNET18],
}  # fmt: skip
PUBLISHED = {  # images/s, ResNet-50, MNIST, batch 64, V100
    ("machine", "single", "1"): 332, ("machine", "dp", "1"): 583, ("machine", "dp(devices=cpu:4)", "1"): 818,
    ("machine", "ddp", "2"): 513, ("machine", "zero", "2"): 43, ("machine", "mp(cut=layer3)", "2"): 331,
    ("machine", "pipeline(cut=layer3,schedule=gpipe)", "2"): 398, ("machine-4", "single", "1"): 332, ("machine-4", "ddp", "4"): 880,
    ("machine-4", "zero", "4"): 38, ("nodes", "single", "1"): 332, ("nodes", "ddp", "2"): 516, ("nodes", "ddp", "4"): 131,
}  # fmt: skip
LEFT_OUT = {"augment", "workers", "load wait", "accuracy", "times"}


def quoted(word):
    return word if re.fullmatch(r"[\w.,:=/+-]+", word) else f"'{word}'"


def mode_rows(text):
    """The table of modes in study.md, each row as a dictionary."""
    lines = [line for line in text.split("## Modes")[1].split("\n## ")[0].splitlines() if line.startswith("|")]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, row)) for row in rows]


def add_predictions(options, name, rows):
    """What `train plan-modes` says with the flags of the study: its step, as often as the study makes one."""
    file, flags = options.out / f"{name}-plan.json", list(STUDIES[name])
    if "--repeat" in flags:
        at = flags.index("--repeat")
        del flags[at : at + 2]
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([options.bin / "train", "plan-modes", *flags, "--json", file], check=True, env=ENV)
    samples = int(re.search(r"count=(\d+)", flags[flags.index("--data") + 1])[1])
    steps = int(flags[flags.index("--epochs") + 1]) * math.ceil(samples / int(flags[flags.index("-b") + 1]))
    seconds = {(row["mode"], str(row["ranks"])): steps * row["step_seconds"]
               for row in json.loads(file.read_text())["rows"] if "step_seconds" in row}  # fmt: skip
    for row in rows:
        predicted = seconds.get((row["mode"], row["ranks"]))
        row["predicted s"] = "no prediction" if predicted is None else f"{predicted:.{3 if predicted < 10 else 1}f}"
        row["prediction error"] = "-" if predicted is None else f"{100 * (predicted / float(row['total s']) - 1):+.0f} %"


def table(name, rows):
    is_resnet50 = any(row["times"] == "emulated" for row in rows)
    columns = [column for column in rows[0] if column not in LEFT_OUT and not (is_resnet50 and column == "peak memory of every rank")]
    if not is_resnet50:
        columns.insert(columns.index("trains as single"), "accuracy")
    has_published = any(key[0] == name for key in PUBLISHED)
    for row in rows:
        if is_resnet50:
            row["images/s"] += " [emulated]"
        row[f"images/s x {SLOWER}"] = f"{SLOWER * float(row['images/s'].split()[0]):.0f} [emulated]"
        row["published images/s"] = str(PUBLISHED.get((name, row["mode"], row["ranks"]), "-"))
    if has_published:
        columns[columns.index("images/s")] = f"images/s x {SLOWER}"
        columns.insert(columns.index(f"images/s x {SLOWER}") + 1, "published images/s")
    text = "| " + " | ".join(columns) + " |\n|---" + "|---:" * (len(columns) - 1) + "|\n"
    return text + "".join("| " + " | ".join(row[column] for column in columns) + " |\n" for row in rows)


def modes_chart(report):
    """The file that the page's link below the chart saves."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    page = subprocess.run(["chromium", *flags, report.resolve().as_uri()], capture_output=True, text=True, check=True).stdout
    return urllib.parse.unquote(re.search(r'download="chart-modes.svg" href="data:image/svg\+xml,([^"]*)"', page)[1])


def run(options, name):
    out = options.out / name
    subprocess.run([options.bin / "train", "study", *STUDIES[name], "--out", out], check=True, env=ENV)
    text = (out / "study.md").read_text()
    setting = text.split("\n\n")[2]
    busy = [line[2:] for line in text.splitlines() if "ran while other programs had" in line]
    command = "    train study " + " ".join(map(quoted, STUDIES[name]))
    rows = mode_rows(text)
    add_predictions(options, name, rows)
    block = f"{command}\n\n{setting}. {' '.join(busy)}".rstrip() + f"\n\n{table(name, rows)}"
    document = DOCUMENT.read_text()
    pattern = re.compile(rf"<!-- {name} -->\n.*?<!-- /{name} -->", re.DOTALL)
    assert len(pattern.findall(document)) == 1, f"docs/reports/modes.md has no one place for {name}"
    DOCUMENT.write_text(pattern.sub(lambda _: f"<!-- {name} -->\n{block}<!-- /{name} -->", document))
    if name.endswith("sweep"):
        (ROOT / f"docs/reports/modes-{name}.svg").write_text(modes_chart(out / "report.html"))
    print(block)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=STUDIES)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "runs/modes", help="folder of the studies")
    options = parser.parse_args()
    for name in options.names:
        run(options, name)


if __name__ == "__main__":
    main()
