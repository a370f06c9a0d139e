"""Training on far data gives the model of local data, to the byte: one rank, and four on two nodes."""
import json
import subprocess

import pytest

from far_tool import BIN, KEY, SECRET, clean, s3
from far_server import FarServer
from shardprep_tool import manifest_of, pack
from train_tool import LAUNCHER_VARIABLES, free_port, summary

WORDS = ("--arch", "lenet", "--batch-size", "32", "--workers", "1", "--threads", "1", "--device", "cpu")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("far") / "set"
    for split in ("train", "test"):
        pack(out, "--quiet", source="digits(count=400,size=16)", split=split, shards=8)
    return out


def environment(**more):
    return {name: value for name, value in clean(OMP_NUM_THREADS=1, **more).items() if name not in LAUNCHER_VARIABLES}


def train(data, out, *words, epochs=2, **more):
    done = subprocess.run([BIN / "train", "--data", data, "--out", out, "--epochs", str(epochs), *WORDS, *words], env=environment(**more),
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return (out / "model.safetensors").read_bytes()


def everything(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_model_is_that_of_local_data(dataset, tmp_path):
    local = train(dataset, tmp_path / "local")
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b") as server:
        for scheme, more in (("s3", s3(server)), ("gs", {"GS_ENDPOINT_URL": server.url, "GS_ACCESS_KEY_ID": KEY,
                                                         "GS_SECRET_ACCESS_KEY": SECRET})):
            out = tmp_path / scheme
            assert train(f"{scheme}://b", out, "--cache-dir", tmp_path / f"cache-{scheme}", **more) == local
            assert SECRET.encode() not in everything(out)


def test_four_ranks_on_two_nodes_fetch_into_a_cache_for_each(dataset, tmp_path):
    words = ("--mode", "ddp", "--shuffle", "shards(window=4,lanes=2)")
    local = train(dataset, tmp_path / "local", *words, "--nproc", "4")
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b") as server:
        port, ranks = free_port(), []
        for rank in range(4):
            node = rank // 2
            launched = {"RANK": rank, "WORLD_SIZE": 4, "LOCAL_RANK": rank % 2, "LOCAL_WORLD_SIZE": 2,
                        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            ranks.append(subprocess.Popen(
                [BIN / "train", "--data", "s3://b", "--out", tmp_path / "far", "--epochs", "2", *WORDS, *words,
                 "--cache-dir", tmp_path / f"node-{node}"], env={**environment(**s3(server)), **{k: str(v) for k, v in launched.items()}},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0] * 4, outputs
        assert (tmp_path / "far/model.safetensors").read_bytes() == local
        assert summary(tmp_path / "far")["world_size"] == 4
    for node in (0, 1):
        cached = sorted((tmp_path / f"node-{node}").glob("*.shard"))
        assert 0 < len(cached) <= 16 and all(path.stat().st_size > 0 for path in cached)


def test_a_simulated_link_gives_the_model_of_local_data_and_says_what_came(dataset, tmp_path):
    local = train(dataset, tmp_path / "local")
    link = ("--sim-link", "1ms,50MB/s", "--cache-dir", tmp_path / "cache")
    assert train(dataset, tmp_path / "far", *link) == local
    said = summary(tmp_path / "far")["link"]
    stored = sum(shard["byte_count"] for shard in manifest_of(dataset / "train")["shards"])
    assert said["emulated"] and said["fetched_bytes"] >= stored and said["over_bytes"] < 0.01 * stored
    assert json.loads((tmp_path / "far/options.json").read_text())["data"] == str(dataset)
    # What is resumed without the flag is read from its folder; with it, over the link again.
    for epochs, words in ((3, ()), (4, link)):
        train(dataset, tmp_path / "far", "--resume", "auto", *words, epochs=epochs)
        assert summary(tmp_path / "far").get("link", {}).get("emulated", False) == bool(words)
