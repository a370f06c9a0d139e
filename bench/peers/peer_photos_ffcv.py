"""FFCV on its own file, which holds the JPEGs as they are (jpg) or pixels at 256 (raw256). Its decoder crops and resizes.

After the decoder come either its own operations (stock) or one hand-written numba operation that flips, normalises and makes
planes (numba). The file is written by the first run.
"""

import dataclasses
import io
import os
import pathlib

os.environ["OMP_WAIT_POLICY"] = "passive"  # otherwise torch's threads spin on the cores that numba's threads need

import numpy as np
from ffcv.fields import IntField, RGBImageField
from ffcv.fields.basics import IntDecoder
from ffcv.fields.rgb_image import IMAGE_MODES, RandomResizedCropRGBImageDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.allocation_query import AllocationQuery
from ffcv.pipeline.compiler import Compiler
from ffcv.pipeline.operation import Operation
from ffcv.transforms import NormalizeImage, RandomHorizontalFlip, ToTensor, ToTorchImage
from ffcv.writer import DatasetWriter
from PIL import Image

import harness
from photo_draws import RATIO, SCALE, SIZE, at_short_side, files
from workloads import BATCH_SIZE

EPOCHS = 50  # one after the other, as one epoch of the loader


class FlipToPlanes(Operation):
    """u8 H x W x 3, flipped half of the time, normalised, to f32 C x H x W."""

    def __init__(self, workload):
        super().__init__()
        self.workload = workload

    def declare_state_and_memory(self, previous_state):
        shape = self.workload.sample_shape
        state = dataclasses.replace(previous_state, jit_mode=True, shape=shape, dtype=np.dtype("float32"))
        return state, AllocationQuery(shape, np.dtype("float32"))

    def generate_code(self):
        my_range = Compiler.get_iterator()
        scale, bias = self.workload.scale, self.workload.bias

        def flip_to_planes(images, output):
            count, height, width, channels = images.shape
            for i in my_range(count):
                flip = np.random.randint(0, 2)
                for y in range(height):
                    for channel in range(channels):
                        gain, zero = scale[channel], bias[channel]
                        source, line = images[i, y, :, channel], output[i, channel, y]
                        if flip == 1:
                            for x in range(width):
                                line[width - 1 - x] = np.float32(source[x]) * gain + zero
                        else:
                            for x in range(width):
                                line[x] = np.float32(source[x]) * gain + zero
            return output

        flip_to_planes.is_parallel = True
        return flip_to_planes


class Jpegs:
    """The files' bytes."""

    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return pathlib.Path(self.paths[index]).read_bytes(), 0


class Pixels(Jpegs):
    def __getitem__(self, index):
        return np.asarray(at_short_side(Image.open(self.paths[index]).convert("RGB"))), 0


def encode_unchanged(field, destination, jpeg, malloc):
    """Replaces the field's encode(), which takes pixels and would compress them again."""
    width, height = Image.open(io.BytesIO(jpeg)).size
    destination["mode"], destination["width"], destination["height"] = IMAGE_MODES["jpg"], width, height
    destination["data_ptr"], storage = malloc(len(jpeg))
    storage[:] = np.frombuffer(jpeg, np.uint8)


def beton(data, kind):
    path = pathlib.Path(data) / f"photos-{kind}.beton"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        samples = Pixels
        if kind == "jpg":
            samples, RGBImageField.encode = Jpegs, encode_unchanged  # the loader knows only fields of this class
        fields = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
        DatasetWriter(str(unfinished), fields, num_workers=1).from_indexed_dataset(samples(files(data)))
        unfinished.rename(path)
    return path


def operations(workload, variant):
    if variant == "numba":
        return [FlipToPlanes(workload), ToTensor()]
    mean, std = (255 * np.array(values) for values in (workload.mean, workload.std))
    return [RandomHorizontalFlip(), NormalizeImage(mean, std, np.float32), ToTensor(), ToTorchImage(channels_last=False)]


def make_epochs(workload, data, workers, variant):
    kind = "raw256" if workload.name == "photos256" else "jpg"
    decoder = RandomResizedCropRGBImageDecoder((SIZE, SIZE), SCALE, RATIO)
    loader = Loader(
        str(beton(data, kind)),
        BATCH_SIZE,
        num_workers=workers,
        os_cache=True,
        order=OrderOption.RANDOM,
        drop_last=True,
        batches_ahead=4,
        indices=np.tile(np.arange(len(files(data))), EPOCHS),
        pipelines={"image": [decoder, *operations(workload, variant)], "label": [IntDecoder(), ToTensor()]},
    )
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, ("ffcv", "numba", "torch", "opencv-python-headless"))
    os._exit(0)  # its thread may be inside a batch; an ordinary exit would then abort
