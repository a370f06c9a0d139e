"""The wheel for the stable ABI gives in later Pythons, in which nothing else is installed, what the other one gives."""
import os
import subprocess
import zipfile

import pytest

from conftest import BARE, python
from test_wheel import WHEELS

STABLE = os.environ["PENSTOCK_STABLE_PYTHONS"].split(":")
CODE = """
import pathlib, sys, threading, penstock
folder, pictures, out = sys.argv[1:]
loader = penstock.Loader(folder, batch_size=64, workers=2, augment="affine(degrees=10),normalize", arrays="dlpack")
kept = list(loader)
print([sum(memoryview(batch.labels).tolist()) for batch in kept], memoryview(kept[3].images).shape)
print(loader.digest(2), repr(loader), loader.state_dict())
files = sorted(pathlib.Path(pictures).rglob("*.jpg"))
print(penstock.pack(((file.read_bytes(), file.parent.name) for file in files), out).samples)
print(penstock.Loader(out, augment="random-resized-crop(size=32)").class_names)
for wrong in (lambda: penstock.Loader(folder, workers=-1), lambda: penstock.Loader(out + "x"), lambda: penstock.pack([1], out + "y")):
    try:
        wrong()
    except penstock.ConfigError as error:
        print("ConfigError", str(error).replace(out, ""))
    except penstock.IoError as error:
        print("IoError", str(error).replace(out, ""))
with loader.watch(say=None) as watch:
    threads = [threading.Thread(target=lambda steps: [None for _ in steps], args=(iter(loader),))]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
print(watch.limit.steps, type(watch.limit.sentence))
print(loader.batch(2).images.__dlpack_device__())
steps = iter(loader)
next(steps)  # and the interpreter ends
"""


@pytest.mark.parametrize("interpreter", STABLE)
def test_it_gives_what_the_other_wheel_gives(digits, pictures, tmp_path, interpreter):
    version = python("import sys; print(sys.version_info >= (3, 12))", interpreter=interpreter)
    assert version.stdout == "True\n"
    done, expected = (python(CODE, digits, pictures.parent / "source", tmp_path / name, interpreter=which)
                      for name, which in (("stable", interpreter), ("own", BARE)))
    assert (done.returncode, done.stderr) == (0, "") and done.stdout == expected.stdout
    assert len(done.stdout.splitlines()) == 9


# The oldest Python lists the names of the stable ABI in a test of its own, which needs a compiled module to be imported.
LISTED = r"""
import pathlib, re, test
source = (pathlib.Path(test.__path__[0]) / "test_stable_abi_ctypes.py").read_text()
print(*re.findall(r"^ +.(_?Py\w+).,$", source, re.MULTILINE))
"""


def test_its_module_takes_names_of_the_stable_abi_alone(tmp_path):
    wheel = next(wheel for wheel in WHEELS if "-cp312-abi3-" in wheel.name)
    module = zipfile.ZipFile(wheel).extract("penstock/_native.abi3.so", tmp_path)
    undefined = subprocess.run(["nm", "--dynamic", "--undefined-only", "--just-symbols", module], capture_output=True, text=True,
                               check=True).stdout.split()
    taken = {name for name in undefined if name.startswith(("Py", "_Py"))}
    listed = python(LISTED, interpreter=STABLE[0])
    assert listed.returncode == 0, listed.stderr
    assert "PyModuleDef_Init" in taken and taken - set(listed.stdout.split()) == set()
