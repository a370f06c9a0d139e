"""Writes transforms.json: what torchvision makes of two small pictures for fixed parameters.

Run by hand (`.venv/bin/python tests/golden/make_golden.py`) when a case is added; the output is committed, so that the
tests need no Python. Affine maps, nearest resizes, crops and flips are made from PIL pictures (u8 levels); bilinear
resizes, normalise and erase from f32 tensors. No random number of torchvision is drawn: its generator is not ours.
"""

import json
import pathlib

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as F

MODES = {"nearest": InterpolationMode.NEAREST, "bilinear": InterpolationMode.BILINEAR}


def grey_digit(height=28, width=28):
    """A pen stroke like MNIST's: black ground, grey rim."""
    y, x = np.mgrid[0:height, 0:width] + 0.5
    ring = np.abs(np.hypot((x - 14) / 0.8, y - 10) - 5.5)
    leg = np.where(y > 13, np.abs(x - 18 + (y - 13) * 0.35), 99)
    return np.clip((2.6 - np.minimum(ring, leg)) * 160, 0, 255).astype(np.uint8)


def color_scene(height=20, width=26):
    """Gradients, an edge and grain in three channels, as a photograph has them."""
    y, x = np.mgrid[0:height, 0:width]
    grain = np.random.default_rng(7).normal(0, 12, (height, width, 3))
    base = np.stack([60 + 6 * x, 200 - 7 * y, 120 + 80 * np.sin(x / 3 + y / 5)], axis=-1)
    base[(x - 9) ** 2 + (y - 8) ** 2 < 30] += (70, -60, 40)
    return np.clip(base + grain, 0, 255).astype(np.uint8)


PICTURES = {"grey": grey_digit(), "color": color_scene()}


def pil(name):
    return Image.fromarray(PICTURES[name])


def tensor(name):
    """f32 C x H x W, levels 0..255."""
    return torch.from_numpy(np.atleast_3d(PICTURES[name]).transpose(2, 0, 1).astype(np.float32))


def levels(image):
    return np.atleast_3d(np.asarray(image))  # H x W x C


def interleaved(chw):
    return np.round(chw.numpy().transpose(1, 2, 0).astype(np.float64), 4)


def affine_cases():
    fixed = [  # degrees, translate, scale, shear, fill
        (0, (0, 0), 1.0, (0, 0), 0),
        (10, (0, 0), 1.0, (0, 0), 0),
        (-33.7, (3, -2), 1.0, (0, 0), 0),
        (90, (0, 0), 1.0, (0, 0), 0),
        (180, (1, 0), 1.0, (0, 0), 0),
        (0, (-4, 5), 1.0, (0, 0), 0),
        (0, (0, 0), 0.8, (0, 0), 128),
        (0, (0, 0), 1.35, (0, 0), 0),
        (0, (0, 0), 1.0, (12, 0), 0),
        (0, (0, 0), 1.0, (0, -9.5), 0),
        (17.3, (2, 1), 0.93, (6.1, -4.2), 77),
        (-71.9, (-1, 3), 1.17, (-11.3, 3.3), 255),
    ]
    for picture in PICTURES:
        for interpolation, mode in MODES.items():
            for degrees, translate, scale, shear, fill in fixed:
                color = (fill,) * 3 if picture == "color" else fill
                image = F.affine(pil(picture), degrees, list(translate), scale, list(shear), mode, fill=color)
                yield dict(kind="affine", picture=picture, interpolation=interpolation, degrees=degrees,
                           translate=translate, scale=scale, shear=shear, fill=fill, expected=levels(image))


