"""shardprep list, pack --part and merge, as a job array runs them."""
import json
import os
import pathlib
import subprocess

import pytest
from PIL import Image

from shardprep_tool import SHARDPREP, run

PHOTOGRAPHS = pathlib.Path(os.environ.get("PENSTOCK_DATA", pathlib.Path(__file__).parents[3] / "shared/data")) / "imagenet-sample"
DIGITS = ("--source", "digits(count=90,size=12)", "--shards", 7)


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def merged(out, number, *arguments):
    for index in range(number):
        run("pack", *arguments, "--part", f"{index}/{number}", "--out", out)
    return run("merge", out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("whole")
    run("pack", *DIGITS, "--out", out)
    return files(out)


def test_parts_have_the_bytes_of_one_packing(whole, tmp_path):
    for number in (1, 3, 7):
        done = merged(tmp_path / f"{number}", number, *DIGITS)
        assert f"{number}/train: 90 samples of 10 classes in 7 shards\n" in done.stdout
        assert files(tmp_path / f"{number}") == whole


def test_parts_of_a_list_run_at_the_same_time(whole, tmp_path):
    run("list", *DIGITS[:2], "--out", tmp_path / "list")
    parts = [subprocess.Popen([SHARDPREP, "pack", "--list", tmp_path / "list", "--shards", "7", "--out", tmp_path / "out", "--quiet",
                               "--part", f"{index % 4}/4"]) for index in range(8)]
    assert [part.wait() for part in parts] == [0] * 8
    run("merge", tmp_path / "out")
    assert files(tmp_path / "out") == whole


def test_a_finished_part_does_nothing(tmp_path):
    words = ("pack", *DIGITS, "--part", "1/2", "--out", tmp_path / "out")
    assert "train: part 1/2: " in run(*words).stdout
    before = files(tmp_path / "out")
    assert "finished already" in run(*words).stdout and files(tmp_path / "out") == before


def test_a_part_that_is_killed_is_done_by_the_next_one(whole, tmp_path):
    words = [SHARDPREP, "pack", *map(str, DIGITS), "--out", str(tmp_path / "out"), "--part"]
    for after in (0.0, 0.01, 0.02, 0.03):
        started = subprocess.Popen([*words, "0/2"], stdout=subprocess.DEVNULL)
        try:
            started.wait(after)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
    run(*words[1:], "0/2")
    run(*words[1:], "1/2")
    run("merge", tmp_path / "out")
    assert files(tmp_path / "out") == whole


def test_two_splits_are_merged_one_after_the_other(tmp_path):
    run("pack", *DIGITS, "--split", "train,test", "--out", tmp_path / "one")
    assert merged(tmp_path / "parts", 2, *DIGITS, "--split", "train,test").stdout.count("90 samples") == 2
    assert files(tmp_path / "parts") == files(tmp_path / "one")


@pytest.mark.parametrize("part", ["", "1", "4/4", "-1/4", "1/0", "a/4", "1/4/2", "1/4 "])
def test_a_part_that_is_none_is_refused(tmp_path, part):
    error = run("pack", *DIGITS, f"--part={part}" if part else "--part=x", "--out", tmp_path / "out", code=2).stderr
    assert "--part: is " in error and error.count("\n") == 1 and not (tmp_path / "out").exists(), error


def test_what_cannot_be_merged_is_said_in_one_line(tmp_path):
    assert "no parts; expected" in run("merge", tmp_path / "out", code=3).stderr
    run("pack", *DIGITS, "--part", "0/2", "--out", tmp_path / "out")
    error = run("merge", tmp_path / "out", code=2).stderr
    assert error == f"shardprep: {tmp_path}/out/.train.parts: part 1 of 2 is not finished; expected all of them: run shardprep pack " \
                    "--part 1/2\n"
    run("pack", "--source", "digits(count=80,size=12)", "--shards", 7, "--part", "1/2", "--out", tmp_path / "out")
    error = run("merge", tmp_path / "out", code=2).stderr
    assert "part-1.json: source is digits(count=80,size=12), and that of part-0.json is digits(count=90,size=12)" in error
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".train.parts"]


@pytest.mark.parametrize("line, change, message", [
    (0, {"classes": []}, "line 2: label is 0, and the first line has no classes; expected both or none"),
    (1, {"label": 0.9}, "line 2: label is 0.9; expected a whole number"),
    (1, {"label": 1e300}, "line 2: label is 1e+300; expected a whole number"),
    (1, {"label": 2 ** 64 - 1}, "line 2: label is 18446744073709551615; expected a whole number"),
    (1, {"bytes": 1e300}, "line 2: bytes is 1e+300; expected a whole number, 0 or more"),
    (1, {"bytes": -1}, "line 2: bytes is -1; expected a whole number, 0 or more"),
    (0, {"samples": 2.5}, "line 1: samples is 2.5; expected a whole number, 0 or more"),
])
def test_lists_changed_by_hand_are_refused(tmp_path, line, change, message):
    for i in range(2):
        (tmp_path / f"in/{i}").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / f"in/{i}/a.png")
    run("list", "--source", "image-folder", "--input", tmp_path / "in", "--out", tmp_path / "list")
    lines = [json.loads(text) for text in (tmp_path / "list").read_text().splitlines()]
    lines[line].update(change)
    (tmp_path / "list").write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    done = run("pack", "--list", tmp_path / "list", "--out", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_flags_that_contradict_a_list_are_refused(tmp_path):
    run("list", *DIGITS[:2], "--out", tmp_path / "list")
    words = ("pack", "--list", tmp_path / "list", "--out", tmp_path / "out")
    assert "--source: is" in run(*words, "--source", "mnist", code=2).stderr
    assert "--split: is" in run(*words, "--split", "test", code=2).stderr
    assert "no --source" in run("pack", "--out", tmp_path / "out", code=2).stderr
    assert not (tmp_path / "out").exists()


def test_photographs_in_parts(tmp_path):
    if not PHOTOGRAPHS.is_dir():
        pytest.skip(f"{PHOTOGRAPHS}: no such folder, so no photograph was packed")
    source = ("--source", "image-folder", "--input", PHOTOGRAPHS, "--encode", "coef")
    run("pack", *source, "--out", tmp_path / "one")
    merged(tmp_path / "four", 4, *source)
    run("list", *source, "--out", tmp_path / "list", "--codebook", tmp_path / "codebook")
    merged(tmp_path / "listed", 3, "--list", tmp_path / "list", "--encode", "coef", "--codebook", tmp_path / "codebook")
    assert files(tmp_path / "four") == files(tmp_path / "one") == files(tmp_path / "listed")
    run("verify", tmp_path / "four")
