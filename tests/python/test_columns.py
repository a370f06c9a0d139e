"""Columns that another project's plug-in adds to batches: tests/consumer/plugin/pictures.cpp, compiled against the wheel's library."""
import ctypes
import pathlib
import subprocess

import numpy
import penstock
import pytest
import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def plugin(tmp_path_factory):
    file = tmp_path_factory.mktemp("plugin") / "libpictures.so"
    library = pathlib.Path(penstock.__file__).parent / "lib/libpenstock.so.0"
    subprocess.run(["g++", "-std=c++20", "-O1", "-shared", "-fPIC", f"-I{ROOT}", ROOT / "tests/consumer/plugin/pictures.cpp", library,
                    "-o", file], check=True)
    ctypes.CDLL(str(file))


def expected(images, times=1):
    """What `halves` says of rows in layout u8."""
    rows = numpy.asarray(images).reshape(len(images), 2, -1)
    return (times * rows.mean(axis=2, dtype=numpy.float64)).astype(numpy.float32)


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_a_plug_ins_column_is_an_array_of_every_batch(digits, arrays):
    loader = penstock.Loader(digits, batch_size=48, layout="u8", augment="flip", arrays=arrays, columns=["halves(times=2)"], workers=2)
    counts = []
    for batch in loader:
        columns = batch.columns
        assert list(columns) == ["images", "labels", "ids", "weights", "halves"]
        assert all((columns[name] == getattr(batch, name)).all() for name in list(columns)[:4])
        assert columns["halves"].shape == (batch.count, 2) and columns["halves"].dtype == (torch if arrays == "torch" else numpy).float32
        images = batch.images.permute(0, 2, 3, 1) if arrays == "torch" else batch.images
        assert numpy.array_equal(numpy.asarray(columns["halves"]), expected(images, times=2))
        counts.append(batch.count)
    assert sum(counts) == 1000


def test_columns_of_a_mix_have_their_names_too(digits):
    batch = penstock.Loader(digits, batch_size=64, augment="mixup(alpha=1)", columns="halves").batch(0)
    assert list(batch.columns) == ["images", "labels", "ids", "weights", "second_labels", "mix_weights", "halves"]
    assert (batch.columns["mix_weights"] == batch.mix_weights).all() and batch.columns["halves"].shape == (64, 2)
    assert penstock.Loader(digits).batch(0).second_labels is None


def test_the_digest_has_the_columns(digits):
    digests = [penstock.Loader(digits, columns=columns, workers=workers).digest()
               for columns, workers in (("halves", 0), ("halves", 2), ("", 1), ("halves(times=2)", 1))]
    assert digests[0] == digests[1] and len({str(digest) for digest in digests}) == 3


def test_what_is_no_column_is_a_config_error(digits):
    with pytest.raises(penstock.ConfigError, match='unknown column "halvs"; did you mean "halves"'):
        penstock.Loader(digits, columns="halvs")
    with pytest.raises(penstock.ConfigError, match="columns is 3; expected the specs of columns"):
        penstock.Loader(digits, columns=[3])
