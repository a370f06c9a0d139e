"""Writes targets.json: what PIL makes of 10,000 masks, and torchvision of boxes and key points.

Run by hand (`.venv/bin/python tests/golden/make_targets.py`); the output is committed, so that the tests need no Python.
The masks and the maps come from a generator that tests/augment/targets/masks_golden_test.cpp has as well, so that only
check sums are stored. Elements of the maps are multiples of 1/256, which are exact in PIL's 16.16 fixed point, in f32
and in f64: what is compared is which pixel is taken, and not who rounds how.
"""

import json
import pathlib
import zlib

import numpy as np
import torch
import torchvision
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as F

PLANS = 10_000


class Numbers:
    """Knuth's MMIX generator; the upper bits."""

    def __init__(self, seed):
        self.state = seed

    def between(self, low, high):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return low + (self.state >> 33) % (high - low + 1)


def masks():
    numbers = Numbers(31)
    sums = []
    for _ in range(PLANS):
        height, width = numbers.between(1, 40), numbers.between(1, 40)
        mask = np.array([numbers.between(0, 254) for _ in range(height * width)], np.uint8).reshape(height, width)
        new_height, new_width = numbers.between(1, 40), numbers.between(1, 40)
        turned = [numbers.between(-512, 512) / 256 for _ in range(4)]
        x0, y0 = numbers.between(-2560, 12800) / 256, numbers.between(-2560, 12800) / 256
        if numbers.between(0, 2) == 0:
            turned[1] = turned[2] = 0  # PIL has a loop of its own for these
        data = (turned[0], turned[1], x0, turned[2], turned[3], y0)
        moved = Image.fromarray(mask).transform(
            (new_width, new_height), Image.Transform.AFFINE, data, Image.Resampling.NEAREST, fillcolor=255
        )
        sums.append(zlib.crc32(np.asarray(moved).tobytes()))
    return "".join(f"{value:08x}" for value in sums)


HEIGHT, WIDTH = 120, 160
BOXES = [[10, 20, 60, 90], [0, 0, 160, 120], [100.5, 3.25, 159.75, 40.5], [70, 60, 90, 61], [150, 110, 160, 120]]
POINTS = [[[30.0, 40.0], [80.5, 60.25]], [[0.0, 0.0], [150.0, 119.0]]]


def target_cases():
    boxes = tv_tensors.BoundingBoxes(torch.tensor(BOXES), format="XYXY", canvas_size=(HEIGHT, WIDTH))
    points = tv_tensors.KeyPoints(torch.tensor(POINTS), canvas_size=(HEIGHT, WIDTH))
    edits = [  # the spec, what torchvision does
        ("flip(p=1)", F.horizontal_flip),
        ("vflip(p=1)", F.vertical_flip),
        ("resize(height=97,width=61)", lambda t: F.resize(t, [97, 61])),
        ("resize(size=75)", lambda t: F.resize(t, [75])),
        ("center-crop(size=100)", lambda t: F.center_crop(t, [100, 100])),
        ("center-crop(height=140,width=50)", lambda t: F.center_crop(t, [140, 50])),
    ]
    for degrees in (-35, 10, 90, 180):
        edits.append(
            (f"affine(degrees={degrees}:{degrees})", lambda t, d=degrees: F.affine(t, d, [0, 0], 1, [0, 0])),
        )
    for scale in (0.5, 1.7):
        edits.append((f"affine(scale={scale}:{scale})", lambda t, s=scale: F.affine(t, 0, [0, 0], s, [0, 0])))
    edits.append(("affine(shear=20:20:-5:-5)", lambda t: F.affine(t, 0, [0, 0], 1, [20, -5])))
    cases = []
    for spec, edit in edits:
        moved, there = edit(boxes), edit(points)
        clamped = F.clamp_bounding_boxes(moved, clamping_mode="hard")
        cases.append(
            {
                "spec": spec,
                "size": list(moved.canvas_size),
                "boxes": [[round(float(v), 5) for v in box] for box in clamped],
                # torchvision mirrors key points about the middles of pixels, W - 1 - x, and boxes about their edges.
                "points": []
                if "flip" in spec
                else [[[round(float(v), 5) for v in point] for point in row] for row in there],
            }
        )
    return cases


def main():
    golden = {
        "made_by": f"torchvision {torchvision.__version__}, Pillow {Image.__version__}",
        "masks": masks(),
        "height": HEIGHT,
        "width": WIDTH,
        "boxes": BOXES,
        "points": POINTS,
        "cases": target_cases(),
    }
    path = pathlib.Path(__file__).with_name("targets.json")
    path.write_text(json.dumps(golden, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
