"""Data sets by their address: docs/FAR.md."""
import os
import pathlib
import sys

import numpy
import penstock
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from far_server import FarServer, Fault  # noqa: E402

from conftest import BARE, command, python  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """The options of the cache are those of the process: one folder for all tests of this file."""
    folder = tmp_path_factory.mktemp("cache") / "shards"
    kept = {name: os.environ.get(name) for name in ("PENSTOCK_CACHE_DIR", "PENSTOCK_RETRY_TIMEOUT", "PENSTOCK_SIM_LINK")}
    os.environ.update(PENSTOCK_CACHE_DIR=str(folder), PENSTOCK_RETRY_TIMEOUT="5")
    yield folder
    for name, value in kept.items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def test_a_loader_and_a_data_set_take_an_address(digits, cache):
    with FarServer(digits) as server:
        options = {"batch_size": 100, "augment": "affine(degrees=10)", "workers": 2, "arrays": "numpy"}
        assert penstock.Loader(server.url, **options).digest(1) == penstock.Loader(digits, **options).digest(1)
        far, near = penstock.Dataset(server.url), penstock.Dataset(digits)
        assert len(far) == len(near) and far.class_names == near.class_names
        for index in (0, 500, 999):
            assert numpy.array_equal(far[index].image, near[index].image) and far[index].label == near[index].label
    assert len(list(cache.glob("*.shard"))) == 4


def test_local_data_come_as_if_from_far_away(tmp_path):
    digits = tmp_path / "digits"  # which the cache does not have
    assert command("shardprep", "pack", "--source", "digits(count=600)", "--out", digits, "--shards", 4).returncode == 0
    options = {"batch_size": 100, "shuffle": "shards(window=2,lanes=1)", "workers": 1, "arrays": "numpy"}
    near = penstock.Loader(digits, **options)
    assert not any(near.link().values())
    far = penstock.Loader(digits, sim_link="1ms,200kB/s", **options)
    assert far.digest() == near.digest()
    link = far.link()
    assert link["is_emulated"] and link["fetched_bytes"] >= far.statistics()["sample_bytes"]
    assert link["origin_bytes"] == {"sim": link["fetched_bytes"]}
    again = penstock.Loader(digits, sim_link="1ms,200kB/s", **options)
    assert again.digest() == near.digest()
    assert again.link()["fetched_bytes"] == 0 and again.link()["hit_count"] > 0
    with pytest.raises(penstock.ConfigError, match=r'^loader: sim_link is "fast"; expected a delay and a rate as in 20ms,100MB/s'):
        penstock.Loader(digits, sim_link="fast")


def test_a_watch_promises_what_another_link_gives(digits, tmp_path):
    """In processes of their own, with a cache of three of the four shards, so that every epoch fetches some."""
    code = ("import sys, penstock\n"
            "data, link, history = sys.argv[1:]\n"
            "loader = penstock.Loader(data, sim_link=link, workers=1, batch_size=100, shuffle='shards(window=2,lanes=1)')\n"
            "with loader.watch(history=history, say=None) as watch:\n"
            "    for epoch in range(4):\n"
            "        for batch in loader: pass\n"
            "print(watch.limit.bound, [one.get('link_factor') for one in watch.limit.link_predictions][:4])\n"
            "print(watch.limit)\n"
            "print(watch.promise)\n")
    lines = []
    for number, link in enumerate(["1ms,500kB/s", "1ms,1MB/s"]):
        environment = {**os.environ, "PENSTOCK_CACHE_DIR": str(tmp_path / f"cache{number}"), "PENSTOCK_CACHE_LIMIT": "700kb"}
        done = python(code, digits, link, str(tmp_path / "history.json"), env=environment)
        assert done.returncode == 0, done.stderr
        lines.append(done.stdout.splitlines())
    assert lines[0][0] == "link [0.25, 0.5, 2.0, 4.0]" and lines[0][2] == "None"
    assert lines[0][1].startswith("load-bound: the link gives ") and "twice the link would give " in lines[0][1]
    assert "[emulated]" in lines[0][1]
    assert lines[1][2].startswith("prediction: the watch before (a link of 1ms,500kB/s) said ")
    assert " for a link of 1ms,1MB/s; it was " in lines[1][2] and lines[1][2].endswith(" [emulated]")


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


def test_a_plan_lets_other_threads_run_while_its_shard_comes(tmp_path):
    """The server is a thread of this process: it could not answer."""
    digits = tmp_path / "digits"  # which the cache does not have
    assert command("shardprep", "pack", "--source", "digits(count=520)", "--out", digits, "--shards", 4).returncode == 0
    options = {"augment": "affine(degrees=10)", "workers": 0, "arrays": "numpy", "read_ahead": "off"}
    size = sum(file.stat().st_size for file in digits.glob("train/*.safetensors"))
    with FarServer(digits, faults=[Fault("shard-00003", "slow", times=9, rate=100_000)]) as server:
        far = penstock.Loader(server.url, **options)
        assert server.byte_count < size  # some is still to come
        assert far.plan(3, 519) == penstock.Loader(digits, **options).plan(3, 519)
