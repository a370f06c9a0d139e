"""shardprep info, verify and show, and what it says about wrong arguments and results that cannot be written."""
import json
import os
import pathlib
import re
import resource
import subprocess

import numpy as np
import pytest
from PIL import Image

from shardprep_tool import SHARDPREP, pack, run, samples_of


def test_results_that_cannot_be_written_are_no_success(tmp_path):
    pack(tmp_path)
    with open("/dev/full", "w") as full:
        done = subprocess.run([SHARDPREP, "info", tmp_path], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 3
    assert done.stderr == "shardprep: stdout: No space left on device; expected a place for the results\n"


def test_info_and_verify_take_a_data_set_or_a_split(tmp_path):
    done = pack(tmp_path, split="train,test")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [str(tmp_path / "train"), str(tmp_path / "test")]
    for folder in (tmp_path, tmp_path / "test"):
        information = run("info", folder).stdout
        for expected in ("12 x 12 x 1, 60 raw", "60 in 3 shards", "mean ", "deviation ", "digits(count=60,size=12)"):
            assert expected in information
        assert "60 samples in 3 shards, every one as packed" in run("verify", folder).stdout
    assert run("verify", tmp_path, "--split", "test").stdout.count("as packed") == 1


def test_verify_names_the_sample_of_a_flipped_bit(tmp_path):
    pack(tmp_path)
    shard = tmp_path / "train/shard-00001-of-00003.safetensors"
    data = bytearray(shard.read_bytes())
    data[4096 + 144 * 2 + 5] ^= 8
    shard.write_bytes(data)
    done = run("verify", tmp_path, code=4)
    assert f"{shard}: sample 2 (id 12) at byte 4384: crc32c is " in done.stderr
    assert done.stderr.splitlines()[-1] == "shardprep: verify: 2 problems; expected none"


def test_verify_gives_20_lines_a_shard_and_counts_the_rest(tmp_path):
    pack(tmp_path, source="digits(count=120,size=12)")
    shard = tmp_path / "train/shard-00001-of-00003.safetensors"
    data = bytearray(shard.read_bytes())
    pixels = slice(4096, 4096 + 40 * 144)
    data[pixels] = bytes(level ^ 8 for level in data[pixels])
    shard.write_bytes(data)
    lines = run("verify", tmp_path, code=4).stderr.splitlines()
    assert len(lines) == 22
    assert lines[20:] == [f"{shard}: ... and 21 more", "shardprep: verify: 41 problems; expected none"]


@pytest.mark.parametrize("name", ["manifest.json", "shard-00001-of-00003.safetensors"])
@pytest.mark.parametrize("becomes", [pathlib.Path.mkdir, os.mkfifo, lambda path: None])
def test_a_file_that_is_none_is_one_problem_with_files(tmp_path, name, becomes):
    pack(tmp_path, split="train,test")
    path = tmp_path / "train" / name
    path.unlink()
    becomes(path)
    done = run("verify", tmp_path, code=3, timeout=60)
    first, last = done.stderr.splitlines()
    assert first.startswith(f"{path}: ") and last == "shardprep: verify: 1 problem; expected none"
    assert done.stdout.startswith(f"{tmp_path}/test: 60 samples")


@pytest.mark.parametrize("command", ["info", "verify"])
def test_a_splits_own_folder_is_no_other_split(tmp_path, command):
    pack(tmp_path)
    run(command, tmp_path / "train", "--split", "train")
    error = run(command, tmp_path / "train", "--split", "test", code=2).stderr
    assert error.startswith(f'shardprep: --split: is "test" with {tmp_path}/train, the folder of split train; expected')


def test_show_writes_the_pictures_of_the_first_samples_or_of_one_sample(tmp_path):
    pack(tmp_path, shards=1)
    for grid, pixels, last in (("3x4", (54, 40), "12 samples"), ("20x4", (54, 278), "60 samples")):
        out = run("show", tmp_path, "--out", tmp_path / "sheet.png", "--grid", grid, "--shuffle", "none").stdout
        assert out.startswith("row 1: 0 ") and out.endswith(f"sheet.png: {pixels[1]} x {pixels[0]} pixels, {last}\n")
        sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
        assert sheet.shape == pixels[::-1]
        for sample_id, (label, *_, data) in samples_of(tmp_path / "train").items():
            row, column = divmod(sample_id, 4)
            if row < int(grid.split("x")[0]):
                cell = sheet[14 * row:14 * row + 12, 14 * column:14 * column + 12]
                assert cell.tobytes() == data, sample_id
                assert re.search(rf"\b{sample_id} {label}[,\n]", out)
    out = run("show", tmp_path, "--out", tmp_path / "sheet.png", "--grid", "2x5", "--sample", 7, "--augment", "affine(degrees=40,interpolation=bilinear)").stdout
    assert out.endswith("10 epochs of one sample\n") and out.count(" 7 ") == 10
    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert len({sheet[14 * i:14 * i + 12, 14 * j:14 * j + 12].tobytes() for i in range(2) for j in range(5)}) == 10
    for arguments, code, message in (
            (["--sample", 60], 2, "sheet: sample is 60; expected 0 to 59"),
            (["--grid", "0x3"], 2, "sheet: rows is 0; expected 1 to 1000"),
            (["--augment", "fip"], 2, 'unknown transform "fip"; did you mean "flip"?'),
            (["--out", "/dev/null/x.png"], 3, "--out: /dev/null/x.png: Not a directory; expected to create it"),
            (["--out", ""], 2, '--out: is ""; expected a file to write to'),
            (["--out", tmp_path / "train/manifest.json"], 2, "/train/manifest.json lies in the data set's folder ")):
        out = ["--out", tmp_path / "y.png"] if "--out" not in arguments else []
        error = run("show", tmp_path, *out, *arguments, code=code).stderr
        assert error.startswith("shardprep: ") and message in error and error.count("\n") == 1
    assert not (tmp_path / "y.png").exists()


def test_a_sheet_that_cannot_be_written_whole_leaves_the_old_file(tmp_path):
    pack(tmp_path / "data")
    out = tmp_path / "sheet.png"
    out.write_bytes(b"old")
    error = run("show", tmp_path / "data", "--out", out, code=3,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99))).stderr
    assert re.fullmatch(rf"shardprep: --out: {out}: File too large; expected to write \d+ bytes .*\n", error)
    assert out.read_bytes() == b"old" and sorted(os.listdir(tmp_path)) == ["data", "sheet.png"]


