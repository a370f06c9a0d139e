"""Makes tests/stored/VERSION with the tools of a build: two packed data sets, a run with its checkpoint, and what comes of reading them.
Once per release; what is there is never made again, because tests/tools/test_stored.py holds later versions to it. The folder 0.2.0 was made a
day after that release, and its photographs have fields, which the release itself does not know. Its digests and losses are of the order in which samples
are stored, made by the last commit that shuffled so few samples as 0.2.0 does.

    PENSTOCK_BIN=$PWD/build/release/bin .venv/bin/python tests/stored/make.py
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PICTURES = HERE.parent / "fuzz/corpus/jpeg"
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
# Arguments of loadbench for each data set. They are stored with the digests.
LOADS = [["--data", "raw", "--augment", "shift,normalize"],
         ["--data", "photos", "--augment", "random-resized-crop(size=24),flip,normalize", "--columns", "field(name=age)"]]
STORED_ORDER = ["--shuffle", "none"]
CPU = ["--device", "cpu", "--threads", "1"]
# Folders are relative, so that options.json of the run names none of the machine.
TRAIN = ["--cache", "cache", "--data", "raw", "--arch", "mlp(hidden=4)", "--optimizer", "adamw", "--lr", "0.01", "-b", "8", *CPU]


def tool(name, *arguments, folder):
    return subprocess.run([BIN / name, *map(str, arguments)], cwd=folder, check=True, capture_output=True, text=True).stdout


def pack(folder, out, *arguments):
    tool("shardprep", "pack", "--out", out, "--split", "train", "--shards", 1, *arguments, folder=folder)


def pack_photos(folder):
    """JPEGs of several kinds with two fields, as coefficients."""
    with tempfile.TemporaryDirectory() as scratch:
        names = ["444.jpg", "420.jpg", "grey.jpg", "progressive.jpg", "restart.jpg", "exif.jpg"]
        rows = [f"{name},{'ab'[row % 2]},{20 + row},word {row}" for row, name in enumerate(names)]
        pathlib.Path(scratch, "train.csv").write_text("\n".join(["path,label,age,caption", *rows, ""]))
        for name in names:
            shutil.copy(PICTURES / name, scratch)
        pack(folder, "photos", "--source", "csv(fields=age:caption)", "--input", scratch)


def train(folder, scratch):
    """Stores a run of two epochs, and returns the losses of two more of a copy that went on."""
    tool("train", *TRAIN, "--epochs", 2, "--out", "run", folder=folder)
    for path in (folder / "run").iterdir():
        if path.name not in ("options.json", "checkpoint-last.safetensors"):
            path.unlink()
    shutil.copytree(folder / "run", scratch / "run")
    tool("train", "--resume", scratch / "run", "--epochs", 4, *CPU, *STORED_ORDER, folder=folder)
    return [json.loads(line)["loss"] for line in (scratch / "run/metrics.jsonl").read_text().splitlines()]


def main():
    version = tool("shardprep", "--version", folder=HERE).split()[1]
    folder = HERE / version
    folder.mkdir()
    pack(folder, "raw", "--source", "digits(count=24,size=12)", "--encode", "raw")
    pack_photos(folder)
    loads = [{"arguments": arguments, "printed": tool("loadbench", *arguments, folder=folder)}
             for arguments in [[*load, "-b", "4", "--epochs", "2", "--digest", *STORED_ORDER] for load in LOADS]]
    with tempfile.TemporaryDirectory() as scratch:
        losses = train(folder, pathlib.Path(scratch))
    (folder / "expected.json").write_text(json.dumps({"loads": loads, "resume": ["--epochs", "4", *CPU, *STORED_ORDER], "losses": losses}, indent=1) + "\n")


if __name__ == "__main__":
    main()
