"""Measures what `train --exact` costs against the fast path: ResNet-18 at 64 px, batch 64, `ddp` over two ranks.

Prints the processor time of both ranks per step, user and system, which other programs on the machine change least. A
round runs every variant for one epoch and for six, so that the start of a run is not counted; the table has medians
over the rounds, and of the ratios to the first variant in the same round. The programs are those of PENSTOCK_BIN, or
build/release/bin."""
import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

STEPS_PER_EPOCH, FEW, MORE = 2, 1, 6  # epochs; the one evaluation at the end of a run counts in neither
PINNED = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"}  # as --exact sets them
# name: mode, further flags, environment
VARIANTS = {
    "fast path": ("ddp", [], {}),
    "its kernels pinned": ("ddp", [], PINNED),
    "accumulate=4": ("ddp(accumulate=4)", [], {}),
    "--exact 2": ("ddp", ["--exact", "2"], {}),
    "--exact": ("ddp", ["--exact"], {}),
    "--exact --exact-kernels native": ("ddp", ["--exact", "--exact-kernels", "native"], {}),
}


def processor_seconds(train, variant, epochs, folder):
    mode, flags, environment = VARIANTS[variant]
    words = ["--data", f"digits(count={STEPS_PER_EPOCH * 64},size=64)", "-b", 64, "-a", "resnet18", "--epochs", epochs,
             "--lr", 0.01, "--mode", mode, "--nproc", 2, "-j", 1, "--threads", 1, "--device", "cpu", "--eval-at-end",
             "--out", folder / f"run-{epochs}", *flags]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([train, *map(str, words)], check=True, capture_output=True,
                   env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    train = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin")).resolve() / "train"
    seconds = {variant: [] for variant in VARIANTS}  # per step, one entry per round
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        processor_seconds(train, "fast path", FEW, folder)  # packs the data
        for _ in range(options.rounds):
            for variant, list_of_seconds in seconds.items():
                few, more = (processor_seconds(train, variant, epochs, folder) for epochs in (FEW, MORE))
                list_of_seconds.append((more - few) / ((MORE - FEW) * STEPS_PER_EPOCH))
                print(f"{variant}: {1000 * list_of_seconds[-1]:.0f} ms", file=sys.stderr)
    fast = next(iter(seconds.values()))
    print("| | processor time per step, ms | from | to | ratio |\n|---|---|---|---|---|")
    for variant, of_rounds in seconds.items():
        ratio = statistics.median(one / base for one, base in zip(of_rounds, fast))
        milliseconds = [1000 * one for one in of_rounds]
        print(f"| {variant} | {statistics.median(milliseconds):.0f} | {min(milliseconds):.0f} | {max(milliseconds):.0f} |"
              f" {ratio:.2f} |")


if __name__ == "__main__":
    main()
