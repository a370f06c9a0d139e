"""SPDL: a pipeline of threads that works batch by batch. OpenCV does the affine."""

import threading

import numpy as np
import spdl.pipeline

import harness
import opencv_affine
from workloads import epoch_indices, load


def make_epochs(workload, data, workers, variant):
    images, labels = load(data, workload.name)
    order = np.random.default_rng(0)
    local = threading.local()

    def render(rows):
        if not hasattr(local, "rng"):
            local.rng = np.random.default_rng(threading.get_ident())
        return opencv_affine.render(images[rows], local.rng, workload), labels[rows]

    def epoch():
        builder = spdl.pipeline.PipelineBuilder().add_source(epoch_indices(order, len(labels)))
        pipeline = builder.pipe(render, concurrency=workers).add_sink(4).build(num_threads=workers)
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


if __name__ == "__main__":
    harness.main(make_epochs, ("spdl", "opencv-python-headless"))
