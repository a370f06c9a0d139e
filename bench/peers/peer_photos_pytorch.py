"""PyTorch's DataLoader on JPEG files: torchvision on PIL pictures (pil), or on what torchvision.io decodes (io)."""

import pathlib

import numpy as np
import torch
import torchvision

import harness
import photo_torch
from photo_draws import endless_order, files
from workloads import BATCH_SIZE


class Files(torch.utils.data.Dataset):
    def __init__(self, paths, workload, variant):
        self.paths, self.variant = paths, variant
        self.decode = photo_torch.FromPil(workload) if variant == "pil" else photo_torch.FromTensor(workload)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        if self.variant == "pil":
            return self.decode(pathlib.Path(self.paths[index]).read_bytes()), 0
        return self.decode.from_tensor(torchvision.io.read_file(self.paths[index])), 0


class Endless(torch.utils.data.Sampler):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        return endless_order(np.random.default_rng(0), self.count)


def make_epochs(workload, data, workers, variant):
    photo_torch.one_thread()
    paths = files(data)
    loader = torch.utils.data.DataLoader(
        Files(paths, workload, variant),
        BATCH_SIZE,
        sampler=Endless(len(paths)),
        num_workers=workers,
        prefetch_factor=4 if workers else None,
        worker_init_fn=photo_torch.one_thread,
    )
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, photo_torch.packages("pillow"))
