"""bench/peers: what can be checked without the peers: the table, the check of a batch, the data, and PyTorch's adapters."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy
import pytest
from PIL import Image

PEERS = Path(__file__).parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import harness  # noqa: E402
import prepare  # noqa: E402
import results  # noqa: E402
import table  # noqa: E402
from workloads import BATCH_SIZE, WORKLOADS  # noqa: E402


def made_up_images(workload, count=BATCH_SIZE):
    """u8 pictures with about the mean and deviation by which the workload normalises."""
    random = numpy.random.default_rng(1)
    if workload == "mnist":
        return random.choice([0, 255], (count, 28, 28), p=[0.87, 0.13]).astype(numpy.uint8)
    return random.integers(0, 256, (count, 32, 32, 3), dtype=numpy.uint8)


def test_ratios_are_taken_within_rounds():
    rates = {("Penstock", 1): [100, 300, 200], ("slow", 1): [10, 10, 20], ("slow", 0): [4, 5, 6]}
    rows = results.rows(rates, ("Penstock",), {})
    lines = table.markdown("MNIST", rows, ("Penstock",), {"gone": "no compiler"}).splitlines()
    assert lines == [
        "### MNIST",
        "",
        "| loader | workers | images/s, median (range) | Penstock / it, median (range) |",
        "|---|---|---|---|",
        "| Penstock | 1 | 200 (100-300) |  |",
        "| slow | 1 | 10 (10-20) | 10.0 (10.0-30.0) |",
        "| slow | 0 | 5 (4-6) |  |",
        "",
        "- Not measured: gone: no compiler",
    ]


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize("variant", ["pil", "v2", "batch"])
def test_pytorch_delivers_what_is_asked_for(name, variant, tmp_path):
    prepare.save(tmp_path, name, made_up_images(name), numpy.arange(BATCH_SIZE) % 10)
    import peer_pytorch

    images, labels = next(peer_pytorch.make_epochs(WORKLOADS[name], tmp_path, 0, variant)())
    harness.check(images, labels, WORKLOADS[name])


WRONG_BATCHES = {
    "dtype": (lambda images: images.astype(numpy.float64), "expected f32"),
    "layout": (lambda images: images.transpose(0, 2, 3, 1), "expected f32"),
    "strides": (lambda images: images.transpose(0, 1, 3, 2), "contiguous"),
    "short": (lambda images: images[1:], "expected f32"),
    "levels": (lambda images: images * 255, "values from"),
    "constant": (lambda images: numpy.zeros_like(images), "expected about 0 and 1"),
    "repeated": (lambda images: numpy.repeat(images[:1], BATCH_SIZE, 0), "repeats"),
}


@pytest.mark.parametrize("wrong", WRONG_BATCHES)
def test_a_batch_of_something_else_is_refused(wrong):
    workload = WORKLOADS["mnist"]
    images = made_up_images("mnist")[:, None] * workload.scale[0] + workload.bias[0]
    labels = numpy.zeros(BATCH_SIZE)
    harness.check(images, labels, workload)
    spoil, message = WRONG_BATCHES[wrong]
    with pytest.raises(ValueError, match=message):
        harness.check(spoil(images), labels, workload)


def test_cifar10_is_decoded_once_for_arrays_and_for_shards(tmp_path):
    pictures = {"train/cat/0.jpg": 40, "train/ant/0.jpg": 90, "test/ant/0.jpg": 200, "train/cat/1.jpg": 250}
    with tarfile.open(tmp_path / "pictures.tar.xz", "w:xz") as tar:
        for name, level in pictures.items():
            jpeg = io.BytesIO()
            Image.new("RGB", (32, 32), (level, 0, 0)).save(jpeg, "JPEG")
            member = tarfile.TarInfo(name)
            member.size = len(jpeg.getvalue())
            tar.addfile(member, io.BytesIO(jpeg.getvalue()))
    images, labels = prepare.read_jpeg_tar(tmp_path / "pictures.tar.xz", "train")
    assert images.shape == (3, 32, 32, 3) and labels.tolist() == [1, 0, 1]
    assert [abs(int(image[0, 0, 0]) - level) < 8 for image, level in zip(images, (40, 90, 250))] == [True] * 3

    prepare.write_cifar10_batches(tmp_path / "bin", images, labels)
    records = b"".join((tmp_path / "bin" / f"data_batch_{number}.bin").read_bytes() for number in range(1, 6))
    expected = {bytes([label]) + image.transpose(2, 0, 1).tobytes() for image, label in zip(images, labels)}
    assert {records[start : start + 3073] for start in range(0, len(records), 3073)} == expected


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--only", "dalli"], 'peers: --only: unknown peer "dalli"; known: dali, ffcv,'),
        (["--workload", "svhn"], 'peers: --workload: unknown workload "svhn"; known: mnist, cifar10, photos, photos256'),
        (["--rounds", "0"], "peers: --rounds: is 0; expected 1 or more"),
        (["--seconds", "-1"], "peers: --seconds: is -1.0; expected more than 0"),
    ],
)
def test_bad_options_are_one_line(arguments, message):
    done = subprocess.run([sys.executable, PEERS / "run.py", "--list", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith(message) and done.stderr.count("\n") == 1, done.stderr
