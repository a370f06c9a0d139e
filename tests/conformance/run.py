"""What script/conformance runs: parts of the comparison with foreign pictures, encoders and optimisers."""
import argparse
import os
import pathlib
import sys
import warnings

FOLDER = pathlib.Path("build/conformance")
PARTS = ("pictures", "random", "training")


def check_pictures(report, options):
    import corpus
    import pictures
    import tools
    inputs, debian = options.folder / "pictures/in", options.folder / "debian"
    corpus.gather([*debian.iterdir(), *(options.folder / "pypi").iterdir()], inputs)
    pictures.check_folder(report, "pictures", inputs, options.folder / "pictures/packed", tools.Tools(debian))


def check_random(report, options):
    import encoders
    import pictures
    import tools
    programs = tools.Tools(options.folder / "debian")
    inputs = options.folder / "random/in"
    encoders.make(inputs, programs, options.folder, options.count, options.seed)
    pictures.check_folder(report, "random", inputs, options.folder / "random/packed", programs)


def check_training(report, options):
    import training
    training.check(report, options.folder / "training")


def silence_decoders(log):
    """Sends what libjpeg and libpng write to the standard error into a file, and leaves Python's own errors there."""
    warnings.simplefilter("ignore")  # Pillow has one for many a file
    sys.stderr = os.fdopen(os.dup(2), "w")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        os.dup2(file.fileno(), 2)


def main():
    parser = argparse.ArgumentParser(prog="script/conformance", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--count", type=int, default=600, help="JPEGs of random parameters (default 600)")
    parser.add_argument("--seed", type=int, default=1, help="seed of these parameters (default 1)")
    parser.add_argument("--folder", type=pathlib.Path, default=FOLDER, help=f"where everything lies (default {FOLDER})")
    options = parser.parse_args()
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"unknown part {part}; expected {', '.join(PARTS)}")
    sys.path.insert(0, str(options.folder / "python"))  # jpeglib
    silence_decoders(options.folder / "decoders.log")
    from report import Report
    report = Report(options.folder / "problems.txt")
    checks = {"pictures": check_pictures, "random": check_random, "training": check_training}
    for part in options.parts or PARTS:
        checks[part](report, options)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
