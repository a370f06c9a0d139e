"""LeNet on MNIST, `train` beside the same in Python PyTorch, in turn:

    .venv/bin/python bench/peers/train_lenet.py --mnist DIR [--epochs 1] [--rounds 5] [--workers 0,1,2] [--threads 1,2]

Both train the same network with the same optimiser, batch 64 and RandomAffine(10, translate=0.1), and start their clocks at the
first step. Python's best number of workers and intra-op threads is found first, by an epoch each; it then meets `train` with its
defaults in every round. A ratio below 1 says how much of Python's time `train` needs.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torchvision
from PIL import Image
from torch import nn


def read_idx(path):
    data = gzip.open(path).read()
    return np.frombuffer(data, np.uint8, offset=16 if data[3] == 3 else 8)


class Mnist(torch.utils.data.Dataset):
    """As torchvision.datasets.MNIST."""

    def __init__(self, folder):
        self.images = read_idx(folder / "train-images-idx3-ubyte.gz").reshape(-1, 28, 28)
        self.labels = read_idx(folder / "train-labels-idx1-ubyte.gz")
        t = torchvision.transforms
        self.transform = t.Compose([t.RandomAffine(10, translate=(0.1, 0.1)), t.ToTensor(), t.Normalize((0.1307,), (0.3081,))])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


def lenet():
    return nn.Sequential(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def python_seconds(dataset, workers, threads, epochs):
    torch.set_num_threads(threads)
    model, loss_of = lenet(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    loader = torch.utils.data.DataLoader(dataset, 64, shuffle=True, num_workers=workers, persistent_workers=workers > 0)
    start = time.perf_counter()
    for _ in range(epochs):
        for images, labels in loader:
            optimizer.zero_grad(set_to_none=True)
            loss_of(model(images), labels).backward()
            optimizer.step()
    return time.perf_counter() - start


def train_seconds(options, folder):
    subprocess.run([options.bin / "train", "--data", f"mnist:{options.mnist}", "--augment", "affine(degrees=10,translate=0.1)",
                    "--epochs", str(options.epochs), "--eval-at-end", "--device", "cpu", "--out", folder / "run"],
                   check=True, stdout=subprocess.DEVNULL)
    return json.loads((folder / "run" / "summary.json").read_text())["train_seconds"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--mnist", required=True, type=pathlib.Path, help="folder of the four IDX files, gzipped")
    arguments.add_argument("--epochs", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--workers", default="0,1,2")
    arguments.add_argument("--threads", default="1,2")
    arguments.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    options = arguments.parse_args()
    dataset = Mnist(options.mnist)
    trials = {}
    for workers in map(int, options.workers.split(",")):
        for threads in map(int, options.threads.split(",")):
            trials[workers, threads] = python_seconds(dataset, workers, threads, 1)
            print(f"Python, {workers} workers, {threads} threads: {trials[workers, threads]:.1f} s an epoch", file=sys.stderr)
    best = min(trials, key=trials.get)
    python, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            python.append(python_seconds(dataset, *best, options.epochs))
            ours.append(train_seconds(options, pathlib.Path(folder)))
    ratios = [mine / theirs for mine, theirs in zip(ours, python)]
    print(f"PyTorch {torch.__version__}, {options.epochs} epochs, medians of {options.rounds} rounds (range)\n")
    print("| | s |\n|---|---|")
    for name, values, digits in (("`train`, defaults", ours, 1), (f"Python PyTorch, {best[0]} workers, {best[1]} threads", python, 1),
                                 ("`train` / Python", ratios, 2)):
        print(f"| {name} | {statistics.median(values):.{digits}f} ({min(values):.{digits}f}-{max(values):.{digits}f}) |")


if __name__ == "__main__":
    main()
