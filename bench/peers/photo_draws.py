"""What the photo peers share, without other imports: the files, torchvision's draw of a random resized crop, normalising."""

import math
import pathlib

import numpy as np

SIZE = 224
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def files(data):
    """The JPEG files that prepare_photos.py left, sorted."""
    return sorted(str(path) for path in (pathlib.Path(data) / "photos").glob("*.JPEG"))


def endless_order(rng, count):
    """Shuffled epochs, one after the other, without an end, so that the end of a short epoch costs a loader nothing."""
    while True:
        yield from rng.permutation(count).tolist()


def draw_crop(rng, width, height):
    """x, y, width, height as torchvision's RandomResizedCrop.get_params: ten tries, then the central fallback."""
    low, high = (math.log(ratio) for ratio in RATIO)
    for _ in range(10):
        area = width * height * rng.uniform(*SCALE)
        aspect = math.exp(rng.uniform(low, high))
        crop_width, crop_height = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < crop_width <= width and 0 < crop_height <= height:
            x, y = rng.integers(0, width - crop_width + 1), rng.integers(0, height - crop_height + 1)
            return int(x), int(y), crop_width, crop_height
    crop_width = min(width, round(height * RATIO[1]))
    crop_height = min(height, round(width / RATIO[0]))
    return (width - crop_width) // 2, (height - crop_height) // 2, crop_width, crop_height


def normalise(pictures, workload):
    """u8 N x H x W x 3 to f32 N x 3 x H x W, plane by plane: three times faster than NumPy on the whole batch."""
    output = np.empty((len(pictures), 3, SIZE, SIZE), np.float32)
    for picture, planes in zip(pictures, output):
        for channel, plane in enumerate(planes):
            np.multiply(picture[..., channel], workload.scale[channel], out=plane)
            plane += workload.bias[channel]
    return output


def at_short_side(picture, side=256):
    """A Pillow picture, its short side reduced to `side` pixels; smaller ones stay as they are."""
    width, height = picture.size
    if min(width, height) <= side:
        return picture
    factor = side / min(width, height)
    return picture.resize((round(width * factor), round(height * factor)), resample=2)  # 2: bilinear, antialiased
