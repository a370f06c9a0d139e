"""Grain: a shuffled, repeated list of files, decoded by torchvision.io in its worker processes, batched by Grain."""

import grain
import numpy as np
import torchvision

import harness
import photo_torch
from photo_draws import files
from workloads import BATCH_SIZE


class Decode(grain.transforms.Map):
    def __init__(self, workload):
        self.decode = photo_torch.FromTensor(workload)

    def map(self, path):
        photo_torch.one_thread()
        return self.decode.from_tensor(torchvision.io.read_file(path)).numpy(), np.int64(0)


def make_epochs(workload, data, workers, variant):
    photo_torch.one_thread()
    batches = grain.MapDataset.source(files(data)).shuffle(seed=0).repeat().map(Decode(workload)).batch(BATCH_SIZE)
    if variant == "threads":
        loader = batches.to_iter_dataset(grain.ReadOptions(num_threads=workers, prefetch_buffer_size=4 * workers))
    else:
        options = grain.multiprocessing.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=4)
        loader = batches.to_iter_dataset(grain.ReadOptions(num_threads=0)).mp_prefetch(options)
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, photo_torch.packages("grain"))
