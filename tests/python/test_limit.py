"""loader.limit() and loader.watch(): what limits a loop of the user's own."""
import itertools
import json
import os
import re
import threading
import time

import penstock
import pytest

from conftest import python
from test_errors import failure

AUGMENT = "affine(degrees=10,interpolation=bilinear),normalize"
BOUNDS = "(load|storage|compute|core|communication)-bound: "


def busy(milliseconds):
    end = time.thread_time() + milliseconds * 1e-3
    while time.thread_time() < end:
        pass


def work_on(loader, most=10**6):
    """A loop that is long enough to say something about."""
    for batch in itertools.islice(loader, most):
        busy(3)


def test_a_slow_loop_is_bound_by_itself_and_a_fast_one_by_its_loader(digits):
    loader = penstock.Loader(digits, batch_size=100, augment=AUGMENT, workers=1)
    slow, fast = loader.limit(10_000), loader.limit(1e-6)
    assert slow.bound == "compute" and str(slow).startswith("compute-bound: the loader waited 100 % of the time")
    assert fast.bound == "load" and str(fast).startswith("load-bound: the trainer waited 100 % of the time")
    assert slow.steps == fast.steps == 0 and slow.workers == 1 and slow.step_ms == 10_000
    assert slow.images_per_second == pytest.approx(10)
    assert [one["workers"] for one in slow.predictions] == list(range(len(slow.predictions))) and len(slow.predictions) >= 9
    assert fast.predictions[1]["images_per_second"] == pytest.approx(fast.images_per_second)
    assert fast.limit > 1 and slow.limit == pytest.approx(1)


def test_a_limit_disturbs_no_iteration(digits):
    loader = penstock.Loader(digits, batch_size=100, workers=1)
    steps = iter(loader)
    first = next(steps).index
    loader.limit(1)
    assert [first, *(batch.index for batch in steps)] == list(range(10))


def test_a_watch_says_what_limited_the_loop(digits, capsys):
    loader = penstock.Loader(digits, batch_size=10, workers=1)
    with loader.watch() as watch:
        work_on(loader)
    said = capsys.readouterr().out.splitlines()
    assert said == [str(watch.limit)] and re.match(BOUNDS, said[0]) and watch.promise is None
    assert watch.limit.steps == 100 and watch.limit.step_ms >= 1 and watch.limit.wait_ms < watch.limit.step_ms
    assert watch.limit.images_per_second == pytest.approx(10e3 / watch.limit.step_ms)
    assert "[of " not in said[0] or re.search(r"\[of 100 steps in [\d.]+ s", said[0])


def test_what_happens_between_epochs_does_not_count(digits):
    loader = penstock.Loader(digits, batch_size=100, workers=1)
    begin = time.monotonic()
    with loader.watch(say=None) as watch:
        for _ in range(2):
            work_on(loader)
            busy(100)
    elapsed_ms = (time.monotonic() - begin) * 1e3
    assert watch.limit.steps == 20
    assert 60 <= watch.limit.step_ms * 20 <= elapsed_ms - 200


def test_the_next_watch_says_how_wrong_the_last_promise_was(digits, tmp_path):
    said = []
    for workers in (1, 2, 2, 1):
        loader = penstock.Loader(digits, batch_size=10, augment=AUGMENT, workers=workers)
        with loader.watch(name="mine", history=tmp_path / "runs/watches.json", say=said.append):
            work_on(loader)
    promises = [line for line in said if line.startswith("prediction: ")]
    number = "[0-9,]+ images/s"
    pattern = rf"prediction: the watch before \(1 worker\) said {number} for 2 workers; it was {number}: [0-9.]+ % too (much|little)"
    assert len(promises) == 3 and all(re.match(pattern, line) for line in promises[:2]) and "(2 workers) said" in promises[2]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["watches.json"]
    kept = json.loads((tmp_path / "runs/watches.json").read_text())["watches"]
    assert [one["workers"] for one in kept] == [1, 2, 2, 1]
    said_rate = float(re.search("said ([0-9,]+)", promises[0])[1].replace(",", ""))
    assert said_rate == pytest.approx(kept[0]["predictions"][2]["images_per_second"], abs=0.51)


