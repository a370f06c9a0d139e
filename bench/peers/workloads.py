"""What every loader is given and has to deliver: pictures, and batches of 64 in f32, N x C x H x W.

    mnist    60,000 x 28 x 28, rotation by up to 10 degrees and translation by up to 0.1, nearest neighbour, normalised
    cifar10  50,000 x 32 x 32 x 3, random 32 x 32 crop of the picture padded by 4, flip, normalised
    photos   JPEG files of about 468 x 395, random resized crop to 224 x 224, antialiased where the loader can, flip, normalised
    photos256  the same, from a store that was packed with the short side at 256 pixels

MNIST and CIFAR-10 come decoded, in memory.
"""

import dataclasses
import pathlib

import numpy as np

BATCH_SIZE = 64
DEGREES, TRANSLATE = 10.0, 0.1
PAD = 4


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    title: str
    augment: str  # for Penstock
    mean: tuple
    std: tuple
    sample_shape: tuple  # of a delivered sample, C x H x W
    is_photos: bool = False

    @property
    def scale(self):
        """Value of a pixel = level * scale + bias, f32, by channel."""
        return (1 / (255 * np.array(self.std))).astype(np.float32)

    @property
    def bias(self):
        return (-np.array(self.mean) / np.array(self.std)).astype(np.float32)


IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), "sample_shape": (3, 224, 224), "is_photos": True}
CROP_FLIP = "random-resized-crop(size=224),flip,normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)"

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload(
            "mnist",
            "MNIST: affine (10 degrees, translate 0.1, nearest), normalised, f32, batches of 64",
            "affine(degrees=10,translate=0.1),normalize(mean=0.1307,std=0.3081)",
            (0.1307,),
            (0.3081,),
            (1, 28, 28),
        ),
        Workload(
            "cifar10",
            "CIFAR-10, raw pixels: crop of 32 x 32 padded by 4, flip, normalised, f32, batches of 64",
            "shift(pad=4),flip(p=0.5),normalize(mean=0.4914:0.4822:0.4465,std=0.2470:0.2435:0.2616)",
            (0.4914, 0.4822, 0.4465),
            (0.2470, 0.2435, 0.2616),
            (3, 32, 32),
        ),
        Workload(
            "photos",
            "Photographs: random resized crop to 224 x 224, flip, normalised, f32, batches of 64",
            CROP_FLIP,
            **IMAGENET,
        ),
        Workload(
            "photos256",
            "Photographs packed at 256 pixels: random resized crop to 224 x 224, flip, normalised, f32, batches of 64",
            CROP_FLIP,
            **IMAGENET,
        ),
    )
}


def load(folder, workload):
    """Images, u8 N x H x W (x 3), and labels, i64, as prepare.py stored them."""
    folder = pathlib.Path(folder)
    return np.load(folder / f"{workload}-images.npy"), np.load(folder / f"{workload}-labels.npy")


def padded(images):
    """N x 40 x 40 x 3: for loaders that can crop, but not outside of the picture."""
    return np.pad(images, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))


def epoch_indices(rng, count):
    """A shuffled epoch: an array of BATCH_SIZE indices for each whole batch."""
    order = rng.permutation(count)
    return order[: count - count % BATCH_SIZE].reshape(-1, BATCH_SIZE)


def affine_matrices(rng, count, size, first_pixel):
    """`count` random maps from output to input coordinates, f32, count x 2 x 3, where the centre of the first pixel is
    at (first_pixel, first_pixel): 0 for OpenCV, 0.5 for DALI and PyTorch."""
    angle = np.deg2rad(rng.uniform(-DEGREES, DEGREES, count))
    shift = np.round(rng.uniform(-TRANSLATE * size, TRANSLATE * size, (count, 2)))
    center = (size - 1) / 2 + first_pixel
    matrices = np.empty((count, 2, 3), np.float32)
    cosine, sine = np.cos(angle), np.sin(angle)
    matrices[:, 0, 0], matrices[:, 0, 1] = cosine, sine
    matrices[:, 1, 0], matrices[:, 1, 1] = -sine, cosine
    offset = center + shift
    matrices[:, 0, 2] = center - cosine * offset[:, 0] - sine * offset[:, 1]
    matrices[:, 1, 2] = center + sine * offset[:, 0] - cosine * offset[:, 1]
    return matrices
