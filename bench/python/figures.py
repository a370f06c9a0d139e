"""What bench/python/run.py measures that is no ratio: memory, installation, import."""
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import List, NamedTuple

from prepared import ROOT, run
from sides import loop_report

EPOCHS, UNCOUNTED = 25, 5  # the heap grows in the first few epochs


class Figure(NamedTuple):
    text: str
    asked_for: str
    unit: str
    values: List[float]

    def measured(self):
        middle = f"{statistics.median(self.values):.2f} {self.unit}"
        return middle if len(self.values) == 1 else f"{middle} ({min(self.values):.2f}-{max(self.values):.2f})"


def memory(data, rounds):
    """Growth per epoch of a process that trains 20 epochs more."""
    def growth_mb():
        resident = loop_report(data, "photos", 2, EPOCHS)["resident_bytes"]
        return (resident[-1] - resident[UNCOUNTED - 1]) / (EPOCHS - UNCOUNTED) / 1e6
    return [Figure(f"memory, growth per epoch over {EPOCHS - UNCOUNTED} epochs of photographs, 2 workers", "1 MB or less", "MB",
                   [growth_mb() for _ in range(rounds)])]


def import_ms():
    code = "import time; begin = time.perf_counter(); import penstock; print(1e3 * (time.perf_counter() - begin))"
    return float(run(sys.executable, "-c", code))


def install(_data, rounds):
    """`pip install` of a fresh clone without a compiler cache, once; the wheel of script/wheel; the import of the package."""
    wheel = next((ROOT / "build/wheel").glob("penstock-*.whl"))
    found = [Figure("wheel", "10 MB or less", "MB", [wheel.stat().st_size / 1e6]),
             Figure("`import penstock` without torch", "50 ms or less", "ms", [import_ms() for _ in range(rounds)])]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", f"{folder}/clone"], check=True)
        pip = [ROOT / ".venv/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps",
               "--no-cache-dir", "--target", f"{folder}/out", f"{folder}/clone"]
        begin = time.perf_counter()
        subprocess.run(list(map(str, pip)), check=True, env={**os.environ, "CCACHE_DISABLE": "1"})
        found.append(Figure("`pip install .` of a clone, no compiler cache, 2 cores", "180 s or less", "s",
                            [time.perf_counter() - begin]))
        assert (pathlib.Path(folder) / "out/penstock").is_dir()
    return found


FIGURES = {"memory": memory, "install": install}
