"""Trains a network of torchvision on ImageNet or any folder of class folders, on one or several GPUs or on the CPU.

    python python/examples/imagenet.py image-folder:photos --data data/photos
    torchrun --nproc-per-node 4 python/examples/imagenet.py image-folder:photos --data data/photos --resume run.pt

A run that is stopped goes on with --resume, in the middle of an epoch too, and with another number of ranks if need be:
the batches are the same.
"""
import argparse
import os
import pathlib
from typing import Any, Dict

import torch
import torch.distributed as distributed
import torchvision
from torch import nn

import penstock


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="image-folder:DIR, packed once into --data")
    parser.add_argument("--data", type=pathlib.Path, default="data/photos")
    parser.add_argument("--arch", default="resnet18")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch-size", type=int, default=256, help="of all ranks together")
    parser.add_argument("--workers", type=int, default=4, help="threads of each rank")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--amp", action="store_true", help="autocast to bfloat16")
    parser.add_argument("--resume", type=pathlib.Path, default="run.pt", help="checkpoint, read at the start if it is there")
    parser.add_argument("--save-every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--stop-after", type=int, default=0, help="end after this many steps, as if killed; 0: do not")
    return parser.parse_args()


def loader_of(options: argparse.Namespace, split: str, augment: str) -> penstock.Loader:
    # Rank and world size come from torch.distributed.
    return penstock.Loader(options.data, split=split, batch_size=options.batch_size, workers=options.workers,
                           augment=augment, shuffle=split == "train", channels_last=True)


@torch.no_grad()
def accuracy(model: nn.Module, loader: penstock.Loader, device: torch.device) -> float:
    model.eval()
    counts = torch.zeros(2, device=device)
    for images, labels in loader:
        if len(labels) > 0:  # of the last batch a rank may have no row
            hits = model(images.to(device)).argmax(1) == labels.to(device)
            counts += torch.stack([hits.sum(), torch.tensor(len(labels), device=device)])
    if distributed.is_initialized():
        distributed.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def save(path: pathlib.Path, parts: Dict[str, Any]) -> None:
    aside = path.with_suffix(".partial")
    torch.save({name: part.state_dict() for name, part in parts.items()}, aside)
    os.replace(aside, path)


def fit(options: argparse.Namespace, device: torch.device, is_first: bool) -> None:
    train = loader_of(options, "train", f"random-resized-crop(size={options.size}),flip,normalize")
    test = loader_of(options, "test", f"resize(size={options.size * 256 // 224}),center-crop(size={options.size}),normalize")
    torch.manual_seed(0)
    model = torchvision.models.get_model(options.arch, num_classes=len(train.class_names))
    # torch's types do not know of memory_format.
    model = model.to(device, memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
    optimizer = torch.optim.SGD(model.parameters(), options.lr, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.epochs * len(train))
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": train}
    if options.resume.exists():
        saved = torch.load(options.resume, map_location=device)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
    wrapped = nn.parallel.DistributedDataParallel(model) if distributed.is_initialized() else model

    steps = 0
    for epoch in range(train.epoch, options.epochs):
        wrapped.train()
        loss = torch.tensor(float("nan"))  # of an epoch that is resumed at its end
        for batch in train:
            if batch.global_count < 2 * train.world_size:
                continue  # of every rank: BatchNorm over maps of one place needs two rows, and the last batch may leave fewer
            images, labels = batch.images.to(device), batch.labels.to(device)
            with torch.autocast(device.type, torch.bfloat16, enabled=options.amp):
                sums = nn.functional.cross_entropy(wrapped(images), labels, reduction="sum")
            loss = sums * train.world_size / batch.global_count  # DDP takes the mean of the ranks' gradients
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            steps += 1
            is_stopped = steps == options.stop_after
            if is_first and (is_stopped or steps % options.save_every == 0):
                save(options.resume, parts)
            if is_stopped:
                return
        top1 = accuracy(model, test, device)
        if is_first:
            save(options.resume, parts)
            print(f"epoch {epoch}: loss {loss.item():.6f}, test accuracy {top1:.2%}", flush=True)


def main() -> None:
    options = parse()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    if "RANK" in os.environ:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    is_first = not distributed.is_initialized() or distributed.get_rank() == 0
    if is_first:
        for split in ("train", "test"):
            if not (options.data / split).exists():
                penstock.pack(options.source, options.data, split=split)
    if distributed.is_initialized():
        distributed.barrier()
    fit(options, device, is_first)
    # The wrapped model is gone here. If it ended after the group, as it would at the end of one function, its destructor
    # would wait for Gloo's thread with Python's lock held, and that thread for the lock (seen with torch 2.11).
    if distributed.is_initialized():
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
