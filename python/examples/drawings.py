r"""Packs drawings, for want of photographs: an iterable of one's own gives (picture, class name).

    python python/examples/drawings.py data/drawings --count 200
    shardprep show data/drawings --split train --grid 3x8 --out sheet.png \
        --augment 'random-resized-crop(size=96,scale=0.25:1),flip,trivial-augment'
"""
import argparse
import colorsys
import math
import random
from typing import Iterator, Tuple

from PIL import Image, ImageDraw

import penstock

WIDTH, HEIGHT, FINER = 240, 180, 3  # drawn larger by FINER and reduced, for smooth edges

Point = Tuple[float, float]


def color(hue: float, saturation: float, value: float) -> Tuple[int, int, int]:
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)


class Scene:
    """Sky and land, with shapes on them. Coordinates are those of the small picture."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.picture = Image.new("RGB", (WIDTH * FINER, HEIGHT * FINER))
        self.pen = ImageDraw.Draw(self.picture)
        hue, horizon = draw.choice((0.58, 0.55, 0.08, 0.95)), draw.uniform(100, 140)
        for y in range(HEIGHT):
            self.shape("rectangle", [(0, y), (WIDTH, y + 1)], color(hue, 0.6 - 0.4 * y / HEIGHT, 0.8 + 0.2 * y / HEIGHT))
        self.oval(draw.uniform(30, WIDTH - 30), draw.uniform(20, 60), 14, color(0.14, 0.5, 1))
        self.horizon = horizon

    def shape(self, kind: str, points: "list[Point]", fill: Tuple[int, int, int]) -> None:
        getattr(self.pen, kind)([(FINER * x, FINER * y) for x, y in points], fill=fill)

    def oval(self, x: float, y: float, radius: float, fill: Tuple[int, int, int], stretch: float = 1) -> None:
        self.shape("ellipse", [(x - radius, y - radius * stretch), (x + radius, y + radius * stretch)], fill)

    def ground(self, hue: float, waves: float) -> None:
        phase = self.draw.uniform(0, 6)
        edge = [(x, self.horizon + waves * math.sin(phase + x / 25)) for x in range(0, WIDTH + 1, 4)]
        self.shape("polygon", [(0, HEIGHT), *edge, (WIDTH, HEIGHT)], color(hue, 0.55, 0.6))

    def bright(self) -> Tuple[int, int, int]:
        return color(self.draw.random(), 0.75, 0.9)

    def finished(self) -> Image.Image:
        return self.picture.resize((WIDTH, HEIGHT), Image.Resampling.BOX)


def boat(scene: Scene) -> None:
    x, y = scene.draw.uniform(60, 180), scene.horizon + 14
    scene.shape("polygon", [(x, y - 90), (x + 42, y - 14), (x, y - 14)], scene.bright())
    scene.shape("polygon", [(x - 4, y - 78), (x - 34, y - 14), (x - 4, y - 14)], color(0, 0, 0.96))
    scene.ground(0.57, 3)
    scene.shape("polygon", [(x - 48, y - 12), (x + 52, y - 12), (x + 36, y + 14), (x - 34, y + 14)], color(0.05, 0.7, 0.45))


def house(scene: Scene) -> None:
    x, y = scene.draw.uniform(60, 180), scene.horizon + 16
    scene.ground(0.3, 5)
    scene.shape("rectangle", [(x - 42, y - 56), (x + 42, y)], color(scene.draw.random(), 0.3, 0.95))
    scene.shape("polygon", [(x - 54, y - 54), (x, y - 98), (x + 54, y - 54)], color(0.02, 0.7, 0.65))
    for left, top, width, height, fill in ((-9, -34, 18, 34, scene.bright()), (-34, -44, 17, 17, color(0.55, 0.3, 0.9)),
                                           (17, -44, 17, 17, color(0.55, 0.3, 0.9))):
        scene.shape("rectangle", [(x + left, y + top), (x + left + width, y + top + height)], fill)


def tree(scene: Scene) -> None:
    x, y = scene.draw.uniform(60, 180), scene.horizon + 20
    scene.ground(0.27, 8)
    scene.shape("rectangle", [(x - 7, y - 56), (x + 7, y)], color(0.07, 0.6, 0.4))
    hue = scene.draw.choice((0.28, 0.33, 0.1, 0.05))
    for _ in range(24):
        angle, far = scene.draw.uniform(0, 2 * math.pi), 28 * scene.draw.random() ** 0.5
        scene.oval(x + far * math.cos(angle), y - 78 + far * math.sin(angle), scene.draw.uniform(12, 20),
                   color(hue, 0.7, scene.draw.uniform(0.5, 0.75)))


def balloon(scene: Scene) -> None:
    scene.ground(0.22, 12)
    x, y, first, second = scene.draw.uniform(60, 180), scene.draw.uniform(55, 80), scene.bright(), scene.bright()
    scene.shape("polygon", [(x - 34, y + 20), (x + 34, y + 20), (x + 9, y + 58), (x - 9, y + 58)], first)
    for number, radius in enumerate((42, 27, 10)):
        scene.shape("ellipse", [(x - radius, y - 42), (x + radius, y + 42)], (first, second, first)[number])
    scene.shape("rectangle", [(x - 10, y + 62), (x + 10, y + 76)], color(0.08, 0.6, 0.5))


KINDS = (balloon, boat, house, tree)


def drawings(count: int, seed: int) -> Iterator[Tuple[Image.Image, str]]:
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        scene = Scene(random.Random(f"{seed} {number}"))
        kind(scene)
        yield scene.finished(), kind.__name__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="folder for the packed data set")
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    for split, count, seed in (("train", options.count, 0), ("test", options.count // 5, 1)):
        penstock.pack(drawings(count, seed), options.out, split=split)


if __name__ == "__main__":
    main()
