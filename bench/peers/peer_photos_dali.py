"""NVIDIA DALI's CPU pipeline: its decoder of random regions, its antialiased resize, crop_mirror_normalize."""

import numpy as np
from nvidia.dali import fn, pipeline_def, types

import harness
from photo_draws import RATIO, SCALE, SIZE, files
from workloads import BATCH_SIZE


@pipeline_def
def crop_pipeline(paths, workload):
    data, labels = fn.readers.file(
        files=paths, labels=[0] * len(paths), random_shuffle=True, initial_fill=len(paths), read_ahead=True, name="files"
    )
    pictures = fn.decoders.image_random_crop(
        data, device="cpu", output_type=types.RGB, random_area=list(SCALE), random_aspect_ratio=list(RATIO), num_attempts=10
    )
    pictures = fn.resize(pictures, resize_x=SIZE, resize_y=SIZE, interp_type=types.INTERP_LINEAR, antialias=True)
    mean, std = (255 * np.array(values) for values in (workload.mean, workload.std))
    flip = fn.random.coin_flip(probability=0.5)
    pictures = fn.crop_mirror_normalize(
        pictures, dtype=types.FLOAT, output_layout="CHW", mean=list(mean), std=list(std), mirror=flip
    )
    return pictures, labels


def make_epochs(workload, data, workers, variant):
    pipeline = crop_pipeline(
        files(data), workload, batch_size=BATCH_SIZE, num_threads=workers, device_id=None, prefetch_queue_depth=3, seed=1
    )
    pipeline.build()

    def batches():
        while True:
            images, labels = pipeline.run()
            yield images.as_tensor(), labels.as_tensor()

    return batches


if __name__ == "__main__":
    harness.main(make_epochs, ("nvidia-dali-cuda130",))
