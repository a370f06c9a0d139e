"""Times one loader: every peer_<name>.py gives main() a function that makes its epochs.

    <python> bench/peers/peer_<name>.py --workload mnist --data DIR --workers N [--variant V] [--seconds 2]

prints one line of JSON: images_per_second, images_per_cpu_second, versions and, for photographs, statistics of how they look. The
process only takes batches, and the clock starts after it has done so for --warm-up seconds. The first batch is checked (for
photographs the first four), so that a loader that is fast because it delivers something else fails.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import pathlib
import sys
import time

import numpy as np

import photo_check
from workloads import BATCH_SIZE, WORKLOADS


def check(images, labels, workload):
    """Raises unless this is a whole batch of normalised pictures."""
    images, labels = np.asarray(images), np.asarray(labels)
    expected = (BATCH_SIZE, *workload.sample_shape)
    if images.shape != expected or images.dtype != np.float32 or not images.flags.c_contiguous:
        raise ValueError(f"the batch is {images.dtype} {images.shape}, strides {images.strides}; expected f32 {expected}, contiguous")
    if labels.size != BATCH_SIZE:
        raise ValueError(f"the batch has {labels.size} labels; expected {BATCH_SIZE}")
    low, high = workload.bias.min() - 1e-3, (workload.bias + 255 * workload.scale).max() + 1e-3
    if images.min() < low or images.max() > high:
        raise ValueError(f"values from {images.min()} to {images.max()}; expected {low} to {high}")
    if abs(images.mean()) > 0.6 or not 0.5 < images.std() < 1.5:
        raise ValueError(f"mean {images.mean()}, deviation {images.std()}; expected about 0 and 1")
    if len({picture.tobytes() for picture in images}) < BATCH_SIZE // 2:
        raise ValueError("the batch repeats pictures")


def children(pid):
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            yield int(child)
            yield from children(int(child))


def cpu_seconds():
    """User and system time so far of this process and all of its children. Other load on the machine changes it least."""
    seconds = time.process_time()
    for pid in children(os.getpid()):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def rate(batches, warm_up_seconds, seconds):
    """Images per second, and images per second of CPU time, of an endless iterator of (images, labels)."""
    start = time.perf_counter()
    while time.perf_counter() - start < warm_up_seconds:
        next(batches)
    cpu_start = cpu_seconds()
    start, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        next(batches)
        count += BATCH_SIZE
    return count / elapsed, count / max(cpu_seconds() - cpu_start, 1e-9)


def main(make_epochs, packages):
    """make_epochs(workload, data, workers, variant) returns a function; each call of that gives the batches of one epoch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=sorted(WORKLOADS), required=True)
    parser.add_argument("--data", required=True, help="folder that prepare.py filled")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--variant", default="")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm-up", type=float, default=0.5)
    options = parser.parse_args()
    workload = WORKLOADS[options.workload]
    epoch = make_epochs(workload, options.data, options.workers, options.variant)
    batches = itertools.chain.from_iterable(epoch() for _ in itertools.count())
    look = None
    if workload.is_photos:
        look = photo_check.check(batches, workload, options.data, check)
    else:
        check(*next(batches), workload)
    images_per_second, images_per_cpu_second = rate(batches, options.warm_up, options.seconds)
    result = {
        "look": look,
        "images_per_second": images_per_second,
        "images_per_cpu_second": images_per_cpu_second,
        "versions": ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages),
    }
    print(json.dumps(result))
    sys.stdout.flush()
