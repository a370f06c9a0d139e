"""Whether reduced DCT scales move a model's top-1: python bench/quality/dct_top1.py [--seeds 5] [--epochs 8]

CIFAR-10's pictures, enlarged four times and compressed again (quality 90), so that a network of 32 x 32 pixels looks at each
through a reduction as large as ImageNet's. Trained with --dct-scale auto and off, in turn, with the same seeds. auto evaluates whole
pictures; "always" is the same weights evaluated as they were trained. Real data: PENSTOCK_DATA, or ../shared/data.
"""

import argparse
import io
import json
import os
import pathlib
import statistics
import subprocess
import tarfile
import tempfile

from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "release" / "bin"
DATA = pathlib.Path(os.environ.get("PENSTOCK_DATA", ROOT.parent / "shared/data"))
EVERY = {"train": 5, "test": 2}  # 10,000 and 5,000 pictures, equally many of every class
SIDE = 128


def write_enlarged(folder):
    """<split>/<class>/<name>.jpg."""
    seen = dict.fromkeys(EVERY, 0)
    with tarfile.open(DATA / "cifar10" / "cifar10-jpeg.tar.xz") as tar:
        for member in tar:
            parts = pathlib.PurePath(member.name).parts
            if not member.isfile() or len(parts) != 3:
                continue
            seen[parts[0]] += 1
            if seen[parts[0]] % EVERY[parts[0]]:
                continue
            picture = Image.open(io.BytesIO(tar.extractfile(member).read())).convert("RGB")
            path = folder / pathlib.Path(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            picture.resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(path, quality=90)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"dct_top1: {' '.join(map(str, command))}: {done.stderr.strip()}")


def top1(packed, out, scale, seed, options):
    run(BIN / "train", "--data", packed, "--arch", options.arch, "--epochs", options.epochs, "--seed", seed, "--workers", 1,
        "--augment", "random-resized-crop(size=32,scale=0.4:1),flip", "--eval-augment", "resize(size=32)",
        "--dct-scale", scale, "--eval-at-end", "--save-every", 0, "--out", out)  # fmt: skip
    return 100 * json.loads((out / "summary.json").read_text())["accuracy"]


def top1_as_trained(trained, out):
    run(BIN / "train", "-e", "--resume", trained, "--dct-scale", "always", "--out", out)
    return 100 * json.loads((out / "evaluation.json").read_text())["top1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--arch", default="lenet")
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error(f"--seeds: is {options.seeds}; expected 2 or more, for a deviation")
    found = {"auto": [], "always": [], "off": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_enlarged(folder / "pictures")
        for split in EVERY:
            run(BIN / "shardprep", "pack", "--source", "image-folder", "--input", folder / "pictures", "--split", split, "--out",
                folder / "packed", "--quiet")  # fmt: skip
        for seed in range(options.seeds):
            for scale in ("auto", "off"):
                found[scale].append(top1(folder / "packed", folder / f"{scale}-{seed}", scale, seed, options))
            found["always"].append(top1_as_trained(folder / f"auto-{seed}", folder / f"always-{seed}"))
            print(f"seed {seed}: " + ", ".join(f"{scale} {values[-1]:.2f} %" for scale, values in found.items()), flush=True)
    for scale, values in found.items():
        print(f"{scale}: mean {statistics.mean(values):.2f} %, standard deviation {statistics.stdev(values):.2f}")
    for scale in ("auto", "always"):
        differences = [one - off for one, off in zip(found[scale], found["off"], strict=True)]
        error = statistics.stdev(differences) / len(differences) ** 0.5
        print(f"{scale} - off: {statistics.mean(differences):+.2f} points, standard error {error:.2f}")


if __name__ == "__main__":
    main()
