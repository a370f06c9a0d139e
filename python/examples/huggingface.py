"""Trains ResNet-18 on a data set of Hugging Face: one of the hub by its name, or parquet files.

    python python/examples/huggingface.py food101 --data data/food101
    python python/examples/huggingface.py 'pictures/{split}-*.parquet' --data data/pictures

With Image(decode=False) an item has the bytes of its file. They are packed as they are: nothing is decoded and encoded
again, and class names come along.
"""
import argparse
import pathlib
from typing import Any, Iterable

import torch
import torchvision
from torch import nn

import penstock


def pictures_of(source: str, split: str, key: str) -> Iterable[Any]:
    """Items with the bytes of a picture, and a label."""
    import datasets  # here, so that --help and packed data need none of it
    if source.endswith(".parquet"):
        found = datasets.load_dataset("parquet", data_files=source.format(split=split), split="train")
    else:
        found = datasets.load_dataset(source, split=split)
    return found.cast_column(key, datasets.Image(decode=False))


@torch.no_grad()
def accuracy(model: nn.Module, loader: penstock.Loader, device: torch.device) -> float:
    model.eval()
    hits = sum((model(images.to(device)).argmax(1) == labels.to(device)).sum().item() for images, labels in loader)
    return hits / loader.sample_count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="name on the hub, or parquet files with {split} in their name")
    parser.add_argument("--data", type=pathlib.Path, default="data/huggingface", help="folder for the packed data set")
    parser.add_argument("--splits", default="train,test", help="the splits' names in the source, training first")
    parser.add_argument("--image", default="image", help="name of the column with pictures")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.05)
    options = parser.parse_args()

    for split, name in zip(("train", "test"), options.splits.split(","), strict=True):
        if not (options.data / split).exists():
            penstock.pack(pictures_of(options.source, name, options.image), options.data, split=split)

    common = {"data": options.data, "batch_size": options.batch_size, "workers": options.workers}
    train = penstock.Loader(**common, augment=f"random-resized-crop(size={options.size}),flip,normalize")
    test = penstock.Loader(**common, split="test", shuffle=False,
                           augment=f"resize(size={options.size * 256 // 224}),center-crop(size={options.size}),normalize")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=len(train.class_names)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), options.lr, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, options.lr, total_steps=options.epochs * len(train))
    loss = torch.tensor(0.0)
    for epoch in range(options.epochs):
        model.train()
        for images, labels in train:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, test accuracy {accuracy(model, test, device):.2%}", flush=True)


if __name__ == "__main__":
    main()
