"""The examples run on small data, and a run that is stopped ends like one that is not."""
import importlib
import os
import pathlib
import socket
import subprocess
import sys
import weakref

import pytest
import torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "python/examples"
sys.path.insert(0, str(EXAMPLES))


def run(*arguments, launcher=(sys.executable,), environment=()):
    """Lines that a process prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **dict(environment)}
    done = subprocess.run([*launcher, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=environment,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def run_here(monkeypatch, capsys):
    """The same in this process, which has imported torch already: that takes longer than the training of a test."""
    def run_main(example, *arguments):
        monkeypatch.setattr(sys, "argv", [str(example), *map(str, arguments)])
        importlib.import_module(example.stem).main()
        return capsys.readouterr().out.splitlines()

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield run_main
    torch.set_num_threads(threads)


def test_cifar10_learns(run_here, tmp_path):
    lines = run_here(EXAMPLES / "cifar10.py", "digits(count=2000,size=16)", "--data", tmp_path / "data", "--epochs", 2)
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1"]
    assert float(lines[-1].split("accuracy ")[1].split("%")[0]) > 60


def test_segmentation_and_detection_learn_scenes(run_here, tmp_path):
    data = tmp_path / "scenes"
    lines = run_here(EXAMPLES / "segmentation.py", "--data", data, "--scenes", 96, "--epochs", 4, "--batch-size", 8)
    shares = [float(line.split(", ")[1].split(" %")[0]) for line in lines]
    assert max(shares) > 50  # 0 to 23 % in the first two epochs; 75 to 87 % later, where drawn scenes are as many
    lines = run_here(EXAMPLES / "detection.py", "--data", data, "--epochs", 3)
    losses = [float(line.split("loss ")[1]) for line in lines]
    assert losses[-1] < losses[0]


def test_simclr_learns_without_labels(run_here, tmp_path):
    lines = run_here(EXAMPLES / "simclr.py", "digits(count=600,size=16)", "--data", tmp_path / "data", "--size", 16, "--epochs", 3,
                     "--batch-size", 64)
    losses = [float(line.split("loss ")[1]) for line in lines[:-1]]
    assert losses[-1] < losses[0] and float(lines[-1].split(": ")[1].split(" %")[0]) > 20  # chance is 10


@pytest.fixture(scope="module")
def photos(pictures):
    source = pictures.parent / "photos"
    for split in ("train", "val"):
        source.mkdir(exist_ok=True)
        (source / split).symlink_to(pictures.parent / "source")
    return source


def imagenet(photos, folder, name, *arguments):
    return (EXAMPLES / "imagenet.py", f"image-folder:{photos}", "--data", folder / "data", "--size", 32, "--epochs", 2,
            "--batch-size", 6, "--workers", 1, "--lr", 0.01, "--resume", folder / name, *arguments)


def test_imagenet_resumes_in_the_middle_of_an_epoch(run_here, photos, tmp_path):
    small = ("--arch", "shufflenet_v2_x0_5")  # ResNet-18's checkpoints have 90 MB
    whole = run_here(*imagenet(photos, tmp_path, "whole.pt", *small))
    assert len(whole) == 2
    assert run_here(*imagenet(photos, tmp_path, "part.pt", *small, "--stop-after", 6)) == whole[:1]
    assert run_here(*imagenet(photos, tmp_path, "part.pt", *small)) == whole[1:]
    ends = [torch.load(tmp_path / name)["model"] for name in ("whole.pt", "part.pt")]
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


def test_imagenet_by_torchrun_with_autocast(photos, tmp_path):
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    # The last batch has 3 of the 24 pictures: one rank would have a single row, which BatchNorm refuses.
    lines = run(*imagenet(photos, tmp_path, "run.pt", "--amp", "--batch-size", 7), launcher=launcher)
    assert [line.split(":")[0] for line in lines] == ["epoch 0", "epoch 1"] and "nan" not in "".join(lines)


def test_imagenet_ends_its_wrapped_model_before_the_group(run_here, photos, tmp_path, monkeypatch):
    # The other order hangs in torch 2.11 now and then: the destructor of the group waits for Gloo's thread with Python's
    # lock held, and that thread for the lock.
    wrap, end = torch.nn.parallel.DistributedDataParallel, torch.distributed.destroy_process_group
    wrapped, alive = [], []

    def remembered(model):
        made = wrap(model)
        wrapped.append(weakref.ref(made))
        return made

    def end_group():
        alive.extend(reference() is not None for reference in wrapped)
        end()

    monkeypatch.setattr(torch.nn.parallel, "DistributedDataParallel", remembered)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", end_group)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    run_here(*imagenet(photos, tmp_path, "run.pt", "--arch", "shufflenet_v2_x0_5"))
    assert alive == [False]


def test_drawings_are_an_iterable_of_ones_own(run_here, tmp_path):
    import penstock
    run_here(EXAMPLES / "drawings.py", tmp_path / "data", "--count", 20)
    sizes = {split: penstock.Loader(tmp_path / "data", split=split, augment="random-resized-crop(size=32)").sample_count
             for split in ("train", "test")}
    assert sizes == {"train": 20, "test": 4}
    assert penstock.Loader(tmp_path / "data", augment="resize(size=32),center-crop(size=32)").class_names == [
        "balloon", "boat", "house", "tree"]


@pytest.mark.parametrize("example", ["huggingface.py", "lightning_cifar10.py"])
def test_help_needs_no_library_that_an_example_trains_with(example):
    code = ("import runpy, sys; sys.modules.update(datasets=None, lightning=None); sys.path.insert(0, sys.argv[1]); "
            "sys.argv = [sys.argv[2], '--help']; runpy.run_path(sys.argv[0], run_name='__main__')")
    lines = run("-c", code, EXAMPLES, EXAMPLES / example)
    assert lines[0].startswith("usage: ") and "--epochs" in " ".join(lines)
