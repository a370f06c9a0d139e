"""CUDA's libraries: loaded where the machine has NVIDIA's driver, and nowhere else. An empty library stands for the driver."""
import ctypes
import os
import pathlib
import shutil
import subprocess

import pytest

BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
LIB = BIN.parent / "lib"

pytestmark = pytest.mark.skipif(not (LIB / "libpenstock_cuda.so").exists(), reason="this LibTorch is without CUDA")


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.fixture
def driver(tmp_path):
    folder = tmp_path / "driver"
    folder.mkdir()
    subprocess.run(["cc", "-shared", "-o", folder / "libcuda.so.1", "-x", "c", "/dev/null"], check=True)
    return folder


def train(*words, folders=(), **env):
    path = ":".join([*map(str, folders), os.environ.get("LD_LIBRARY_PATH", "")]).rstrip(":")
    return subprocess.run([BIN / "train", *map(str, words)], capture_output=True, text=True, timeout=120,
                          env={**os.environ, **env, "LD_LIBRARY_PATH": path})


def libraries(*folders):
    """What the dynamic linker says that it has initialised before the program ends."""
    said = train("--version", folders=folders, LD_DEBUG="files")
    assert said.returncode == 0 and said.stdout.startswith("penstock "), said.stderr[-2000:]
    return {pathlib.Path(line.split("calling init: ")[1]).name for line in said.stderr.splitlines() if "calling init: " in line}


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_without_a_driver_no_library_of_cuda_is_loaded():
    loaded = libraries()
    assert {"libtorch_cpu.so", "libpenstock_train.so.0"} <= loaded
    assert not {name for name in loaded if name.startswith(("libtorch_cuda", "libcublas", "libnccl", "libcufft", "libpenstock_cuda"))}


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_beside_a_driver_they_are_loaded_before_the_program_begins(driver):
    loaded = libraries(driver)
    assert {"libpenstock_cuda.so", "libtorch_cuda.so", "libcublas.so.13", "libnccl.so.2"} <= loaded
    said = train("--data", "digits(count=20)", "--device", "cuda", "--check", folders=[driver])
    assert said.returncode == 5 and said.stderr.startswith("train: --device cuda: no CUDA device is visible: ")
    assert said.stderr.count("\n") == 1


@pytest.mark.skipif(has_driver(), reason="this machine has a driver")
def test_a_library_that_cannot_be_loaded_is_named(driver, tmp_path):
    shutil.copy(LIB / "libpenstock_train.so.0", tmp_path)
    (tmp_path / "libpenstock_cuda.so").write_bytes(b"no library")
    words = ["--data", "digits(count=20,size=16)", "--cache", tmp_path / "cache", "--check"]
    for device in ("auto", "cuda"):
        said = train(*words, "--device", device, folders=[driver, tmp_path])
        assert said.returncode == 5 and f"{tmp_path}/libpenstock_cuda.so: " in said.stderr and said.stderr.count("\n") == 1, said.stderr
    assert train(*words, "--device", "cpu", folders=[driver, tmp_path]).returncode == 0
