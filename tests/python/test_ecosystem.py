"""Penstock beside Lightning, Hugging Face's data sets and WebDataset, which script/setup ecosystem installs."""
import io
import pathlib
import tarfile

import datasets
import penstock
import pytest
import torch
import webdataset

from conftest import command
from test_examples import EXAMPLES, run

CROP = "random-resized-crop(size=32),flip,normalize"


def lightning(folder, name, *arguments):
    lines = run(EXAMPLES / "lightning_cifar10.py", "digits(count=600,size=16)", "--data", folder / "data", "--epochs", 2,
                "--batch-size", 50, "--workers", 1, "--save-every", 3, "--out", folder / name, *arguments)
    return [line for line in lines if line.startswith("epoch ")]


def test_lightning_learns_and_resumes_in_the_middle_of_an_epoch(tmp_path):
    whole = lightning(tmp_path, "whole")
    assert [line.split(":")[0] for line in whole] == ["epoch 0", "epoch 1"]
    assert float(whole[-1].split("accuracy ")[1].split("%")[0]) > 25  # by chance: 10
    assert lightning(tmp_path, "part", "--stop-after", 18) == whole[:1]
    weights = [torch.load(tmp_path / name / "last.ckpt", weights_only=False) for name in ("whole", "part")]
    assert [saved["global_step"] for saved in weights] == [24, 18]
    assert lightning(tmp_path, "part", "--resume", tmp_path / "part/last.ckpt") == whole[1:]
    states = [torch.load(tmp_path / name / "last.ckpt", weights_only=False)["state_dict"] for name in ("whole", "part")]
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


# The example, whose loader is made before the group of ranks, and which notes the rows of every step.
TWO_DEVICES = """
import os, sys
sys.path.insert(0, {examples!r})
import penstock
import lightning_cifar10 as example
loader = penstock.Loader(example.OPTIONS.data, batch_size=50, workers=0, augment="normalize,mixup(alpha=1)")
step = example.Classifier.training_step

def noted(self, batch, index):
    with open(f"{{example.OPTIONS.out}}.{{self.global_rank}}", "a") as file:
        print(batch.epoch, batch.index, batch.global_count, len(batch.mix_weights), *batch.ids.tolist(), file=file)
    return step(self, batch, index)

example.Classifier.training_step = noted
example.Pictures.train_dataloader = lambda self: loader
example.main(example.OPTIONS)
"""


def test_two_devices_of_lightning_have_the_rows_of_their_ranks(tmp_path):
    data = tmp_path / "data"
    for split in ("train", "test"):
        penstock.pack("digits(count=230,size=16)", data, split=split)
    script = tmp_path / "two_devices.py"
    script.write_text(TWO_DEVICES.format(examples=str(EXAMPLES)))
    lines = run(script, "digits", "--data", data, "--devices", 2, "--epochs", 2,
                "--batch-size", 50, "--workers", 0, "--out", tmp_path / "run")
    assert [line.split(":")[0] for line in lines if line.startswith("epoch ")] == ["epoch 0", "epoch 1"]
    for rank in range(2):
        loader = penstock.Loader(data, batch_size=50, workers=0, augment="normalize,mixup(alpha=1)", rank=rank, world_size=2)
        batches = [batch for _ in range(2) for batch in loader]
        assert [batch.count for batch in batches] == 2 * [25, 25, 25, 25, 15]
        expected = [[batch.epoch, batch.index, batch.global_count, batch.count, *batch.ids.tolist()] for batch in batches]
        assert [list(map(int, line.split())) for line in (tmp_path / f"run.{rank}").read_text().splitlines()] == expected


@pytest.fixture(scope="module")
def files(pictures):
    """The JPEG files of `pictures`, and their labels."""
    paths = sorted((pictures.parent / "source").rglob("*.jpg"))
    return [(path, int(path.parent.name.removeprefix("class"))) for path in paths]


@pytest.fixture(scope="module")
def items(files):
    """A data set of Hugging Face with the bytes of these files."""
    names = ["class0", "class1", "class2"]
    features = datasets.Features(image=datasets.Image(decode=False), label=datasets.ClassLabel(names=names))
    return datasets.Dataset.from_dict({"image": [{"bytes": path.read_bytes(), "path": path.name} for path, _ in files],
                                       "label": [label for _, label in files]}, features)


def holds(folder, files):
    """Whether a packed data set gives these files back, byte for byte."""
    assert command("shardprep", "unpack", folder, "--out", folder.parent / f"{folder.name}-files").returncode == 0
    found = sorted(path.read_bytes() for path in (folder.parent / f"{folder.name}-files").rglob("*.jpg"))
    return found == sorted(path.read_bytes() for path, _ in files)


def labels_of(folder):
    loader = penstock.Loader(folder, augment=CROP, shuffle=False, batch_size=1, arrays="numpy")
    return [label for _, label in sorted((int(batch.ids[0]), int(batch.labels[0])) for batch in loader)]


def test_a_data_set_of_hugging_face(items, files, tmp_path):
    penstock.pack(items, tmp_path / "packed")
    assert holds(tmp_path / "packed", files) and labels_of(tmp_path / "packed") == items["label"]
    assert penstock.Loader(tmp_path / "packed").class_names == ["class0", "class1", "class2"]
    penstock.pack(items.to_iterable_dataset(), tmp_path / "streamed")
    assert holds(tmp_path / "streamed", files)


def test_the_example_trains_on_parquet_files(items, files, tmp_path):
    for split in ("train", "test"):
        items.cast_column("image", datasets.Image()).to_parquet(tmp_path / f"{split}-0.parquet")
    lines = run(EXAMPLES / "huggingface.py", str(tmp_path / "{split}-*.parquet"), "--data", tmp_path / "data", "--size", 32,
                "--epochs", 2, "--batch-size", 8, "--workers", 1, environment={"HF_HOME": str(tmp_path / "cache")})
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1"]
    assert holds(tmp_path / "data/train", files)
    assert penstock.Loader(tmp_path / "data").class_names == ["class0", "class1", "class2"]


def test_a_pipeline_of_webdataset(files, tmp_path):
    with tarfile.open(tmp_path / "pictures.tar", "w") as tar:
        for number, (path, label) in enumerate(files):
            for suffix, data in (("jpg", path.read_bytes()), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{number:06}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    pipeline = webdataset.WebDataset(str(tmp_path / "pictures.tar"), shardshuffle=False)
    penstock.pack(pipeline, tmp_path / "packed")
    penstock.pack(pipeline.to_tuple("jpg", "cls"), tmp_path / "tuples")
    for name in ("packed", "tuples"):
        assert holds(tmp_path / name, files) and labels_of(tmp_path / name) == [label for _, label in files]
