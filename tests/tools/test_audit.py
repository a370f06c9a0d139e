"""loadbench --audit and --shuffle shards(...) as a user runs them, and the opening of a set of many shards."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ.get("PENSTOCK_BIN", Path(__file__).parents[2] / "build" / "release" / "bin"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """2000 digits in 40 shards."""
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([BIN / "shardprep", "pack", "--source", "digits(count=2000)", "--out", folder, "--shards", "40"],
                   check=True, capture_output=True)
    return folder


def loadbench(*arguments):
    return subprocess.run([BIN / "loadbench", *map(str, arguments)], capture_output=True, text=True, check=False)


def audit(data, path, *arguments):
    done = loadbench("--data", data, "--audit", "--json", path, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(path.read_text())


def test_the_audit_says_what_the_order_costs_and_gives(data, tmp_path):
    text, found = audit(data, tmp_path / "audit.json", "--shuffle", "shards(window=8,lanes=4)", "--batch-size", 32)
    assert text.startswith("shuffle shards(window=8,lanes=4): 2,000 rows per epoch of 2,000 samples; 4 of 40 shards in use at a time")
    assert "order shards(window=8,lanes=4): 2,000 samples in 40 shards, batches of 32, seed 0, epoch 0\n" in text
    assert found["reads"]["held_shards"] == 4 and found["reads"]["per_shard_kept"] == 1
    assert found["reads"]["held_bytes"] < found["bytes"] / 8
    for stretch in found["stretches"].values():
        assert stretch["own"]["shards_per_batch"] < 10 < stretch["expected"]["shards_per_batch"]
        assert abs(stretch["full"]["shards_per_batch"] - stretch["expected"]["shards_per_batch"]) < 4
        assert 0.4 < stretch["own"]["class_chi2_per_df"] < 1.7  # the digits are dealt to the shards
    assert [row.split("  ")[0] for row in text.splitlines()[6:13]] == [
        "shards per batch", "same-shard pairs per batch", "class chi^2 / df", "displacement p50", "displacement p90", "displacement p99",
        "rank correlation"]


def test_nodes_read_their_own_shards(data, tmp_path):
    for nodes in (1, 2, 4):
        _, found = audit(data, tmp_path / "audit.json", "--shuffle", "shards(window=8,lanes=4)", "--batch-size", 32, "--world-size", nodes)
        assert found["reads"]["per_shard_kept"] <= 1 + (nodes - 1) / 40
    _, full = audit(data, tmp_path / "audit.json", "--batch-size", 32, "--world-size", 4)
    assert full["reads"]["per_shard_kept"] == 4 and full["shuffle"] == "global"


def test_an_audit_of_a_subset_counts_its_samples(data, tmp_path):
    _, found = audit(data, tmp_path / "audit.json", "--subset", "classes(3:4)", "--shuffle", "shards(window=8,lanes=4)", "--batch-size", 16)
    assert found["samples"] == 400
    for stretch in found["stretches"].values():
        assert 0 <= stretch["own"]["class_chi2_per_df"] < 4


def test_an_audit_refuses_in_one_line(data):
    for arguments, expected in (
            (["--sampler", "uniform"], "--sampler: is \"uniform\" with --audit, and has samples more or less often; expected no sampler"),
            (["--shuffle", "rank-local"], "--shuffle: is \"rank-local\" with --audit, where each rank has an order of its own; expected another"),
            (["--batch-size", 4000], "--audit: 2,000 samples with a batch size of 4000; expected a full batch"),
            (["--digest"], "--audit: is given with --digest; expected one of the two")):
        done = loadbench("--data", data, "--audit", *arguments)
        assert (done.returncode, done.stderr) == (2, f"loadbench: {expected}\n")


def digest(data, *arguments):
    done = loadbench("--data", data, "--digest", "--epochs", 2, "--batch-size", 32, "--workers", "0,2", *arguments)
    assert done.returncode == 0, done.stderr
    return re.findall(r"^epoch \d+ digest ([0-9a-f]{32})$", done.stdout, re.M)


def test_the_digest_does_not_depend_on_ranks_or_read_ahead(data):
    window = ("--shuffle", "shards(window=8,lanes=4)")
    expected = digest(data, *window)
    assert len(expected) == 2 and expected[0] != expected[1]
    for ranks in (2, 3, 4):
        assert digest(data, *window, "--all-ranks", ranks) == expected
    assert digest(data, *window, "--read-ahead", "on") == expected
    assert digest(data, "--shuffle", "shards(window=40)") == digest(data)


def test_shuffles_are_refused_in_one_line(data):
    for arguments, expected in (
            (["--shuffle", "shards(window=0)"], "shuffle shards: window is 0; expected 1 to 1048576 shards"),
            (["--shuffle", "shards(lanes=0)"],
             "shuffle shards: lanes is 0; expected 1 to 256 with a window of 256, because a lane has a shard or more"),
            (["--shuffle", "shards(windows=9)"], 'shuffle shards: unknown key "windows"; did you mean "window"? it takes window, lanes'),
            (["--shuffle", "shards(window=9)", "--batch-size", 4],
             "loader: shuffle shards(window=9,lanes=8) with a batch size of 4; expected lanes of at most the batch size, one row or more "
             "for each"),
            (["--read-ahead", "on"],
             "loader: read-ahead on with shuffle global of 40 shards, which uses all of them at once; expected shuffle shards(...) with a "
             "smaller window")):
        done = loadbench("--data", data, "--workers", 0, *arguments)
        assert (done.returncode, done.stderr) == (2, f"loadbench: {expected}\n")


def test_a_set_of_100_000_shards_opens_without_its_shards(data, tmp_path):
    """The shards are sparse files' names alone: one of them is real."""
    split = tmp_path / "train"
    split.mkdir()
    manifest = json.loads((data / "train" / "manifest.json").read_text())
    real = manifest["shards"][0]
    (split / real["file"]).symlink_to(data / "train" / real["file"])
    manifest["shards"] = [real] + [
        {"file": f"far-{number:06}.safetensors", "sample_count": 10_000, "byte_count": 10**9, "xxh3": "0" * 32} for number in range(99_999)]
    manifest["sample_count"] = sum(shard["sample_count"] for shard in manifest["shards"])
    manifest["class_counts"] = [manifest["sample_count"]] + [0] * 9
    (split / "manifest.json").write_text(json.dumps(manifest))
    done = loadbench("--data", tmp_path, "--digest", "--shuffle", "none", "--batch-size", 25, "--batches", 2, "--epochs", 1, "--workers", "0")
    assert done.returncode == 0, done.stderr
    done = loadbench("--data", tmp_path, "--digest", "--shuffle", "none", "--batch-size", 25, "--batches", 3, "--epochs", 1, "--workers", "0")
    assert (done.returncode, "far-000000.safetensors: No such file" in done.stderr) == (3, True)
