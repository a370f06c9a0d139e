"""PyTorch's DataLoader: torchvision on PIL pictures, torchvision v2 on tensors, and whole batches by hand."""

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2

import harness
from workloads import BATCH_SIZE, DEGREES, PAD, TRANSLATE, affine_matrices, load, padded


class PilPictures(torch.utils.data.Dataset):
    """As torchvision.datasets.MNIST and CIFAR10: makes a PIL picture from an array in memory, then applies the transform."""

    def __init__(self, workload, images, labels):
        t = torchvision.transforms
        augment = {
            "mnist": [t.RandomAffine(DEGREES, translate=(TRANSLATE, TRANSLATE))],
            "cifar10": [t.RandomCrop(32, padding=PAD), t.RandomHorizontalFlip()],
        }[workload.name]
        self.transform = t.Compose([*augment, t.ToTensor(), t.Normalize(workload.mean, workload.std)])
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


class TensorPictures(torch.utils.data.Dataset):
    """u8 tensors, C x H x W, and torchvision's v2 transforms on them."""

    def __init__(self, workload, images, labels):
        augment = {
            "mnist": [v2.RandomAffine(DEGREES, translate=(TRANSLATE, TRANSLATE))],
            "cifar10": [v2.RandomCrop(32, padding=PAD), v2.RandomHorizontalFlip()],
        }[workload.name]
        to_float = v2.ToDtype(torch.float32, scale=True)
        self.transform = v2.Compose([*augment, to_float, v2.Normalize(workload.mean, workload.std)])
        images = images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)
        self.images, self.labels = torch.from_numpy(np.ascontiguousarray(images)), labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.images[index]), int(self.labels[index])


class BatchPictures(torch.utils.data.Dataset):
    """Hand-written: transforms a batch at once, every picture with parameters of its own. torchvision has no such transforms."""

    def __init__(self, workload, images, labels):
        self.workload, self.labels = workload, torch.from_numpy(labels)
        images = images[:, None] if workload.name == "mnist" else padded(images).transpose(0, 3, 1, 2)
        self.images = torch.from_numpy(np.ascontiguousarray(images))
        self.scale = torch.from_numpy(workload.scale)[:, None, None]
        self.bias = torch.from_numpy(workload.bias)[:, None, None]
        self.rng = None

    def __len__(self):
        return len(self.labels)

    def __getitems__(self, indices):
        if self.rng is None:  # after the fork, so that workers differ
            self.rng = np.random.default_rng(torch.initial_seed())
        rows = torch.tensor(indices)
        make = self.affine if self.workload.name == "mnist" else self.crop_and_flip
        return make(rows).mul_(self.scale).add_(self.bias), self.labels[rows]

    def affine(self, rows):
        size = self.images.shape[-1]
        matrices = affine_matrices(self.rng, len(rows), size, 0.5)
        # grid_sample's coordinates go from -1 to 1
        matrices[:, :, 2] = (2 * matrices[:, :, 2] + size * matrices[:, :, :2].sum(2)) / size - 1
        grid = torch.nn.functional.affine_grid(torch.from_numpy(matrices), (len(rows), 1, size, size), align_corners=False)
        pixels = self.images[rows].float()
        return torch.nn.functional.grid_sample(pixels, grid, mode="nearest", align_corners=False)

    def crop_and_flip(self, rows):
        count = len(rows)
        line = torch.arange(32)
        y = torch.from_numpy(self.rng.integers(0, 2 * PAD + 1, count))[:, None] + line
        flip = torch.from_numpy(self.rng.integers(0, 2, count))[:, None]
        x = torch.from_numpy(self.rng.integers(0, 2 * PAD + 1, count))[:, None] + torch.where(flip > 0, 31 - line, line)
        channel = torch.arange(3)[None, :, None, None]
        return self.images[rows[:, None, None, None], channel, y[:, None, :, None], x[:, None, None, :]].float()


def as_is(batch):
    return batch


def make_epochs(workload, data, workers, variant):
    torch.set_num_threads(1)
    dataset = {"pil": PilPictures, "v2": TensorPictures, "batch": BatchPictures}[variant](workload, *load(data, workload.name))
    loader = torch.utils.data.DataLoader(
        dataset,
        BATCH_SIZE,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        prefetch_factor=4 if workers else None,
        collate_fn=as_is if variant == "batch" else None,
    )
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, ("torch", "torchvision", "pillow"))
