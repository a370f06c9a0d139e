"""bench/python: every row has its sides, ratios are first / second within a round, and the timed loop counts what it gets.
bench/gpu/door.py: its checks hold on the CPU, and say what does not."""
import json
import pathlib
import sys

import penstock
import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path[:0] = [str(BENCH / "python"), str(BENCH / "gpu")]

import door  # noqa: E402
import loop  # noqa: E402
import run  # noqa: E402
import sides  # noqa: E402


def test_every_row_has_its_sides_and_every_side_its_row():
    named = [side for row in sides.ROWS for side in (row.first, row.second)]
    assert set(named) == set(sides.SIDES)
    assert {row.group for row in sides.ROWS} < set(run.GROUPS)


def test_ratios_are_taken_within_a_round():
    row = sides.ROWS[0]
    line = run.row_line(row, {row.first: [10, 20, 30], row.second: [10, 10, 60]})
    assert line.endswith("| 20 (10-30) | 10 (10-60) | 1.000 (0.500-2.00) |")


@pytest.mark.parametrize("hold", [0, -1])
def test_the_loop_counts_images_and_memory(digits, hold, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["loop.py", str(digits), "--workers", "1", "--augment", "normalize", "--epochs", "2",
                                      "--hold", str(hold)])
    loop.main()
    report = json.loads(capsys.readouterr().out)
    assert len(report["rates"]) == len(report["resident_bytes"]) == 2 and min(report["rates"]) > 0


def through_the_door(monkeypatch, folder, *words):
    monkeypatch.setattr(sys, "argv", ["door.py", *map(str, words), "--device", "cpu", "--out", str(folder)])
    return door.main(), json.loads((folder / "summary.json").read_text())


def test_the_checks_for_a_device_hold_without_one(tmp_path, monkeypatch):
    assert through_the_door(monkeypatch, tmp_path, "check") == (0, {"device": "cpu", "broken": []})


@pytest.mark.parametrize("name, broken", [
    ("normalize", lambda batch: batch.images.mul_(2) if batch.images.is_floating_point() else None),
    ("labels", lambda batch: batch.labels.add_(batch.images.is_floating_point())),
])
def test_a_wrong_batch_breaks_a_check(tmp_path, monkeypatch, name, broken):
    monkeypatch.setattr(door, "CHECKS", (door.values, door.an_epoch_may_be_resumed))
    made = penstock._epoch.made_batch

    def wrong(*arguments):
        batch = made(*arguments)
        broken(batch)
        return batch

    monkeypatch.setattr(penstock._epoch, "made_batch", wrong)
    code, summary = through_the_door(monkeypatch, tmp_path, "check")
    assert code == 1 and len(summary["broken"]) == 1 and summary["broken"][0].startswith("values: AssertionError: f32, ")


def test_the_rate_of_a_device_can_be_rehearsed(digits, tmp_path, monkeypatch):
    for flags in ([], ["--by-hand"]):
        code, summary = through_the_door(monkeypatch, tmp_path, "rate", digits, "--workers", 1, "--augment", "normalize", "--epochs", 1, *flags)
        assert code == 0 and summary["workers"] == 1 and summary["images_per_second"] > 0
