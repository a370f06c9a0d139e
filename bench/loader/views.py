"""How much less one loader with several views costs than a loader for each view: python bench/loader/views.py PHOTOGRAPHS

PHOTOGRAPHS holds JPEG files. They are packed as coefficients and as they are, and loaded by loadbench of build/release without workers. Prints
processor time of the single loaders / that of the one with all views: the median of the rounds, and the least and the most.
"""

import argparse
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", pathlib.Path(__file__).parents[2] / "build" / "release" / "bin"))
SIMCLR = ("random-resized-crop(size=224),flip,color-jitter(brightness=0.8,contrast=0.8,saturation=0.8,hue=0.2),"
          "grayscale(p=0.2),normalize")
PLAIN = "random-resized-crop(size=224),flip,normalize"
LARGE = "random-resized-crop(size=224,scale=0.14:1),flip,normalize"
SMALL = "random-resized-crop(size=96,scale=0.05:0.14),flip,normalize"
CASES = {"2 x 224 as SimCLR's": [SIMCLR] * 2, "2 x 224 without colours": [PLAIN] * 2, "2 x 224 and 6 x 96": [LARGE] * 2 + [SMALL] * 6}


def seconds(packed, lists):
    """Processor time for eight epochs. Small batches: the first use of a slot's memory costs as much as some pictures."""
    def used():
        times = resource.getrusage(resource.RUSAGE_CHILDREN)
        return times.ru_utime + times.ru_stime
    begin = used()
    views = [word for text in lists[1:] for word in ("--views", text)]
    subprocess.run([BIN / "loadbench", "--data", packed, "--workers", "0", "--epochs", "8", "-b", "8", "--prefetch", "1", "--augment", lists[0],
                    *views], check=True, capture_output=True)
    return used() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "in").mkdir()
        (root / "in" / "all").symlink_to(options.photographs.resolve())
        for encode in ("coef", "keep"):
            subprocess.run([BIN / "shardprep", "pack", "--source", "image-folder", "--input", root / "in", "--out", root / encode, "--encode", encode],
                           check=True, capture_output=True)
            for name, lists in CASES.items():
                ratios = [sum(seconds(root / encode, [text]) * lists.count(text) for text in set(lists)) / seconds(root / encode, lists)
                          for _ in range(options.rounds)]
                print(f"{encode}, {name}: {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})", flush=True)


if __name__ == "__main__":
    main()
