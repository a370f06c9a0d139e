"""Results: what the steps have shown, in results.json, so that the next call goes on where this one stopped."""

import csv
import json
import statistics

from problem import Problem

FORMAT = 1
PASSED, FAILED, NOT_BUILT, NOT_REACHED, LEFT_OUT = "passed", "FAILED", "not built", "not reached", "left out"


def load(paths, device):
    """The steps of the first file that is there; {} if there is none."""
    for path in paths:
        if not path.is_file():
            continue
        try:
            found = json.loads(path.read_text())
            if found["format"] == FORMAT and found["device"] == device:
                return found["steps"]
            said = f"format {found['format']}, --device {found['device']}"
        except (ValueError, KeyError, TypeError) as error:
            said = f"{type(error).__name__} {error}"
        raise Problem(f"{path}: {said}; expected the results.json of script/gpu run --device {device}, or another --out", 4)
    return {}


def save(path, device, commit, steps):
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({"format": FORMAT, "device": device, "commit": commit, "steps": steps}, indent=1) + "\n")
    partial.replace(path)


def figures(summary):
    """What the table shows of a run's summary.json."""
    prediction = summary.get("prediction") or {}
    found = {key: summary.get(key) for key in ("train_seconds", "load_ms_per_step", "update_ms_per_step",
                                               "images_per_second", "accuracy", "workers", "device", "mode", "arch")}
    found["prediction_error"] = prediction.get("error")
    found["sentence"] = (summary.get("limit") or {}).get("sentence")
    return found


def device_use(path):
    """Median and range of the device's use over a run, from gpu.csv; {} without one (a machine without NVML)."""
    if not path.is_file():
        return {}
    with path.open() as file:
        rows = list(csv.DictReader(file))
    if not rows:
        return {}
    return {"gpu_percent": statistics.median(float(row["busy_percent"]) for row in rows),
            "gpu_memory_mib": max(float(row["memory_bytes"]) for row in rows) / (1 << 20), "gpu_samples": len(rows)}
