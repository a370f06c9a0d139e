"""How long the first batch takes with an empty cache: python bench/loader/far_first.py PACKED [PACKED ...]

Each PACKED lies behind an emulated link of 20 ms and 100 MB/s. A new process makes a loader, goes to the beginning, the middle or the end of an
epoch, and takes one batch of 64. Prints for each set, order and position, as the median of rounds: seconds from the making of the loader to the
batch, MB that had come by then, and requests. Needs penstock as a Python package.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ORDERS = ("global", "shards(window=16,lanes=2)")
PLACES = {"beginning": 0, "middle": 0.5, "end": 1}


def first(data, options):
    import penstock
    begin = time.monotonic()
    loader = penstock.Loader(data, sim_link="20ms,100MB/s", batch_size=64, workers=2, shuffle=options.shuffle, arrays="numpy",
                             **({"augment": options.augment} if options.augment else {}))
    loader.load_state_dict({**loader.state_dict(), "batch": int(options.place * (len(loader) - 1))})
    next(iter(loader))
    seconds, link = time.monotonic() - begin, loader.link()
    print(json.dumps([seconds, link["fetched_bytes"] / 1e6, link["request_count"]]))


def in_a_process(data, shuffle, place, options):
    with tempfile.TemporaryDirectory(prefix="penstock-far-first-") as top:
        words = ["--once", f"--shuffle={shuffle}", f"--place={place}", f"--augment={options.augment}"]
        environment = {**os.environ, "PENSTOCK_CACHE_DIR": f"{top}/cache"}
        return json.loads(subprocess.check_output([sys.executable, __file__, data, *words], env=environment))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", nargs="+", type=pathlib.Path)
    parser.add_argument("--augment", default="", help="for pictures of many sizes: 'random-resized-crop(size=224)'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--shuffle", help=argparse.SUPPRESS)
    parser.add_argument("--place", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        return first(str(options.packed[0]), options)
    for data in options.packed:
        for shuffle in ORDERS:
            for name, place in PLACES.items():
                rounds = [in_a_process(data, shuffle, place, options) for _ in range(options.rounds)]
                seconds, megabytes, requests = (statistics.median(values) for values in zip(*rounds))
                print(f"{data.name} {shuffle:26} {name:9}  {seconds:.2f} s  {megabytes:.1f} MB  {requests:.0f} requests", flush=True)


if __name__ == "__main__":
    main()
