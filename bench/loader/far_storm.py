"""What processes of a node ask of a server that answers everything with 503: python bench/loader/far_storm.py PACKED

A server of its own (tests/support/far_server.py) sends PACKED to --processes programs that share a new cache. After --calm seconds it answers every
request with 503 for --storm seconds, and then as before. Prints the requests per second before and during the storm, those of each tenth of the storm, the
seconds from its end to the last program's end, and whether all of them have the digest of the local set.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
from far_server import FarServer, Fault  # noqa: E402

ENDLESS = 10**9


def start(data, options, **variables):
    command = [ROOT / "build/release/bin/loadbench", "--data", data, "--digest", "--workers", "1", "--epochs", "1", "--shuffle", options.shuffle]
    if options.augment:
        command += ["--augment", options.augment]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})


def requests_in(server, seconds):
    begin = len(server.requests)
    time.sleep(seconds)
    return len(server.requests) - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed")
    parser.add_argument("--augment", default="", help="for pictures of many sizes: 'random-resized-crop(size=224)'")
    parser.add_argument("--shuffle", default="shards(window=8,lanes=2)")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--rate", type=int, default=200_000, help="bytes per second and connection")
    parser.add_argument("--calm", type=float, default=4, help="seconds before the storm")
    parser.add_argument("--storm", type=float, default=60, help="its seconds")
    options = parser.parse_args()
    expected = start(options.packed, options).communicate()[0]
    with tempfile.TemporaryDirectory(prefix="penstock-far-storm-") as cache, FarServer(options.packed, rate=options.rate) as server:
        children = [start(server.url, options, PENSTOCK_CACHE_DIR=cache, PENSTOCK_RETRY_TIMEOUT="300") for _ in range(options.processes)]
        before = requests_in(server, options.calm) / options.calm
        server.faults = [Fault("", "status", ENDLESS, status=503, code="SlowDown")]
        tenths = [requests_in(server, options.storm / 10) for _ in range(10)]
        server.faults = []
        begin = time.monotonic()
        ends = [(child.communicate()[0], child.returncode) for child in children]
        after = time.monotonic() - begin
    during = sum(tenths) / options.storm
    print(f"{before:.1f} requests per second before the storm, {during:.1f} in it ({during / before:.2f}); by tenths of it {tenths}")
    print(f"all had ended {after:.0f} s after it; digests {'equal' if all(end == (expected, 0) for end in ends) else 'DIFFER: ' + str(ends)}")


if __name__ == "__main__":
    main()
