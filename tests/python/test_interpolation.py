"""Interpolations against Pillow's, over boxes of photographs."""
import os
import pathlib
import random

import numpy
import penstock
import pytest
from PIL import Image

PHOTOGRAPHS = pathlib.Path(os.environ.get("PENSTOCK_DATA", pathlib.Path(__file__).parents[3] / "shared/data")) / "imagenet-sample"
RESAMPLING = {"antialias": "BILINEAR", "antialias_bicubic": "BICUBIC", "antialias_lanczos": "LANCZOS", "antialias_box": "BOX",
              "antialias_hamming": "HAMMING"}
NAMES = {"bilinear": "BILINEAR", "bicubic": "BICUBIC", "lanczos": "LANCZOS", "box": "BOX", "hamming": "HAMMING"}


@pytest.fixture(scope="module")
def photographs():
    """Photographs, or where there are none, smooth pictures with hard edges of black and white."""
    files = sorted(PHOTOGRAPHS.glob("*.JPEG"))[:40]
    if files:
        return [Image.open(file).convert("RGB") for file in files]
    draw = numpy.random.default_rng(3)
    made = []
    for _ in range(20):
        levels = numpy.array(Image.fromarray(draw.integers(0, 256, (9, 12, 3), dtype=numpy.uint8)).resize((400, 300)))
        for _ in range(9):
            x, y = draw.integers(0, 350), draw.integers(0, 250)
            levels[y:y + 30, x:x + 40] = draw.choice([0, 255])
        made.append(Image.fromarray(levels))
    return made


@pytest.fixture(scope="module")
def plain_plan(pictures):
    """A plan that does nothing yet."""
    return penstock.Loader(pictures, augment="resize(height=8,width=8)", batch_size=1, shuffle=False).plan(0, 0)


def levels_of(picture, plan):
    """H x W x C, of what is normalised to 0..1."""
    return 255 * penstock.render(numpy.asarray(picture), plan).transpose(1, 2, 0)


def box_of(draw, picture):
    width, height = draw.randint(1, picture.width), draw.randint(1, picture.height)
    left, top = draw.randint(0, picture.width - width), draw.randint(0, picture.height - height)
    return left, top, left + width, top + height


@pytest.mark.parametrize("filter", RESAMPLING)
def test_a_resized_box_is_pillows(photographs, plain_plan, filter):
    """200 boxes per filter: 1,000 in all. Pillow rounds between its two passes and at the end, which is less than 1 level each time."""
    draw = random.Random(filter)
    for trial in range(200):
        picture = photographs[trial % len(photographs)]
        left, top, right, bottom = box = box_of(draw, picture)
        size = draw.randint(1, 260), draw.randint(1, 260)
        x, y = (right - left) / size[0], (bottom - top) / size[1]
        plan = plain_plan._replace(
            input_height=picture.height, input_width=picture.width, output_height=size[1], output_width=size[0],
            view=(left, top, right - left, bottom - top), map=(x, 0.0, float(left), 0.0, y, float(top)), filter=filter)
        pillows = numpy.asarray(picture.crop(box).resize(size, Image.Resampling[RESAMPLING[filter]]), dtype=numpy.float32)
        difference = numpy.abs(numpy.rint(levels_of(picture, plan)) - pillows)
        assert difference.max() <= 1, (trial, box, size)


def test_a_turned_picture_is_pillows_transform(photographs, plain_plan):
    draw = random.Random(5)
    for trial in range(100):
        picture = photographs[trial % len(photographs)].crop((0, 0, 150, 120))
        turn, scale = draw.uniform(-3, 3), draw.uniform(0.5, 2)
        c, s = scale * numpy.cos(turn), scale * numpy.sin(turn)
        map = (float(c), float(-s), draw.uniform(0, 100), float(s), float(c), draw.uniform(-60, 60))
        plan = plain_plan._replace(input_height=120, input_width=150, output_height=90, output_width=110, view=(0, 0, 150, 120), map=map,
                                   filter="bicubic")
        pillows = numpy.asarray(picture.transform((110, 90), Image.Transform.AFFINE, map, Image.Resampling.BICUBIC), dtype=numpy.float32)
        difference = numpy.abs(levels_of(picture, plan) - pillows).max(axis=2)
        # Pillow cuts to whole levels. A pixel on the picture's border may be on either side of it.
        assert (difference < 1.01).mean() > 0.999, trial


@pytest.mark.parametrize("name", NAMES)
def test_the_loader_resizes_as_pillow(pictures, name):
    """The reduced scales of JPEG are off, as by default in an evaluation."""
    loader = penstock.Loader(pictures, augment=f"resize(height=30,width=20,interpolation={name})", shuffle=False, arrays="numpy", batch_size=8)
    images = numpy.concatenate([batch.images for batch in loader])
    for index in range(0, len(loader.dataset), 5):
        whole = Image.fromarray(loader.dataset[index].image)
        pillows = numpy.asarray(whole.resize((20, 30), Image.Resampling[NAMES[name]]), dtype=numpy.float32)
        assert numpy.abs(numpy.rint(255 * images[index].transpose(1, 2, 0)) - pillows).max() <= 1, index


@pytest.mark.parametrize("name", ["bicubic", "lanczos"])
@pytest.mark.parametrize("scale", ["off", "always"])
def test_what_is_decoded_of_a_picture_is_enough(pictures, name, scale):
    """Four workers decode regions, and so does none; the whole picture, decoded at its full size, gives the same where no scale is reduced."""
    augment = f"random-resized-crop(size=24,scale=0.02:0.5,interpolation={name})"
    loader = penstock.Loader(pictures, augment=augment, shuffle=False, dct_scale=scale, arrays="numpy", batch_size=8, workers=4)
    again = penstock.Loader(pictures, augment=augment, shuffle=False, dct_scale=scale, arrays="numpy", batch_size=8, workers=0)
    images = numpy.concatenate([batch.images for batch in loader])
    assert numpy.array_equal(images, numpy.concatenate([batch.images for batch in again]))
    for index in range(0, len(loader.dataset) if scale == "off" else 0, 3):
        assert numpy.array_equal(penstock.render(loader.dataset[index].image, loader.plan(0, index)), images[index]), index
