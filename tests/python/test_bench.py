"""bench/python: every row has its sides, ratios are first / second within a round, and the timed loop counts what it gets."""
import json
import pathlib
import sys

import pytest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench/python"
sys.path.insert(0, str(BENCH))

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
