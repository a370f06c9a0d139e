"""All that a GPU has to show, in one command: `script/gpu pack` makes a bundle, `script/gpu run` measures (docs/GPU.md)."""

import argparse
import pathlib
import re
import sys

import pack
import run
from problem import Problem

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/gpu"


def seconds(text):
    """540, 540s or 9min."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(s|min)?", text)
    if not found or float(found[1]) <= 0:
        raise argparse.ArgumentTypeError(f'is "{text}"; expected seconds, such as 540s, or 9min')
    return float(found[1]) * (60 if found[2] == "min" else 1)


def arguments(words):
    parser = argparse.ArgumentParser(prog="script/gpu", description=__doc__)
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER, help="the bundle (default: build/gpu)")
    verbs = parser.add_subparsers(dest="verb", required=True)
    packing = verbs.add_parser("pack", help="put programs, libraries and data into the bundle")
    packing.add_argument("--photos", type=int, default=100, help="photographs to take along")
    # The machine at hand takes no more at once.
    packing.add_argument("--limit", type=float, default=64, help="MiB that the bundle and the checkout may weigh together")
    running = verbs.add_parser("run", help="run the steps that are not done yet, the most useful first")
    running.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: the same steps with small sizes")
    # A command there has ten minutes, of which a minute is for the start and for what is copied.
    running.add_argument("--budget", type=seconds, default=540.0, help="seconds for all steps together, such as 540s")
    running.add_argument("--out", type=pathlib.Path, help="results.json, table.md, logs.tar.gz (default: build/gpu-results-DEVICE)")
    running.add_argument("--work", type=pathlib.Path, help="packed data and runs (default: build/gpu-work-DEVICE)")
    running.add_argument("--earlier", type=pathlib.Path,
                         help="results.json of an earlier call, whose passed steps are not run again (default: that in OUT, "
                              "or else in FOLDER)")
    running.add_argument("--only", default="", help="run only the steps whose names begin with one of these: finding,resnet")
    running.add_argument("--again", action="store_true", help="also run the steps that have passed")
    return parser.parse_args(words)


def main():
    options = arguments(sys.argv[1:])
    try:
        if options.verb == "pack":
            return pack.pack(ROOT, options.folder, options.photos, options.limit)
        out = options.out or ROOT / f"build/gpu-results-{options.device}"
        work = options.work or ROOT / f"build/gpu-work-{options.device}"
        return run.run(ROOT, options.folder, out, work, options)
    except Problem as problem:
        print(f"gpu: {problem}", file=sys.stderr)
        return problem.code


if __name__ == "__main__":
    sys.exit(main())
