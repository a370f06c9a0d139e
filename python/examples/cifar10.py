"""Trains a small network on CIFAR-10, or on any other data set of small pictures.

    python python/examples/cifar10.py cifar10:data/cifar-10-batches-bin
    python python/examples/cifar10.py digits --epochs 2
"""
import argparse
import pathlib
import time

import torch
from torch import nn

import penstock


def network(channels: int, classes: int) -> nn.Module:
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                             nn.MaxPool2d(2))
    return nn.Sequential(block(channels, 32), block(32, 64), block(64, 128), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(128, classes))


def loader_of(folder: pathlib.Path, split: str, augment: str, options: argparse.Namespace) -> penstock.Loader:
    return penstock.Loader(folder, split=split, batch_size=options.batch_size, workers=options.workers, augment=augment,
                           shuffle=split == "train")


@torch.no_grad()
def accuracy(model: nn.Module, loader: penstock.Loader) -> float:
    model.eval()
    hits = sum((model(images).argmax(1) == labels).sum().item() for images, labels in loader)
    return hits / loader.sample_count


def arguments(description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="cifar10:DIR, mnist:DIR, image-folder:DIR or digits")
    parser.add_argument("--data", type=pathlib.Path, default="data/example", help="folder for the packed data set")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.1)
    return parser


def pack_once(options: argparse.Namespace) -> None:
    for split in ("train", "test"):
        if not (options.data / split).exists():
            penstock.pack(options.source, options.data, split=split)


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    pack_once(options)
    torch.manual_seed(0)
    train = loader_of(options.data, "train", "shift(pad=4),flip,normalize", options)
    test = loader_of(options.data, "test", "normalize", options)
    model = network(train.image_shape[0], len(train.class_names))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.epochs * len(train))
    loss = torch.tensor(0.0)
    for epoch in range(options.epochs):
        begin = time.monotonic()
        model.train()
        train.set_epoch(epoch)
        for images, labels in train:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {accuracy(model, test):.2%}, "
              f"{time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
