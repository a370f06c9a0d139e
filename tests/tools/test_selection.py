"""train with samplers, subsets and corrupt samples: what it prints, what ranks and resumed runs compare, and when it ends."""
import json
import re
import subprocess

import pytest

from train_tool import FAST, SMALL, TRAIN, metrics, packed_cache, run, summary  # noqa: F401

SAME = ["--exact", 4]  # the same bits at any number of ranks


@pytest.fixture
def broken(tmp_path):
    """A function that packs digits in four shards and breaks every `step`-th sample of the first one."""
    folder = tmp_path / "data"

    def damage(step, split="train", count=400):
        for name in ("train", "test"):
            subprocess.run([TRAIN.parent / "shardprep", "pack", "--source", f"digits(count={count},size=16)", "--split", name, "--out", folder,
                            "--shards", "4", "--quiet"], check=True)
        shard = sorted((folder / split).glob("*.safetensors"))[0]
        content = bytearray(shard.read_bytes())
        begin = 8 + int.from_bytes(content[:8], "little")
        begin += json.loads(content[8:begin])["images"]["data_offsets"][0]
        for row in range(0, count // 4, step):
            content[begin + row * 256 + 7] ^= 1
        shard.write_bytes(content)
        return folder
    return damage


def test_a_run_says_which_samples_it_trains_on(cache, tmp_path):
    done = run(cache, *FAST, "--subset", "percent(0-50)", "--sampler", "class-balanced(rows=160)", "--out", tmp_path / "run")
    assert ("note: subset percent(0-50), sampler class-balanced(rows=160): 160 rows per epoch of 200 samples; 10 classes of 16 to 16 rows "
            "each") in done.stdout
    assert [line["step"] for line in metrics(tmp_path / "run") if line["kind"] == "epoch"] == [5, 10]


@pytest.mark.parametrize("flags", [["--sampler", "repeat(n=4)"], ["--sampler", "uniform(rows=200)", "--subset", "fraction(0.6,seed=2)"]])
def test_ranks_train_on_the_same_rows(cache, tmp_path, flags):
    models = []
    for ranks in (1, 2):
        out = tmp_path / f"run-{ranks}"
        run(cache, *SMALL, *SAME, "--epochs", 1, *flags, "--mode", "ddp" if ranks > 1 else "single", "--nproc", ranks, "--out", out)
        models.append((out / "model.safetensors").read_bytes())
    assert models[0] == models[1]


def test_a_run_that_is_resumed_inside_of_an_epoch_has_the_same_samples(cache, tmp_path):
    flags = [*SMALL, "--epochs", 2, "--subset", "percent(0-50)", "--sampler", "uniform(rows=320)"]
    out, whole = tmp_path / "run", tmp_path / "whole"
    run(cache, *flags, "--out", whole)
    run(cache, *flags, "--save-every", "3 steps", "--keep", 9, "--out", out)
    (out / "checkpoint-last.safetensors").write_bytes((out / "checkpoint-step-3.safetensors").read_bytes())
    run(cache, "--resume", out)
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    (out / "checkpoint-last.safetensors").write_bytes((whole / "checkpoint-last.safetensors").read_bytes())
    run(cache, *flags, "--save-every", "3 steps", "--keep", 9, "--force", "--out", out)
    (out / "checkpoint-last.safetensors").write_bytes((out / "checkpoint-step-3.safetensors").read_bytes())
    done = run(cache, "--resume", out, "--subset", "percent(50-100)", code=2)
    assert "of an epoch with the selection of samples subset percent(0-50)" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("policy", ["mask", "substitute"])
def test_corrupt_samples_are_named_in_the_folder_of_the_run(cache, tmp_path, broken, policy):
    data, out = broken(50), tmp_path / "run"  # 2 of 400 samples
    run(cache, *FAST, "--data", data, "--on-corrupt", policy, "--out", out)
    lines = [json.loads(line) for line in (out / "quarantine.jsonl").read_text().splitlines()]
    assert len(lines) == 2 and {line["split"] for line in lines} == {"train"} and all("crc32c" in line["error"] for line in lines)
    assert summary(out)["accuracy"] > 0
    run(cache, *FAST, "--data", data, "--exclude-ids", out / "quarantine.jsonl", "--out", tmp_path / "without")


@pytest.mark.parametrize("policy", ["mask", "substitute"])
def test_pictures_that_stay_on_the_device_are_mended_as_the_loader_does(cache, tmp_path, broken, policy):
    flags = [*FAST, "--data", broken(50), "--on-corrupt", policy]
    run(cache, *flags, "--out", tmp_path / "loader")
    run(cache, *flags, "--resident", "--out", tmp_path / "resident")
    model = (tmp_path / "resident" / "model.safetensors").read_bytes()
    assert model == (tmp_path / "loader" / "model.safetensors").read_bytes()


def test_ranks_write_one_line_for_a_sample(cache, tmp_path, broken):
    out = tmp_path / "run"
    run(cache, *FAST, "--epochs", 4, "--data", broken(50), "--on-corrupt", "mask", "--mode", "ddp", "--nproc", 2, "--out", out)
    ids = [json.loads(line)["id"] for line in (out / "quarantine.jsonl").read_text().splitlines()]
    assert len(ids) == len(set(ids)) == 2


@pytest.mark.parametrize("ranks", [1, 2])
def test_too_many_corrupt_samples_end_all_ranks_with_one_line(cache, tmp_path, broken, ranks):
    data = broken(10)  # 10 of 400 samples
    mode = ["--mode", "ddp", "--nproc", ranks] if ranks > 1 else []
    done = run(cache, *SMALL, "--epochs", 20, "--data", data, "--on-corrupt", "mask", *mode, "--out", tmp_path / "run", code=4)
    line = r"train: epoch \d+, step \d+: \d+ of 1,\d+ rows are of corrupt samples, more than 1 %; expected fewer"
    assert re.search(line, done.stderr.splitlines()[-1]), done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_too_many_corrupt_samples_of_an_evaluation_end_the_run_as_well(cache, tmp_path, broken, ranks):
    data = broken(10, split="test", count=1200)  # 30 of 1,200 samples
    mode = ["--mode", "ddp", "--nproc", ranks] if ranks > 1 else []
    done = run(cache, *FAST, "--data", data, "--on-corrupt", "mask", *mode, "--out", tmp_path / "run", code=4)
    assert "train: evaluation: 30 of 1,200 rows are of corrupt samples, more than 1 %; expected fewer" in done.stderr.splitlines()[-1], done.stderr


def test_a_model_that_begins_from_pictures_leaves_out_corrupt_ones(cache, tmp_path, broken):
    run(cache, *FAST, "--data", broken(50), "--arch", "airbench(width=0.125)", "--on-corrupt", "mask", "--out", tmp_path / "run")
    assert summary(tmp_path / "run")["accuracy"] > 0


@pytest.mark.parametrize("flags, message", [
    (["--sampler", "weighted"], "sampler weighted: has no weights; expected field=NAME, file=FILE"),
    (["--sampler", "repeat(n=3)"], "sampler repeat: n is 3 with a batch size of 32; expected a batch size that is a multiple of n"),
    (["--subset", "classes(eleven)"], 'subset classes: unknown class "eleven"'),
    (["--sampler", "uniform", "--shuffle", "rank-local"], "--shuffle rank-local with --sampler uniform: a rank knows its own shards alone"),
    (["--on-corrupt", "skip"], '--on-corrupt: unknown on-corrupt "skip"'),
    (["--sampler", "mix(repeat=1)"], "sampler mix: 1 data set; expected 2 to 255"),
])
def test_what_is_wrong_is_one_line(cache, tmp_path, flags, message):
    done = run(cache, *FAST, *flags, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1 and not (tmp_path / "run").exists(), done.stderr


def test_data_sets_are_mixed(cache, tmp_path):
    done = run(cache, *FAST, "--also", "digits(count=80,size=16,seed=7)", "--sampler", "mix(proportion=3:1,rows=320)", "--out", tmp_path / "run")
    assert re.search(r"note: sampler mix\(proportion=3:1,rows=320\): 320 rows per epoch of 480 samples; 240 of \S+ \(400 samples\), "
                     r"80 of \S+ \(80 samples\)", done.stdout), done.stdout
    assert json.loads((tmp_path / "run" / "options.json").read_text())["also"] == ["digits(count=80,size=16,seed=7)"]