def test_promises_are_for_the_same_loop_only(digits):
    said = []
    for name, batch_size in (("one", 10), ("two", 10), ("one", 20)):
        for workers in (1, 2):
            loader = penstock.Loader(digits, batch_size=batch_size, workers=workers, augment="")
            with loader.watch(name=name if workers == 1 else name + "!", say=said.append):
                work_on(loader, 45)
    assert len(said) == 6 and not [line for line in said if line.startswith("prediction")]


def test_an_exception_leaves_through_a_watch_and_nothing_is_said(digits):
    loader, said = penstock.Loader(digits, batch_size=100), []
    with pytest.raises(KeyError), loader.watch(say=said.append) as watch:
        for images, labels in loader:
            raise KeyError("mine")
    assert said == [] and watch.limit is None
    with pytest.raises(penstock.ConfigError, match="0 batches"):  # nothing goes on measuring
        penstock._native.end_watch(loader._native, 1, 1, False)
    with pytest.raises(KeyError), loader.watch(say=said.append):
        loader.close()
        raise KeyError("mine, and not that the loader is closed")


def test_of_several_ranks_the_first_one_says_and_keeps_it(digits, tmp_path):
    said, history = [], tmp_path / "watches.json"
    for workers in (1, 2):
        for rank in (1, 0):
            loader = penstock.Loader(digits, batch_size=20, workers=workers, rank=rank, world_size=2)
            with loader.watch(history=history, say=lambda line, rank=rank: said.append((rank, line))) as watch:
                work_on(loader)
            assert watch.limit.steps == 50 and (watch.promise is not None) == (rank == 0 and workers == 2)
    assert [rank for rank, _ in said] == [0, 0, 0]
    assert [one["configuration"]["rank"] for one in json.loads(history.read_text())["watches"]] == [0, 0]


def test_a_loop_that_was_too_short_says_so_and_promises_nothing(digits, tmp_path):
    loader, history = penstock.Loader(digits, batch_size=10, workers=1), tmp_path / "watches.json"
    for _ in range(100):  # until this machine has once done a step in less than 100 ms
        with loader.watch(say=None, history=history) as watch:
            next(iter(loader))
        if not watch.limit.predictions:
            break
        history.unlink()
    assert re.fullmatch(r"too short to say what limits the loop: 1 step in \d+ ms; expected 50 steps and 2 s, or more", str(watch.limit))
    assert watch.limit.bound == "" and watch.limit.best_workers == 1 and watch.promise is None and not history.exists()


def test_a_link_beside_the_history_is_not_followed(digits, tmp_path):
    history, users = tmp_path / "watches.json", tmp_path / "users.txt"
    users.write_text("mine")
    (tmp_path / f".watches.json.{os.getpid()}.{threading.get_ident()}").symlink_to(users)
    loader = penstock.Loader(digits, batch_size=20, workers=1)
    with loader.watch(history=history, say=None):
        work_on(loader)
    assert users.read_text() == "mine" and len(json.loads(history.read_text())["watches"]) == 1
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["users.txt", "watches.json"]


def test_wrong_watches(digits, tmp_path):
    loader = penstock.Loader(digits, batch_size=100)
    for wrong in (-1, "fast", float("nan"), None, float("inf")):
        failure(penstock.ConfigError, loader.limit, wrong)
    failure(penstock.ConfigError, loader.watch, name=3)
    failure(penstock.ConfigError, loader.watch, history=3)
    (tmp_path / "other.json").write_text("[1]")
    assert "which no watch has written" in failure(penstock.ConfigError, loader.watch, history=tmp_path / "other.json")
    failure(penstock.IoError, loader.watch, history=tmp_path)

    failure(penstock.IoError, loader.watch, history="/proc/nowhere/watches.json")
    failure(penstock.IoError, loader.watch, history=tmp_path / "other.json/watches.json")

    def nothing():
        with loader.watch():
            pass
    assert failure(penstock.ConfigError, nothing) == "watch: 0 batches were taken from this loader; expected a loop over it"


def test_it_works_without_torch_and_with_its_threads(digits):
    code = """
import sys, time, penstock
{}
loader = penstock.Loader(sys.argv[1], batch_size=10, workers=1)
with loader.watch():
    for batch in loader:
        end = time.thread_time() + 3e-3
        while time.thread_time() < end: pass
"""
    for before in ("", "import torch; torch.set_num_threads(2)"):
        done = python(code.format(before), digits)
        assert done.returncode == 0 and re.match(BOUNDS, done.stdout), done.stderr
