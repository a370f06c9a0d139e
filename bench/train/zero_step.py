#!/usr/bin/env python3
"""What slices of the optimiser's state cost: a step of `zero` beside one of `ddp`, and PyTorch's beside both.

    .venv/bin/python bench/train/zero_step.py --repeat 5

ResNet-18 on pictures of 64 x 64, two ranks on the CPU over Gloo, one intra-op thread each. The programs take turns,
so that other load of the machine meets all of them, and medians of milliseconds per step are compared. PyTorch has
DistributedDataParallel, with SGD or with ZeroRedundancyOptimizer around it, and random pictures in memory.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RANKS, SIDE, WARM_UP_STEPS = 2, 64, 3


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=32, help="over both ranks")
    parser.add_argument("--modes", default="ddp,zero", help="of train; zero(stage=2) and zero(stage=3) may be added")
    parser.add_argument("--without-pytorch", action="store_true")
    return parser.parse_args()


def ours(options, mode, folder):
    """Milliseconds per step, and where they went."""
    out = pathlib.Path(folder) / "run"
    subprocess.run([options.bin / "train", "--data", f"digits(count={options.steps * options.batch},size={SIDE})", "-a", "resnet18",
                    "-b", str(options.batch), "-j", "1", "--threads", "1", "--device", "cpu", "--epochs", "1", "--mode", mode,
                    "--nproc", str(RANKS), "--eval-at-end", "--out", out], check=True, capture_output=True,
                   env={**os.environ, "XDG_CACHE_HOME": str(ROOT / "build"), "OMP_NUM_THREADS": "1"})
    summary = json.loads((out / "summary.json").read_text())
    return summary["update_ms_per_step"], summary["phase_ms"]


def resnet18(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(True),
                                      nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
            self.shortcut = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

        def forward(self, x):
            return torch.relu_(self.body(x) + self.shortcut(x))

    blocks, inputs = [], 64
    for layer in range(4):
        for number in range(2):
            blocks.append(Block(inputs, 64 << layer, 2 if number == 0 and layer > 0 else 1))
            inputs = 64 << layer
    return nn.Sequential(nn.Conv2d(1, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def pytorch_rank(rank, is_sliced, steps, rows, times, store):
    import torch
    from torch import distributed
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    model = DistributedDataParallel(resnet18(torch), gradient_as_bucket_view=True)
    kind = {"lr": 0.01, "momentum": 0.9}
    optimizer = (ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, parameters_as_bucket_view=True, **kind)
                 if is_sliced else torch.optim.SGD(model.parameters(), **kind))
    images, labels = torch.randn(rows, 1, SIDE, SIDE), torch.randint(10, (rows,))
    for step in range(WARM_UP_STEPS + steps):
        if step == WARM_UP_STEPS:
            start = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    if rank == 0:
        times.put(1e3 * (time.perf_counter() - start) / steps)
    del model, optimizer  # before the group: a DDP model that ends later can wait for Gloo's thread for ever (torch 2.11)
    distributed.destroy_process_group()


def pytorch(options, is_sliced, folder):
    from torch import multiprocessing
    context = multiprocessing.get_context("spawn")
    times = context.SimpleQueue()
    ranks = [context.Process(target=pytorch_rank, args=(rank, is_sliced, options.steps, options.batch // RANKS, times,
                                                        pathlib.Path(folder) / "store")) for rank in range(RANKS)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    return times.get()


def main():
    options = arguments()
    modes = options.modes.split(",")
    found = {name: [] for name in [*modes, *([] if options.without_pytorch else ["PyTorch DDP", "PyTorch ZeRO"])]}
    phases = {}
    for _ in range(options.repeat):
        for name, list_of_ms in found.items():
            with tempfile.TemporaryDirectory() as folder:
                if name in modes:
                    ms, phases[name] = ours(options, name, folder)
                else:
                    ms = pytorch(options, name == "PyTorch ZeRO", folder)
                list_of_ms.append(ms)
                print(f"{name}: {ms:.1f} ms per step", file=sys.stderr)
    for name, list_of_ms in found.items():
        base = found["PyTorch DDP" if name.startswith("PyTorch") else modes[0]]
        ratio = statistics.median(list_of_ms) / statistics.median(base)
        print(f"{name}: {statistics.median(list_of_ms):.1f} ms per step ({min(list_of_ms):.1f} to {max(list_of_ms):.1f}), {ratio:.3f} of "
              f"{'PyTorch DDP' if name.startswith('PyTorch') else modes[0]}")
        if name in phases:
            print("   ", ", ".join(f"{phase} {ms:.1f}" for phase, ms in phases[name].items() if ms >= 0.05))


if __name__ == "__main__":
    main()
