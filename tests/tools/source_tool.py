"""What the tests of sources share: pictures, lists and tars as Pillow, csv, json and tarfile write them, and what was packed of them."""
import csv
import io
import json
import tarfile

import numpy as np
from PIL import Image

from shardprep_tool import manifest_of, run, shards_of

RNG = np.random.default_rng(7)


def picture(height=20, width=31, mode="RGB"):
    channels = {"RGB": (3,), "L": (), "RGBA": (4,)}[mode]
    return Image.fromarray(RNG.integers(0, 255, (height, width, *channels), dtype=np.uint8))


def save(path, image=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    (image or picture()).save(path, **options)
    return path


def png_bytes(image=None, **options):
    out = io.BytesIO()
    (image or picture()).save(out, "PNG", **options)
    return out.getvalue()


def pack(source, inputs, out, *arguments, code=0, shards=1, split="train"):
    inputs = inputs if isinstance(inputs, list) else [inputs]
    given = [argument for path in inputs for argument in ("--input", path)]
    return run("pack", "--source", source, *given, "--out", out, "--shards", shards, "--split", split, *arguments, code=code)


def samples_of(folder):
    """id -> {"label": ..., field: value}; text is str, numbers are arrays, the others bytes."""
    types = {entry["name"]: entry for entry in fields_of(folder)}
    samples = {}
    for shard in shards_of(folder):
        for row, sample_id in enumerate(shard["id"]):
            sample = {"label": int(shard["label"][row])}
            for name, entry in types.items():
                values = shard[f"field.{name}"]
                if f"field_offset.{name}" in shard:
                    begin, end = shard[f"field_offset.{name}"][row:row + 2]
                    value = values[int(begin):int(end)]
                else:
                    value = values[row]
                kind = entry["kind"]
                if kind == "text":
                    value = value.tobytes().decode()
                elif kind in ("bytes", "mask", "instances", "picture"):
                    value = value.tobytes()
                sample[name] = value
            samples[int(sample_id)] = sample
    return dict(sorted(samples.items()))


def fields_of(folder):
    return [{"name": name, **entry} for name, entry in manifest_of(folder).get("fields", {}).items()]


def unpacked(folder, out):
    run("unpack", folder, "--out", out)
    return out


def write_csv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_tar(path, members, format=tarfile.PAX_FORMAT):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as tar:
        for name, data in members:
            entry = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(data, bytes):
                entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data) if isinstance(data, bytes) else None)
    return path


def npy_bytes(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()
