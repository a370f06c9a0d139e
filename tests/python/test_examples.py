"""The examples run on small data, and a run that is stopped ends like one that is not."""
import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "python/examples"


def run(*arguments, launcher=(sys.executable,)):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*launcher, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_cifar10_learns(tmp_path):
    lines = run(EXAMPLES / "cifar10.py", "digits(count=2000,size=16)", "--data", tmp_path / "data", "--epochs", 2)
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1"]
    assert float(lines[-1].split("accuracy ")[1].split("%")[0]) > 60


@pytest.fixture(scope="module")
def photos(pictures):
    source = pictures.parent / "photos"
    for split in ("train", "val"):
        source.mkdir(exist_ok=True)
        (source / split).symlink_to(pictures.parent / "source")
    return source


def imagenet(photos, folder, name, *arguments, **options):
    return run(EXAMPLES / "imagenet.py", f"image-folder:{photos}", "--data", folder / "data", "--size", 32, "--epochs", 2,
               "--batch-size", 6, "--workers", 1, "--lr", 0.01, "--resume", folder / name, *arguments, **options)


def test_imagenet_resumes_in_the_middle_of_an_epoch(photos, tmp_path):
    whole = imagenet(photos, tmp_path, "whole.pt")
    assert len(whole) == 2
    assert imagenet(photos, tmp_path, "part.pt", "--stop-after", 6) == whole[:1]
    assert imagenet(photos, tmp_path, "part.pt") == whole[1:]


def test_imagenet_by_torchrun(photos, tmp_path):
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    lines = imagenet(photos, tmp_path, "run.pt", launcher=launcher)
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1"]
