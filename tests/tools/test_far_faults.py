"""What goes wrong between a far data set and its reader, and that the digest survives it."""
import re
import signal
import threading
import time

import pytest

from far_tool import (  # noqa: F401
    FETCH, KEY, SECRET, SHARDS, cache, dataset, digest, expected, refusal, run, s3, shard_bytes,
    start_fetch, until)
from far_server import FarServer, Fault
from shardprep_tool import manifest_of, pack


FAULTS = {
    "503": [Fault("shard-", "status", 4, status=503, code="SlowDown")],
    "429": [Fault("shard-00002", "status", 2, status=429, retry_after=1)],
    "500": [Fault("manifest", "status", 2, status=500, code="InternalError")],
    "reset": [Fault("shard-00001", "reset", 3, at=50_000)],
    "close": [Fault("shard-", "close", 6, at=70_001)],
    "range": [Fault("shard-00003", "range", 2)],
    "flip": [Fault("shard-00004", "flip", 1, at=80_000)],
    "slow": [Fault("shard-00005", "slow", 1, rate=100_000)],
    "silent": [Fault("shard-00000", "silent", 1)],
    "whole": [Fault("shard-00001", "close", 1, at=90_000), Fault("shard-00001", "whole", 3)],
    "changed": [Fault("shard-00002", "close", 1, at=60_000), Fault("shard-00002", "changed", 1)],
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_digest_survives(name, dataset, expected, cache):
    faults = FAULTS[name]
    for fault in faults:
        fault.times = fault.left
    with FarServer(dataset, faults=faults) as server:
        assert digest(server.url, cache) == expected
        assert all(fault.left < fault.times for fault in faults), "the fault was not met"


def test_a_connection_that_is_lost_goes_on_from_the_byte_that_it_reached(dataset, expected, cache):
    with FarServer(dataset, faults=[Fault("shard-00001", "close", 3, at=30_000)]) as server:
        assert digest(server.url, cache) == expected
        begins = [int(asked.removeprefix("bytes=").split("-")[0]) for _, method, path, asked in server.requests
                  if "shard-00001" in path]
        assert begins == [0, 30_000, 60_000, 90_000]
        assert server.byte_count < 1.05 * shard_bytes(dataset)


def test_a_wrong_range_is_forgotten_with_its_answer(dataset, cache):
    with FarServer(dataset, faults=[Fault("manifest", "range", 1), Fault("manifest", "status", 10_000, status=404)]) as server:
        assert "no manifest.json" in refusal("shardprep", "info", server.url + "/train", code=3, PENSTOCK_CACHE_DIR=cache)
        assert server.faults[0].left == 0 and server.count("manifest") < 10


def test_a_slow_range_that_is_waited_for_is_asked_for_a_second_time(tmp_path, cache):
    """The thirtieth request would take 6 s or more; the ranges before say how long one takes."""
    pack(tmp_path / "set", "--quiet", source="digits(count=800,size=40)", shards=40)
    with FarServer(tmp_path / "set", faults=[Fault("shard-", "slow", 1, every=30, rate=5_000)]) as server:
        assert digest(server.url, cache, "--shuffle", "shards(window=8,lanes=1)") == digest(
            tmp_path / "set", None, "--shuffle", "shards(window=8,lanes=1)")
        asked = [path for _, _, path, _ in server.requests if "shard-" in path]
        assert len(asked) == 41 and len(set(asked)) == 40
        assert server.byte_count < 1.05 * shard_bytes(tmp_path / "set")


def test_a_slow_range_of_the_first_rows_is_asked_for_a_second_time(tmp_path, cache):
    """Rows of all shards are in the first batch, so that the fiftieth request is for a header or columns. It would take 6 s."""
    pack(tmp_path / "set", "--quiet", source="digits(count=3200,size=70)", shards=40)
    slow = Fault("shard-", "slow", 1, every=50, rate=600)
    with FarServer(tmp_path / "set", faults=[slow]) as server:
        words = ("loadbench", "--digest", "--epochs", 1, "--workers", 1, "--batches", 1, "--data")
        assert run(*words, server.url, "--cache-dir", cache) == run(*words, tmp_path / "set")
        assert slow.left == 0
        until(lambda: slow.is_given_up)


def test_a_storm_of_503_is_met_with_few_requests(dataset, expected, cache):
    with FarServer(dataset, faults=[Fault("", "status", 10_000, status=503, code="SlowDown")]) as server:
        def calm():
            server.faults[0].left = 0
        timer = threading.Timer(6, calm)
        timer.start()
        assert digest(server.url, cache, PENSTOCK_RETRY_TIMEOUT=60) == expected
        timer.join()
        storm = 10_000 - server.count()
        assert storm > 0 and server.count() < 60


def test_a_clock_that_is_wrong_is_that_of_the_service(dataset, expected, cache):
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b", clock_offset=-1200) as server:
        assert digest("s3://b/train", cache, **s3(server)) == expected


def test_a_token_that_ends_is_renewed_once(dataset, expected, cache, tmp_path):
    keys = tmp_path / "keys.json"
    script = tmp_path / "keys.sh"

    def give(token):
        keys.write_text(f'{{"Version": 1, "AccessKeyId": "{KEY}", "SecretAccessKey": "{SECRET}", "SessionToken": "{token}"}}')
    script.write_text(f"cat {keys}\n")
    config = tmp_path / "config"
    config.write_text(f"[profile far]\nregion = eu-west-1\ncredential_process = sh {script}\n")
    give("old")
    environment = {"AWS_CONFIG_FILE": config, "AWS_PROFILE": "far"}
    with FarServer(dataset, keys={KEY: SECRET}, tokens={"old"}, bucket="b") as server:
        environment["AWS_ENDPOINT_URL"] = server.url
        assert digest("s3://b/train", cache, **environment) == expected
        def end_token():
            give("new")
            server.tokens = {"new"}
        server.faults = [Fault("shard-", "close", 1, at=50_000, act=end_token)]  # in the middle of the first shard
        assert digest("s3://b/train", tmp_path / "second", **environment) == expected
        assert server.faults[0].left == 0
        server.tokens = {"newer"}
        message = refusal("shardprep", "info", "s3://b/train", code=2, **environment)
        assert "ExpiredToken" in message and "credential_process of profile \"far\"" in message


def test_keys_that_still_hold_stay_when_new_ones_are_not_given(dataset, expected, cache, tmp_path):
    """The process that gives them works once, and its keys end in less than the 5 minutes before which they are renewed."""
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 200))
    (tmp_path / "keys.json").write_text(f'{{"Version": 1, "AccessKeyId": "{KEY}", "SecretAccessKey": "{SECRET}", '
                                        f'"Expiration": "{end}"}}')
    calls = tmp_path / "calls"
    script = tmp_path / "keys.sh"
    script.write_text(f"echo >> {calls}\ntest $(wc -l < {calls}) = 1 && cat {tmp_path}/keys.json\n")
    config = tmp_path / "config"
    config.write_text(f"[profile far]\ncredential_process = sh {script}\n")
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b") as server:
        assert digest("s3://b/train", cache, AWS_CONFIG_FILE=config, AWS_PROFILE="far", AWS_ENDPOINT_URL=server.url) == expected
    assert calls.read_text().count("\n") == 2  # the next look is a minute later


