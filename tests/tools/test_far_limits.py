"""What ends a fetch: the time that a run waits for a service, and the open files that it may have."""
import os
import pathlib
import re
import resource
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from far_server import FarServer, Fault  # noqa: E402
from shardprep_tool import pack  # noqa: E402

BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("far-limits") / "set"
    pack(out, "--quiet", source="digits(count=240,size=8)", shards=4)
    return out


def fetch(server, cache, *, limit=None, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    kept |= {"PENSTOCK_CACHE_DIR": str(cache), "PENSTOCK_DOWNLOAD_TIMEOUT": "60", **environment}
    return subprocess.run([BIN / "loadbench", "--data", server.url, "--digest", "--epochs", "1", "--workers", "2"],
                          capture_output=True, text=True, timeout=90, env=kept,
                          preexec_fn=lambda: limit and resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit)))


def seconds_of(done):
    """The times that the message says, and the seconds in which they were."""
    found = re.search(r", (\d+) times in (\d+) s; expected a service that comes back", done.stderr)
    assert done.returncode == 3 and found, done.stderr
    return [int(number) for number in found.groups()]


def test_the_retry_timeout_is_not_exceeded(dataset, tmp_path):
    """By nothing that is waited for: an answer, a back-off, or what the service asks for."""
    with FarServer(dataset, faults=[Fault("shard-", "silent", 10_000, seconds=60)]) as server:
        assert seconds_of(fetch(server, tmp_path / "silent", PENSTOCK_RETRY_TIMEOUT="2")) == [1, 2]
    with FarServer(dataset, faults=[Fault("shard-", "status", 10_000, status=503, retry_after=40)]) as server:
        assert seconds_of(fetch(server, tmp_path / "asked", PENSTOCK_RETRY_TIMEOUT="2")) == [1, 2]
    with FarServer(dataset, faults=[Fault("shard-", "status", 10_000, status=503)]) as server:
        assert seconds_of(fetch(server, tmp_path / "storm", PENSTOCK_RETRY_TIMEOUT="2"))[1] == 2


def test_sockets_that_the_system_does_not_give_are_a_limit(dataset, tmp_path):
    """Not a host that does not answer: no attempt is made again for it. With 5 files the first socket is not given."""
    with FarServer(dataset) as server:
        done = fetch(server, tmp_path / "cache", limit=5)
        assert done.returncode == 5, done.stderr
        assert done.stderr == (f"loadbench: {server.url}/manifest.json: too many files are open; expected a higher limit than 5 "
                               "(ulimit -n), or fewer workers\n")
        assert server.connection_count == 0


@pytest.mark.parametrize("shards", (12, 60))
def test_what_is_said_of_an_emulated_link_is_not_more_than_its_rate(shards, tmp_path):
    """Not for shards of 80 kB either, each of which comes within the delay of the next one. That it is not much less is left to machines
    that are not busy. The cache has room for a third of the set."""
    pack(tmp_path / "set", "--quiet", source="digits(count=3000,size=40)", shards=shards)  # 5 MB
    out = subprocess.run([BIN / "loadbench", "--data", tmp_path / "set", "--sim-link", "20ms,20MB/s", "--cache-dir", tmp_path / "cache",
                          "--cache-limit", "1700kb", "--epochs", "1", "--workers", "1", "--shuffle", "shards(window=2,lanes=1)"],
                         check=True, capture_output=True, text=True, timeout=120).stdout
    rate = float(re.search(r"link: .* at ([0-9.]+) [MG]B/s", out)[1])
    assert rate < 1.15 * 20 and " GB/s" not in out, out


def test_where_shards_are_too_small_for_a_link_its_delay_is_said(tmp_path):
    pack(tmp_path / "set", "--quiet", source="digits(count=400,size=8)", shards=8)
    out = subprocess.run([BIN / "loadbench", "--data", tmp_path / "set", "--sim-link", "200ms,20MB/s", "--cache-dir", tmp_path / "cache",
                          "--cache-limit", "50kb", "--epochs", "1", "--workers", "1", "--shuffle", "shards(window=2,lanes=1)"],
                         check=True, capture_output=True, text=True, timeout=120).stdout
    assert re.search(r"^limit: .*; each request waits 2[0-9]{2}\.[0-9] ms for its first byte, and then ", out, re.M), out
    assert "\nnext: fewer and larger shards; then a larger --cache-limit" in out
