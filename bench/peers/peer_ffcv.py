"""FFCV: its own operations (stock), or one hand-written numba operation that does all of it in one pass (numba).

FFCV has no affine, so MNIST is numba only. The data set is a .beton beside the arrays, written by the first run.
"""

import dataclasses
import math
import os
import pathlib

os.environ["OMP_WAIT_POLICY"] = "passive"  # otherwise torch's threads spin on the cores that numba's threads need

import numpy as np
from ffcv.fields import IntField, NDArrayField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.ndarray import NDArrayDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, RandomTranslate, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter

import harness
from workloads import BATCH_SIZE, DEGREES, PAD, TRANSLATE, load


class ToFloat(Operation):
    """What the two operations below share: they write f32, C x H x W."""

    def __init__(self, workload):
        super().__init__()
        self.workload = workload

    def declare_state_and_memory(self, previous_state):
        shape = self.workload.sample_shape
        state = dataclasses.replace(previous_state, jit_mode=True, shape=shape, dtype=np.dtype("float32"))
        return state, AllocationQuery(shape, np.dtype("float32"))


class Affine(ToFloat):
    """u8 H x W, rotated, translated, normalised."""

    def generate_code(self):
        my_range = Compiler.get_iterator()
        scale, bias = self.workload.scale[0], self.workload.bias[0]
        degrees, translate = math.radians(DEGREES), TRANSLATE
        one = np.float32(1)

        def affine(images, output):
            count, height, width = images.shape
            for i in my_range(count):
                image, pixels = images[i].reshape(-1), output[i, 0]
                angle = np.random.uniform(-degrees, degrees)
                cosine, sine = np.float32(math.cos(angle)), np.float32(math.sin(angle))
                center_x, center_y = np.float32((width - 1) / 2), np.float32((height - 1) / 2)
                shift_x = center_x + np.float32(round(np.random.uniform(-translate, translate) * width))
                shift_y = center_y + np.float32(round(np.random.uniform(-translate, translate) * height))
                # 1 is added and subtracted, so that truncation equals floor() from -1 on; 0.5 gives the nearest pixel
                first_x = center_x - cosine * shift_x - sine * shift_y + one + np.float32(0.5)
                first_y = center_y + sine * shift_x - cosine * shift_y + one + np.float32(0.5)
                for y in range(height):
                    row_x, row_y = first_x + sine * np.float32(y), first_y + cosine * np.float32(y)
                    for x in range(width):
                        column = np.int32(row_x + cosine * np.float32(x)) - np.int32(1)
                        row = np.int32(row_y - sine * np.float32(x)) - np.int32(1)
                        inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
                        place = row * np.int32(width) + column if inside else np.int32(0)
                        level = np.float32(image[np.uint32(place)]) if inside else np.float32(0)
                        pixels[y, x] = level * scale + bias
            return output

        affine.is_parallel = True
        return affine


class CropFlip(ToFloat):
    """u8 H x W x 3, cropped out of the picture padded with zeros, flipped, normalised."""

    def generate_code(self):
        my_range = Compiler.get_iterator()
        scale, bias = self.workload.scale, self.workload.bias
        pad = PAD

        def crop_flip(images, output):
            count, height, width, channels = images.shape
            for i in my_range(count):
                down = np.random.randint(0, 2 * pad + 1) - pad
                right = np.random.randint(0, 2 * pad + 1) - pad
                flip = np.random.randint(0, 2)
                first, last = max(0, -right), min(width, width - right)
                for channel in range(channels):
                    gain, zero = scale[channel], bias[channel]
                    for y in range(height):
                        line = output[i, channel, y]
                        line[:] = zero
                        if 0 <= y + down < height:
                            source = images[i, y + down, :, channel]
                            if flip == 1:
                                for x in range(first, last):
                                    line[width - 1 - x] = np.float32(source[x + right]) * gain + zero
                            else:
                                for x in range(first, last):
                                    line[x] = np.float32(source[x + right]) * gain + zero
            return output

        crop_flip.is_parallel = True
        return crop_flip


class Samples:
    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], int(self.labels[index])


def beton(workload, data):
    path = pathlib.Path(data) / f"{workload.name}.beton"
    if not path.exists():
        images, labels = load(data, workload.name)
        unfinished = path.with_suffix(f".{os.getpid()}")
        fields = {"image": NDArrayField(np.dtype("uint8"), images.shape[1:]), "label": IntField()}
        DatasetWriter(str(unfinished), fields, num_workers=1).from_indexed_dataset(Samples(images, labels))
        unfinished.rename(path)
    return path


def operations(workload, variant):
    if workload.name == "mnist":
        return [Affine(workload), ToTensor()]
    if variant == "numba":
        return [CropFlip(workload), ToTensor()]
    mean, std = (255 * np.array(values) for values in (workload.mean, workload.std))
    normalize = NormalizeImage(mean, std, np.float32)
    return [RandomHorizontalFlip(), RandomTranslate(PAD), normalize, ToTensor(), ToTorchImage(channels_last=False)]


def make_epochs(workload, data, workers, variant):
    loader = Loader(
        str(beton(workload, data)),
        BATCH_SIZE,
        num_workers=workers,
        os_cache=True,
        order=OrderOption.RANDOM,
        drop_last=True,
        batches_ahead=4,
        pipelines={"image": [NDArrayDecoder(), *operations(workload, variant)], "label": [IntDecoder(), ToTensor()]},
    )
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, ("ffcv", "numba", "torch"))
    os._exit(0)  # its thread may be inside a batch; an ordinary exit would then abort