def test_a_killed_download_is_continued(dataset, expected, cache):
    with FarServer(dataset, rate=200_000) as server:
        child = start_fetch(server, cache)
        until(lambda: server.byte_count > 0.5 * shard_bytes(dataset))
        child.send_signal(signal.SIGKILL)
        child.wait()
        partials = list(cache.glob("*.partial"))
        assert partials
        server.rate = 0
        assert digest(server.url, cache) == expected
        assert not list(cache.glob("*.partial"))
        # Each of the four downloads that were under way had noted how far it was at most 0.1 s, or 20 KB, before.
        assert server.byte_count < shard_bytes(dataset) + 4 * 60_000


def test_a_killed_download_is_taken_over_by_who_waits_for_it(dataset, cache):
    """And what it had fetched is not fetched again."""
    with FarServer(dataset, rate=200_000) as server:
        child = start_fetch(server, cache)
        until(lambda: list(cache.glob("*.partial")) and server.byte_count > 100_000)
        other = start_fetch(server, cache)
        until(lambda: sum(path.endswith("manifest.json") and method == "GET" for _, method, path, _ in server.requests) >= 2)
        child.send_signal(signal.SIGKILL)
        child.wait()
        server.rate = 0
        assert other.wait(timeout=60) == 0
        assert len(list(cache.glob("*.shard"))) == SHARDS and not list(cache.glob("*.partial"))
        assert server.byte_count < shard_bytes(dataset) + 4 * 60_000


def test_processes_of_a_node_come_through_a_storm(dataset, expected, cache):
    """Two of them, which share the limit of requests; one is killed in the storm, with the turns that it has."""
    with FarServer(dataset) as server:
        server.faults = [Fault("shard-", "status", 8)]
        children = [start_fetch(server, cache) for _ in range(2)]
        until(lambda: server.faults[0].left <= 5)
        children[0].kill()
        children[0].wait()
        assert children[1].wait(timeout=60) == 0
        assert digest(server.url, cache) == expected


