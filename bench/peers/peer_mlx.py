"""mlx-data: a buffer of the indices of whole batches, and its prefetching. It has no affine, so OpenCV does that.

Batching the pictures by mlx-data itself gave about a quarter fewer images a second.
"""

import threading

import mlx.data
import numpy as np

import harness
import opencv_affine
from workloads import epoch_indices, load


def make_epochs(workload, data, workers, variant):
    images, labels = load(data, workload.name)
    order = np.random.default_rng(0)
    local = threading.local()  # a NumPy generator must not be used by two threads at once

    def render(sample):
        if not hasattr(local, "rng"):
            local.rng = np.random.default_rng(threading.get_ident())
        rows = sample["rows"]
        return {"image": opencv_affine.render(images[rows], local.rng, workload), "label": labels[rows]}

    def epoch():
        buffer = mlx.data.buffer_from_vector([{"rows": rows} for rows in epoch_indices(order, len(labels))])
        batches = buffer.sample_transform(render).to_stream()
        if workers:
            batches = batches.prefetch(4 * workers, workers)
        for batch in batches:
            yield batch["image"], batch["label"]

    return epoch


if __name__ == "__main__":
    harness.main(make_epochs, ("mlx-data", "opencv-python-headless"))
