"""Writes blurs.json: what torchvision's gaussian_blur and Pillow's GaussianBlur make of small pictures.

Run by hand (`.venv/bin/python tests/golden/make_blurs.py`) when a case is added; the output is committed.
"""

import json
import pathlib

import numpy as np
import PIL
import torch
import torchvision
from make_colors import SCENES, interleaved, u8
from make_golden import levels
from PIL import Image, ImageFilter
from torchvision.transforms import functional as F


def torchvision_cases():
    """From f32 on 0..1, where it is exact, and from u8, which it rounds."""
    for kernel, deviation in ((1, 1), (3, 0.3), (3, 4), (5, 1.1), (9, 2), (13, 0.8), (23, 0.1), (23, 2), (23, 7.5)):
        for picture in SCENES:
            exact = F.gaussian_blur(u8(picture).to(torch.float32) / 255, [kernel, kernel], [deviation, deviation]) * 255
            whole = F.gaussian_blur(u8(picture), [kernel, kernel], [deviation, deviation])
            yield dict(picture=picture, kernel=kernel, deviation=deviation, f32=interleaved(exact, 2).ravel().tolist(),
                       u8=interleaved(whole, 0).astype(int).ravel().tolist())


def pillow_cases():
    for deviation in (0.1, 0.3, 0.6, 0.9, 1.4, 2, 3.7):
        for picture, pixels in SCENES.items():
            made = Image.fromarray(np.squeeze(pixels)).filter(ImageFilter.GaussianBlur(deviation))
            yield dict(picture=picture, kernel=0, deviation=deviation, u8=levels(made).ravel().tolist())


def main():
    pictures = {name: dict(height=p.shape[0], width=p.shape[1], pixels=p.ravel().tolist()) for name, p in SCENES.items()}
    golden = dict(torchvision=torchvision.__version__, pillow=PIL.__version__, pictures=pictures,
                  blurs=[*torchvision_cases(), *pillow_cases()])
    path = pathlib.Path(__file__).with_name("blurs.json")
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
