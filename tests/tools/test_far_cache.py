"""The cache of the node: its budget, who shares it, what is damaged in it, and folders that are no good."""
import os
import resource
import subprocess
import threading
import time

import pytest

from far_tool import (  # noqa: F401
    BIN, FETCH, SHARDS, cache, clean, dataset, digest, expected, largest, refusal, run, shard_bytes,
    start_fetch, until)
from far_server import FarServer
from shardprep_tool import pack


def used_bytes(folder):
    total = 0
    for entry in os.scandir(folder):
        try:
            total += max(entry.stat().st_size, 512 * entry.stat().st_blocks)
        except FileNotFoundError:  # removed meanwhile
            pass
    return total


class Sampler(threading.Thread):
    """The most that a folder held, looked at every 2 ms."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.most, self.is_ending = folder, 0, False

    def run(self):
        while not self.is_ending:
            if self.folder.exists():
                self.most = max(self.most, used_bytes(self.folder))
            time.sleep(0.002)


def test_a_small_cache_gives_the_same_digest_and_keeps_its_limit(dataset, expected, cache):
    limit = int(3.5 * largest(dataset))
    sampler = Sampler(cache)
    sampler.start()
    with FarServer(dataset) as server:
        assert digest(server.url, cache, "--cache-limit", limit, "--batch-size", 64) == expected_of_batch(dataset)
    sampler.is_ending = True
    sampler.join()
    assert largest(dataset) < sampler.most <= limit


def expected_of_batch(dataset):
    return digest(dataset, None, "--batch-size", 64)


def test_ranks_share_one_small_cache(dataset, expected, cache):
    limit = 7 * largest(dataset)
    with FarServer(dataset) as server:
        command = [BIN / "loadbench", "--data", server.url, "--digest", "--workers", "1", "--world-size", "2",
                   "--cache-dir", cache, "--cache-limit", str(limit)]
        ranks = [subprocess.Popen([*command, "--rank", str(rank)], env=clean(), stdout=subprocess.PIPE, text=True)
                 for rank in (0, 1)]
        outputs = [rank.communicate(timeout=90)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0]
        local = [run("loadbench", "--data", dataset, "--digest", "--workers", 1, "--world-size", 2, "--rank", rank)
                 for rank in (0, 1)]
        assert outputs == local


def test_two_processes_fetch_each_shard_once(dataset, expected, cache):
    with FarServer(dataset, rate=2_000_000) as server:
        command = [BIN / "loadbench", "--data", server.url, "--digest", "--epochs", "2", "--workers", "2", "--cache-dir",
                   str(cache)]
        both = [subprocess.Popen(command, env=clean(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert [one.communicate(timeout=90)[0] for one in both] == [expected, expected]
        assert server.byte_count < 1.05 * shard_bytes(dataset)


def test_open_files_that_run_out_are_let_go(tmp_path, cache):
    """Shards that nobody reads stay mapped, each with a file that is open; here every batch needs other ones."""
    pack(tmp_path / "set", "--quiet", source="digits(count=240,size=8)", shards=80)
    words = ["--digest", "--epochs", "2", "--workers", "2", "--batch-size", "4", "--shuffle", "global"]

    def under(soft, hard):
        return subprocess.run([BIN / "loadbench", "--data", server.url, *words, "--cache-dir", cache], capture_output=True, text=True,
                              timeout=90, env=clean(),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    with FarServer(tmp_path / "set") as server:
        local = run("loadbench", "--data", tmp_path / "set", *words)
        assert under(40, 1000).stdout == local
        assert under(24, 24).stdout == local
        few = under(7, 7)
        assert few.returncode == 5 and "too many files are open; expected a higher limit than 7 (ulimit -n)" in few.stderr


def test_what_was_damaged_in_the_cache_is_found_and_fetched_again(dataset, expected, cache):
    with FarServer(dataset) as server:
        assert digest(server.url, cache) == expected
        broken = sorted(cache.glob("*.shard"))[0]
        data = bytearray(broken.read_bytes())
        data[-1] ^= 1
        broken.write_bytes(data)
        assert "1 shard had other bytes" in refusal_after_table("shardprep", "cache", "verify", "--cache-dir", cache)
        assert not broken.exists()
        assert digest(server.url, cache) == expected and broken.exists()
        cut = sorted(cache.glob("*.shard"))[1]
        os.truncate(cut, 1000)
        assert digest(server.url, cache) == expected and cut.stat().st_size > 1000


@pytest.mark.parametrize("part", ("header", "columns", "pixels"))
def test_a_shard_that_is_damaged_in_the_cache_is_not_blamed_on_the_packer(part, dataset, expected, cache):
    with FarServer(dataset) as server:
        assert digest(server.url, cache) == expected
        broken = sorted(cache.glob("*.shard"))[0]
        data = bytearray(broken.read_bytes())
        begin = {"header": 20, "columns": len(data) - 8000, "pixels": len(data) // 2}[part]
        for at in range(begin, begin + 8000 if part == "columns" else begin + 1, 20):
            data[at] ^= 1
        broken.write_bytes(data)
        line = refusal("loadbench", "--data", server.url, "--digest", "--epochs", 1, "--cache-dir", cache, code=3)
        assert "was damaged in the cache" in line and "the next run fetches it again" in line
        assert not broken.exists() or broken.read_bytes() != data  # another thread of that run may have fetched it
        assert digest(server.url, cache) == expected and broken.exists()


def test_a_pipe_under_the_name_of_a_shard_is_not_waited_for(dataset, expected, cache):
    with FarServer(dataset) as server:
        assert digest(server.url, cache) == expected
        pipe = sorted(cache.glob("*.shard"))[0]
        pipe.unlink()
        os.mkfifo(pipe)
        assert f"{SHARDS - 1} shards" in run("shardprep", "cache", "list", "--cache-dir", cache)
        assert "is no regular file" in refusal(*FETCH, server.url, "--cache-dir", cache, code=3)
        pipe.unlink()
        assert digest(server.url, cache) == expected


def refusal_after_table(*words):
    return refusal(*words, code=4)


def test_the_cache_is_listed_and_pruned(dataset, cache):
    with FarServer(dataset) as server:
        run(*FETCH, server.url, "--cache-dir", cache)
    table = run("shardprep", "cache", "list", "--cache-dir", cache)
    assert table.count("whole") == SHARDS and f"{SHARDS} shards" in table
    run("shardprep", "cache", "prune", "--cache-dir", cache, "--to", 2 * largest(dataset) + 10_000)
    assert len(list(cache.glob("*.shard"))) == 2
    run("shardprep", "cache", "prune", "--cache-dir", cache)
    assert [path.name for path in cache.iterdir()] == ["penstock-cache"]
    assert "no cache" in refusal("shardprep", "cache", "list", "--cache-dir", cache / "none", code=3)


def test_cache_folders_that_are_no_good_are_refused(dataset, cache, tmp_path):
    with FarServer(dataset) as server:
        info = ("shardprep", "info", server.url)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine/letter.txt").write_text("dear")
        line = refusal(*info, "--cache-dir", tmp_path / "mine", code=2)
        assert "holds 1 file and is no cache" in line and [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]
        for inside in (dataset / "cache", dataset / "train", dataset / "train/cache/"):
            assert "is inside of the packed data set" in refusal(*info, "--cache-dir", inside, code=2)
        assert not (dataset / "cache").exists() and not (dataset / "train/cache").exists()
        (tmp_path / "file").write_text("")
        refusal(*info, "--cache-dir", tmp_path / "file/below", code=3)
        for text in ("", "0", "x", "-1gb", "120%", "5 gb"):
            assert "--cache-limit" in refusal(*info, "--cache-dir", cache, "--cache-limit", text, code=2)
        line = refusal(*info, "--cache-dir", cache, "--cache-limit", "20kb", code=2)
        assert "is 20000 bytes; expected at least" in line
        line = refusal("loadbench", "--data", server.url, "--digest", "--workers", 4, "--cache-dir", cache, "--cache-limit",
                       int(3.2 * largest(dataset)), code=2)
        assert "room for 3 shards" in line and "at least 5 for 4 workers" in line
        line = refusal("loadbench", "--data", server.url, "--digest", "--workers", "0,1", "--cache-dir", cache, "--cache-limit",
                       int(1.2 * largest(dataset)), code=2)
        assert "room for 1 shard" in line and "for 1 worker" in line
        # A foreign file in the cache stays, whatever is removed.
        run(*info, "--cache-dir", cache)
        (cache / "notes.txt").write_text("kept")
        run("shardprep", "cache", "prune", "--cache-dir", cache)
        assert (cache / "notes.txt").read_text() == "kept"


def test_a_damaged_marker_is_mended_and_the_shards_stay(dataset, expected, cache):
    with FarServer(dataset) as server:
        assert digest(server.url, cache) == expected
        for begin in (b"\0" * 64, b"something else"):
            with open(cache / "penstock-cache", "r+b") as marker:
                marker.write(begin)
            count = server.byte_count
            assert digest(server.url, cache) == expected
            assert server.byte_count - count < largest(dataset)  # the manifest
        (cache / "penstock-cache").write_text("cut")
        line = refusal(*FETCH, server.url, "--cache-dir", cache, code=3)
        assert "it has 3 bytes, and one has 4096; expected to find one: remove the folder" in line


def test_jobs_with_different_limits_do_not_share_a_folder(dataset, cache):
    with FarServer(dataset, rate=100_000) as server:
        first = start_fetch(server, cache, "--cache-limit", "10mb")
        until(lambda: server.byte_count > 10_000)
        line = refusal(*FETCH, server.url, "--cache-dir", cache, "--cache-limit", "20mb", code=2)
        assert "in use with 10000000 bytes" in line and "20000000" in line
        server.rate = 0
        assert first.wait(timeout=60) == 0
        run("shardprep", "info", server.url, "--cache-dir", cache, "--cache-limit", "20mb")


def test_a_full_disk_is_one_line_and_the_next_run_goes_on(dataset, expected, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    size = 3 * largest(dataset)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", small], capture_output=True).returncode != 0:
        pytest.fail("a tmpfs can be mounted where tests run as root; run them so")
    try:
        with FarServer(dataset) as server:
            line = refusal(*FETCH, server.url, "--cache-dir", small / "cache", "--cache-limit", "1gb", code=3)
            assert "No space left on device" in line and "--cache-limit" in line
            assert digest(server.url, small / "cache", "--cache-limit", int(2.9 * largest(dataset)), workers=1) == expected
    finally:
        subprocess.run(["umount", "-l", small], check=True)
