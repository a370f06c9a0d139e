"""train -e: evaluation.csv has one line per sample, and evaluation.json has the sums of these lines per class."""
import collections
import contextlib
import csv
import fcntl
import json
import os
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

from train_tool import FAST, SMALL, TRAIN, run, summary

CLASSES = ["a, \"b\"", "plain", "ünï"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def trained(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(cache, *FAST, "--out", out)
    return out


def results(out):
    with open(out / "evaluation.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return rows, json.loads((out / "evaluation.json").read_text())


def check_classes(rows, result, names):
    """The counts of the classes in evaluation.json are the sums of the lines of evaluation.csv."""
    assert [one["name"] for one in result["classes"]] == names
    for one in result["classes"]:
        mine = [row for row in rows if row["label"] == one["name"]]
        assert one["samples"] == len(mine)
        assert one["confusion"] == dict(collections.Counter(row["prediction"] for row in mine))
        assert one["top1"] == np.mean([row["label"] == row["prediction"] for row in mine])
        assert one["top5"] == np.mean([row["top5"] == "1" for row in mine])
    assert result["samples"] == len(rows)
    assert result["top5"] == np.mean([row["top5"] == "1" for row in rows])
    assert abs(result["loss"] - np.mean([float(row["loss"]) for row in rows])) < 1e-5


def test_every_sample_has_a_line_and_every_class_its_counts(cache, trained):
    printed = run(cache, "-e", "--out", trained, "-j", 1, "--threads", 1, "--device", "cpu").stdout
    rows, result = results(trained)
    assert sorted(int(row["id"]) for row in rows) == list(range(400))
    check_classes(rows, result, [str(digit) for digit in range(10)])
    assert result["top1"] == summary(trained)["accuracy"] and f"{100 * result['top1']:.2f} %" in printed
    assert result["top1"] <= result["top5"] < 1
    assert result["weights"] == str(trained / "model.safetensors") and result["arch"] == "lenet"


def test_the_split_that_is_typed_is_evaluated(cache, trained, tmp_path):
    """Pictures are normalised by the statistics of the run's own split, whichever is evaluated."""
    flags = ["-e", "--out", trained, "-j", 1, "--threads", 1, "--device", "cpu"]
    run(cache, *flags)
    _, untold = results(trained)
    run(cache, *flags, "--split", "test")
    assert results(trained)[1] == untold and untold["split"] == "test"
    printed = run(cache, *flags, "--split", "train").stdout
    _, result = results(trained)
    assert result["split"] == "train" and result["samples"] == 400 and result["loss"] != untold["loss"]
    assert ": 400 train samples of 1 x 16 x 16" in printed
    assert f"Accuracy over the 400 train samples: {100 * result['top1']:.2f} %" in printed
    run(cache, *flags, "--split", "test")
    said = run(cache, *FAST, "-e", "--pretrained", trained / "model.safetensors", "--split", "tset", "--out", tmp_path / "no", code=2)
    assert 'train: --split: unknown split "tset"; did you mean "test"?' in said.stderr


def test_ranks_write_the_same_lines_and_padding_none(cache, trained, tmp_path):
    run(cache, *FAST, "-e", "--pretrained", trained / "model.safetensors", "--out", tmp_path / "one")
    # 400 samples in batches of 3 x 256 rows: the last rank has only padding rows.
    run(cache, *FAST, "-e", "--pretrained", trained / "model.safetensors", "--mode", "ddp", "--nproc", 3, "--out",
        tmp_path / "three")
    (one, json_of_one), (three, json_of_three) = results(tmp_path / "one"), results(tmp_path / "three")
    for row, other in zip(one, three, strict=True):
        assert float(row.pop("loss")) == pytest.approx(float(other.pop("loss")), rel=1e-4, abs=1e-6)
        assert row == other
    assert json_of_one["classes"] == json_of_three["classes"]


def test_paths_and_names_come_back_whatever_they_hold(cache, tmp_path):
    for split in ("train", "test"):
        for level, name in enumerate(CLASSES):
            (tmp_path / "data" / split / name).mkdir(parents=True)
            for i in range(3):
                Image.fromarray(np.full((16, 16), 100 * level, np.uint8)).save(tmp_path / "data" / split / name / f"{i}.png")
    flags = ["--data", f"image-folder:{tmp_path}/data", *SMALL[2:]]
    run(cache, *flags, "--epochs", 1, "--out", tmp_path / "run")
    run(cache, *flags, "-e", "--resume", tmp_path / "run")
    rows, result = results(tmp_path / "run")
    check_classes(rows, result, CLASSES)
    assert [row["path"] for row in rows] == [f"test/{name}/{i}.png" for name in CLASSES for i in range(3)]
    assert result["top5"] == 1  # there are only three classes
    assert summary(tmp_path / "run")["classes"] == CLASSES


def write_classes(folder, names):
    """Four grey pictures per class."""
    for name in names:
        (folder / name).mkdir(parents=True)
        for i in range(4):
            Image.fromarray(np.full((16, 16), 60 * i, np.uint8)).save(folder / name / f"{i}.png")


def test_a_test_split_that_lacks_a_class_has_the_labels_of_training(cache, tmp_path):
    photos, packed = tmp_path / "photos (2019)", tmp_path / "packed (1):"
    write_classes(photos / "train", "abc")
    write_classes(photos / "val", "ac")
    flags = [*SMALL[2:], "-b", 12]
    done = run(cache, *flags, "--data", f"image-folder:{photos}", "--epochs", 1, "--out", tmp_path / "run").stdout
    accuracies = summary(tmp_path / "run")["per_class_accuracy"]
    assert [accuracy is None for accuracy in accuracies] == [False, True, False] and "class b: no samples" in done
    subprocess.run([TRAIN.with_name("shardprep"), "pack", "--source", "image-folder", "--input", photos, "--split", "train,val",
                    "--out", packed, "--quiet"], check=True)
    run(cache, *flags, "--data", packed, "-e", "--pretrained", tmp_path / "run/model.safetensors", "--out", tmp_path / "other")
    rows, result = results(tmp_path / "other")
    assert [row["path"] for row in rows] == [f"val/{row['label']}/{i % 4}.png" for i, row in enumerate(rows)]
    assert [(one["name"], one["samples"]) for one in result["classes"]] == [("a", 4), ("b", 0), ("c", 4)]
    assert f"--data {photos}: not a packed data set, but files of a source; expected --data image-folder:{photos}\n" in run(
        cache, *flags, "--data", photos, code=2).stderr
    shutil.rmtree(photos / "train/b")  # the labels of val change, though none of its files does
    run(cache, *flags, "--data", f"image-folder:{photos}", "--epochs", 1, "--out", tmp_path / "two")
    assert summary(tmp_path / "two")["classes"] == ["a", "c"]
    shutil.rmtree(photos / "train/a")
    assert run(cache, *flags, "--data", f"image-folder:{photos}", code=3).stderr == (
        f"train: {photos}/val/a: a class that {photos}/train lacks; expected pictures of it there too, or no such folder\n")


def test_paths_need_not_be_utf8(cache, tmp_path):
    out, cafe = tmp_path / os.fsdecode(b"caf\xe9"), "caf\ufffd"
    run(cache, *FAST, "--out", out, errors="replace")
    assert json.loads((out / "options.json").read_text())["out"] == {"percent-encoded": f"{tmp_path}/caf%E9"}
    run(cache, *FAST, "--workers", 2, "--out", tmp_path / "second", errors="replace")  # predicted by the first
    assert summary(tmp_path / "second")["prediction"]["summary"] == str(tmp_path / cafe / "summary.json")
    run(cache, "-e", "--resume", out, errors="replace")
    assert results(out)[1]["weights"] == str(tmp_path / cafe / "checkpoint-last.safetensors")


def test_pictures_are_evaluated_as_a_decode_at_full_size_shows_them(cache, tmp_path):
    """Noise of single pixels, which a decode at half of the size shows otherwise."""
    draw = np.random.default_rng(0)
    for split in ("train", "test"):
        for name in ("a", "b"):
            (tmp_path / "data" / split / name).mkdir(parents=True)
            for i in range(4):
                picture = Image.fromarray(255 * draw.integers(0, 2, (40, 40), dtype=np.uint8))
                picture.save(tmp_path / "data" / split / name / f"{i}.jpg", quality=95)
    flags = ["--data", f"image-folder:{tmp_path}/data", *SMALL[2:], "--augment", "resize(height=16,width=16)"]
    run(cache, *flags, "--epochs", 1, "--out", tmp_path / "auto")
    after_training = summary(tmp_path / "auto")["test_loss"]
    losses = {}
    for scale in ("as trained", "auto", "off", "always"):
        run(cache, "-e", "--resume", tmp_path / "auto", "--out", tmp_path / scale,
            *(() if scale == "as trained" else ("--dct-scale", scale)))
        losses[scale] = [row["loss"] for row in results(tmp_path / scale)[0]]
    assert losses["as trained"] == losses["auto"] == losses["off"] != losses["always"]
    assert after_training == pytest.approx(np.mean([float(loss) for loss in losses["off"]]), rel=1e-6)
    run(cache, *flags, "--epochs", 1, "--out", tmp_path / "trained off", "--dct-scale", "off")
    run(cache, *flags, "--epochs", 1, "--out", tmp_path / "trained always", "--dct-scale", "always")
    weights = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("auto", "trained off", "trained always")}
    assert weights["auto"] == weights["trained always"] != weights["trained off"]


def test_an_evaluation_stands_beside_its_weights_or_in_a_folder_of_its_own(cache, trained, tmp_path):
    weights = tmp_path / "weights"
    weights.mkdir()
    (weights / "lenet.safetensors").write_bytes((trained / "model.safetensors").read_bytes())
    printed = run(cache, *FAST, "-e", "--pretrained", weights / "lenet.safetensors", cwd=tmp_path).stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"; out runs/{folder.name}\n" in printed
    assert {path.name for path in folder.iterdir()} == {"evaluation.csv", "evaluation.json"}
    assert {path.name for path in weights.iterdir()} == {"lenet.safetensors"}
    again = [*FAST, "-e", "--pretrained", weights / "lenet.safetensors", "--out"]
    run(cache, *again, folder)
    run(cache, *again, weights)
    assert (weights / "evaluation.csv").read_bytes() == (folder / "evaluation.csv").read_bytes()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/evaluation.csv").write_text("somebody's")
    (tmp_path / "other/notes.txt").write_text("somebody's")
    assert "holds files, but no options.json" in run(cache, *again, tmp_path / "other", code=2).stderr
    assert (tmp_path / "other/evaluation.csv").read_text() == "somebody's"


@contextlib.contextmanager
def locked(folder):
    """As a run or an evaluation holds its folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield
    os.close(descriptor)


def test_two_evaluations_do_not_share_a_folder(cache, trained, tmp_path):
    out = tmp_path / "evaluated"
    flags = [*FAST, "-e", "--pretrained", trained / "model.safetensors", "--out", out]
    out.mkdir()
    with locked(out):
        refused = run(cache, *flags, code=2).stderr
        assert refused.startswith(f"train: --out {out}: another run is writing into it; expected") and not list(out.iterdir())
        ranks = run(cache, *flags, "--mode", "ddp", "--nproc", 2, code=2).stderr.splitlines()
        assert ranks[-1].startswith(f"[rank 0] train: --out {out}: another run is writing into it"), ranks
    run(cache, *flags)
    assert (out / "evaluation.csv").exists()


def test_a_new_run_leaves_no_evaluation_of_the_one_before(cache, tmp_path):
    run(cache, *FAST, "--out", tmp_path / "run")
    run(cache, "-e", "--out", tmp_path / "run")
    assert (tmp_path / "run/evaluation.csv").exists()
    run(cache, *FAST, "--force", "--out", tmp_path / "run")
    assert not list((tmp_path / "run").glob("evaluation.*"))


def test_the_summary_names_classes_seed_and_schedule(cache, trained):
    result = summary(trained)
    assert result["classes"] == [str(digit) for digit in range(10)]
    assert (result["seed"], result["schedule"], result["learning_rate"]) == (0, "cosine", 0.05)
