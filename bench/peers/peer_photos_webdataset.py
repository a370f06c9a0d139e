"""WebDataset: shards of JPEGs in tar files, shuffled, decoded by torchvision.io in the workers of PyTorch's DataLoader."""

import os
import pathlib

import webdataset

import harness
import photo_torch
from photo_draws import files
from workloads import BATCH_SIZE

SHARDS = 8


def write_shards(data):
    """<data>/photos-webdataset/<number>.tar, which hold every eighth picture."""
    folder = pathlib.Path(data) / "photos-webdataset"
    if not folder.exists():
        unfinished = folder.with_suffix(f".{os.getpid()}")
        unfinished.mkdir()
        for number in range(SHARDS):
            with webdataset.TarWriter(str(unfinished / f"{number}.tar")) as tar:
                for index, path in list(enumerate(files(data)))[number::SHARDS]:
                    tar.write({"__key__": f"{index:06}", "jpg": pathlib.Path(path).read_bytes(), "cls": 0})
        unfinished.rename(folder)
    return [str(folder / f"{number}.tar") for number in range(SHARDS)]


def make_epochs(workload, data, workers, variant):
    photo_torch.one_thread()
    decode = photo_torch.FromTensor(workload)
    dataset = (
        webdataset.WebDataset(write_shards(data), shardshuffle=SHARDS, empty_check=False)
        .repeat()
        .shuffle(500)
        .to_tuple("jpg", "cls")
        .map_tuple(decode, int)
        .batched(BATCH_SIZE, partial=False)
    )
    loader = webdataset.WebLoader(
        dataset, batch_size=None, num_workers=workers, prefetch_factor=4, worker_init_fn=photo_torch.one_thread
    )
    return lambda: iter(loader)


if __name__ == "__main__":
    harness.main(make_epochs, photo_torch.packages("webdataset"))
