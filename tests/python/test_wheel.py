"""The wheel works where nothing else is installed: no torch, no NumPy, no compiler, none of Debian's libraries."""
import pathlib
import re
import subprocess
import zipfile

import pytest

from conftest import BARE, COMMANDS, command, python

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEELS = sorted((ROOT / "build/wheel").glob("penstock-*.whl"))


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name.split("-", 2)[2])
def test_it_is_small_and_typed(wheel):
    assert "manylinux" in wheel.name and wheel.stat().st_size < 10e6
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if re.search(r"(^|/)(lib)?torch|/tests", name)]  # _torchvision.py is ours
    assert {"penstock/py.typed", "penstock/_native.pyi"} <= set(names)
    stub = zipfile.ZipFile(wheel).read("penstock/_native.pyi").decode()
    assert "def start_epoch(self, epoch: int, first_batch: int) -> None" in stub


def test_it_brings_its_libraries():
    package = pathlib.Path(python("import penstock; print(penstock.__path__[0])", interpreter=BARE).stdout.strip())
    needed = subprocess.run(["ldd", package / "lib/libpenstock.so.0"], capture_output=True, text=True, check=True).stdout
    assert "not found" not in needed
    for library in ("libtbb", "libjpeg", "libspng", "libisal", "libhwy", "libwebp", "libtiff", "libgif", "libzstd"):
        assert [line for line in needed.splitlines() if library in line and "penstock.libs" in line], needed


def test_it_imports_nothing_large():
    done = python("import sys, penstock; print([name for name in ('numpy', 'torch', 'asyncio', 'ctypes', 'tempfile') if name in sys.modules])")
    assert done.stdout == "[]\n", done.stderr


def test_batches_without_numpy_and_torch(digits):
    done = python("""
import sys, penstock
loader = penstock.Loader(sys.argv[1], arrays="dlpack", batch_size=100)
images, labels = loader.batch(0)
print(memoryview(images).shape, memoryview(labels).tolist()[:2] == [x for x in memoryview(labels)][:2], hasattr(images, "__dlpack__"))
""", digits, interpreter=BARE)
    assert done.stdout == "(100, 1, 28, 28) True True\n", done.stderr


def test_the_commands_come_with_it(digits):
    assert sorted(path.name for path in COMMANDS.iterdir() if not path.name.lower().startswith(("python", "activate"))) == [
        "loadbench", "shardprep"]
    assert command("shardprep", "verify", digits).returncode == 0
    assert command("loadbench", "--version").stdout.startswith("penstock ")
    assert command("shardprep", "pakc").returncode == 2
