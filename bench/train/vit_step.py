#!/usr/bin/env python3
"""A step of ViT-S/16 or ConvNeXt-T in `train` beside the same of torchvision in Python, in turn:

    .venv/bin/python bench/train/vit_step.py [--arch vit-s16|convnext-tiny] [--repeat 5] [--threads 2] [--batch 8]

Pictures of 224 x 224, AdamW, two intra-op threads on the CPU. Python has its batch in memory, and its clock runs over
forward, loss, backward and update; ours has a loader, and the time per step without the wait for it. A ratio above 1
says how many times as long Python takes.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import time

import torch
import torchvision

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIDE, CLASSES, WARM_UP_STEPS = 224, 10, 2


def torchvision_model(arch):
    models = torchvision.models
    if arch == "convnext-tiny":
        model = models.convnext_tiny(num_classes=CLASSES, stochastic_depth_prob=0)
        model.features[0][0] = torch.nn.Conv2d(1, 96, 4, stride=4)  # the digits of `train` are grey
    else:
        model = models.VisionTransformer(image_size=SIDE, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536,
                                         num_classes=CLASSES)
        model.conv_proj = torch.nn.Conv2d(1, 384, 16, stride=16)
    return model


def python_ms(options):
    torch.set_num_threads(options.threads)
    model, images = torchvision_model(options.arch).train(), torch.randn(options.batch, 1, SIDE, SIDE)
    labels = torch.arange(options.batch) % CLASSES
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    times = []
    for _ in range(options.steps):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.mean(times[WARM_UP_STEPS:])


def our_ms(options, folder):
    out = pathlib.Path(folder) / "run"
    subprocess.run([options.bin / "train", "--data", f"digits(count={options.steps * options.batch},size={SIDE})", "-a", options.arch,
                    "-b", str(options.batch), "-j", "0", "--threads", str(options.threads), "--device", "cpu", "--epochs", "1", "--optimizer",
                    "adamw", "--lr", "0.001", "--weight-decay", "0.1", "--eval-at-end", "--out", out], check=True, capture_output=True,
                   env={**os.environ, "XDG_CACHE_HOME": str(ROOT / "build")})
    return json.loads((out / "summary.json").read_text())["update_ms_per_step"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="vit-s16", choices=["vit-s16", "convnext-tiny"])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    options = parser.parse_args()
    python, ours = [], []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.repeat):
            python.append(python_ms(options))
            ours.append(our_ms(options, folder))
            print(f"Python {python[-1]:.0f} ms per step, ours {ours[-1]:.0f} ms: {python[-1] / ours[-1]:.2f}", flush=True)
    ratios = sorted(first / second for first, second in zip(python, ours))
    print(f"Python / ours {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}): Python {statistics.median(python):.0f} ms, "
          f"ours {statistics.median(ours):.0f} ms per step, {options.arch}, batch {options.batch}, {options.threads} threads")


if __name__ == "__main__":
    main()
