"""Writes filters.json: torchvision's antialiased resized_crop of a small picture, and Pillow's EXIF orientations.

Run by hand (`.venv/bin/python tests/golden/make_filter_golden.py`) when a case is added; the output is committed. The
crops are made of f32 tensors, so that no rounding to whole levels comes between; values are rounded to 0.01.
"""

import io
import json
import pathlib

import numpy as np
import torch
import torchvision
from PIL import Image, ImageOps
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

HEIGHT, WIDTH = 45, 58
EXIF_ORIENTATION = 0x0112


def scene():
    """Gradients, hard edges and grain in three channels."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    grain = np.random.default_rng(11).normal(0, 25, (HEIGHT, WIDTH, 3))
    base = np.stack([40 + 3.5 * x, 220 - 4 * y, 120 + 100 * np.sin(x / 2 + y / 3)], axis=-1)
    base[(x // 3 + y // 4) % 5 == 0] = (250, 5, 128)
    return np.clip(base + grain, 0, 255).astype(np.uint8)


def crop_cases(picture):
    tensor = torch.from_numpy(picture.transpose(2, 0, 1).astype(np.float32))
    fixed = [  # top, left, height, width of the crop; height, width of the result
        (0, 0, HEIGHT, WIDTH, 16, 16),
        (0, 0, HEIGHT, WIDTH, 9, 21),
        (7, 11, 31, 40, 14, 14),
        (20, 30, 25, 28, 11, 12),
        (3, 5, 9, 8, 15, 16),
        (10, 2, 40 - 10, 50, 13, 55),
        (12, 40, 5, 6, 5, 6),
        (0, 0, HEIGHT, WIDTH, 1, 2),
        (4, 9, 33, 37, 7, 5),
    ]
    for top, left, height, width, new_height, new_width in fixed:
        made = F.resized_crop(tensor, top, left, height, width, [new_height, new_width],
                              InterpolationMode.BILINEAR, antialias=True)
        expected = np.round(made.numpy().transpose(1, 2, 0).astype(np.float64), 2)
        yield dict(rect=[left, top, width, height], height=new_height, width=new_width,
                   expected=expected.ravel().tolist())


def orientation_cases():
    stored = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for orientation in range(10):
        image = Image.fromarray(stored)
        exif = Image.Exif()
        exif[EXIF_ORIENTATION] = orientation
        file = io.BytesIO()
        image.save(file, "PNG", exif=exif)
        upright = np.asarray(ImageOps.exif_transpose(Image.open(file)))
        yield dict(orientation=orientation, height=upright.shape[0], width=upright.shape[1],
                   expected=upright.ravel().tolist())


def main():
    picture = scene()
    golden = dict(torchvision=torchvision.__version__, height=HEIGHT, width=WIDTH, pixels=picture.ravel().tolist(),
                  crops=list(crop_cases(picture)), orientations=list(orientation_cases()))
    path = pathlib.Path(__file__).with_name("filters.json")
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
