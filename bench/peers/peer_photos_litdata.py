"""LitData: its chunks of JPEG bytes, decoded by torchvision.io in the workers of its StreamingDataLoader."""

import os
import pathlib

import litdata

import harness
import photo_torch
from photo_draws import files
from workloads import BATCH_SIZE


def sample_of(path):
    return {"jpg": pathlib.Path(path).read_bytes(), "label": 0}


def write_chunks(data):
    folder = pathlib.Path(data) / "photos-litdata"
    if not folder.exists():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        litdata.optimize(fn=sample_of, inputs=files(data), output_dir=str(unfinished), chunk_bytes="64MB", num_workers=1)
        unfinished.rename(folder)
    return str(folder)


class Photos(litdata.StreamingDataset):
    def __init__(self, workload, folder):
        super().__init__(folder, shuffle=True, drop_last=True)
        self.decode = photo_torch.FromTensor(workload)

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return self.decode(sample["jpg"]), sample["label"]


def make_epochs(workload, data, workers, variant):
    photo_torch.one_thread()
    loader = litdata.StreamingDataLoader(
        Photos(workload, write_chunks(data)),
        batch_size=BATCH_SIZE,
        num_workers=workers,
        prefetch_factor=4,
        drop_last=True,
        persistent_workers=True,
        worker_init_fn=photo_torch.one_thread,
    )
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, photo_torch.packages("litdata"))
