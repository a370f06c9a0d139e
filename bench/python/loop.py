"""Times a Python loop over penstock.Loader in a process of its own, as `loadbench` times one in C++:

    <python> bench/python/loop.py DATA --workers 1 --augment SPEC [--epochs 5] [--hold 0] [--memory]

prints one line of JSON: the rate of each epoch in images/s and the memory of the process after it. As in loadbench, an epoch
that is not counted comes first, and every epoch starts with an empty loader. --hold N keeps the last N batches, -1 all of the
epoch, as list(loader) does.
"""
import argparse
import collections
import json
import os
import time

import torch  # noqa: F401  (the loader gives torch's tensors where torch is imported)

import penstock


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--workers", type=int, required=True)
    parser.add_argument("--augment", required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--hold", type=int, default=0)
    options = parser.parse_args()
    loader = penstock.Loader(options.data, batch_size=options.batch_size, workers=options.workers, augment=options.augment,
                             epochs=0)  # no batch is made for an epoch that was not started
    rates, resident = [], []
    held = collections.deque(maxlen=None if options.hold < 0 else options.hold)
    for epoch in range(options.epochs + 1):
        loader.set_epoch(epoch)
        begin, count = time.perf_counter(), 0
        for batch in loader:
            count += len(batch[1])
            held.append(batch)
        rates.append(count / (time.perf_counter() - begin))
        del batch
        held.clear()
        resident.append(resident_bytes())
    print(json.dumps({"rates": rates[1:], "resident_bytes": resident[1:]}))


if __name__ == "__main__":
    main()
