"""Images per second of Penstock's loader and of PyTorch's DataLoader with torchvision, on MNIST with a random affine.

    .venv/bin/python bench/peers/mnist.py --mnist DIR [--workers 0,1,2] [--rounds 5]

Both give batches of 64 normalised f32 images after RandomAffine(degrees=10, translate=0.1, nearest). The rounds are interleaved,
one epoch of each peer and worker count a round, on the same machine; the table gives the median and the range. PyTorch reads
decoded images from memory (torchvision's MNIST does), so neither side reads a disk. The main process does nothing but take batches.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2

BATCH_SIZE = 64
AUGMENT = "affine(degrees=10,translate=0.1),normalize(mean=0.1307,std=0.3081)"


def read_idx(folder, stem):
    for name in (f"{stem}.gz", stem):
        path = pathlib.Path(folder) / name
        if path.exists():
            data = gzip.open(path).read() if name.endswith(".gz") else path.read_bytes()
            dimensions = struct.unpack(">I", data[:4])[0] & 0xFF
            shape = struct.unpack(f">{dimensions}I", data[4 : 4 + 4 * dimensions])
            return numpy.frombuffer(data, numpy.uint8, offset=4 + 4 * dimensions).reshape(shape)
    raise SystemExit(f"{folder}: no {stem} or {stem}.gz; expected MNIST's IDX files")


class Mnist(torch.utils.data.Dataset):
    """As torchvision.datasets.MNIST: a PIL image from an array, then the transform."""

    def __init__(self, images, labels, transform):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def pil_transform():
    t = torchvision.transforms
    return t.Compose([t.RandomAffine(10, translate=(0.1, 0.1)), t.ToTensor(), t.Normalize((0.1307,), (0.3081,))])


def tensor_transform():
    return v2.Compose([
        v2.ToImage(), v2.RandomAffine(10, translate=(0.1, 0.1)), v2.ToDtype(torch.float32, scale=True),
        v2.Normalize((0.1307,), (0.3081,)),
    ])


def pytorch_rate(dataset, workers):
    """Images a second over one epoch; workers start before the clock does (persistent, first batch taken)."""
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(dataset, BATCH_SIZE, shuffle=True, num_workers=workers,
                                         persistent_workers=workers > 0, drop_last=True)
    batches = iter(loader)
    next(batches)
    start, count = time.perf_counter(), 0
    for images, _ in batches:
        count += len(images)
    return count / (time.perf_counter() - start)


def penstock_rate(binary, data, workers, path):
    subprocess.run([binary / "loadbench", "--data", data, "--workers", str(workers), "--batch-size", str(BATCH_SIZE), "--augment",
                    AUGMENT, "--epochs", "1", "--json", path], check=True, stdout=subprocess.DEVNULL)
    return json.loads(pathlib.Path(path).read_text())["runs"][0]["images_per_second"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--mnist", required=True, help="folder of the four IDX files")
    arguments.add_argument("--workers", default="0,1,2")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--images", type=int, default=12000, help="of MNIST that PyTorch goes through in a round")
    arguments.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    options = arguments.parse_args()
    workers = [int(part) for part in options.workers.split(",")]
    images, labels = read_idx(options.mnist, "train-images-idx3-ubyte"), read_idx(options.mnist, "train-labels-idx1-ubyte")
    head = slice(0, options.images)
    rates = {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([options.bin / "shardprep", "pack", "--source", "mnist", "--input", options.mnist, "--split", "train",
                        "--out", folder, "--shards", "4", "--quiet"], check=True, stdout=subprocess.DEVNULL)
        peers = {
            "Penstock": lambda w: penstock_rate(options.bin, folder, w, f"{folder}/rate.json"),
            "PyTorch DataLoader, torchvision on PIL": lambda w: pytorch_rate(
                Mnist(images[head], labels[head], pil_transform()), w),
            "PyTorch DataLoader, torchvision v2 on tensors": lambda w: pytorch_rate(
                Mnist(images[head], labels[head], tensor_transform()), w),
        }
        for round_number in range(options.rounds):
            for name, rate in peers.items():
                for count in workers:
                    rates.setdefault((name, count), []).append(rate(count))
            print(f"round {round_number + 1} of {options.rounds} done", file=sys.stderr)
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}, "
          f"{os.cpu_count()} cores, median of {options.rounds} (range), images/s\n")
    print("| | " + " | ".join(f"{count} workers" for count in workers) + " |")
    print("|---|" + "---|" * len(workers))
    for name in peers:
        cells = [f"{statistics.median(r):,.0f} ({min(r):,.0f}-{max(r):,.0f})" for r in (rates[name, count] for count in workers)]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
