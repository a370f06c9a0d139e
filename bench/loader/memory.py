"""How flat memory stays while a set is read that is larger than it: python bench/loader/memory.py PACKED [--share 4]

Runs epochs over PACKED in a control group (version 1) whose limit is PACKED's bytes / share, the page cache included, after the files have left the
page cache. Samples the memory of the group and the resident set of the process every 10 ms. Prints for each epoch: images per second, the least,
the mean and the most memory of the group, the most that the process had mapped, MB that were read from the disk. Needs root and penstock as a
Python package.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

GROUPS = pathlib.Path("/sys/fs/cgroup/memory")


def epochs(options):
    import penstock
    loader = penstock.Loader(str(options.packed), batch_size=options.batch_size, workers=options.workers, shuffle=options.shuffle,
                             read_ahead=options.read_ahead, **({"augment": options.augment} if options.augment else {}))
    for epoch in range(options.epochs):
        begin, read, rows = time.time(), read_bytes(), 0
        for batch in loader:
            rows += len(batch[1])
        print(json.dumps([epoch, begin, time.time(), rows, read_bytes() - read]), flush=True)


def read_bytes():
    return int(pathlib.Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])


def evict(folder):
    for path in folder.rglob("*.safetensors"):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def sampled(process, group, samples, done):
    status = pathlib.Path(f"/proc/{process.pid}/status")
    while not done.wait(0.01):
        try:
            mapped = int(status.read_text().split("RssFile:")[1].split()[0]) * 1024
        except (OSError, IndexError):
            continue
        samples.append((time.time(), int((group / "memory.usage_in_bytes").read_text()), mapped))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=pathlib.Path)
    parser.add_argument("--share", type=float, default=4, help="the set's bytes / the limit; 0: no limit")
    parser.add_argument("--shuffle", default="shards(window=16,lanes=4)")
    parser.add_argument("--read-ahead", default="auto")
    parser.add_argument("--augment", default="")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        return epochs(options)
    size = sum(path.stat().st_size for path in options.packed.rglob("*.safetensors"))
    group = GROUPS / f"penstock-memory-{os.getpid()}"
    group.mkdir()
    try:
        if options.share:
            (group / "memory.limit_in_bytes").write_text(str(int(size / options.share)))
        evict(options.packed)
        process = subprocess.Popen([sys.executable, __file__, "--once", *sys.argv[1:]], stdout=subprocess.PIPE, text=True,
                                   preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
        samples, done = [], threading.Event()
        watcher = threading.Thread(target=sampled, args=(process, group, samples, done))
        watcher.start()
        lines = [json.loads(line) for line in process.stdout]
        done.set()
        watcher.join()
        if process.wait():
            sys.exit(process.returncode)
    finally:
        while (group / "cgroup.procs").read_text():
            time.sleep(0.01)
        group.rmdir()
    print(f"{size / 1e6:.0f} MB, limit {size / options.share / 1e6 if options.share else 0:.0f} MB, {options.shuffle}, read-ahead {options.read_ahead}")
    for epoch, begin, end, rows, read in lines:
        used, mapped = zip(*((one[1] / 1e6, one[2] / 1e6) for one in samples if begin <= one[0] <= end))
        print(f"epoch {epoch}: {rows / (end - begin):9,.0f} images/s; group {min(used):.1f}, mean {statistics.mean(used):.1f}, most {max(used):.1f} MB; "
              f"mapped at most {max(mapped):.1f} MB; read {read / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
