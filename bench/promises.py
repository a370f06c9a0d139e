#!/usr/bin/env python3
"""How good the promises at the end of a run are: a grid of runs, each of which predicts the others.

    bench/promises.py --photos FOLDER --out promises.md

Every cell of the grid is one setting (intra-op threads, an emulated step, emulated load,
decoding, a busy process beside, the disk), in
which `train` runs with 0, 1 and 2 workers. Each run's summary.json says what the other two would be; the error is
predicted / measured - 1. A promise may come with a range (other programs ran, or the storage was not measured): one
that is wrong by more than 15 % must have the truth in its range.

The disk is a FUSE file system of bench/slow_disk.py, held to 20 MB/s with a page cache of 16 MB: real page faults of the
kernel, not an emulation in the loader. It needs root; without it those cells are left out, and the page says so. The
busy process is one that counts.

The runs of the grid take turns over the repeats, and medians are compared, so that other load of the machine meets all
of them; the page says how much of it there was.
"""
import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from slow_disk import SlowDisk  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORKERS = (0, 1, 2)
GOOD, BAD = 0.05, 0.15
AUGMENT = "resize(size=72),center-crop(size=64),flip(p=0.5)"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=pathlib.Path, required=True, help="JPEG files in a folder per class")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the page, as Markdown; .json beside it")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--loads", default="0,20us,200us")
    parser.add_argument("--steps", default="0", help="emulated ones, as in 10ms; 0: LeNet's own")
    parser.add_argument("--decode", default="scaled,full")
    parser.add_argument("--others", default="none,busy", help="none, busy: a process that counts, pinned: one on the first core")
    parser.add_argument("--disks", default="memory,20MB/s")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--epochs", type=float, default=1, help="of each run, times what the cell's kind takes")
    return parser.parse_args()


def pack(options, folder):
    subprocess.run([options.bin / "shardprep", "pack", "--source", "image-folder", "--input", options.photos,
                    "--out", folder], check=True, capture_output=True)


