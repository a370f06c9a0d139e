"""The data that bench/python measures with, made once, and the programs that belong to this interpreter's penstock."""
import os
import pathlib
import subprocess
import sys

import penstock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = pathlib.Path(penstock.__path__[0]) / "bin"
CLASSES = 10


def run(*command, **options):
    """Output of a program; ends this one with its last line if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return done.stdout


def pack(*flags):
    run(PROGRAMS / "shardprep", "pack", "--quiet", "--force", *flags)


class Data:
    """photos/: 1,990 JPEG files; packed/: the same as a data set; classes/train and val: 995 and 199 of them in ten class
    folders; photos.parquet: those 995 in parquet; mnist/."""

    def __init__(self, work, groups):
        self.work, self.source = work.resolve(), pathlib.Path(os.environ.get("PENSTOCK_DATA", ROOT / "../shared/data"))
        self.photos_packed, self.classes = self.work / "packed", self.work / "classes"
        self.parquet, self.mnist = self.work / "photos.parquet", self.work / "mnist"
        self.work.mkdir(parents=True, exist_ok=True)
        if groups - {"mnist", "install"}:
            self._once("photos", self._make_photos)
        if "pack" in groups:
            self._once("parquet", lambda: run(sys.executable, HERE / "pack_huggingface.py", "--write", self.classes / "train",
                                              self.parquet))
        if groups & {"mnist", "pool"}:
            self._once("mnist", lambda: pack("--source", "mnist", "--input", self.source / "mnist", "--split", "train", "--out",
                                             self.mnist))

    def _once(self, name, make):
        ready = self.work / f"{name}.ready"
        if not ready.exists():
            make()
            ready.touch()

    def _make_photos(self):
        run(sys.executable, HERE.parent / "peers/prepare_photos.py", self.source / "imagenet-sample", self.work)
        for path in sorted((self.work / "photos").glob("*.JPEG")):
            name, _, copy = path.stem.rpartition("-")
            if int(copy) > 5:
                continue
            label = sum(name.encode()) % CLASSES
            folder = self.classes / ("val" if copy == "5" else "train") / f"class{label}"
            folder.mkdir(parents=True, exist_ok=True)
            if not (folder / path.name).exists():
                os.link(path, folder / path.name)
        pack("--source", "image-folder", "--input", self.work / "photos", "--out", self.photos_packed)
