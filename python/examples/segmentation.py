"""Trains fcn_resnet50 of torchvision on masks, which are turned and cut as the pictures are.

    python python/examples/segmentation.py --data data/scenes
"""
import argparse
import pathlib

import torch
import torchvision

import penstock
import scenes


def loader_of(options: argparse.Namespace, split: str, augment: str) -> penstock.Loader:
    return penstock.Loader(options.data, split=split, batch_size=options.batch_size, workers=options.workers, augment=augment,
                           shuffle=split == "train", columns="mask(field=mask)")


@torch.no_grad()
def pixel_accuracy(model: torch.nn.Module, loader: penstock.Loader) -> float:
    """Counts only the pixels that are not background, because most are."""
    model.eval()
    right = total = 0
    for batch in loader:
        mask = batch.columns["mask"].long()
        counts = (mask > 0) & (mask < 255)
        right += int(((model(batch.images)["out"].argmax(1) == mask) & counts).sum())
        total += int(counts.sum())
    return right / max(total, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, default="data/scenes")
    parser.add_argument("--scenes", type=int, default=400, help="of the training split, drawn and packed where --data is not there")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()
    torch.manual_seed(0)
    scenes.pack(options.data, options.scenes)
    train = loader_of(options, "train", "affine(degrees=15,translate=0.1),flip,normalize")
    test = loader_of(options, "test", "normalize")
    model = torchvision.models.segmentation.fcn_resnet50(weights=None, weights_backbone=None, num_classes=1 + len(scenes.CLASSES))
    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    for epoch in range(options.epochs):
        train.set_epoch(epoch)
        model.train()
        loss = torch.zeros(())
        for batch in train:
            out = model(batch.images)["out"]
            # 255 is what lies outside of the turned picture.
            loss = torch.nn.functional.cross_entropy(out, batch.columns["mask"].long(), ignore_index=255)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}, {100 * pixel_accuracy(model, test):.1f} % of the objects' pixels")


if __name__ == "__main__":
    main()
