"""SimCLR (Chen et al. 2020, arXiv 2002.05709): two views of every picture, read once, learn without labels to be alike.

    python python/examples/simclr.py cifar10:cifar-10-batches-bin --data data/cifar10

Then a linear classifier on the features says how much they know of the classes.
"""
import argparse
import pathlib

import torch
import torchvision
from torch import nn
from torch.nn import functional

import penstock


def contrast(first: torch.Tensor, second: torch.Tensor, temperature: float) -> torch.Tensor:
    """NT-Xent of N x D features of two views: each row's other view among the 2 N - 1 other rows."""
    rows = functional.normalize(torch.cat([first, second]))
    likeness = rows @ rows.T / temperature
    likeness.fill_diagonal_(float("-inf"))
    count = len(first)
    return functional.cross_entropy(likeness, torch.arange(2 * count).roll(count))


@torch.no_grad()
def features(backbone: nn.Module, options: argparse.Namespace, split: str) -> "tuple[torch.Tensor, torch.Tensor]":
    backbone.eval()
    loader = penstock.Loader(options.data, split=split, batch_size=options.batch_size, workers=options.workers, augment="normalize",
                             shuffle=False)
    rows = [(backbone(images), labels) for images, labels in loader]
    return torch.cat([row[0] for row in rows]), torch.cat([row[1] for row in rows])


def linear_accuracy(backbone: nn.Module, options: argparse.Namespace) -> float:
    train, labels = features(backbone, options, "train")
    test, expected = features(backbone, options, "test")
    mean, deviation = train.mean(0), train.std(0) + 1e-6
    layer = nn.Linear(train.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        functional.cross_entropy(layer((train - mean) / deviation), labels).backward()
        optimizer.step()
    return (layer((test - mean) / deviation).argmax(1) == expected).float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a source with the splits train and test, packed once into --data")
    parser.add_argument("--data", type=pathlib.Path, default="data/cifar10")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--temperature", type=float, default=0.5)
    options = parser.parse_args()
    torch.manual_seed(0)
    if not options.data.exists():
        penstock.pack(options.source, options.data, split=["train", "test"])
    view = f"random-resized-crop(size={options.size},scale=0.3:1),flip,normalize"
    loader = penstock.Loader(options.data, views=[view, view], batch_size=options.batch_size, workers=options.workers, tail="drop")
    backbone = torchvision.models.resnet18(num_classes=128)
    channels = next(iter(loader)).images.shape[1]
    backbone.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)  # for small pictures
    setattr(backbone, "maxpool", nn.Identity())
    head = nn.Sequential(nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=options.lr)
    for epoch in range(options.epochs):
        loader.set_epoch(epoch)
        backbone.train()
        sums, steps = 0.0, 0
        for batch in loader:
            first, second = (head(backbone(images)) for images in batch.views)
            loss = contrast(first, second, options.temperature)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sums, steps = sums + loss.item(), steps + 1
        print(f"epoch {epoch}: loss {sums / max(steps, 1):.3f}")
    print(f"accuracy of a linear classifier: {100 * linear_accuracy(backbone, options):.1f} %")


if __name__ == "__main__":
    main()
