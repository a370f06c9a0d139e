"""The use of a GPU in a run's files and in a study's page, with a library that stands for NVIDIA's."""
import csv
import os
import pathlib
import re

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from test_study import drawn, values
from train_tool import DATA, FAST, SMALL, metrics, run

FAKE = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve().parent / "lib" / "libfake_nvml.so"


def csv_rows(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def rows(out):
    return csv_rows(out / "gpu.csv")


def test_csv_jsonl_and_tensorboard_have_the_use_of_the_gpu(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_NVML", str(FAKE))
    out = tmp_path / "run"
    run(tmp_path, *FAST, "--print-freq", 5, "--out", out)
    assert [float(row["busy_percent"]) for row in rows(out)][:3] == [10, 20, 30][:len(rows(out))]
    assert {int(row["memory_total_bytes"]) for row in rows(out)} == {8 << 30}
    steps = [int(row["step"]) for row in rows(out)]
    assert steps == sorted(steps) and steps[-1] <= 26
    epochs = [record for record in metrics(out) if record["kind"] == "epoch" and "gpu_busy_percent" in record]
    assert 10 <= epochs[0]["gpu_busy_percent"] <= 100 and epochs[0]["gpu_memory_bytes"] >= 1 << 30
    events = EventAccumulator(str(out))
    events.Reload()
    assert {"epoch/gpu_busy_percent", "epoch/gpu_memory_bytes"} <= set(events.Tags()["scalars"])


def test_without_the_library_a_run_is_as_ever_and_one_line_says_so_if_it_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("PENSTOCK_NVML", raising=False)
    quiet = run(tmp_path, *SMALL, "--epochs", 1, "--out", tmp_path / "quiet")
    assert quiet.stderr == "" and not (tmp_path / "quiet/gpu.csv").exists()
    assert "gpu" not in (tmp_path / "quiet/metrics.jsonl").read_text()
    monkeypatch.setenv("PENSTOCK_NVML", "/no/libnvidia-ml.so.1")
    asked = run(tmp_path, *SMALL, "--epochs", 1, "--out", tmp_path / "asked")
    assert re.fullmatch(r"train: PENSTOCK_NVML: /no/libnvidia-ml\.so\.1: .*; the use of the GPU is not recorded\n",
                        asked.stderr)
    assert not (tmp_path / "asked/gpu.csv").exists()


def test_the_page_of_a_study_has_a_chart_of_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_NVML", str(FAKE))
    study = ["study", "--data", DATA, "-b", "32", "--threads", "1", "--device", "cpu", "--workers", "1", "--epochs", "1"]
    out = tmp_path / "study"
    run(tmp_path, *study, "--out", out)
    page = drawn(tmp_path, out)
    assert [attributes.get("class") for attributes in page.attributes].count("timeline gpu") == 1
    assert re.search(r"GPU: busy \d+ % of \d+\.\d s, at most \d\.\d GB of 8\.6 GB taken", page.words)
    points = values(out)["rows"][0]["gpu"]["points"]
    assert [point[1] for point in points] == [float(row["busy_percent"]) for row in csv_rows(next(out.glob("runs/*/gpu.csv")))]
    gpu = next(out.glob("runs/*/gpu.csv"))
    gpu.write_text(gpu.read_text() + "1,two\n")
    run(tmp_path, *study, "--out", out)
    assert "no chart of the GPU: " in drawn(tmp_path, out).words
