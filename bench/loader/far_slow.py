"""What slow ranges cost a training loop: python bench/loader/far_slow.py PACKED

PACKED is a packed data set of some hundred shards. A server of its own (tests/support/far_server.py) sends it with --rate bytes per second and
connection, and each hundredth request for a shard 100 times slower. The loop takes a batch and sleeps for the time of a step. For an even and
this uneven server, over --epochs epochs in turn, each of which begins with an empty cache, it prints

    median, p99, p99.9   of the time from batch to batch, the last two also / the median
    asked twice          ranges that were slow when a batch waited for them
    bytes                that the server sent / bytes of the shards

Needs penstock as a Python package. All digests of ids have to be equal.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
from far_server import FarServer, Fault  # noqa: E402

SLOWER = 100


def loop(url, options):
    """Prints the times between batches in ms, the ranges that were asked for twice, and a sum over the ids."""
    import time

    import penstock
    loader = penstock.Loader(url, batch_size=options.batch, workers=options.workers, shuffle=options.shuffle, arrays="numpy")
    times, ids, last = [], 0, None
    for batch in loader:
        now = time.monotonic()
        if last is not None:
            times.append(1e3 * (now - last))
        last = now
        ids = zlib.crc32(memoryview(batch.ids).cast("B"), ids)
        time.sleep(options.step / 1e3)
    print(json.dumps([times, loader.link()["retries"].get("slow", 0), ids]))


def epoch(url, options):
    with tempfile.TemporaryDirectory(prefix="penstock-far-slow-") as top:
        environment = {**os.environ, "PENSTOCK_CACHE_DIR": f"{top}/cache", "PENSTOCK_DOWNLOAD_TIMEOUT": "60"}
        words = [f"--{name}={getattr(options, name)}" for name in ("batch", "workers", "shuffle", "step")]
        return json.loads(subprocess.check_output([sys.executable, __file__, url, "--loop", *words], env=environment))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed")
    parser.add_argument("--rate", type=int, default=4_000_000, help="bytes per second and connection")
    parser.add_argument("--step", type=float, default=40, help="ms that the loop sleeps per batch")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--shuffle", default="shards(window=16,lanes=2)")
    parser.add_argument("--loop", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        return loop(options.packed, options)
    shards = sum(shard["byte_count"] for shard in json.loads((pathlib.Path(options.packed) / "train/manifest.json").read_text())["shards"])
    sums, results = set(), {name: [[], 0, 0] for name in ("even", "uneven")}
    for _ in range(options.epochs):
        for name, result in results.items():
            faults = [Fault("shard-", "slow", times=1 << 30, every=100, rate=options.rate // SLOWER)] if name == "uneven" else []
            with FarServer(options.packed, faults=faults, rate=options.rate) as server:
                times, twice, ids = epoch(server.url, options)
                for index, more in enumerate((times, twice, server.byte_count)):
                    result[index] += more
            sums.add(ids)
    for name, (times, twice, sent) in results.items():
        times.sort()
        median, p99, p999 = (times[int(part * len(times))] for part in (0.5, 0.99, 0.999))
        print(f"{name:7} median {median:.1f} ms, p99 {p99:.1f} ms ({p99 / median:.2f}), p99.9 {p999:.1f} ms ({p999 / median:.2f}), "
              f"asked twice {twice}, bytes {sent / options.epochs / shards:.4f}", flush=True)
    assert len(sums) == 1, "the order differs"


if __name__ == "__main__":
    main()
