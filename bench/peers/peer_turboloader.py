"""TurboLoader's fused gather over an array: crop, flip, normalise in one native call per batch.

The pictures are padded beforehand, so that its crop is the required one. For batches this small the call uses one thread and
releases Python's lock, so each worker is a thread that makes whole batches.
"""

import collections
import concurrent.futures

import numpy as np
import turboloader

import harness
from workloads import BATCH_SIZE, PAD, epoch_indices, load, padded


def make_epochs(workload, data, workers, variant):
    images, labels = load(data, workload.name)
    images = padded(images)
    rng = np.random.default_rng(0)
    mean, std = list(workload.mean), list(workload.std)
    pool = concurrent.futures.ThreadPoolExecutor(workers) if workers else None

    def render(rows, corners, flips):
        crops = np.full((BATCH_SIZE, 4), 32, np.float32)  # x, y, width, height
        crops[:, :2] = corners
        output = np.empty((BATCH_SIZE, 3, 32, 32), np.float32)
        turboloader.crop_resize_normalize_u8_gather(images, rows, crops, flips, output, mean=mean, std=std)
        return output, labels[rows]

    def epoch():
        ahead = collections.deque()
        for rows in epoch_indices(rng, len(labels)):
            corners = rng.integers(0, 2 * PAD + 1, (BATCH_SIZE, 2))
            flips = rng.integers(0, 2, BATCH_SIZE, dtype=np.uint8)
            if pool is None:
                yield render(rows, corners, flips)
                continue
            ahead.append(pool.submit(render, rows, corners, flips))
            if len(ahead) > 4 * workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    return epoch


if __name__ == "__main__":
    harness.main(make_epochs, ("turboloader", "numpy"))
