"""What the tests of far data sets share: a small set, the tools that read it, and the environment in which they do."""
import os
import pathlib
import subprocess
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import far_server  # noqa: E402, F401
from shardprep_tool import manifest_of, pack  # noqa: E402

BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
KEY, SECRET, TOKEN = "AKIAFARTEST", "far/secret+of/the=test", "token-of-the-session"
FETCH = ("loadbench", "--digest", "--epochs", 1, "--workers", 1, "--data")  # reads all shards
SHARDS, SIZE = 6, 40  # about 160 KB per shard


def clean(**more):
    """An environment in which no credentials or proxies of the machine are seen, and waits are short."""
    names = ("AWS_", "S3_", "GS_", "PENSTOCK_CACHE", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    return {**kept, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent", "PENSTOCK_DOWNLOAD_TIMEOUT": "1",
            "PENSTOCK_RETRY_TIMEOUT": "20", **{name: str(value) for name, value in more.items()}}


def run(tool, *words, code=0, timeout=90, **environment):
    done = subprocess.run([BIN / tool, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                          env=clean(**environment))
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def refusal(tool, *words, code, **environment):
    """The one line that a tool prints."""
    message = run(tool, *words, code=code, **environment)
    assert message.count("\n") == 1, message
    assert SECRET not in message and TOKEN not in message
    return message


def digest(data, cache=None, *words, workers=2, **environment):
    if cache is not None:
        words += ("--cache-dir", cache)
    return run("loadbench", "--data", data, "--digest", "--epochs", 2, "--workers", workers, *words, **environment)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("far") / "set"
    pack(out, "--quiet", source=f"digits(count=600,size={SIZE})", shards=SHARDS)
    return out


@pytest.fixture(scope="module")
def expected(dataset):
    return digest(dataset)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def shard_bytes(dataset):
    return sum(entry["byte_count"] for entry in manifest_of(dataset / "train")["shards"])


def largest(dataset):
    return max(entry["byte_count"] for entry in manifest_of(dataset / "train")["shards"])


def s3(server, **more):
    return {"AWS_ENDPOINT_URL_S3": server.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, **more}


def start_fetch(server, cache, *words):
    command = [BIN / FETCH[0], *map(str, FETCH[1:]), server.url, "--cache-dir", cache, *words]
    return subprocess.Popen(command, env=clean(), stdout=subprocess.DEVNULL)


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
