"""train as a user runs it: what it prints and writes, and that its result does not depend on how it was fed."""
import csv
import json
import os
import pty
import re
import subprocess

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import train_tool
from train_tool import FAST, SMALL, TRAIN, environment, metrics, run, start, summary


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def finished(cache, tmp_path_factory):
    """One run that many tests look at. Returns its folder and what it printed."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, run(cache, *FAST, "--print-freq", 5, "--out", out).stdout


def test_a_pipe_gets_one_line_an_epoch_and_the_accuracies(finished):
    _, printed = finished
    number = r"\d+\.\d"
    for epoch in (1, 2):
        line = rf"^Epoch \[{epoch}/2\], Loss: \d+\.\d{{4}}, Dur: {number} s, load {number} ms, update {number} ms$"
        assert re.search(line, printed, re.MULTILINE), printed
    assert re.search(rf"^Total training time: {number} s$", printed, re.MULTILINE)
    assert re.search(r"^Accuracy over the 400 test samples: \d+\.\d\d %$", printed, re.MULTILINE)
    assert len(re.findall(r"^  class \d: \d+\.\d\d %$", printed, re.MULTILINE)) == 10
    assert "\r" not in printed


def test_the_summary_says_what_was_reached(finished):
    out, printed = finished
    result = summary(out)
    for key in ("accuracy", "per_class_accuracy", "train_seconds", "epoch_seconds", "load_ms_per_step",
                "update_ms_per_step", "images_per_second", "world_size", "workers", "peak_memory_bytes"):
        assert key in result, key
    assert f"{100 * result['accuracy']:.2f} %" in printed
    assert len(result["per_class_accuracy"]) == 10 and len(result["epoch_seconds"]) == 2
    assert result["test_samples"] == 400 and result["world_size"] == 1 and result["workers"] == 1
    # Each class has 40 test samples, so the mean over the classes is the accuracy.
    assert abs(np.mean(result["per_class_accuracy"]) - result["accuracy"]) < 1e-12
    assert 10e6 < result["peak_memory_bytes"] < 4e9


def test_metrics_have_a_line_an_epoch_and_one_every_print_freq_steps(finished):
    out, _ = finished
    lines = metrics(out)
    assert [line["step"] for line in lines if line["kind"] == "step"] == [5, 10, 15, 20, 25]
    epochs = [line for line in lines if line["kind"] == "epoch"]
    assert [line["step"] for line in epochs] == [13, 26]
    assert epochs[1]["loss"] < epochs[0]["loss"]
    assert all(abs(sum(line["phase_ms"].values()) - line["load_ms"] - line["update_ms"]) < 1e-6 for line in lines)
    with open(out / "metrics.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["step"]) for row in rows] == [13, 26]
    assert abs(float(rows[1]["loss"]) - epochs[1]["loss"]) < 1e-6


def test_tensorboard_reads_the_events(finished):
    out, _ = finished
    events = EventAccumulator(str(out))
    events.Reload()
    assert "epoch/test_accuracy" in events.Tags()["scalars"]
    losses = events.Scalars("epoch/loss")
    expected = [line for line in metrics(out) if line["kind"] == "epoch"]
    assert [event.step for event in losses] == [13, 26]
    for event, line in zip(losses, expected):
        assert abs(event.value - line["loss"]) < 1e-6 and event.wall_time > 1.6e9
    assert len(events.Scalars("step/phase_ms/backward")) == 5


def test_weights_carry_plain_names(finished):
    out, _ = finished
    weights = load_file(out / "model.safetensors")
    assert weights["conv1.weight"].shape == (6, 1, 5, 5)
    assert all(name.split(".")[0] in ("conv1", "conv2", "fc1", "fc2", "fc3") for name in weights)


def test_nothing_but_the_runs_files_is_left(finished):
    out, _ = finished
    names = {path.name for path in out.iterdir() if not path.name.startswith("events.out.tfevents.")}
    assert names == {"options.json", "metrics.jsonl", "metrics.csv", "summary.json", "model.safetensors",
                     "checkpoint-last.safetensors", "checkpoint-best.safetensors"}


@pytest.mark.parametrize("changed", [
    ["-j", "0"], ["-j", "3", "--prefetch", "1"], ["--resident"], ["--resident", "--graph"], ["--save-every", "7", "steps"], ["--print-freq", "1"],
    ["--eval-at-end"]], ids=" ".join)
def test_weights_do_not_depend_on_how_the_model_is_fed(finished, cache, tmp_path, changed):
    out, _ = finished
    run(cache, *FAST, *changed, "--out", tmp_path / "run")
    assert (tmp_path / "run/model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize("flags,why", [
    (["--resident"], "the CPU has none"),
    ([], "its batches are not made by the same operations in every step; expected --resident with raw pictures"),
    (["--resident", "--mode", "ddp"], "this mode's cannot be captured; expected --mode single"),
    (["--exact"], "--exact computes the shards of a batch one by one; expected no --exact"),
    (["--resident", "--emulate-step", "1us"], "an emulated step computes nothing")], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_step_that_is_no_graph_is_told_in_one_line(cache, tmp_path, flags, why):
    told = run(cache, *FAST, "--epochs", 1, "--graph", *flags, "--out", tmp_path / "run").stdout
    lines = [line for line in told.splitlines() if line.startswith("--graph: ")]
    assert lines == [f"--graph: the steps run without a graph, because {why}"]
    assert summary(tmp_path / "run")["graph"] is False


def test_evaluate_alone_finds_the_same_accuracy(finished, cache):
    out, printed = finished
    expected = printed[printed.index("Accuracy over"):re.search(r"^[a-z]+-bound: ", printed, re.MULTILINE).start()]
    for flags in (["--out", out], ["--pretrained", out / "model.safetensors"],
                  ["--resume", out / "checkpoint-last.safetensors"], ["--out", out, "--mode", "ddp", "--nproc", 3]):
        told = run(cache, *FAST, "-e", *flags).stdout
        assert expected in told and told.splitlines()[-1].startswith("written: "), flags


def test_ddp_is_one_flag_and_counts_every_sample_once(cache, tmp_path):
    printed = run(cache, "--workers", 4, "--mode", "ddp", "--data", train_tool.DATA, "--epochs", 2, "--device", "cpu",
                  "--shuffle", "rank-local", "--out", tmp_path / "run").stdout
    assert "2 ranks started by penstock (gloo and shared memory) on cpu" in printed
    parts = re.findall(r"^rank (\d): (\d+) samples, (\d+) steps per epoch$", printed, re.MULTILINE)
    assert [part[0] for part in parts] == ["0", "1"]
    assert sum(int(part[1]) for part in parts) == 400 and parts[0][2] == parts[1][2]
    result = summary(tmp_path / "run")
    assert result["world_size"] == 2 and result["workers"] == 4 and result["test_samples"] == 400


def test_ddp_of_two_ranks_learns_what_one_does(finished, cache, tmp_path):
    run(cache, *FAST, "--mode", "ddp", "--nproc", 2, "--out", tmp_path / "run")
    one, two = (load_file(out / "model.safetensors") for out in (finished[0], tmp_path / "run"))
    # In 26 steps in f32, sums are rounded differently, and the difference grows.
    for name, weights in one.items():
        assert np.abs(weights - two[name]).max() < 0.02 * np.abs(weights).max(), name


@pytest.mark.parametrize("mix", ["mixup(alpha=1)", "cutmix"])
def test_mixed_batches_are_the_same_however_they_are_fed(finished, cache, tmp_path, mix):
    weights = []
    for i, changed in enumerate(([], ["-j", "3"], ["--mode", "ddp", "--nproc", 2])):
        run(cache, *FAST, "--augment", f"shift(pad=1),{mix}", *changed, "--out", tmp_path / str(i))
        weights.append(load_file(tmp_path / str(i) / "model.safetensors"))
    for name, one in weights[0].items():
        assert np.array_equal(one, weights[1][name]), name
        assert np.abs(one - weights[2][name]).max() < 0.02 * np.abs(one).max(), name
    unmixed = load_file(finished[0] / "model.safetensors")
    assert any(not np.array_equal(unmixed[name], one) for name, one in weights[0].items())
    options = json.loads((tmp_path / "0/options.json").read_text())
    assert (options["decode"], options["dct-scale"]) == ("auto", "auto")


def test_a_folder_of_pictures_without_a_test_split_is_evaluated_on_nothing(cache, tmp_path):
    random = np.random.default_rng(1)
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for i in range(8):
            picture = Image.fromarray(random.integers(0, 255, (20, 24, 3), dtype=np.uint8))
            picture.save(tmp_path / "pictures" / name / f"{i}.png")
    picture.save(tmp_path / "pictures/beside.png")
    flags = ["--data", f"image-folder:{tmp_path / 'pictures'}", "--epochs", "1", "-b", "4", "--device", "cpu"]
    first = run(cache, *flags, "--out", tmp_path / "run").stdout
    assert re.search("packed 16 train samples .*, 1 file ignored .no pictures, or outside of class folders", first)
    assert len(re.findall("no test split.*nothing is evaluated", first)) == 1
    assert summary(tmp_path / "run")["accuracy"] is None
    flags[1] = f"image-folder:{os.path.relpath(tmp_path / 'pictures')}"
    assert "packed" not in run(cache, *flags, "--force", "--out", tmp_path / "run").stdout
    assert "packed 16 train samples" in run(cache, *flags, "--repack", "--check").stdout


def test_pictures_that_change_places_are_packed_again_though_sizes_and_times_stay(cache, tmp_path):
    for name, level in (("cat", 10), ("dog", 200)):
        (tmp_path / "in" / name).mkdir(parents=True)
        path = tmp_path / "in" / name / "0.png"
        Image.fromarray(np.full((16, 16, 3), level, dtype=np.uint8)).save(path, compress_level=0)
        os.utime(path, (1e9, 1e9))
    flags = ["--data", f"image-folder:{tmp_path / 'in'}", "-b", 2, "--device", "cpu", "--check"]
    assert "packed 2 train samples" in run(cache, *flags).stdout and "packed" not in run(cache, *flags).stdout
    for one, other in (("cat", "aside"), ("dog", "cat"), ("aside", "dog")):
        (tmp_path / "in" / one).rename(tmp_path / "in" / other)
    assert "packed 2 train samples" in run(cache, *flags).stdout


def test_runs_that_start_in_one_second_have_folders_of_their_own(cache, tmp_path):
    flags = [*SMALL, "--epochs", 0]
    runs = [start(cache, *flags, cwd=tmp_path) for _ in range(3)]
    printed = [process.communicate(timeout=120) for process in runs]
    assert [process.returncode for process in runs] == [0, 0, 0], printed
    assert len(list(tmp_path.glob("runs/lenet-single-*/model.safetensors"))) == 3


def test_splits_of_other_channels_are_named(cache, tmp_path):
    for split, shape in (("train", (16, 16, 3)), ("val", (16, 16))):
        for name in "ab":
            (tmp_path / "in" / split / name).mkdir(parents=True)
            Image.fromarray(np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)).save(tmp_path / "in" / split / name / "0.png")
    said = run(cache, "--data", f"image-folder:{tmp_path / 'in'}", "-b", 2, "--device", "cpu", "--check", code=2).stderr
    assert re.fullmatch(r"train: \S+/test: pictures have 1 channel; expected 3, as in \S+/train: with rgb first in --augment, grey ones "
                        r"have 3\n", said), said
    run(cache, "--data", f"image-folder:{tmp_path / 'in'}", "-b", 2, "--device", "cpu", "--augment", "rgb", "--epochs", 1, cwd=tmp_path)


def test_grey_pictures_train_weights_of_rgb(cache, tmp_path):
    flags = ["--arch", "resnet18", "-b", 8, "--device", "cpu", "--epochs", 0, "-j", 0]
    run(cache, "--data", "digits(count=16,size=32)", *flags, "--augment", "rgb,resize(height=32,width=32)", "--out", tmp_path / "a")
    weights = tmp_path / "a" / "model.safetensors"
    refused = run(cache, "--data", "digits(count=16,size=32)", *flags, "--pretrained", weights, "--out", tmp_path / "b", code=4).stderr
    assert "conv1.weight is 64 x 3 x 7 x 7, the model's is 64 x 1 x 7 x 7" in refused and "with rgb first in --augment" in refused
    run(cache, "--data", "digits(count=16,size=32)", *flags, "--augment", "rgb", "--pretrained", weights, "--out", tmp_path / "b")


def test_closed_descriptors_are_nothing_to_write_into(cache, tmp_path):
    def close_all():
        for descriptor in range(3):
            os.close(descriptor)

    for out in ("first", "second"):  # the first run packs the data and opens more files
        subprocess.run([TRAIN, *FAST, "--out", tmp_path / out], preexec_fn=close_all, env=environment(cache), check=True)
        lines = (tmp_path / out / "metrics.jsonl").read_text().splitlines()
        assert lines and all(isinstance(json.loads(line), dict) for line in lines)


def test_runs_that_start_together_pack_once(tmp_path):
    processes = [start(tmp_path / "cache", *FAST, "--out", tmp_path / f"run{i}") for i in range(3)]
    printed = [process.communicate(timeout=200)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sum(text.count("packed 400 train samples") for text in printed) == 1


def test_a_terminal_gets_a_progress_bar(cache, tmp_path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen([TRAIN, *SMALL, "--epochs", "4", "--out", tmp_path / "run"], stdout=theirs,
                               stderr=theirs, env=environment(cache))
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # on Linux, reading fails when the other side has closed
        pass
    assert process.wait(60) == 0
    text = shown.decode()
    assert re.search(r"\r\[[#.]{20}\] \d/4 \d+/13  loss \d\.\d{4}  \d+ images/s  load \d+ %  \d+:\d\d left", text), text
    assert text.count("Epoch [") == 4


def test_an_earlier_run_is_replaced_only_if_asked(cache, tmp_path):
    out = tmp_path / "run"
    run(cache, *FAST, "--out", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    for flags in [], ["--check"], ["--mode", "ddp", "--nproc", 2]:
        said = run(cache, *SMALL, "--epochs", 1, *flags, "--out", out, code=2).stderr
        assert re.fullmatch(rf"train: --out {out}: holds (checkpoint-(best|last)|model)\.safetensors of an earlier run; expected "
                            "--resume auto to go on with that run, --force to remove it, or another folder\n", said), said
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    for name in ("model.safetensors", "checkpoint-last.safetensors", "checkpoint-best.safetensors"):
        (out / name).unlink()  # as of a run that was killed before its first checkpoint
    run(cache, *SMALL, "--epochs", 1, "--out", out)
    run(cache, *SMALL, "--epochs", 1, "--force", "--out", out)
    assert [line["epoch"] for line in metrics(out) if line["kind"] == "epoch"] == [1]
    assert len(list(out.glob("events.out.tfevents.*"))) == 1


def test_a_run_that_diverges_says_so_and_leaves_the_last_good_checkpoint(cache, tmp_path):
    out = tmp_path / "run"
    run(cache, *SMALL, "--epochs", 1, "--out", out)
    last = out / "checkpoint-last.safetensors"
    before = last.read_bytes()
    for flags, what in ((["--lr", "1e9"], "the loss has become nan"),
                        # There is only one step, and its loss is that of the weights before it.
                        (["--lr", "1e300", "-b", 400], "model.conv1.weight holds nan or infinity")):
        said = run(cache, *SMALL, "--epochs", 2, *flags, "--resume", last, code=2).stderr
        assert said.count("\n") == 1 and re.match(r"train: epoch 2, step \d+: ", said), said
        assert what in said and f"try a lower --lr than {float(flags[1]):g} " in said, said
        assert last.read_bytes() == before and not list(out.glob("*.partial"))


def test_resident_raw_pictures_of_several_sizes_train_to_the_same_weights(cache, tmp_path):
    random = np.random.default_rng(3)
    for number in range(24):
        folder = tmp_path / f"in/train/{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        shape = (20 + number, 44 - number, 3)
        Image.fromarray(random.integers(0, 256, shape, dtype=np.uint8)).save(folder / f"{number}.png")
    subprocess.run([TRAIN.parent / "shardprep", "pack", "--source", "image-folder", "--input", tmp_path / "in", "--split", "train",
                    "--encode", "raw", "--out", tmp_path / "data", "--quiet"], check=True)
    flags = [*SMALL, "--data", tmp_path / "data", "--epochs", 2, "-b", 8, "--augment", "random-resized-crop(size=16),color-jitter(brightness=0.3)"]
    run(cache, *flags, "--out", tmp_path / "host")
    run(cache, *flags, "--resident", "--out", tmp_path / "resident")
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("host", "resident")]
    assert weights[0] == weights[1]


def test_resident_photographs_train_to_the_same_weights_in_half_precision(cache, tmp_path):
    rng = np.random.default_rng(0)
    for number in range(24):
        folder = tmp_path / "photos" / "train" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8))
        coarse.resize((64 + number, 48)).save(folder / f"{number}.jpg")
    flags = ["--data", f"image-folder:{tmp_path / 'photos'}", "--arch", "lenet", "--epochs", 2, "-b", 8, "--device", "cpu", "--threads", 1,
             "--augment", "random-resized-crop(size=32),flip,normalize", "--precision", "bf16"]
    run(cache, *flags, "-j", 1, "--out", tmp_path / "host")
    run(cache, *flags, "-j", 1, "--resident", "--out", tmp_path / "resident")
    weights = [(tmp_path / out / "model.safetensors").read_bytes() for out in ("host", "resident")]
    assert weights[0] == weights[1]


def test_a_check_opens_everything_and_trains_and_writes_nothing(cache, tmp_path):
    out = tmp_path / "run"
    for flags in [], ["--mode", "ddp", "--nproc", 2], ["--mode", "ddp", "--nproc", 2, "--hosting", "threads"]:
        lines = run(cache, *FAST, *flags, "--check", "--out", out).stdout.splitlines()
        ranks = "2 ranks" if "--nproc" in flags else "1 rank"
        assert lines[-3].startswith("data digits") and f", {ranks} on cpu" in lines[-2] and lines[-1] == "checked", lines
        assert not out.exists()
    refused = run(cache, *FAST, "--check", "--mode", "mp", "--nproc", 9, "--arch", "lenet", "--out", out, code=2)
    assert refused.stderr.startswith("train: --mode mp: 9 stages of a model of "), refused.stderr
    run(cache, *FAST, "--check", "--resume", tmp_path / "none.safetensors", "--out", out, code=3)
    (tmp_path / "mine").write_text("a file")
    run(cache, *FAST, "--check", "--out", tmp_path / "mine", code=2)
