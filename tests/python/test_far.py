"""Data sets by their address: docs/FAR.md."""
import os
import pathlib
import sys

import numpy
import penstock
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from far_server import FarServer, Fault  # noqa: E402

from conftest import BARE, python  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The options of the cache are those of the process: one folder for all tests of this file."""
    folder = tmp_path_factory.mktemp("cache") / "shards"
    kept = {name: os.environ.get(name) for name in ("PENSTOCK_CACHE_DIR", "PENSTOCK_RETRY_TIMEOUT")}
    os.environ.update(PENSTOCK_CACHE_DIR=str(folder), PENSTOCK_RETRY_TIMEOUT="5")
    yield folder
    for name, value in kept.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def test_a_loader_and_a_data_set_take_an_address(digits, cache):
    with FarServer(digits) as server:
        options = {"batch_size": 100, "augment": "affine(degrees=10)", "workers": 2, "arrays": "numpy"}
        assert penstock.Loader(server.url, **options).digest(1) == penstock.Loader(digits, **options).digest(1)
        far, near = penstock.Dataset(server.url), penstock.Dataset(digits)
        assert len(far) == len(near) and far.class_names == near.class_names
        for index in (0, 500, 999):
            assert numpy.array_equal(far[index].image, near[index].image) and far[index].label == near[index].label
    assert len(list(cache.glob("*.shard"))) == 4


def test_errors_are_those_of_files(digits):
    with FarServer(digits, faults=[Fault("manifest", "status", 100, status=500)]) as server:
        with pytest.raises(penstock.IoError, match="status 500"):
            penstock.Dataset(server.url + "/train")
    with pytest.raises(penstock.ConfigError, match="password"):
        penstock.Dataset("https://me:hidden@host/set")


def test_importing_and_reading_local_files_load_no_libcurl(digits):
    code = ("import sys, penstock\n"
            "len(penstock.Dataset(sys.argv[1]))\n"
            "print('libcurl' in open('/proc/self/maps').read())\n")
    done = python(code, digits, interpreter=BARE)
    assert done.stdout == "False\n", done.stderr
