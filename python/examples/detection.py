"""Trains fasterrcnn of torchvision on boxes, which are moved and clipped as the pictures are.

    python python/examples/detection.py --data data/scenes
"""
import argparse
import pathlib
from typing import Any, Dict, List

import torch
import torchvision

import penstock
import scenes


def targets_of(batch: penstock.Batch) -> List[Dict[str, Any]]:
    """As torchvision's detectors want them: a dict for each picture, label 0 for background."""
    columns = batch.columns
    targets = []
    for boxes, kinds, count in zip(columns["boxes"], columns["boxes.kinds"], columns["boxes.count"].tolist()):
        targets.append({"boxes": boxes[:count].float(), "labels": kinds[:count].long() + 1})
    return targets


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default="data/scenes")
    parser.add_argument("--scenes", type=int, default=400, help="of the training split, drawn and packed where --data is not there")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--size", type=int, default=64, help="of the pictures that the detector sees")
    options = parser.parse_args()
    torch.manual_seed(0)
    scenes.pack(options.data, options.scenes)
    # A box of which less than a quarter is left is no example of its class.
    loader = penstock.Loader(options.data, batch_size=options.batch_size, workers=options.workers, augment="affine(translate=0.2),flip",
                             columns="boxes(field=boxes,with=kinds,min-share=0.25)")
    model = torchvision.models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=1 + len(scenes.CLASSES), min_size=options.size, max_size=options.size,
        trainable_backbone_layers=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    model.train()
    for epoch in range(options.epochs):
        loader.set_epoch(epoch)
        sums, steps = 0.0, 0
        for batch in loader:
            losses = model(list(batch.images), targets_of(batch))
            loss = torch.stack(list(losses.values())).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            sums, steps = sums + loss.item(), steps + 1
        print(f"epoch {epoch}: loss {sums / steps:.3f}")


if __name__ == "__main__":
    main()
