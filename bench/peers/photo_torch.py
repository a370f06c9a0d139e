"""Decode and augment by torchvision: for PyTorch's own loader, and for the loaders that bring no decoder."""

import io

import torch
from PIL import Image
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from photo_draws import RATIO, SCALE, SIZE


def crop_and_flip():
    return [v2.RandomResizedCrop(SIZE, scale=SCALE, ratio=RATIO, antialias=True), v2.RandomHorizontalFlip()]


def to_float(workload):
    return [v2.ToDtype(torch.float32, scale=True), v2.Normalize(workload.mean, workload.std)]


class FromPil:
    """Bytes to f32 C x H x W; Pillow decodes, crops and resizes."""

    def __init__(self, workload):
        self.transform = v2.Compose([*crop_and_flip(), v2.PILToTensor(), *to_float(workload)])

    def __call__(self, data):
        return self.transform(Image.open(io.BytesIO(data)).convert("RGB"))


class FromTensor:
    """Bytes to f32 C x H x W; libjpeg-turbo by torchvision.io decodes, v2 crops and resizes the u8 tensor."""

    def __init__(self, workload):
        self.transform = v2.Compose([*crop_and_flip(), *to_float(workload)])

    def __call__(self, data):
        return self.from_tensor(torch.frombuffer(bytearray(data), dtype=torch.uint8))

    def from_tensor(self, data):
        return self.transform(decode_jpeg(data, mode=ImageReadMode.RGB))


def one_thread(_worker=0):
    """Limits torch to one thread, because each worker stands for one core."""
    torch.set_num_threads(1)


def packages(*others):
    return (*others, "torch", "torchvision")
