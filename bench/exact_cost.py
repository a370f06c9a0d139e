"""Measures what `train --exact` costs against the fast path, over two ranks: ResNet-18 at 64 px, batch 64, `ddp`, or as
--arch, --size and --mode say.

Prints the processor time of both ranks per step, user and system, which other programs on the machine change least. A
round runs every variant for few epochs and for more, so that the start of a run is not counted; the table has medians
over the rounds, and of the ratios to the first variant in the same round. The programs are those of PENSTOCK_BIN, or
build/release/bin."""
import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile

FEW, MORE = 1, 6  # epochs; the one evaluation at the end of a run counts in neither
PINNED = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"}  # as --exact sets them
NATIVE = ["--exact-kernels", "native"]
# name: further flags, environment
VARIANTS = {
    "fast path": ([], {}),
    "fast path with the pinned kernels": ([], PINNED),
    "--exact 2": (["--exact", "2"], {}),
    "--exact 4": (["--exact", "4"], {}),
    "--exact": (["--exact"], {}),
    "--exact 16": (["--exact", "16"], {}),
    "--exact 2 --exact-kernels native": (["--exact", "2", *NATIVE], {}),
    "--exact --exact-kernels native": (["--exact", *NATIVE], {}),
}


def processor_seconds(options, variant, epochs, folder):
    flags, environment = VARIANTS[variant]
    train = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin")).resolve() / "train"
    words = ["--data", f"digits(count={options.steps * 64},size={options.size})", "-b", 64, "-a", options.arch, "--epochs", epochs,
             "--lr", 0.01, "--mode", options.mode, "--nproc", 2, "-j", 1, "--threads", 1, "--device", "cpu", "--eval-at-end",
             "--out", folder / f"run-{epochs}", *flags]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([train, *map(str, words)], check=True, capture_output=True,
                   env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **environment})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--arch", default="resnet18")
    parser.add_argument("--size", type=int, default=64, help="pixels of a side (default: 64)")
    parser.add_argument("--steps", type=int, default=2, help="per epoch, of which five are counted (default: 2)")
    parser.add_argument("--mode", default="ddp", help="of two ranks (default: ddp)")
    parser.add_argument("--variants", default="", help="a regular expression of those to run beside the fast path")
    options = parser.parse_args()
    chosen = [name for name in VARIANTS if name == "fast path" or re.search(options.variants, name)]
    seconds = {variant: [] for variant in chosen}  # per step, one entry per round
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        processor_seconds(options, "fast path", FEW, folder)  # packs the data
        for _ in range(options.rounds):
            for variant, list_of_seconds in seconds.items():
                few, more = (processor_seconds(options, variant, epochs, folder) for epochs in (FEW, MORE))
                list_of_seconds.append((more - few) / ((MORE - FEW) * options.steps))
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
