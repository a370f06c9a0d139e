"""Grain: its source gives the indices of whole batches, so that its cost is paid once per batch. OpenCV does the affine."""

import functools

import grain
import numpy as np

import harness
import opencv_affine
from workloads import epoch_indices, load


class ShuffledRows:
    """Batch b of epoch e is item e * batches + b. The shuffle of Grain itself takes one call per index, which costs more than the
    affine."""

    def __init__(self, count, epochs=10_000):
        self.count, self.epochs = count, epochs
        self.batches = len(epoch_indices(np.random.default_rng(0), count))

    def __len__(self):
        return self.batches * self.epochs

    def __getitem__(self, index):
        epoch, batch = divmod(index, self.batches)
        return shuffled(self.count, epoch)[batch]


@functools.lru_cache(maxsize=2)
def shuffled(count, epoch):
    return epoch_indices(np.random.default_rng(epoch), count)


class Render(grain.transforms.RandomMap):
    def __init__(self, workload, images, labels):
        self.workload, self.images, self.labels = workload, images, labels

    def random_map(self, rows, rng):
        return opencv_affine.render(self.images[rows], rng, self.workload), self.labels[rows]


def make_epochs(workload, data, workers, variant):
    images, labels = load(data, workload.name)
    source = grain.MapDataset.source(ShuffledRows(len(labels))).seed(0)
    batches = source.random_map(Render(workload, images, labels))
    if variant == "processes":
        options = grain.multiprocessing.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=4)
        loader = batches.to_iter_dataset(grain.ReadOptions(num_threads=0)).mp_prefetch(options)
    else:
        loader = batches.to_iter_dataset(grain.ReadOptions(num_threads=workers, prefetch_buffer_size=4 * max(workers, 1)))
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, ("grain", "opencv-python-headless"))
