"""The wheel penstock-train: `train` in an environment that has both wheels and finds torch in .venv, and what it says without torch."""
import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

PYTHON = pathlib.Path(os.environ["PENSTOCK_TRAIN_PYTHON"])
PACKAGES = PYTHON.parents[1] / pathlib.Path(sysconfig.get_path("platlib")).relative_to(pathlib.Path(sysconfig.get_path("data")))
TORCH_AT = next(path for path in map(pathlib.Path, sys.path) if (path / "torch/lib/libtorch.so").exists())

CLEAN = {name: value for name, value in os.environ.items() if name not in ("LD_LIBRARY_PATH", "PYTHONPATH")}


def train(*arguments, packages=TORCH_AT):
    return subprocess.run([PYTHON.parent / "train", *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False,
                          env=CLEAN | {"PYTHONPATH": str(packages)})


@pytest.fixture(name="beside")
def torch_beside_it():
    """Links torch and NVIDIA's libraries into the folder that has the wheels, as after `pip install penstock[train]`."""
    links = [PACKAGES / name for name in ("torch", "nvidia")]
    for link in links:
        link.symlink_to(TORCH_AT / link.name)
    yield
    for link in links:
        link.unlink()


def test_it_trains_on_the_digits(tmp_path):
    done = train("--data", "digits(count=500)", "--epochs", 1, "--out", tmp_path / "run", "--cache", tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/model.safetensors").stat().st_size > 100_000


def test_ranks_find_the_libraries(tmp_path):
    done = train("--data", "digits(count=500)", "--epochs", 1, "--mode", "ddp", "--nproc", 2, "--out", tmp_path / "run", "--cache",
                 tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert "2 ranks" in done.stdout + done.stderr


def test_the_program_alone_finds_what_is_beside_it(beside):
    """As ssh starts it on other machines."""
    done = subprocess.run([PACKAGES / "penstock_train/bin/train", "--version"], capture_output=True, text=True, check=False,
                          env=CLEAN)
    assert done.returncode == 0 and done.stdout.startswith("penstock "), done.stderr


def test_studies_come_with_it():
    done = train("study", "--help")
    assert done.returncode == 0 and "--workers" in done.stdout, done.stderr


def write_torch(folder, version):
    (folder / "torch").mkdir()
    (folder / "torch/__init__.py").touch()
    (folder / f"torch-{version}.dist-info").mkdir()
    (folder / f"torch-{version}.dist-info/METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")


def test_without_torch_it_says_what_to_install(tmp_path):
    done = train(packages=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("train: the package torch is not among those of /") and done.stderr.count("\n") == 1
    assert done.stderr.endswith("; expected 2.11.0: pip install torch==2.11.0\n")


def test_another_torch_is_refused(tmp_path):
    write_torch(tmp_path, "2.10.0")
    done = train(packages=tmp_path)
    assert (done.returncode, done.stderr) == (
        2, "train: the package torch has version 2.10.0; expected 2.11.0: pip install torch==2.11.0\n")


def test_a_torch_without_cuda_is_refused(tmp_path):
    write_torch(tmp_path, "2.11.0+cpu")
    done = train(packages=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("train: torch 2.11.0+cpu was built without CUDA"), done.stderr
    assert done.stderr.count("\n") == 1
