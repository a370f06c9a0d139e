"""python/examples/imagenet.py with PyTorch's DataLoader in place of Penstock's; every other line is the example's own.

    <python> bench/python/imagenet_dataloader.py image-folder:DIR [flags of the example]

DIR has train/ and val/. Pillow decodes, and torchvision's v1 transforms are those of PyTorch's own imagenet example.
"""
import pathlib
import sys

import torch
import torchvision
from torchvision import transforms

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python/examples"))
import imagenet  # noqa: E402

NORMALISE = transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Loader:
    """The part of penstock.Loader that the example uses."""

    def __init__(self, options, split, _augment):
        is_training = split == "train"
        crop = ([transforms.RandomResizedCrop(options.size), transforms.RandomHorizontalFlip()] if is_training else
                [transforms.Resize(options.size * 256 // 224), transforms.CenterCrop(options.size)])
        folder = pathlib.Path(options.source.partition(":")[2]) / ("train" if is_training else "val")
        dataset = torchvision.datasets.ImageFolder(folder, transforms.Compose([*crop, transforms.ToTensor(), NORMALISE]))
        self.class_names, self.epoch = dataset.classes, 0
        self._loader = torch.utils.data.DataLoader(dataset, options.batch_size, shuffle=is_training, drop_last=is_training,
                                                   num_workers=options.workers, persistent_workers=options.workers > 0)

    def __iter__(self):
        return iter(self._loader)

    def __len__(self):
        return len(self._loader)

    def state_dict(self):
        return {}


if __name__ == "__main__":
    imagenet.loader_of = Loader
    imagenet.main()
