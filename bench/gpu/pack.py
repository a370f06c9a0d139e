"""pack: makes the bundle: stripped programs, the libraries that another machine lacks, and raw data sets."""

import pathlib
import shutil
import subprocess

from bundle import PROGRAMS, Bundle, needed_libraries
from problem import Problem

MIB = 1 << 20
# glibc and GCC's libraries are on any machine that runs Python; LibTorch and CUDA come with its torch package.
SYSTEM = ("libc.so", "libm.so", "libdl.so", "librt.so", "libpthread.so", "libutil.so", "libgcc_s.so", "libstdc++.so", "libgomp.so")
TORCH = ("site-packages/torch/", "site-packages/nvidia/")


def travels(name, path):
    """Whether a bundle brings this library."""
    return not name.startswith(SYSTEM) and not any(part in str(path) for part in TORCH)


def strip(path, target, *options):
    """Copies a program or a library without its symbols."""
    try:
        done = subprocess.run(["strip", *options, "-o", target, path], capture_output=True, text=True)
    except OSError as error:
        raise Problem(f"strip: {error.strerror}; expected binutils", 3) from error
    if done.returncode != 0:
        raise Problem(f"{path}: {done.stderr.strip() or 'strip failed'}; expected a program or a library", 3)


def copy_programs(source, folder):
    libraries = {}
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    for name in PROGRAMS:
        libraries.update(needed_libraries(source.program(name)))
        strip(source.program(name), folder / "bin" / name)
    # Programs open it where there is a driver: the dynamic linker does not name it.
    of_cuda = pathlib.Path(source.program("train")).resolve().parent.parent / "lib/libpenstock_cuda.so"
    if of_cuda.is_file():
        libraries[of_cuda.name] = of_cuda
    for name, path in libraries.items():
        if travels(name, path):
            strip(path.resolve(), folder / "lib" / name, "--strip-unneeded")


def copy_data(data, folder, photos):
    for name in ("mnist", "cifar10", "imagenet-sample"):
        if not (data / name).is_dir():
            raise Problem(f"{data / name}: not there; expected the data sets in PENSTOCK_DATA or ../shared/data", 3)
        files = sorted(path for path in (data / name).iterdir() if path.is_file())
        (folder / "data" / name).mkdir(parents=True)
        for path in files[:photos] if name == "imagenet-sample" else files:
            shutil.copy(path, folder / "data" / name)


def why_no_wheel(root, wheels):
    """Why no wheel of this folder travels; "" if they do. What another machine shows of an old wheel would be said of this commit."""
    if not any(wheels.glob("penstock-*.whl")):
        return f"there is no wheel in {wheels}"
    now = subprocess.run([root / "script/wheel", "--sources"], capture_output=True, text=True).stdout
    stamp = wheels / "sources"
    if not now or not stamp.is_file() or stamp.read_text() != now:
        return f"the wheel in {wheels} was built from other sources than this checkout has"
    return ""


def copy_wheels(wheels, folder):
    for path in sorted(wheels.glob("penstock-*.whl")):
        shutil.copy(path, folder)


def weight(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def checkout_weight(root):
    """Bytes of the files that travel with the bundle: tracked ones, and others that git does not ignore."""
    said = subprocess.run(["git", "-C", root, "ls-files", "-z", "-c", "-o", "--exclude-standard"], capture_output=True)
    names = {name for name in said.stdout.decode().split("\0") if name}
    return sum((root / name).lstat().st_size for name in names if (root / name).is_file())


def described(root):
    said = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return said.stdout.strip() or "unknown"


def pack(root, folder, photos, limit_mib):
    if photos < 0:
        raise Problem(f"--photos is {photos}; expected 0 or more")
    part = folder.with_name(folder.name + ".partial")
    shutil.rmtree(part, ignore_errors=True)
    try:
        return fill(root, folder, part, photos, limit_mib)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def fill(root, folder, part, photos, limit_mib):
    """Makes the bundle in `part`, which becomes `folder` when it is whole."""
    source = Bundle(root, pathlib.Path("/nonexistent"))
    copy_programs(source, part)
    copy_data(source.data, part, photos)
    (part / "wheels").mkdir()
    why = why_no_wheel(root, source.wheels)
    if not why:
        copy_wheels(source.wheels, part / "wheels")
    (part / "commit").write_text(described(root) + "\n")
    sizes = {name: weight(part / name) for name in ("bin", "lib", "data", "wheels")}
    sizes["checkout"] = checkout_weight(root)
    said = ", ".join(f"{name} {size / MIB:.1f}" for name, size in sizes.items())
    total = sum(sizes.values()) / MIB
    if total > limit_mib:
        raise Problem(f"the bundle and the checkout weigh {total:.1f} MiB ({said}); expected at most {limit_mib:g}: "
                      f"fewer --photos than {photos}")
    if (folder / "results.json").exists():  # what another machine has shown so far
        shutil.copy(folder / "results.json", part)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    print(f"packed {folder}: {total:.1f} of {limit_mib:g} MiB ({said})")
    if why:
        print(f"without the Python package, as {why}; expected script/wheel before, for the steps `python`")
    return 0
