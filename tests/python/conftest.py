"""Small data sets for the tests of the Python package, packed by the commands that come with it."""
import os
import pathlib
import signal
import subprocess
import sys

import pytest

# A shell starts what runs in its background deaf to it, and so would be the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

BARE = os.environ["PENSTOCK_BARE_PYTHON"]  # an environment that has the wheel and nothing else
COMMANDS = pathlib.Path(BARE).parent


def command(name, *arguments):
    return subprocess.run([COMMANDS / name, *map(str, arguments)], capture_output=True, text=True, check=False)


def python(code, *arguments, interpreter=sys.executable, timeout=60, flags=(), **options):
    """Runs code in an interpreter of its own; raises if it hangs."""
    return subprocess.run([interpreter, *flags, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=timeout,
                          check=False, **options)


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """1000 grey pictures of 28 x 28."""
    folder = tmp_path_factory.mktemp("digits")
    done = command("shardprep", "pack", "--source", "digits(count=1000)", "--out", folder, "--shards", 4)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """24 folders' JPEGs in colour, of different sizes, in three classes."""
    import numpy
    from PIL import Image
    folder = tmp_path_factory.mktemp("pictures")
    draw = numpy.random.default_rng(0)
    for number in range(24):
        place = folder / "source" / f"class{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        size = (40 + number, 60 - number)
        small = Image.fromarray(draw.integers(0, 256, (6, 6, 3), dtype=numpy.uint8))
        small.resize(size, Image.Resampling.BICUBIC).save(place / f"{number:02}.jpg", quality=90)
    done = command("shardprep", "pack", "--source", "image-folder", "--input", folder / "source", "--out",
                   folder / "packed", "--shards", 2)
    assert done.returncode == 0, done.stderr
    return folder / "packed"
