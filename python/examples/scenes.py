"""Scenes of rectangles and discs, which the examples of segmentation and detection learn: NumPy draws them, so that they need no download.

No command: `pack(folder, count)` is what segmentation.py and detection.py call."""
import pathlib
from typing import Any, Dict, Iterator, Union

import numpy

import penstock

SIZE = 64
CLASSES = ("rectangle", "disc")  # in masks 1 and 2; 0 is background


def scenes(count: int, seed: int = 0) -> Iterator[Dict[str, Any]]:
    """Pictures with 1 to 3 objects: a mask of classes, and a box with a label for each object."""
    random = numpy.random.default_rng(seed)
    rows, columns = numpy.mgrid[:SIZE, :SIZE]
    for _ in range(count):
        image = random.integers(0, 60, (SIZE, SIZE, 3), dtype=numpy.uint8)
        mask = numpy.zeros((SIZE, SIZE), numpy.uint8)
        boxes, kinds = [], []
        for _ in range(random.integers(1, 4)):
            x, y = random.integers(0, SIZE - 24, 2)
            width, height = random.integers(14, 25, 2)
            kind = int(random.integers(0, 2))
            if kind == 1:
                height = width
                inside = (columns + 0.5 - x - width / 2)**2 + (rows + 0.5 - y - width / 2)**2 < (width / 2)**2
            else:
                inside = (columns >= x) & (columns < x + width) & (rows >= y) & (rows < y + height)
            image[inside] = (200, 80, 60) if kind == 0 else (60, 120, 220)
            mask[inside] = kind + 1
            boxes.append([x, y, x + width, y + height])
            kinds.append(kind)
        yield {"image": image, "mask": mask, "boxes": boxes, "kinds": kinds}


def pack(folder: pathlib.Path, count: int) -> None:
    """Once: a packed data set in `folder` is used as it is."""
    if (folder / "train/manifest.json").exists():
        return
    fields: Dict[str, Union[str, penstock.Field]] = {"mask": penstock.Field("mask", fill=255), "boxes": "boxes", "kinds": penstock.Field("labels", of="boxes")}
    for split, number in (("train", count), ("test", max(count // 4, 1))):
        penstock.pack(scenes(number, seed=len(split)), folder, split=split, class_names=[], fields=fields)
