"""MosaicML Streaming: its shards (MDS) of JPEG bytes, decoded by torchvision.io in the workers of PyTorch's DataLoader."""

import os
import pathlib

import streaming
import torch

import harness
import photo_torch
from photo_draws import files
from workloads import BATCH_SIZE

EPOCHS = 50  # one after the other, as one epoch of the data set


def write_shards(data):
    folder = pathlib.Path(data) / "photos-mds"
    if not folder.exists():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        with streaming.MDSWriter(out=str(unfinished), columns={"jpg": "bytes", "label": "int"}) as writer:
            for path in files(data):
                writer.write({"jpg": pathlib.Path(path).read_bytes(), "label": 0})
        unfinished.rename(folder)
    return str(folder)


class Photos(streaming.StreamingDataset):
    def __init__(self, workload, count, **options):
        super().__init__(epoch_size=EPOCHS * count, **options)
        self.decode = photo_torch.FromTensor(workload)

    def __getitem__(self, index):
        sample = super().__getitem__(index)
        return self.decode(sample["jpg"]), sample["label"]


def make_epochs(workload, data, workers, variant):
    photo_torch.one_thread()
    streaming.base.util.clean_stale_shared_memory()
    dataset = Photos(workload, len(files(data)), local=write_shards(data), shuffle=True, batch_size=BATCH_SIZE)
    loader = torch.utils.data.DataLoader(
        dataset, BATCH_SIZE, num_workers=workers, prefetch_factor=4, drop_last=True, worker_init_fn=photo_torch.one_thread
    )
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, photo_torch.packages("mosaicml-streaming"))
