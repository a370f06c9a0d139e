"""Makes the photographs that the loaders read, once: python bench/peers/prepare_photos.py SOURCE OUT; SOURCE holds JPEG files.

OUT/photos holds every file COPIES times, as real copies, so that an epoch is about 2,000 samples for every loader. OUT/photos.tar
holds the same files for loaders that read archives. The crops that Pillow makes of them are measured, for photo_check.py to
compare with.
"""

import io
import json
import pathlib
import sys
import tarfile

import numpy as np
from PIL import Image

import photo_check
from photo_draws import SIZE, draw_crop, files, normalise
from workloads import WORKLOADS

COPIES = 10


def copy_files(source, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(source.glob("*.JPEG")):
        for copy in range(COPIES):
            (folder / f"{path.stem}-{copy}.JPEG").write_bytes(path.read_bytes())


def write_tar(paths, target):
    """Files are named by number, because archives for WebDataset need names without a dot before the extension."""
    with tarfile.open(target, "w") as tar:
        for number, path in enumerate(paths):
            data = pathlib.Path(path).read_bytes()
            member = tarfile.TarInfo(f"{number:06}.jpg")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


def reference(paths):
    """How random resized crops of these pictures look."""
    rng, look = np.random.default_rng(0), photo_check.Look(WORKLOADS["photos"])
    for path in paths:
        picture = Image.open(path).convert("RGB")
        x, y, width, height = draw_crop(rng, *picture.size)
        crop = picture.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=(x, y, x + width, y + height))
        look.add(normalise(np.asarray(crop)[None], WORKLOADS["photos"]))
    return look.summary()


def main():
    source, out = map(pathlib.Path, sys.argv[1:3])
    copy_files(source, out / "photos")
    paths = files(out)
    if not paths:
        sys.exit(f"prepare_photos: {source}: no *.JPEG files; expected some")
    write_tar(paths, out / "photos.tar")
    (out / photo_check.REFERENCE).write_text(json.dumps(reference(paths)))


if __name__ == "__main__":
    main()
