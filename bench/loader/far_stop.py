"""How long a loader waits when another process that fetches the same shards is stopped or killed: python bench/loader/far_stop.py PACKED

PACKED lies behind an emulated link of 20 ms and 20 MB/s. One process fetches it into a new cache; a second one reads batches from the same cache. When the
first has fetched for a while it is stopped (SIGSTOP) or killed (SIGKILL). Prints, as the median and the most of rounds, the longest time that the second
one waited for a batch, and that where nothing happens to the first. Needs penstock as a Python package.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

FATES = {"goes on": None, "is killed": signal.SIGKILL, "is stopped": signal.SIGSTOP}


def read(data, augment, seconds):
    """Prints the longest wait for a batch, and how many there were."""
    import penstock
    loader = penstock.Loader(data, sim_link="20ms,20MB/s", batch_size=64, workers=1, arrays="numpy", shuffle="shards(window=4,lanes=2)",
                             **({"augment": augment} if augment else {}))
    begin, last, longest, count = time.monotonic(), time.monotonic(), 0, 0
    while time.monotonic() - begin < seconds:
        for _ in loader:
            now = time.monotonic()
            longest, last, count = max(longest, now - last), now, count + 1
            if now - begin > seconds:
                break
    print(json.dumps([longest, count]))


def longest_wait(data, augment, fate, seconds):
    with tempfile.TemporaryDirectory(prefix="penstock-far-stop-") as top:
        environment = {**os.environ, "PENSTOCK_CACHE_DIR": f"{top}/cache"}
        command = [sys.executable, __file__, data, "--once", f"--augment={augment}", f"--seconds={seconds}"]
        first = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            while not list(pathlib.Path(top).glob("cache/*.partial")):
                time.sleep(0.01)
            second = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            time.sleep(0.3)
            if fate:
                first.send_signal(fate)
            return json.loads(second.communicate()[0])
        finally:
            first.kill()
            first.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed")
    parser.add_argument("--augment", default="", help="for pictures of many sizes: 'random-resized-crop(size=224)'")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15, help="of a round")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        return read(options.packed, options.augment, options.seconds)
    rounds = {name: [] for name in FATES}
    for _ in range(options.rounds):
        for name, fate in FATES.items():
            rounds[name].append(longest_wait(options.packed, options.augment, fate, options.seconds))
    for name, waits in rounds.items():
        longest, counts = zip(*waits)
        print(f"the other process {name:10}  longest wait {statistics.median(longest):.2f} s, at most {max(longest):.2f} s; "
              f"{statistics.median(counts):.0f} batches", flush=True)


if __name__ == "__main__":
    main()
