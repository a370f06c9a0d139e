"""shardprep pack and unpack as a user runs them. Shards are read by other software: safetensors, a separate IDX reader, Pillow, zlib."""
import gzip
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess

import numpy as np
import pytest
from PIL import Image

from shardprep_tool import SHARDPREP, manifest_of, pack, run, samples_of, shards_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("PENSTOCK_DATA", ROOT.parent / "shared/data"))


def crc32c(data):
    """CRC-32C, computed bit by bit (polynomial of Castagnoli, reflected)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def sample_checksum(data, sample_id, label, extent, encoding, path=""):
    """Computed as docs/FORMAT.md describes it."""
    return crc32c(data + struct.pack("<QqHHHB", sample_id, label, *extent, encoding) + os.fsencode(path))


def read_idx(path):
    data = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read()
    dimension_count = data[3]
    shape = struct.unpack(f">{dimension_count}I", data[4:4 + 4 * dimension_count])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimension_count).reshape(shape)


def idx(array):
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_mnist(folder, train_images, train_labels, compress=False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in {"train-images-idx3-ubyte": train_images, "train-labels-idx1-ubyte": train_labels}.items():
        if compress:
            (folder / (name + ".gz")).write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return folder


@pytest.fixture
def mnist(tmp_path):
    """The real MNIST if it is there, otherwise random pictures of the same shape, gzipped in the same way."""
    if (DATA / "mnist").is_dir():
        return DATA / "mnist"
    generator = np.random.default_rng(1)
    return write_mnist(tmp_path / "mnist", generator.integers(0, 256, (500, 28, 28), np.uint8),
                       generator.integers(0, 10, 500).astype(np.uint8), compress=True)


def test_every_pixel_of_mnist_is_the_idx_files(mnist, tmp_path):
    pack(tmp_path / "out", "--input", mnist, "--shuffle-seed", 5, source="mnist", shards=4)
    images, labels = (read_idx(next(mnist.glob(f"train-{kind}*"))) for kind in ("images", "labels"))
    seen = np.zeros(len(images), int)
    folder = tmp_path / "out/train"
    for shard in shards_of(folder):
        assert {name: tensor.dtype.name for name, tensor in shard.items() if name != "padding"} == {
            "images": "uint8", "id": "uint64", "label": "int64", "crc32c": "uint32", "extent": "uint16", "encoding": "uint8"}
        ids = shard["id"].astype(int)
        seen[ids] += 1
        assert np.array_equal(shard["images"][..., 0], images[ids])
        assert np.array_equal(shard["label"], labels[ids])
        assert (shard["extent"] == [*images.shape[1:], 1]).all()
        assert not shard["encoding"].any()
        for row in range(0, len(ids), len(ids) // 3):
            assert shard["crc32c"][row] == sample_checksum(shard["images"][row].tobytes(), ids[row], labels[ids[row]],
                                                           (*images.shape[1:], 1), 0)
    assert (seen == 1).all()
    manifest = manifest_of(folder)
    assert manifest["class_counts"] == np.bincount(labels, minlength=10).tolist()
    assert manifest["mean"] == pytest.approx([images.mean() / 255], abs=1e-12)
    assert manifest["deviation"] == pytest.approx([images.std(dtype=np.float64) / 255], abs=1e-12)


def test_plain_and_gzipped_idx_files_pack_to_the_same_bytes(tmp_path):
    generator = np.random.default_rng(2)
    images = generator.integers(0, 256, (20, 5, 7), np.uint8)
    labels = generator.integers(0, 10, 20).astype(np.uint8)
    for name, compress in {"plain": False, "gz": True}.items():
        folder = write_mnist(tmp_path / name, images, labels, compress)
        pack(tmp_path / f"out-{name}", "--input", folder, source="mnist")
    shard = "train/shard-00001-of-00003.safetensors"
    assert (tmp_path / "out-plain" / shard).read_bytes() == (tmp_path / "out-gz" / shard).read_bytes()
    broken = tmp_path / "gz/train-images-idx3-ubyte.gz"
    broken.write_bytes(broken.read_bytes()[:-30])
    error = pack(tmp_path / "x", "--input", tmp_path / "gz", source="mnist", code=4).stderr
    assert error.startswith(f"shardprep: {broken}: gzip gives up") and error.count("\n") == 1


def pictures(folder):
    """Pictures of all kinds that Pillow writes: path -> the pixels that Penstock promises."""
    generator = np.random.default_rng(3)
    expected = {}
    for number, mode in enumerate(["L", "RGB", "RGBA", "LA", "P", "1"] * 4):
        height, width = map(int, generator.integers(1, 40, 2))
        rgb = Image.fromarray(generator.integers(0, 256, (height, width, 3), np.uint8))
        picture = rgb.convert("L").convert("LA") if mode == "LA" else rgb.convert(mode)
        if mode in ("RGBA", "LA"):
            picture.putalpha(Image.fromarray(generator.integers(0, 256, (height, width), np.uint8)))
        path = folder / f"class {number % 3}" / f"{number:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path)
        expected[path] = np.asarray(picture.convert("L" if mode in ("L", "LA", "1") else "RGB"))
    return expected


def test_a_cut_picture_is_named_with_the_way_around_it(tmp_path):
    pictures(tmp_path / "in")
    picture = tmp_path / "in/class 1/cut.jpg"
    Image.new("RGB", (64, 64), "red").save(picture)
    picture.write_bytes(picture.read_bytes()[:-100])
    error = pack(tmp_path / "out", "--input", tmp_path / "in", source="image-folder", code=4).stderr
    assert error.startswith(f"shardprep: {picture}: ") and error.count("\n") == 1, error
    assert error.endswith(", or shardprep pack --on-corrupt skip\n"), error
    pack(tmp_path / "out", "--input", tmp_path / "in", "--on-corrupt", "skip", source="image-folder")


def test_of_several_splits_an_existing_one_is_refused_before_the_first_is_packed(tmp_path):
    pack(tmp_path / "out", split="test")
    error = pack(tmp_path / "out", split="train,test", code=2).stderr
    assert error.startswith(f"shardprep: {tmp_path}/out/test: exists already; expected") and error.count("\n") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["test"]


def test_what_is_wrong_with_the_second_split_is_found_before_the_first_is_packed(tmp_path):
    for split in ("train", "test", "val"):
        pictures(tmp_path / "in" / split)
    arguments = ("--input", tmp_path / "in")
    error = pack(tmp_path / "out", *arguments, source="image-folder", split="train,test", code=2).stderr
    assert error.endswith("has both test and val; expected one folder for split test, or image-folder(test=val)\n")
    assert not (tmp_path / "out").exists()
    pack(tmp_path / "out", *arguments, source="image-folder(test=val)", split="train,test")


def labelled(folder):
    """name of the class folder -> labels of its pictures, by the paths in the shards"""
    found = {}
    for shard in shards_of(folder):
        for row, label in enumerate(shard["label"]):
            begin, end = shard["path_offset"][row:row + 2]
            found.setdefault(bytes(shard["path"][begin:end]).decode().split("/")[-2], set()).add(int(label))
    return found


def classes_in(folder, *names):
    for name in names:
        (folder / name).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (8, 8)).save(folder / name / f"{number}.png")


@pytest.mark.parametrize("calls", [["train", "test"], ["test", "train"], ["train,test"], ["val,all"], ["all", "train", "val"]],
                         ids=" then ".join)
def test_a_split_that_lacks_a_class_has_the_labels_of_the_others(tmp_path, calls):
    classes_in(tmp_path / "in (2019)/train", "a", "b", "c")
    classes_in(tmp_path / "in (2019)/val", "a", "c")
    for split in calls:
        pack(tmp_path / "out", "--input", tmp_path / "in (2019)", source="image-folder", split=split)
    assert labelled(tmp_path / "out/test") == {"a": {0}, "c": {2}}
    for folder in (tmp_path / "out").iterdir():
        assert manifest_of(folder)["class_names"] == ["a", "b", "c"]
    classes_in(tmp_path / "in (2019)/train", "0")  # all labels change, so one split alone cannot be replaced
    arguments = ["--input", tmp_path / "in (2019)", "--force"]
    there = next(tmp_path / "out" / name for name in ("train", "all") if (tmp_path / "out" / name).exists())
    error = pack(tmp_path / "out", *arguments, source="image-folder", split="test", code=2).stderr
    assert error.startswith(f'shardprep: {tmp_path}/out/test: class "0" is not among the 3 classes of {there}; expected ')
    assert error.count("\n") == 1 and labelled(tmp_path / "out/test") == {"a": {0}, "c": {2}}
    pack(tmp_path / "out", *arguments, source="image-folder", split=",".join(sorted(os.listdir(tmp_path / "out"))))
    assert labelled(tmp_path / "out/test") == {"a": {1}, "c": {3}}
    run("verify", tmp_path / "out")


def test_a_class_that_train_lacks_is_named(tmp_path):
    classes_in(tmp_path / "in/train", "a", "c")
    classes_in(tmp_path / "in/val", "a", "b", "c")
    for split in ("train", "train,test"):
        error = pack(tmp_path / "out", "--input", tmp_path / "in", source="image-folder", split=split, code=3).stderr
        assert error == (f"shardprep: {tmp_path}/in/val/b: a class that {tmp_path}/in/train lacks; expected pictures of it there "
                         "too, or no such folder\n")
        assert not (tmp_path / "out").exists()


def test_splits_whose_labels_differ_are_told(tmp_path):
    """As earlier versions packed them."""
    for split, names in {"train": "abc", "test": "ac"}.items():
        classes_in(tmp_path / split / "train", *names)
        pack(tmp_path / split, "--input", tmp_path / split / "train", source="image-folder", split="all")
    for split in ("train", "test"):
        path = tmp_path / "out" / split
        path.parent.mkdir(exist_ok=True)
        (tmp_path / split / "all").rename(path)
        (path / "manifest.json").write_text((path / "manifest.json").read_text().replace('"all"', f'"{split}"'))
    problem = f'{tmp_path}/out/test: class 1 is "c"; expected "b", as in {tmp_path}/out/train; pack it again\n'
    assert run("verify", tmp_path / "out", code=4).stderr == f"{problem}shardprep: verify: 1 problem; expected none\n"
    assert run("show", tmp_path / "out", "--split", "test", "--out", tmp_path / "sheet.png", code=2).stderr == f"shardprep: {problem}"
    done = subprocess.run([SHARDPREP.with_name("loadbench"), "--data", tmp_path / "out", "--split", "val", "--digest"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, f"loadbench: {problem}")
    run("info", tmp_path / "out")
    run("unpack", tmp_path / "out", "--split", "test", "--out", tmp_path / "files")


def test_png_files_are_stored_whole_and_their_pixels_are_pillows(tmp_path):
    expected = pictures(tmp_path / "in")
    (tmp_path / "in/class 0/readme.txt").write_text("not a picture")
    done = pack(tmp_path / "out", "--input", tmp_path / "in", source="image-folder")
    assert "1 file ignored (no pictures, or outside of class folders)" in done.stdout
    folder = tmp_path / "out/train"
    samples = samples_of(folder)
    assert len(samples) == len(expected)
    sums = np.zeros(3)
    count = 0
    for sample_id, path in enumerate(sorted(expected)):
        label, extent, encoding, crc, data = samples[sample_id]
        pixels = expected[path]
        assert data == path.read_bytes()
        assert (label, encoding) == (int(path.parent.name[-1]), 1)
        assert crc == sample_checksum(data, sample_id, label, extent, encoding, path.relative_to(tmp_path / "in"))
        assert extent == (*pixels.shape[:2], 1 if pixels.ndim == 2 else 3)
        sums += pixels.reshape(-1, extent[2]).sum(0)  # a grey picture counts in each channel
        count += extent[0] * extent[1]
    # The sums of decoded pixels are exact integers, so that a single wrong level would show.
    assert manifest_of(folder)["mean"] == pytest.approx((sums / 255 / count).tolist(), abs=1e-15)
    assert manifest_of(folder)["class_names"] == ["class 0", "class 1", "class 2"]


def test_a_killed_packing_goes_on_with_the_shards_that_are_missing(tmp_path):
    arguments = ["pack", "--source", "digits(count=6000,size=64)", "--out", tmp_path / "out", "--shards", "12", "--jobs", "2"]
    process = subprocess.Popen([SHARDPREP, *map(str, arguments)], stdout=subprocess.DEVNULL)
    partial = tmp_path / "out/.train.partial"
    while not list(partial.glob("finished-*.json")) and process.poll() is None:
        pass  # waits until one of the twelve shards is finished
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = [int(re.search(r"\d+", path.name)[0]) for path in partial.glob("finished-*.json")]
    assert 1 <= len(finished) < 12 and not (tmp_path / "out/train").exists()

    def state(shard, folder):
        status = (folder / f"shard-{shard:05}-of-00012.safetensors").stat()
        return status.st_ino, status.st_mtime_ns

    before = {shard: state(shard, partial / "split") for shard in finished}
    assert "of them packed before an interruption" in run(*arguments).stdout
    assert {shard: state(shard, tmp_path / "out/train") for shard in finished} == before
    assert os.listdir(tmp_path / "out") == ["train"]
    run(*arguments[:4], tmp_path / "whole", *arguments[5:])
    for path in (tmp_path / "whole/train").iterdir():
        assert (tmp_path / "out/train" / path.name).read_bytes() == path.read_bytes(), path.name


def test_a_file_that_cannot_grow_is_an_error_and_leaves_nothing(tmp_path):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))

    error = pack(tmp_path / "out", source="digits(count=600)", code=3, preexec_fn=limit).stderr
    assert re.fullmatch(r"shardprep: .*shard-0000\d-of-00003.safetensors: File too large; expected to write .*\n", error)
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_unpacked_whole_is_not_left_under_its_name(tmp_path):
    pack(tmp_path / "in", source="digits(count=4,size=64)")
    (tmp_path / "out").mkdir()
    error = run("unpack", tmp_path / "in", "--out", tmp_path / "out", code=3,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99))).stderr
    assert re.fullmatch(r"shardprep: .*/out/.shardprep.partial/train/\d/\d.png: File too large; expected to write .*\n", error)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_two_packings_into_one_folder_do_not_mix(tmp_path):
    process = subprocess.Popen([SHARDPREP, "pack", "--source", "digits(count=20000,size=64)", "--out", str(tmp_path)])
    while not (tmp_path / ".train.partial/split").exists():
        assert process.poll() is None
    while not list((tmp_path / ".train.partial/split").iterdir()):
        assert process.poll() is None
    error = pack(tmp_path, code=3).stderr
    process.kill()
    process.wait()
    assert "another process is packing into it; expected one at a time" in error
    assert (tmp_path / ".train.partial/split").exists()


def hexdump(data):
    """Like `xxd -g1`, with runs of equal lines left out."""
    lines, last = [], None
    for at in range(0, len(data), 16):
        row = data[at:at + 16]
        if row != last:
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            lines.append(f"{at:08x}: {' '.join(f'{byte:02x}' for byte in row):47}  {text}")
        elif lines[-1] != "*":
            lines.append("*")
        last = row
    return "\n".join(line.rstrip() for line in lines)


def test_the_worked_example_in_the_format_document_is_what_pack_writes(tmp_path):
    images = np.array([[[0, 16, 32], [48, 64, 80]], [[255, 254, 253], [252, 251, 250]]], np.uint8)
    write_mnist(tmp_path / "in", images, np.array([7, 3], np.uint8))
    pack(tmp_path, "--input", tmp_path / "in", source="mnist", shards=1)
    document = (ROOT / "docs/FORMAT.md").read_text()
    shard = (tmp_path / "train/shard-00000-of-00001.safetensors").read_bytes()
    assert hexdump(shard) in document
    assert (tmp_path / "train/manifest.json").read_text() in document
