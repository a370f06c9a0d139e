"""How far `shardprep plan` is from what it predicts: python bench/quality/plan_rates.py INPUT [--rounds 3] [--copies 10]

INPUT is the folder of an image-folder. It is packed in each form, and plan and loadbench take turns. The machine may be busy: what is
measured is loadbench's processor time, of 10 epochs more than another run had, and how many images per second that is where every worker
has a core of its own and the thread that takes the batches has what is left. --copies: the data set as so many, so that epochs are long
enough. Prints for each form and number of workers the median of the predictions, of the measured rates, and the predictions' ratios to it.
"""

import argparse
import os
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile
import time

BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin"))
FORMS = ("keep", "coef", "raw")
FEW, MANY = 2, 12  # epochs


def predictions(folder, options):
    """(form, workers) -> images/s."""
    command = [BIN / "shardprep", "plan", "--target", "1", "--source", "image-folder", "--input", folder, *options]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rates = {}
    for form, of_workers in re.findall(r"^--encode (\w+) +same .*?  (1: .*)$", text, re.MULTILINE):
        for workers, rate in re.findall(r"(\d+): ([\d,]+)", of_workers):
            rates[form, int(workers)] = int(rate.replace(",", ""))
    return re.search(r"measured on \d[\d,]* with (\S+);", text)[1], rates


def processor_seconds(packed, copies, workers, epochs, augment):
    """Those of all threads, and of the one that takes the batches, as it is seen up to 5 ms before the end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [BIN / "loadbench", "--data", packed, "--workers", str(workers), "--epochs", str(epochs), "--augment", augment]
    with subprocess.Popen([*command, *["--also", packed] * (copies - 1)], stdout=subprocess.DEVNULL) as process:
        statistic, main = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/schedstat"), 0
        while process.poll() is None:
            if text := statistic.read_text(encoding="utf-8").split():
                main = max(main, int(text[0]) * 1e-9)
            time.sleep(0.005)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, main


def measured(packed, copies, workers, augment, image_count):
    few, many = (processor_seconds(packed, copies, workers, epochs, augment) for epochs in (FEW, MANY))
    every, main = ((many[i] - few[i]) / ((MANY - FEW) * copies * image_count) for i in (0, 1))
    return min(workers / (every - main), len(os.sched_getaffinity(0)) / every)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("input")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=1)
    parser.add_argument("--samples", type=int, help="pictures that plan measures with")
    arguments = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            command = [BIN / "shardprep", "pack", "--source", "image-folder", "--input", arguments.input, "--encode", form]
            packed = subprocess.run([*command, "--out", f"{folder}/{form}"], capture_output=True, text=True, check=True)
        image_count = int(re.search(r"([\d,]+) samples", packed.stdout)[1].replace(",", ""))
        for _ in range(arguments.rounds):
            augment, rates = predictions(arguments.input, ["--samples", str(arguments.samples)] if arguments.samples else [])
            for (form, workers), rate in rates.items():
                real = measured(f"{folder}/{form}", arguments.copies, workers, augment, image_count)
                found.setdefault((form, workers), []).append((rate, real))
    for (form, workers), pairs in found.items():
        predicted, real = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratios = " ".join(f"{rate / real:.2f}" for rate, _ in pairs)
        print(f"{form:5} {workers} workers: predicted {predicted:10,.0f}  measured {real:10,.0f}  each / measured {ratios}")


if __name__ == "__main__":
    main()
