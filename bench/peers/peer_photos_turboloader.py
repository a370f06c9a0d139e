"""TurboLoader's fused path: it decodes the region of the crop from an archive of JPEGs, or reads its store of raw pixels at 256.

Its decoding pool has as many threads as the process has cores, so run.py gives the process one core per worker. Its store keeps
256 x 256 squares; a call that makes a batch of them uses one thread and releases Python's lock, so each worker is a thread that
makes whole batches.
"""

import collections
import concurrent.futures
import os
import pathlib

import numpy as np
import turboloader

import harness
from photo_draws import draw_crop, endless_order
from workloads import BATCH_SIZE


def jpeg_batches(workload, data):
    loader = turboloader.DataLoader(
        str(data / "photos.tar"),
        batch_size=BATCH_SIZE,
        image_size=workload.sample_shape[1],
        output_format="pytorch",
        transform=turboloader.ImageNetNormalize(),
        shuffle=True,
        train_aug=True,
        antialias=True,
        drop_last=True,
    )
    epoch = 0
    while True:
        loader.set_epoch(epoch)
        for images, meta in loader:
            yield images, np.zeros(len(meta["indices"]), np.int64)
        epoch += 1


def open_store(data):
    path = data / "photos-256.tbl"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        turboloader.preprocess_to_tbl(str(data / "photos.tar"), str(unfinished), image_size=256)
        unfinished.rename(path)
    return turboloader.tbl.open_raw_view(str(path))[0]


def raw_batches(workload, data, workers):
    pictures = open_store(data)
    rng = np.random.default_rng(0)
    order = endless_order(rng, len(pictures))
    pool = concurrent.futures.ThreadPoolExecutor(workers)

    def render(rows, crops, flips):
        output = np.empty((BATCH_SIZE, *workload.sample_shape), np.float32)
        mean, std = list(workload.mean), list(workload.std)
        turboloader.crop_resize_normalize_u8_gather(pictures, rows, crops, flips, output, mean=mean, std=std)
        return output, np.zeros(BATCH_SIZE, np.int64)

    ahead = collections.deque()
    while True:
        rows = np.array([next(order) for _ in range(BATCH_SIZE)])
        crops = np.array([draw_crop(rng, 256, 256) for _ in rows], np.float32)
        ahead.append(pool.submit(render, rows, crops, rng.integers(0, 2, BATCH_SIZE, dtype=np.uint8)))
        if len(ahead) > 4 * workers:
            yield ahead.popleft().result()


def make_epochs(workload, data, workers, variant):
    data = pathlib.Path(data)
    if workload.name == "photos256":
        return lambda: raw_batches(workload, data, workers)
    return lambda: jpeg_batches(workload, data)


if __name__ == "__main__":
    harness.main(make_epochs, ("turboloader", "numpy"))
