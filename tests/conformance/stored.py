"""Samples of a packed split, read by the safetensors package as docs/FORMAT.md says."""
import dataclasses
import json

import numpy as np
from safetensors import safe_open

RAW, PNG, JPEG, COEFFICIENTS = range(4)


@dataclasses.dataclass
class Sample:
    path: str  # of the file that was packed, relative to the source's folder
    extent: tuple
    encoding: int
    data: np.ndarray  # u8
    codebook: np.ndarray  # of its shard; None without coefficients


def manifest(split):
    return json.loads((split / "manifest.json").read_text())


def source_path(stored, inputs):
    """The path of the packed file: a picture that became another kind of file has one more ending."""
    return stored if stored in inputs else stored.rsplit(".", 1)[0]


def shards(split, inputs):
    """The samples of each shard in the folder of a split, as a list; `inputs` has the paths that were packed."""
    for entry in manifest(split)["shards"]:
        if not entry["sample_count"]:
            continue
        with safe_open(split / entry["file"], framework="numpy") as shard:
            tensors = {name: shard.get_tensor(name) for name in shard.keys()}
        if "bytes" not in tensors:  # raw pictures of one size
            tensors["bytes"] = tensors["images"].reshape(-1)
            tensors["offset"] = np.arange(len(tensors["id"]) + 1) * tensors["images"][0].size
        paths, offsets = tensors["path"].tobytes(), tensors["path_offset"]
        yield [Sample(source_path(paths[offsets[row]:offsets[row + 1]].decode(), inputs), tuple(map(int, tensors["extent"][row])),
                      int(tensors["encoding"][row]), tensors["bytes"][tensors["offset"][row]:tensors["offset"][row + 1]],
                      tensors.get("codebook"))
               for row in range(entry["sample_count"])]


def samples(split, inputs):
    for shard in shards(split, inputs):
        yield from shard
