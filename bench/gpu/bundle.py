"""Bundle: where programs, libraries and data are, on the machine that packed them and on the one that runs them."""

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

from problem import Problem

PROGRAMS = ("train", "shardprep", "cuda_test")
DATA = "PENSTOCK_DATA"
WHEELS = "PENSTOCK_WHEELS"


class Bundle:
    """With FOLDER/bin its programs, its FOLDER/data and its FOLDER/wheels; without it those of this checkout: PENSTOCK_BIN or
    build/release/bin, PENSTOCK_DATA or ../shared/data, and PENSTOCK_WHEELS or build/wheel."""

    def __init__(self, root, folder):
        self.is_packed = (folder / "bin").is_dir()
        self.bin = folder / "bin" if self.is_packed else pathlib.Path(
            os.environ.get("PENSTOCK_BIN", root / "build/release/bin")).resolve()
        self.data = folder / "data" if self.is_packed else pathlib.Path(os.environ.get(DATA, root / "../shared/data"))
        self.wheels = folder / "wheels" if self.is_packed else pathlib.Path(os.environ.get(WHEELS, root / "build/wheel"))
        self.libraries = [folder / "lib"] if self.is_packed else []
        for name in PROGRAMS:
            if not (self.bin / name).exists():
                raise Problem(f"{self.bin / name}: not there; expected script/gpu pack, or script/build release", 3)

    def program(self, name):
        """`python` is the one that runs this."""
        return sys.executable if name == "python" else str(self.bin / name)

    def unpacked_package(self, work):
        """The folder with the Python package from the wheel that fits this Python; None if there is none."""
        own, is_stable = "cp{}{}".format(*sys.version_info), sys.version_info >= (3, 12)
        fitting = [path for path in sorted(self.wheels.glob("penstock-*.whl"))
                   if f"-{own}-{own}-" in path.name or is_stable and "-cp312-abi3-" in path.name]
        if not fitting:
            return None
        shutil.rmtree(work / "package", ignore_errors=True)
        with zipfile.ZipFile(fitting[0]) as wheel:
            wheel.extractall(work / "package")
        return work / "package"

    def has_data(self, name):
        return (self.data / name).is_dir()

    def environment(self, work):
        """Programs of a bundle find LibTorch and CUDA's libraries in the torch package of the python that runs this."""
        env = {**os.environ, "XDG_CACHE_HOME": str(work / "cache")}
        if self.is_packed:
            env["LD_LIBRARY_PATH"] = ":".join(map(str, self.libraries + torch_folders()))
        return env


def torch_folders():
    """The folders of the libraries of torch and of the nvidia packages beside it. Torch itself is not imported: that
    takes seconds, and the packages' places are enough."""
    import importlib.util
    found = importlib.util.find_spec("torch")
    if found is None or not found.origin:
        raise Problem(f"{sys.executable} has no torch; expected torch 2.11.0, whose LibTorch the programs use", 5)
    torch = pathlib.Path(found.origin).parent
    return [torch / "lib", *sorted(torch.parent.glob("nvidia/*/lib"))]


def needed_libraries(program):
    """{name: path} of the libraries that the loader gives to `program`; a missing one is a Problem."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True)
    if said.returncode != 0:
        raise Problem(f"{program}: ldd: {said.stderr.strip()}; expected a program", 3)
    libraries = {}
    for line in said.stdout.splitlines():
        words = line.split()
        if "=>" not in words:
            continue
        if "not found" in line:
            raise Problem(f"{program}: needs {words[0]}, which is not found; expected script/setup", 3)
        libraries[words[0]] = pathlib.Path(words[2])
    return libraries
