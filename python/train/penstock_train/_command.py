"""The command train: this process becomes the program, after a look whether the packages that have its libraries are there."""
import importlib.util
import os
import pathlib
import sys
from importlib import metadata

# Below the folder of packages. The program names the same folders relative to its own place, which serves where all packages are in
# one folder, also for ranks that ssh starts without this command.
_LIBRARIES = ("penstock/lib", "torch/lib", "nvidia/cu13/lib", "nvidia/nccl/lib", "nvidia/cudnn/lib")


def _folder(package: str) -> pathlib.Path | None:
    """Where a package's folder is, found without importing it: that takes 2 s for torch."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    return pathlib.Path(places[0]) if places else None


def _refuse(fact: str, advice: str) -> None:
    print(f"train: {fact}; {advice}", file=sys.stderr)
    sys.exit(2)


def _check(package: str, expected: str) -> None:
    install = f"expected {expected}: pip install {package}=={expected}"
    if _folder(package) is None:
        _refuse(f"the package {package} is not among those of {sys.executable}", install)
    try:
        version = metadata.version(package)
    except metadata.PackageNotFoundError:
        _refuse(f"the package {package} in {_folder(package)} does not say its version", install)
    if version.partition("+")[0] != expected:
        _refuse(f"the package {package} has version {version}", install)


def _expected() -> dict[str, str]:
    """The version of each package that this one depends on."""
    return dict(need.split("==") for need in metadata.requires("penstock-train") or [])


def main() -> None:
    own = pathlib.Path(__file__).parent
    expected = _expected()
    for package, version in expected.items():
        _check(package, version)
    torch = _folder("torch")
    if not (torch / "lib/libtorch_cuda.so").exists():
        _refuse(f"torch {metadata.version('torch')} was built without CUDA, and train names CUDA's libraries",
                f"expected torch {expected['torch']} as PyPI has it: pip install --force-reinstall torch=={expected['torch']}")
    roots = [folder.parent for folder in (_folder("penstock"), torch, _folder("nvidia")) if folder]
    if any(root != own.parent for root in roots):
        folders = [str(root / library) for library in _LIBRARIES for root in roots if (root / library).is_dir()]
        os.environ["LD_LIBRARY_PATH"] = ":".join(dict.fromkeys(folders + os.environ.get("LD_LIBRARY_PATH", "").split(":"))).rstrip(":")
    program = own / "bin/train"
    os.execv(program, ["train", *sys.argv[1:]])
