"""mlx-data: its libjpeg-turbo, crop, resize and flip; whole batches are normalised by NumPy in its prefetching threads."""

import os

import mlx.data
import numpy as np

import harness
from photo_draws import RATIO, SCALE, SIZE, files, normalise
from workloads import BATCH_SIZE


def make_epochs(workload, data, workers, variant):
    samples = [{"image": path.encode(), "label": 0} for path in files(data)]

    def epoch():
        batches = (
            mlx.data.buffer_from_vector(samples)
            .shuffle()
            .to_stream()
            .repeat(-1)
            .load_image("image")
            .image_random_area_crop("image", SCALE, RATIO)
            .image_resize("image", SIZE, SIZE)
            .image_random_h_flip("image", 0.5)
            .batch(BATCH_SIZE)
            .key_transform("image", lambda pictures: normalise(pictures, workload))
            .prefetch(4 * workers, workers)
        )
        for batch in batches:
            yield batch["image"], batch["label"]

    return epoch


if __name__ == "__main__":
    harness.main(make_epochs, ("mlx-data", "numpy"))
    os._exit(0)  # its threads may be inside of normalise(), where an ordinary exit of Python would crash
