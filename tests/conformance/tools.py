"""Running Penstock's programs and those of the unpacked Debian packages."""
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()


def run(program, *arguments, code=0, **options):
    """Runs a program to its end. Raises RuntimeError with its output unless the exit code is `code` (None: any)."""
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, check=False, **options)
    if code is not None and done.returncode != code:
        said = (done.stderr or b"").decode(errors="replace")[-2000:]
        raise RuntimeError(f"{program} {' '.join(map(str, arguments))}: exit code {done.returncode}; expected {code}\n{said}")
    return done


def pack(source, out, *arguments, code=0):
    return run(BIN / "shardprep", "pack", "--source", "image-folder", "--input", source, "--out", out, "--quiet", "--sixteen-bit", "keep", *arguments,
               code=code)


def refusal(path):
    """What `shardprep pack` says of one file, without its path; "" if it packs it."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "in/c").mkdir(parents=True)
        (folder / "in/c" / f"a{path.suffix}").write_bytes(path.read_bytes())
        done = pack(folder / "in", folder / "out", code=None)
    said = done.stderr.decode(errors="replace").strip()
    return "" if done.returncode == 0 else said.split(f"a{path.suffix}: ", 1)[-1]


class Tools:
    """The programs in the unpacked packages, by name."""

    def __init__(self, debian):
        self.paths = {path.name: path for path in sorted(debian.glob("*/usr/bin/*"))}

    def run(self, name, *arguments, **options):
        return run(self.paths[name], *arguments, **options)