def test_a_stopped_download_does_not_stop_others(dataset, expected, cache):
    with FarServer(dataset, rate=200_000) as server:
        child = start_fetch(server, cache)
        until(lambda: server.byte_count > 100_000)
        child.send_signal(signal.SIGSTOP)
        try:
            server.rate = 0
            assert digest(server.url, cache) == expected
        finally:
            child.send_signal(signal.SIGCONT)
        assert child.wait(timeout=60) == 0
        assert len(list(cache.glob("*.shard"))) == SHARDS and not list(cache.glob("*.partial"))


def large_answer(request):
    """The begin of an answer of 2 GB."""
    request.send_response(200)
    request.send_header("Content-Length", str(2 << 30))
    request.end_headers()
    request.wfile.write(b"{")
    raise ConnectionError


def test_bad_input_is_one_line(dataset, cache, tmp_path):
    size = manifest_of(dataset / "train")["shards"][0]["byte_count"]
    wide = (dataset / "train/manifest.json").read_bytes().replace(str(size).encode(), b"%d" % (2**64 - 152))
    info = ("shardprep", "info")
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b") as server:
        known = s3(server, PENSTOCK_CACHE_DIR=cache)
        assert "NoSuchBucket" in refusal(*info, "s3://other/train", code=3, **known)
        assert "no manifest.json" in refusal(*info, "s3://b/none", code=3, **known)
        wrong = refusal(*info, "s3://b/train", code=2, **{**known, "AWS_SECRET_ACCESS_KEY": "wrong"})
        assert "SignatureDoesNotMatch" in wrong and "environment AWS_ACCESS_KEY_ID" in wrong and "wrong" not in wrong
        assert "InvalidAccessKeyId" in refusal(*info, "s3://b/train", code=2, **{**known, "AWS_ACCESS_KEY_ID": "AKIANONE"})
        half = refusal(*info, "s3://b/train", code=2, **{**known, "AWS_SECRET_ACCESS_KEY": ""})
        assert "AWS_SECRET_ACCESS_KEY is not set" in half
    with FarServer(dataset) as server:
        url = server.url
        for text, fact in ((f"http://user:{SECRET}@127.0.0.1:{server.port}/", "password before an @"),
                           (f"{url}/train?X-Amz-Signature={SECRET}", "has a ? or #"), (f"{url}/../train", ".. in its path"), ("http:///x", "no host")):
            assert fact in refusal(*info, text, code=2, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("manifest", "html", 10_000)]
        assert "manifest.json" in refusal(*info, url + "/train", code=4, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("shard-00001", "html", 10_000)]
        assert "bytes of HTML; expected" in refusal(*FETCH, url, code=4, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("shard-00001", "status", 10_000, status=404)]
        assert "no such object" in refusal(*FETCH, url, code=3, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("shard-00001", "flip", 10_000, at=5000)]
        line = refusal(*FETCH, url, code=4, PENSTOCK_CACHE_DIR=cache)
        sums = re.findall(r"\b[0-9a-f]{64}\b", line)
        assert len(set(sums)) == 2 and "twice" in line
        server.faults = [Fault("shard-00001", "status", 10_000, status=412)]
        assert "changed while it was read" in refusal(*FETCH, url, code=4, PENSTOCK_CACHE_DIR=cache)
        server.answers = {"/loop/manifest.json": lambda _: (302, b"", {"Location": "/loop/manifest.json"}),
                          "/large/manifest.json": large_answer, "/wide/manifest.json": lambda _: (200, wide, {})}
        assert "2147483648 bytes or more; expected at most 100000000" in refusal(*info, url + "/large", code=3, PENSTOCK_CACHE_DIR=cache)
        assert "byte_count is 18446744073709551464; expected at most" in refusal(*info, url + "/wide", code=4, PENSTOCK_CACHE_DIR=cache)
        assert "redirect" in refusal(*info, url + "/loop", code=3, PENSTOCK_CACHE_DIR=cache)
    begin = time.monotonic()
    assert "3 times" in refusal(*info, url + "/train", code=3, PENSTOCK_CACHE_DIR=cache)  # nobody listens any more
    assert "3 times" in refusal(*info, "https://no-such-host.invalid/set", code=3, PENSTOCK_CACHE_DIR=cache)
    assert time.monotonic() - begin < 15


def test_a_service_that_does_not_come_back_is_given_up(dataset, cache):
    with FarServer(dataset, faults=[Fault("shard-", "status", 10_000, status=500)]) as server:
        message = refusal(*FETCH, server.url, code=3, PENSTOCK_CACHE_DIR=cache, PENSTOCK_RETRY_TIMEOUT=2)
        assert "status 500" in message
        server.forget()
        message = refusal(*FETCH, server.url, code=3, PENSTOCK_CACHE_DIR=cache, AWS_MAX_ATTEMPTS=2)
        assert "2 times" in message
