"""Parallel modes on two CPU ranks: ours beside Python PyTorch's, and beside each other, in turn:

    .venv/bin/python bench/peers/modes.py --data FOLDER [--rounds 5] [--cases ddp-lenet,zero] [--cut layer2]
    .venv/bin/python bench/peers/modes.py --data 'digits(count=256,size=224)' --cases pipeline --size 224 --print-freq 1

FOLDER is a packed CIFAR-10; 2,048 training samples are enough. ResNet-18 sees its pictures enlarged to 64 x 64, or to --size where both
sides are ours. A step's time is that of
forward, backward, communication and update on rank 0, without the wait for data; the first steps are not counted. Ratios are taken within
a round. Nothing else may run on the machine.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import table

HERE = pathlib.Path(__file__).parent
LENET = ["--arch", "lenet", "--epochs", "6"]


def cases(cut, size):
    """name: (what the ratio is, the first side, the second side); the ratio is first / second. A side is `ours MODE FLAGS` or `python ...`."""
    resnet = ["--arch", "resnet18", "--augment", f"resize(size={size})", "--epochs", "1"]
    piped = f"micro-batches=8,cut={cut}"
    python_cut = cut if "." in cut else f"{cut}.0"
    pipe = ["--arch", "resnet18", "--cut", python_cut]
    return {
        "ddp-lenet": ("Python's DDP / ddp, LeNet", ["python", "ddp", "--arch", "lenet", "--steps", "400"], ["ours", "ddp", *LENET]),
        "ddp-resnet": ("Python's DDP / ddp, ResNet-18", ["python", "ddp"], ["ours", "ddp", *resnet]),
        "gpipe": ("Python's ScheduleGPipe / pipeline(schedule=gpipe)", ["python", "gpipe", *pipe],
                  ["ours", f"pipeline(schedule=gpipe,{piped})", *resnet]),
        "1f1b": ("Python's Schedule1F1B / pipeline(schedule=1f1b)", ["python", "1f1b", *pipe],
                 ["ours", f"pipeline(schedule=1f1b,{piped})", *resnet]),
        "pipeline": ("mp / pipeline(schedule=1f1b), balanced by time", ["ours", "mp(balance=time)", *resnet],
                     ["ours", "pipeline(schedule=1f1b,micro-batches=8,balance=time)", *resnet]),
        "zero": ("zero / ddp, ResNet-18", ["ours", "zero", *resnet], ["ours", "ddp", *resnet]),
        "zero-python": ("Python's ZeroRedundancyOptimizer / zero, ResNet-18", ["python", "zero1"], ["ours", "zero", *resnet]),
        "dp": ("single with 1 thread / dp(devices=cpu:2)", ["ours", "single", *resnet, "--threads", "1"],
               ["ours", "dp(devices=cpu:2)", *resnet]),
    }


def ours_ms(options, data, mode, flags):
    """Milliseconds of a step, from the lines of metrics.jsonl after the first one."""
    with tempfile.TemporaryDirectory() as out:
        ranks = [] if mode.startswith(("single", "dp")) else ["--nproc", "2"]
        threads = [] if "--threads" in flags or mode.startswith("dp(") else ["--threads", "1"]
        subprocess.run([options.bin / "train", "--data", data, "--mode", mode, "--device", "cpu", *flags, *ranks, *threads, "--workers",
                        "0", "--eval-at-end", "--save-every", "0", "--print-freq", options.print_freq, "--out", out],
                       check=True, stdout=subprocess.DEVNULL)
        lines = [json.loads(line) for line in (pathlib.Path(out) / "metrics.jsonl").read_text().splitlines()]
    return statistics.fmean([line["update_ms"] for line in lines if line["kind"] == "step"][1:])


def python_ms(arguments):
    run = subprocess.run([sys.executable, HERE / "modes_pytorch.py", *arguments], check=True, capture_output=True, text=True)
    return float(run.stdout.split()[-1])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--data", required=True, help="a packed CIFAR-10")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--cases", default="", help="some of them, separated by commas; all if not given")
    arguments.add_argument("--cut", default="layer2", help="where the second part begins when both sides are cut alike")
    arguments.add_argument("--size", type=int, default=64, help="pixels of a side of ResNet-18's pictures, on our side")
    arguments.add_argument("--print-freq", default="10", help="steps per measured line; the first line is not counted")
    arguments.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    options = arguments.parse_args()
    chosen = cases(options.cut, options.size)
    if options.cases:
        chosen = {name: chosen[name] for name in options.cases.split(",")}

    if options.size != 64 and any(side[0] == "python" for _, *sides in chosen.values() for side in sides):
        arguments.error("--size: Python's side has 64 pixels; expected cases without one, such as pipeline")

    def measure(side):
        kind, *rest = side
        return python_ms(rest) if kind == "python" else ours_ms(options, options.data, rest[0], rest[1:])

    times = {name: [] for name in chosen}
    for _ in range(options.rounds):
        for name, (_, first, second) in chosen.items():
            times[name].append((measure(first), measure(second)))
            print(name, *(f"{ms:.2f} ms" for ms in times[name][-1]), file=sys.stderr, flush=True)
    print("| what | ms a step | ms a step | ratio, median (range) |\n|---|---|---|---|")
    for name, pairs in times.items():
        first, second = ([f"{statistics.median(pair[i] for pair in pairs):.2f}" for i in (0, 1)])
        print(table.line([chosen[name][0], first, second, table.spread([a / b for a, b in pairs], table.ratio)]))


if __name__ == "__main__":
    main()