@contextlib.contextmanager
def busy_process(kind):
    """Runs in the session of this script, so that the scheduler counts it among the same threads."""
    if kind == "none":
        yield
        return
    pin = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" if kind == "pinned" else ""
    process = subprocess.Popen([sys.executable, "-c", pin + "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def on_disk(kind, folder):
    if kind == "memory":
        yield folder
        return
    with SlowDisk(folder, megabytes_per_second=float(kind.removesuffix("MB/s")), cache_megabytes=16) as slow:
        yield slow


def epochs_of(cell, scale):
    """So that a run takes two seconds or more."""
    count = 6 if cell["disk"] != "memory" else 12 if cell["decode"] == "full" else 24
    return max(1, round(count * scale))


def run_once(options, cell, workers, data, out):
    flags = ["--decode", "full", "--dct-scale", "off"] if cell["decode"] == "full" else []
    if cell["load"] != "0":
        flags += ["--emulate-load", cell["load"]]
    if cell["step"] != "0":
        flags += ["--emulate-step", cell["step"]]
    command = [options.bin / "train", "--data", data, "--arch", "lenet", "-b", "32", "--augment", AUGMENT, "--device",
               "cpu", "--epochs", str(epochs_of(cell, options.epochs)), "--threads", cell["threads"], "-j",
               str(workers), "--out", out, *flags]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    summary = json.loads((pathlib.Path(out) / "summary.json").read_text())
    return {"rate": summary["images_per_second"], "sentence": summary["limit"]["sentence"],
            "bound": summary["limit"]["bound"], "other_cores": summary["limit"]["other_cores"],
            "service_ms": summary["limit"]["service_ms"], "predictions": summary["limit"]["predictions"][:3]}


def cells_of(options):
    names = ("threads", "step", "load", "decode", "others", "disk")
    lists = (options.threads, options.steps, options.loads, options.decode, options.others, options.disks)
    return [dict(zip(names, values)) for values in itertools.product(*(text.split(",") for text in lists))]


def measure(options, cells, packed):
    """Returns [cell][workers] -> the runs of all repeats."""
    runs = [{workers: [] for workers in WORKERS} for _ in cells]
    with tempfile.TemporaryDirectory() as folder:
        for repeat, (number, cell) in itertools.product(range(options.repeat), enumerate(cells)):
            for workers in WORKERS:
                with on_disk(cell["disk"], packed) as data, busy_process(cell["others"]):
                    out = os.path.join(folder, f"{number}-{workers}-{repeat}")
                    runs[number][workers].append(run_once(options, cell, workers, data, out))
            rates = [round(runs[number][workers][-1]["rate"]) for workers in WORKERS]
            print(f"{repeat + 1}/{options.repeat} cell {number + 1}/{len(cells)} {cell}: {rates}", flush=True)
    return runs


def median(runs, key):
    return statistics.median(key(run) for run in runs)


def promises_of(runs):
    """The promises of one cell: from, to, measured, predicted and its range, all in images/s."""
    promises = []
    for source, target in itertools.permutations(WORKERS, 2):
        # The promise of each repeat is a gain over its own rate. The noise of the medians does not affect it.
        base, truth = median(runs[source], lambda run: run["rate"]), median(runs[target], lambda run: run["rate"])

        def promised(key, source=source, target=target, base=base):
            return base * median(runs[source], lambda run: run["predictions"][target][key] / run["rate"])

        predicted, low, high = (promised(key) for key in ("images_per_second", "low", "high"))
        promises.append({"from": source, "to": target, "measured": truth, "error": predicted / truth - 1,
                         "low": low, "high": high, "has_range": high > 1.02 * low, "is_in": low <= truth <= high})
    return promises


def cell_text(promise):
    text = f"{100 * promise['error']:+.0f} %"
    if promise["has_range"]:
        ends = [100 * (promise[end] / promise["measured"] - 1) for end in ("low", "high")]
        text += f" ({ends[0]:+.0f} to {ends[1]:+.0f})"
    is_bad = abs(promise["error"]) > BAD and not (promise["has_range"] and promise["is_in"])
    return f"**{text}**" if is_bad else text


def page(options, cells, runs):
    promises = [promises_of(one) for one in runs]
    everything = [promise for one in promises for promise in one]
    errors = [abs(promise["error"]) for promise in everything]
    bare = [promise for promise in everything
            if abs(promise["error"]) > BAD and not (promise["has_range"] and promise["is_in"])]
    quiet = [run["other_cores"] for cell, one in zip(cells, runs) if cell["others"] == "none"
             for workers in WORKERS for run in one[workers]]
    lines = ["| threads | step | load | decode | others | disk | images/s with 0, 1, 2 | "
             + " | ".join(f"{p['from']} of {p['to']}" for p in promises[0]) + " |",
             "|---:|---:|---:|---|---|---|---|" + "---:|" * len(promises[0])]
    for cell, one, found in zip(cells, runs, promises):
        rates = ", ".join(f"{median(one[workers], lambda run: run['rate']):,.0f}" for workers in WORKERS)
        lines.append(f"| {cell['threads']} | {cell['step']} | {cell['load']} | {cell['decode']} | {cell['others']} | {cell['disk']} | "
                     f"{rates} | " + " | ".join(cell_text(promise) for promise in found) + " |")
    lines += ["", f"{len(everything)} predictions, medians of {options.repeat} repeats: median error "
              f"{100 * statistics.median(errors):.1f} %, {sum(error <= GOOD for error in errors)} within 5 %, "
              f"{sum(error > BAD for error in errors)} over 15 %, of which {len(bare)} without a range that holds the "
              "truth (bold)."]
    ranges = [promise for promise in everything if promise["has_range"]]
    if ranges:
        lines += [f"Of {len(ranges)} ranges {sum(promise['is_in'] for promise in ranges)} hold the truth."]
    if quiet:
        lines += [f"Other programs, in the cells without a busy process: {statistics.median(quiet):.2f} cores in the "
                  f"median, up to {max(quiet):.2f}."]
    return "\n".join(lines) + "\n"


def main():
    options = arguments()
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("no slow disk: needs root and /dev/fuse; its cells are left out", file=sys.stderr)
        options.disks = "memory"
    cells = cells_of(options)
    with tempfile.TemporaryDirectory() as packed:
        pack(options, packed)
        runs = measure(options, cells, packed)
    text = page(options, cells, runs)
    options.out.write_text(text)
    options.out.with_suffix(".json").write_text(json.dumps([{"cell": cell, "runs": one} for cell, one
                                                            in zip(cells, runs)], indent=1))
    print(text)


if __name__ == "__main__":
    main()
