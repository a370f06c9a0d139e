"""Packs parquet files with a column of JPEG bytes by penstock.pack, as python/examples/huggingface.py does:

    <python> bench/python/pack_huggingface.py PARQUET OUT

prints the seconds that the call took. --write FOLDER makes PARQUET of a folder of class folders instead.
"""
import pathlib
import sys
import time

import datasets

import penstock


def write(folder: str, target: str) -> None:
    paths = sorted(pathlib.Path(folder).rglob("*.JPEG"))
    names = sorted({path.parent.name for path in paths})
    features = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=names))
    items = {"image": [{"bytes": path.read_bytes(), "path": path.name} for path in paths],
             "label": [names.index(path.parent.name) for path in paths]}
    datasets.Dataset.from_dict(items, features).to_parquet(target)


def main() -> None:
    if sys.argv[1] == "--write":
        write(*sys.argv[2:])
        return
    source, out = sys.argv[1:]
    items = datasets.load_dataset("parquet", data_files=source, split="train").cast_column("image", datasets.Image(decode=False))
    begin = time.perf_counter()
    penstock.pack(items, out, force=True)
    print(time.perf_counter() - begin)


if __name__ == "__main__":
    main()
