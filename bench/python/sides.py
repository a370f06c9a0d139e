"""The sides that bench/python/run.py compares: each gives images per second, measured in processes of its own."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from prepared import HERE, PROGRAMS, ROOT, pack, run

sys.path.insert(0, str(HERE.parent / "peers"))
from workloads import WORKLOADS  # noqa: E402

EPOCHS = {"photos": 6, "mnist": 30}  # about 2 s of photographs, and of MNIST, with one worker
EXAMPLE_FLAGS = ("--size", 64, "--epochs", 2, "--batch-size", 64, "--workers", 2, "--lr", 0.01)


class Row(NamedTuple):
    group: str
    text: str  # "first / second"; the ratio is that of their rates
    asked_for: str
    first: str
    second: str


def folder(data, workload):
    return data.mnist if workload == "mnist" else data.photos_packed


def loadbench(workload, workers):
    def measure(data):
        with tempfile.NamedTemporaryFile() as report:
            run(PROGRAMS / "loadbench", "--data", folder(data, workload), "--workers", workers, "--batch-size", 64, "--augment",
                WORKLOADS[workload].augment, "--epochs", EPOCHS[workload], "--json", report.name)
            return json.loads(pathlib.Path(report.name).read_text(encoding="utf-8"))["runs"][0]["images_per_second"]
    return measure


def loop_report(data, workload, workers, epochs, *flags):
    return json.loads(run(sys.executable, HERE / "loop.py", folder(data, workload), "--workers", workers, "--augment",
                          WORKLOADS[workload].augment, "--epochs", epochs, *flags))


def loop(workload, workers, *flags):
    return lambda data: statistics.median(loop_report(data, workload, workers, EPOCHS[workload], *flags)["rates"])


def peer(script, variant=""):
    """A loader under bench/peers/harness.py, which checks its batches and times them for 3 s."""
    def measure(data):
        output = run(sys.executable, HERE / script, "--workload", "photos", "--data", data.work, "--workers", 2, "--variant",
                     variant, "--seconds", 3)
        return json.loads(output.splitlines()[-1])["images_per_second"]
    return measure


def example(script):
    """The second epoch, with its evaluation: the example prints a line at the end of each."""
    def measure(data):
        with tempfile.TemporaryDirectory() as out:
            command = [sys.executable, script, f"image-folder:{data.classes}", "--data", data.work / "example", "--resume",
                       f"{out}/run.pt", *EXAMPLE_FLAGS]
            # LibTorch's idle threads must not spin on the cores that the workers of both sides need.
            process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "OMP_WAIT_POLICY": "passive"})
            ends = [time.perf_counter() for line in process.stdout if line.startswith("epoch ")]
            if process.wait() != 0 or len(ends) != 2:
                sys.exit(f"{' '.join(map(str, command))}: exit code {process.returncode}, {len(ends)} epochs")
        return len(list((data.classes / "train").rglob("*.JPEG"))) / (ends[1] - ends[0])
    return measure


def shardprep_pack(data):
    with tempfile.TemporaryDirectory(dir=data.work) as out:
        begin = time.perf_counter()
        pack("--source", "image-folder", "--input", data.classes / "train", "--out", out)
        return len(list((data.classes / "train").rglob("*.JPEG"))) / (time.perf_counter() - begin)


def huggingface_pack(data):
    with tempfile.TemporaryDirectory(dir=data.work) as out:
        seconds = float(run(sys.executable, HERE / "pack_huggingface.py", data.parquet, out,
                            env={**os.environ, "HF_HOME": str(data.work / "huggingface")}))
        return len(list((data.classes / "train").rglob("*.JPEG"))) / seconds


SIDES = {
    "loadbench, photographs, 1 worker": loadbench("photos", 1),
    "loadbench, photographs, 2 workers": loadbench("photos", 2),
    "loadbench, MNIST, 1 worker": loadbench("mnist", 1),
    "loop, photographs, 1 worker": loop("photos", 1),
    "loop, photographs, 2 workers": loop("photos", 2),
    "loop, MNIST, 1 worker": loop("mnist", 1),
    "Loader, 2 workers": peer("peer_penstock.py"),
    "DataLoader, PIL": peer("../peers/peer_photos_pytorch.py", "pil"),
    "DataLoader, torchvision.io": peer("../peers/peer_photos_pytorch.py", "io"),
    "example": example(ROOT / "python/examples/imagenet.py"),
    "example, DataLoader": example(HERE / "imagenet_dataloader.py"),
    "pack, Hugging Face": huggingface_pack,
    "shardprep pack": shardprep_pack,
    "loop, photographs, 16 held": loop("photos", 1, "--hold", 16),
    "loop, photographs, all held": loop("photos", 1, "--hold", -1),
    "loop, MNIST, all held": loop("mnist", 1, "--hold", -1),
}

ROWS = [
    Row("loop", "Python loop / `loadbench`, photographs, 1 worker", "0.97", "loop, photographs, 1 worker",
        "loadbench, photographs, 1 worker"),
    Row("loop", "the same, 2 workers", "0.97", "loop, photographs, 2 workers", "loadbench, photographs, 2 workers"),
    Row("mnist", "the same, MNIST, affine, batches of 64, 1 worker", "0.85", "loop, MNIST, 1 worker", "loadbench, MNIST, 1 worker"),
    Row("loaders", "photographs, 2 workers: Penstock / DataLoader with Pillow", "15", "Loader, 2 workers", "DataLoader, PIL"),
    Row("loaders", "the same / DataLoader with torchvision.io", "11", "Loader, 2 workers", "DataLoader, torchvision.io"),
    Row("example", "epoch of imagenet.py, ResNet-18 at 64 pixels, CPU, 2 workers: Penstock / DataLoader", "", "example",
        "example, DataLoader"),
    Row("pack", "packing JPEG bytes of a Hugging Face data set / `shardprep pack` of the files", "0.9", "pack, Hugging Face",
        "shardprep pack"),
    Row("pool", "photographs, 1 worker: the last 16 batches are held / none is", "", "loop, photographs, 16 held",
        "loop, photographs, 1 worker"),
    Row("pool", "the same: all batches of the epoch are held", "", "loop, photographs, all held", "loop, photographs, 1 worker"),
    Row("pool", "MNIST, 1 worker: all batches of the epoch are held / none is", "", "loop, MNIST, all held", "loop, MNIST, 1 worker"),
]