def spec_cases():
    """Transforms whose parameters a spec can fix: from u8 pictures, so the levels are whole."""
    for picture in PICTURES:
        image = pil(picture)
        exact = {
            "flip(p=1)": F.hflip(image),
            "flip(p=0)": image,
            "vflip(p=1)": F.vflip(image),
            "flip(p=1),vflip(p=1)": F.vflip(F.hflip(image)),
            f"crop(height={image.height + 6},width={image.width + 6},pad=3,fill=90)":
                F.pad(image, 3, fill=(90,) * 3 if picture == "color" else 90),
            **{f"crop(height={image.height + 6},width={image.width + 6},pad=3,border={mode})": F.pad(image, 3, padding_mode=mode)
               for mode in ("edge", "reflect", "symmetric")},
            "center-crop(size=16)": F.center_crop(image, [16, 16]),
            "center-crop(height=11,width=17)": F.center_crop(image, [11, 17]),
            "center-crop(size=33)": F.center_crop(image, [33, 33]),
            "center-crop(height=31,width=9)": F.center_crop(image, [31, 9]),
            "flip(p=1),center-crop(height=13,width=10)": F.center_crop(F.hflip(image), [13, 10]),
            "rotate(degrees=90:90)": F.rotate(image, 90),
            "rotate(degrees=180:180)": F.rotate(image, 180),
            "resize(size=40,filter=nearest)": F.resize(image, [40], MODES["nearest"]),
            "resize(height=8,width=12,interpolation=nearest)": F.resize(image, [8, 12], MODES["nearest"]),
        }
        for spec, made in exact.items():
            yield dict(kind="spec", picture=picture, spec=spec, tolerance=0, expected=levels(made))
        side = min(image.size)  # the middle square is what random-resized-crop falls back to here
        square = [(image.height - side) // 2, (image.width - side) // 2, side, side]
        antialiased = {
            "resize(size=15)": F.resize(image, [15]),
            "resize(height=12,width=41,filter=antialias)": F.resize(image, [12, 41]),
            "random-resized-crop(height=9,width=13,scale=1:1,ratio=1:1)": F.resized_crop(image, *square, [9, 13]),
        }
        for spec, made in antialiased.items():  # Pillow rounds to whole levels after each of its two passes
            yield dict(kind="spec", picture=picture, spec=spec, tolerance=1.05, expected=levels(made))
        smooth = {"resize(size=37,filter=bilinear)": [37], "resize(size=15,filter=bilinear)": [15],
                  "resize(height=12,width=41,filter=bilinear)": [12, 41]}
        for spec, size in smooth.items():
            made = F.resize(tensor(picture), size, MODES["bilinear"], antialias=False)
            yield dict(kind="spec", picture=picture, spec=spec, tolerance=2e-3, expected=interleaved(made))


def normalize_cases():
    statistics = {"grey": ([0.1307], [0.3081]), "color": ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])}
    for picture, (mean, deviation) in statistics.items():
        made = F.normalize(tensor(picture) / 255, mean, deviation)
        text = "normalize(mean={},std={})".format(*(":".join(map(str, v)) for v in (mean, deviation)))
        yield dict(kind="normalize", picture=picture, spec=text, tolerance=1e-4, expected=interleaved(made))


def erase_cases():
    for picture, (top, left, height, width), value in (("grey", (3, 5, 9, 14), 0.0), ("color", (7, 0, 13, 6), 0.4)):
        made = F.erase(tensor(picture) / 255, top, left, height, width, torch.tensor(value)) * 255
        yield dict(kind="erase", picture=picture, rect=[top, left, top + height, left + width], value=value,
                   tolerance=1e-3, expected=interleaved(made))


def main():
    cases = [*affine_cases(), *spec_cases(), *normalize_cases(), *erase_cases()]
    for case in cases:
        case["height"], case["width"], _ = case["expected"].shape
        case["expected"] = [int(v) if v == int(v) else float(v) for v in case["expected"].ravel()]
    pictures = {name: dict(height=p.shape[0], width=p.shape[1], pixels=p.ravel().tolist())
                for name, p in PICTURES.items()}
    golden = dict(torchvision=torchvision.__version__, pictures=pictures, cases=cases)
    path = pathlib.Path(__file__).with_name("transforms.json")
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{path.name}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
