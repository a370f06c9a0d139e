"""What the tests of shardprep share: running it, and reading its shards by the safetensors package."""
import json
import os
import pathlib
import subprocess

from safetensors import safe_open

SHARDPREP = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve() / "shardprep"


def run(*arguments, code=0, **options):
    done = subprocess.run([SHARDPREP, *map(str, arguments)], capture_output=True, text=True, **options)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def pack(out, *arguments, source="digits(count=60,size=12)", split="train", shards=3, **options):
    return run("pack", "--source", source, "--split", split, "--out", out, "--shards", shards, *arguments, **options)


def manifest_of(folder):
    return json.loads((folder / "manifest.json").read_text())


def shards_of(folder):
    """The tensors of the shards, read by the safetensors package."""
    for entry in manifest_of(folder)["shards"]:
        with safe_open(folder / entry["file"], framework="numpy") as shard:
            yield {name: shard.get_tensor(name) for name in shard.keys()}


def samples_of(folder):
    """id -> (label, extent, encoding, crc32c, bytes), sliced by offset where the pictures have many sizes."""
    samples = {}
    for shard in shards_of(folder):
        for row, sample_id in enumerate(shard["id"]):
            if "images" in shard:
                data = shard["images"][row].tobytes()
            else:
                begin, end = shard["offset"][row:row + 2]
                data = shard["bytes"][begin:end].tobytes()
            samples[int(sample_id)] = (int(shard["label"][row]), tuple(map(int, shard["extent"][row])),
                                       int(shard["encoding"][row]), int(shard["crc32c"][row]), data)
    return samples
