"""Runs `train --exact` in every mode, mesh and hosting and from checkpoints of other modes, and compares model.safetensors
and what metrics.jsonl says of training and evaluations: the loss of every step and epoch, and the scores of the test set.

Prints a table as Markdown; exit code 1 if one run ends with other bits than the first one, which is `single`. The programs
are those of PENSTOCK_BIN, or build/release/bin. A run that is already in --out is not run again."""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

# 49 batches of 16 and one of 11 per epoch, 200 steps in 4 epochs; checkpoints in the middle of epochs.
TRAINING = ["--data", "digits(count=795,size=32)", "-b", 16, "--epochs", 4, "--lr", 0.01, "--device", "cpu",
            "--eval-at-end"]
CHECKPOINTS = ["--save-every", "70 steps", "--keep", 4]  # of runs that others go on from
THREADS = ["--hosting", "threads"]
WORKERS = ["-j", 3, "--prefetch", 1]

# mode, ranks, other flags, and the run and step whose checkpoint it goes on from.
RUNS = {
    "single": ("single", 1, [], None),
    "workers": ("single", 1, WORKERS, None),
    "ddp-2": ("ddp", 2, [], None),
    "ddp-4": ("ddp", 4, [], None),
    "ddp-8": ("ddp", 8, [], None),
    "ddp-8-threads": ("ddp", 8, THREADS, None),
    "dp-2": ("dp(devices=cpu:2)", 1, [], None),
    "dp-4": ("dp(devices=cpu:4)", 1, [], None),
    "mp-2": ("mp", 2, [], None),
    "mp-4-threads": ("mp", 4, THREADS, None),
    "gpipe-2": ("pipeline(schedule=gpipe)", 2, [], None),
    "1f1b-2": ("pipeline(schedule=1f1b)", 2, [], None),
    "1f1b-4-threads": ("pipeline(schedule=1f1b)", 4, THREADS, None),
    "interleaved-2": ("pipeline(schedule=interleaved)", 2, [], None),
    "zero-bubble-2": ("pipeline(schedule=zero-bubble)", 2, [], None),
    "zero-bubble-2-threads": ("pipeline(schedule=zero-bubble)", 2, THREADS, None),
    "recompute-2": ("pipeline(recompute=always)", 2, [], None),
    "data-2": ("pipeline(data=2)", 4, [], None),
    "data-4-threads": ("pipeline(data=4,schedule=zero-bubble)", 8, THREADS, None),
    "data-zero": ("pipeline(data=2,zero=1)", 4, [], None),
    "zero1-2": ("zero", 2, [], None),
    "zero2-4": ("zero(stage=2)", 4, [], None),
    "zero3-2": ("zero(stage=3)", 2, [], None),
    "zero3-8-threads": ("zero(stage=3)", 8, THREADS, None),
    "ddp-4-then-pipeline": ("pipeline", 2, [], ("ddp-4", 70)),
    "pipeline-then-zero3": ("zero(stage=3)", 4, WORKERS, ("ddp-4-then-pipeline", 140)),
    "data-2-then-dp": ("dp(devices=cpu:2)", 1, [], ("data-2", 70)),
    "zero3-then-single": ("single", 1, [], ("zero3-2", 140)),
}


def command_of(name, options):
    mode, ranks, flags, begin = RUNS[name]
    words = [options.train]
    if begin:
        words += ["--resume", options.out / begin[0] / f"checkpoint-step-{begin[1]}.safetensors"]
    else:
        words += [*TRAINING, "--arch", options.arch, "--exact", "--exact-kernels", options.kernels]
    if any(other and other[0] == name for *_, other in RUNS.values()):
        words += CHECKPOINTS
    words += [*(flags if "-j" in flags else ["-j", 1, *flags]), "--mode", mode, "--out", options.out / name]
    words += ["-p", 1]  # every loss is compared
    return [str(word) for word in (words + ["--nproc", ranks] if ranks > 1 else words)]


def train(name, options):
    """The digest of what a run ends with, what it says, and how long it took. The run before it, if there is one, has to be
    there. A run of the same command and the same program, which an interrupted call has left, is not made again."""
    weights, log, made_by = options.out / name / "model.safetensors", options.out / f"{name}.log", options.out / f"{name}.json"
    start = time.monotonic()
    command = command_of(name, options)
    made = json.dumps({"train": hashlib.sha256(options.train.read_bytes()).hexdigest(), "command": command})
    if not weights.exists() or not made_by.exists() or made_by.read_text(encoding="utf-8") != made:
        shutil.rmtree(options.out / name, ignore_errors=True)
        with open(log, "w", encoding="utf-8") as file:
            code = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT).returncode
        if code != 0:
            sys.exit(f"exact: {name}: train ended with exit code {code}; see {log}")
        made_by.write_text(made, encoding="utf-8")
    return hashlib.sha256(weights.read_bytes()).hexdigest(), said(options.out / name), time.monotonic() - start


def said(folder):
    """By kind and step of a record: losses and scores, in all digits. A run that goes on has those from there on."""
    records = map(json.loads, (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return {(one["kind"], one["step"]): {key: value for key, value in one.items()
                                         if key in ("loss", "accuracy") or key.startswith("test_")} for one in records}


def text_of(name):
    mode, ranks, flags, begin = RUNS[name]
    hosting = "threads" if flags == THREADS else "processes" if ranks > 1 else "-"
    workers = ", 3 workers" if flags == WORKERS else ""
    before = f"`{RUNS[begin[0]][0]}` over {RUNS[begin[0]][1]}, from step {begin[1]} " if begin else ""
    return f"| {before}`{mode}`{workers} | {ranks} | {hosting} |"


def main():
    parser = argparse.ArgumentParser(prog="script/exact", description=__doc__)
    parser.add_argument("--arch", default="resnet18", help="model to train (default: resnet18)")
    parser.add_argument("--kernels", default="avx2", choices=("avx2", "native"), help="those of --exact-kernels")
    parser.add_argument("--only", default="", help="a regular expression of the runs: " + ", ".join(RUNS))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/exact"), help="folder (default: runs/exact)")
    options = parser.parse_args()
    options.train = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin")).resolve() / "train"
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in RUNS if re.search(options.only, name) or name == "single"]
    for name in chosen:  # what one goes on from is run before it
        if (begin := RUNS[name][3]) and begin[0] not in chosen:
            sys.exit(f"exact: --only is {options.only!r}, which has {name} without {begin[0]}; expected both")
    print("| mode | ranks | hosting | sha256 | s |\n|---|---|---|---|---|")
    expected, losses, different = None, None, []
    for name in chosen:
        digest, words, seconds = train(name, options)
        expected, losses = expected or digest, losses or words
        differs = " **differs**" if digest != expected else ""
        if wrong := [record for record in words if words[record] != losses.get(record)]:
            differs += f" **says other numbers, first of {wrong[0][0]} {wrong[0][1]}**"
        if differs:
            different.append(name)
        print(f"{text_of(name)} `{digest[:16]}`{differs} | {seconds:.0f} |", flush=True)
    print(f"\n{len(chosen) - len(different)} of {len(chosen)} runs end with the same bits, and have said the same losses and scores")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