def test_show_opens_the_split_that_the_folder_is_named_after(tmp_path):
    pack(tmp_path, split="test")
    (tmp_path / "test").rename(tmp_path / "train")
    manifest = tmp_path / "train/manifest.json"
    error = run("show", tmp_path, "--out", tmp_path / "sheet.png", code=4).stderr
    assert error == f'shardprep: {manifest}: split is "test"; expected "train", as the folder\'s name says\n'
    run("show", tmp_path / "train", "--out", tmp_path / "sheet.png")
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps(content | {"sample_count": 0, "shards": [], "class_counts": [0] * 10}))
    error = run("show", tmp_path / "train", "--out", tmp_path / "sheet.png", code=2).stderr
    assert error == f"shardprep: {tmp_path}/train: 0 samples; expected 1 or more\n"


def test_a_link_that_leads_to_itself_is_called_so(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train").symlink_to("train")
    for command in ("info", "verify"):
        for folder, manifest in (("loop", "loop"), ("data", "data/train")):
            error = run(command, tmp_path / folder, code=3).stderr
            assert error.startswith(f"shardprep: {tmp_path}/{manifest}/manifest.json: Too many levels of symbolic links; ")


@pytest.mark.parametrize("arguments, code, message", [
    ([], 2, "no command; expected one of pack, list, merge, plan, info, verify"),
    (["verfy"], 2, 'unknown command "verfy"; did you mean "verify"?'),
    (["pack"], 2, "--out: is missing; expected a value"),
    (["pack", "--sorce", "digits", "--out", "x"], 2, 'unknown flag "--sorce"; did you mean "--source"?'),
    (["pack", "--source", "digits", "--out", "x", "--shards", "nan"], 2, '--shards: is "nan"; expected a whole number'),
    (["pack", "--source", "digits", "--out", "x", "--shards", ""], 2, '--shards: is ""; expected a whole number'),
    (["pack", "--source", "digits", "--out", "x", "--shards", "99999999999"], 2, '--shards: is "99999999999"; expected a'),
    (["pack", "--source", "digits", "--out", "x", "--shards"], 2, "--shards: has no value; expected one"),
    (["pack", "--source", "digits", "--out", "x", "--out", "y"], 2, "--out: is given more than once; expected it once"),
    (["pack", "--source", "digits", "--out", "x", "--force=perhaps"], 2, '--force: has the value "perhaps"; expected the flag alone'),
    (["pack", "--source", "digits(cuont=3)", "--out", "x"], 2, 'unknown key "cuont"; did you mean "count"?'),
    (["pack", "--source", "digits(seed=-1)", "--out", "x"], 2, "source digits: seed is -1; expected 0 or more"),
    (["pack", "--source", "digits", "--out", "x", "--split", "train,tset"], 2, 'unknown split "tset"; did you mean "test"?'),
    (["pack", "--source", "digits", "--out", "x", "--split", "train,train"], 2, "expected each split only once"),
    (["pack", "--source", "digits", "--out", "x", "--shard", "3"], 2, 'unknown flag "--shard"; did you mean "--shards"?'),
    (["pack", "--source", "digit", "--out", "x"], 2, 'unknown source "digit"; did you mean "digits"? known: '),
    (["pack", "--source", "digits(sise=3)", "--out", "x"], 2, 'unknown key "sise"'),
    (["pack", "--source", "digits", "--out", "x", "--jobs", "-1"], 2, "jobs is -1"),
    (["pack", "--source", "digits", "--out", "x", "--shards", "0"], 2, "shards is 0"),
    (["pack", "--source", "digits", "--out", "x", "--split", "dev"], 2, 'unknown split "dev"; known: train, test, all'),
    (["pack", "--source", "digits", "--out", "x", "--split", "val,test"], 2, '--split: is "val,test"; expected each split only once'),
    (["pack", "--source", "digits", "--out", "x", "--on-corrupt", "ignore"], 2, "expected fail or skip"),
    (["pack", "--source", "digits", "--out", "x", "--shuffle-seed", "-3"], 2, '--shuffle-seed: is "-3"; expected'),
    (["pack", "--source", "mnist", "--out", "x"], 2, "expected --input DIR"),
    (["pack", "--source", "mnist", "--input", "nowhere", "--out", "x"], 3, "nowhere: no such folder"),
    (["info", "nowhere"], 3, "nowhere: no manifest.json"),
    (["verify", "."], 3, "expected the folder of a data set or of a split"),
    (["verify", ".", "--split", "tset"], 2, '--split: unknown split "tset"; did you mean "test"?'),
    (["verify", ".", "--jobs", "-2"], 2, "--jobs is -2; expected 0 (one per core) or more"),
    (["verify", ""], 2, 'DIR: is ""; expected the folder of a data set'),
    (["show", "nowhere"], 2, "--out: is missing; expected a value"),
    (["show", "nowhere", "--out", "x.png"], 3, "nowhere: no manifest.json"),
    (["show", "nowhere", "--out", "x.png", "--grid", "8"], 2, '--grid is "8"; expected ROWSxCOLUMNS, for example 8x8'),
    (["show", "nowhere", "--out", "x.png", "--grid", "8x8x"], 2, '--grid is "8x8x"; expected ROWSxCOLUMNS'),
])
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, arguments, code, message):
    error = run(*arguments, code=code, cwd=tmp_path).stderr
    assert error.startswith("shardprep: ") and error.count("\n") == 1
    assert message in error
    assert os.listdir(tmp_path) == []


def test_quiet_says_nothing_and_a_pipe_gets_no_escape_codes(tmp_path):
    done = pack(tmp_path / "a", "--quiet")
    assert done.stdout + done.stderr == ""
    done = pack(tmp_path / "b")
    assert "\r" not in done.stdout + done.stderr
    assert done.stdout.startswith(f"{tmp_path / 'b/train'}: 60 samples of 10 classes in 3 shards, ")
