"""A plain Python loop over OpenCV's warpAffine, one thread."""

import numpy as np

import harness
import opencv_affine
from workloads import epoch_indices, load


def make_epochs(workload, data, workers, variant):
    images, labels = load(data, workload.name)
    rng = np.random.default_rng(0)

    def epoch():
        for rows in epoch_indices(rng, len(labels)):
            yield opencv_affine.render(images[rows], rng, workload), labels[rows]

    return epoch


if __name__ == "__main__":
    harness.main(make_epochs, ("opencv-python-headless", "numpy"))
