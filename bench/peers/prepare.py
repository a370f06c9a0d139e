"""Makes what the loaders read, once: python bench/peers/prepare.py SOURCE OUT; SOURCE holds mnist/ and cifar10/.

CIFAR-10 comes as 60,000 JPEG files in one tar.xz; its training pictures are decoded here, once for all loaders, into an
array and into the binary batches that shardprep reads.
"""

import gzip
import io
import pathlib
import sys
import tarfile

import numpy as np
from PIL import Image


def read_idx(path):
    """An IDX file, gzipped: two zero bytes, type, number of dimensions, dimensions, values."""
    data = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(data, ">u4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * data[3]).reshape(shape)


def read_jpeg_tar(path, split):
    """Images and labels of <split>/<class>/<name>.jpg; classes are numbered by name."""
    pictures = []
    with tarfile.open(path) as tar:
        for member in tar:
            parts = pathlib.PurePath(member.name).parts
            if member.isfile() and len(parts) == 3 and parts[0] == split:
                pixels = np.asarray(Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB"))
                pictures.append((parts[1], pixels))
    classes = sorted({name for name, _ in pictures})
    labels = np.array([classes.index(name) for name, _ in pictures], np.int64)
    return np.stack([pixels for _, pixels in pictures]), labels


def write_cifar10_batches(folder, images, labels):
    """data_batch_1.bin to _5: records of a label and three planes, in a shuffled order, like Krizhevsky's."""
    order = np.random.default_rng(0).permutation(len(labels))
    planes = images.transpose(0, 3, 1, 2).reshape(len(labels), -1)
    records = np.concatenate([labels[:, None].astype(np.uint8), planes], axis=1)[order]
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(np.array_split(records, 5), 1):
        (folder / f"data_batch_{number}.bin").write_bytes(part.tobytes())


def save(folder, name, images, labels):
    np.save(folder / f"{name}-images.npy", images)
    np.save(folder / f"{name}-labels.npy", labels.astype(np.int64))


def main():
    source, out = map(pathlib.Path, sys.argv[1:3])
    out.mkdir(parents=True, exist_ok=True)
    mnist = source / "mnist"
    save(out, "mnist", read_idx(mnist / "train-images-idx3-ubyte.gz"), read_idx(mnist / "train-labels-idx1-ubyte.gz"))
    images, labels = read_jpeg_tar(source / "cifar10" / "cifar10-jpeg.tar.xz", "train")
    write_cifar10_batches(out / "cifar-10-batches-bin", images, labels)
    save(out, "cifar10", images, labels)


if __name__ == "__main__":
    main()
