"""Shards and checkpoints of earlier versions open in this one: those in tests/stored, which tests/stored/make.py has made per release."""
import json
import pathlib
import shutil
import subprocess

import pytest

import shardprep_tool
import train_tool

STORED = pathlib.Path(__file__).resolve().parents[1] / "stored"
CORPUS = STORED.parent / "fuzz/corpus/jpeg"
LOADBENCH = shardprep_tool.SHARDPREP.with_name("loadbench")
VERSIONS = sorted(path.name for path in STORED.iterdir() if (path / "expected.json").exists())


@pytest.fixture(name="folder", params=VERSIONS)
def copied_version(request, tmp_path):
    """A copy, in which a run may go on."""
    shutil.copytree(STORED / request.param, tmp_path / "stored")
    return tmp_path / "stored"


@pytest.fixture(name="expected")
def what_it_gave(folder):
    return json.loads((folder / "expected.json").read_text())


def test_there_are_some():
    assert "0.2.0" in VERSIONS


@pytest.mark.parametrize("data", ["raw", "photos"])
def test_shards_are_sound(folder, data):
    shardprep_tool.run("verify", folder / data)


def test_shards_give_the_same_batches(folder, expected):
    assert len(expected["loads"]) == 2
    for load in expected["loads"]:
        done = subprocess.run([LOADBENCH, *load["arguments"]], capture_output=True, text=True, cwd=folder, check=False)
        assert done.stdout == load["printed"], done.stderr


def test_photographs_come_back_byte_for_byte(folder, tmp_path):
    shardprep_tool.run("unpack", folder / "photos", "--out", tmp_path / "back")
    back = {path.name: path.read_bytes() for path in (tmp_path / "back").rglob("*.jpg")}
    for name in ("444.jpg", "420.jpg", "grey.jpg", "exif.jpg"):
        assert back[name] == (CORPUS / name).read_bytes(), name


def test_a_run_goes_on_as_it_did(folder, expected):
    """To 1e-5, because processors add the products of a layer in different orders."""
    done = train_tool.run(folder / "cache", "--resume", "run", *expected["resume"], cwd=folder)
    assert "resuming at epoch 3" in done.stdout + done.stderr
    losses = [line["loss"] for line in train_tool.metrics(folder / "run")]
    assert losses == pytest.approx(expected["losses"], rel=1e-5) and len(losses) == 2
