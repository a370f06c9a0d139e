"""CUDA's libraries: loaded where the machine has NVIDIA's driver, and nowhere else. An empty library stands for the driver."""
import ctypes
import os
import pathlib
import shutil
import subprocess

import pytest

BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
LIB = BIN.parent / "lib"
OF_CUDA = {"libpenstock_cuda.so", "libtorch_cuda.so", "libcublas.so.13", "libcufft.so.12", "libnccl.so.2"}


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.fixture
def driver(tmp_path):
    """Found before a real one, since LD_LIBRARY_PATH comes first."""
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


def test_libraries_of_cuda_are_loaded_where_there_is_a_driver(driver):
    beside, without = libraries(driver), libraries()
    assert {"libtorch_cpu.so", "libpenstock_train.so.0"} <= without
    assert OF_CUDA <= beside
    assert OF_CUDA & without == (OF_CUDA if has_driver() else set())


def test_a_driver_without_a_device_is_one_line(driver):
    said = train("--data", "digits(count=20)", "--device", "cuda", "--check", folders=[driver])
    assert said.returncode == 5 and said.stderr.startswith("train: --device cuda: no CUDA device is visible: ")
    assert said.stderr.count("\n") == 1


def test_a_library_that_cannot_be_loaded_is_named(driver, tmp_path):
    shutil.copy(LIB / "libpenstock_train.so.0", tmp_path)
    (tmp_path / "libpenstock_cuda.so").write_bytes(b"no library")
    words = ["--data", "digits(count=20,size=16)", "--cache", tmp_path / "cache", "--check"]
    for device in ("auto", "cuda"):
        said = train(*words, "--device", device, folders=[driver, tmp_path])
        assert said.returncode == 5 and f"{tmp_path}/libpenstock_cuda.so: " in said.stderr and said.stderr.count("\n") == 1, said.stderr
    assert train(*words, "--device", "cpu", folders=[driver, tmp_path]).returncode == 0
