"""What a decode at full size costs an evaluation, and what one at a smaller size changes: python bench/quality/dct_evaluation.py PHOTOGRAPHS

PHOTOGRAPHS holds JPEG files. They are packed as coefficients, as they are and enlarged, and loaded as an evaluation does it, with
dct_scale="auto" (full size) and "always". Prints how far the levels are from Pillow's, and the ratio of the processor times. Needs the wheel
of script/wheel, NumPy and Pillow.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

import numpy
import penstock
from PIL import Image

AUGMENT = "resize(size=256),center-crop(size=224)"
SCALES = ("auto", "always")


def pillows(path):
    picture = Image.open(path).convert("RGB")
    short = min(picture.size)
    picture = picture.resize([side * 256 // short for side in picture.size], Image.Resampling.BILINEAR)
    left, top = (round((side - 224) / 2) for side in picture.size)
    return numpy.asarray(picture.crop((left, top, left + 224, top + 224)), dtype=float)


def loader(packed, scale, **options):
    return penstock.Loader(packed, batch_size=1, shuffle=False, augment=AUGMENT, dct_scale=scale, arrays="numpy", **options)


def levels(packed, scale):
    """Element i: the picture of id i, H x W x C."""
    found = {}
    for batch in loader(packed, scale, workers=1, epochs=1):
        found[int(batch.ids[0])] = 255 * batch.images[0].transpose(1, 2, 0)
    return [found[key] for key in sorted(found)]


def seconds(packed, scale):
    source = loader(packed, scale, workers=1)
    begin = time.process_time()  # of all threads
    for _ in source:
        pass
    return time.process_time() - begin


def report(name, paths, folder, rounds):
    packed = folder / "packed"
    penstock.pack([(path, 0) for path in paths], packed, encode="coef")
    full, smaller = (levels(packed, scale) for scale in SCALES)
    changed = [i for i in range(len(paths)) if (full[i] != smaller[i]).any()]
    print(f"{name}: {len(changed)} of {len(paths)} pictures are decoded smaller with always")
    for scale, found in zip(SCALES, (full, smaller), strict=True):
        away = [numpy.abs(image - pillows(path)) for image, path in zip(found, paths, strict=True)]
        most = max(range(len(paths)), key=lambda i: away[i].max())
        some = [away[i] for i in changed]
        print(f"  {scale}: at most {away[most].max():.1f} levels from Pillow ({paths[most].name}); of the pictures that always changes, "
              f"mean {numpy.mean([one.mean() for one in some]):.2f}, maxima {min(one.max() for one in some):.1f} to "
              f"{max(one.max() for one in some):.1f}")
    times = [[seconds(packed, scale) for scale in SCALES] for _ in range(rounds + 1)][1:]
    ratios = sorted(auto / always for auto, always in times)
    print(f"  processor time of auto / always: {statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    paths = sorted(options.photographs.glob("*.JPEG"))
    for factor in (1, 2, 4):
        with tempfile.TemporaryDirectory() as name:
            folder, chosen = pathlib.Path(name), paths
            if factor > 1:
                chosen = [folder / path.name for path in paths[:: factor - 1]]
                for path in chosen:
                    picture = Image.open(options.photographs / path.name).convert("RGB")
                    larger = picture.resize([side * factor for side in picture.size], Image.Resampling.BICUBIC)
                    larger.save(path, quality=90)
            report("as they are" if factor == 1 else f"enlarged {factor}x", chosen, folder, options.rounds)


if __name__ == "__main__":
    main()
