"""Losses of fields: several labels and numbers as targets, in every kind of mode, and what evaluations say of them."""
import csv
import json

import numpy as np
import pytest
from PIL import Image

from train_tool import MUTANTS, SMALL, metrics, run, summary

CLASSES, COUNT = 4, 37  # of the source `scenes`: the last batch is short
FLAGS = ["--plugin", MUTANTS, "--data", "scenes()", "-a", "mlp(hidden=16)", "-b", 16, "-j", 1, "--threads", 1,
         "--device", "cpu", "--optimizer", "adam", "--lr", 0.01]
AGE, PLACE = "mse(target=age)", "l1(target=place)"
TAGS = f"bce(target=tags,classes={CLASSES})"


@pytest.fixture(scope="module", name="cache")
def shared_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def trained(cache, tmp_path, loss, *more, name="run"):
    run(cache, *FLAGS, "--loss", loss, "--epochs", 3, "--out", tmp_path / name, *more)
    return tmp_path / name


def evaluated(cache, out):
    printed = run(cache, "-e", "--out", out, "-j", 1, "--threads", 1, "--device", "cpu").stdout
    with open(out / "evaluation.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert sorted(int(row["id"]) for row in rows) == list(range(COUNT))
    return rows, json.loads((out / "evaluation.json").read_text()), printed


def numbers(rows, name):
    columns = [key for key in rows[0] if key.split(".")[0] == name]
    return np.array([[float(row[key]) for key in columns] for row in rows])


def average_precision(wanted, scores):
    """As scikit-learn's average_precision_score."""
    order = np.argsort(-scores, kind="stable")
    wanted, scores = wanted[order], scores[order]
    ends = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)
    found = np.cumsum(wanted)[ends]
    return np.sum(np.diff(np.insert(found, 0, 0)) * found / (ends + 1)) / wanted.sum()


def write_list(folder, name, rows):
    (folder / "0.png").write_bytes(b"") if folder.exists() else folder.mkdir()
    for number in range(4):
        Image.fromarray(np.full((8, 8), 40 * number, dtype=np.uint8)).save(folder / f"{number}.png")
    (folder / f"{name}.jsonl").write_text("".join(json.dumps({"path": f"{number}.png", "age": age}) + "\n" for number, age in enumerate(rows)))


@pytest.mark.parametrize("train, test, problem", [
    ([1, 2, 3, 4], [1, 2, 3, "?"], 'field "age": text U8 [n]; expected "age": number I64 []'),
    ([[1, 2]] * 4, [[1, 2, 3]] * 4, 'field "age": number I64 [3]; expected "age": number I64 [2]'),
    ([[1, 2]] * 4, [[1, 2], [1], [3, 4], [5, 6]], '--loss mse(target=age): field age is of kind number and of any length; expected')])
def test_a_target_that_is_something_else_in_the_test_split_is_refused(cache, tmp_path, train, test, problem):
    write_list(tmp_path / "lists", "train", train)
    write_list(tmp_path / "lists", "test", test)
    flags = ["--data", f"jsonl:{tmp_path}/lists", "--loss", "mse(target=age)", "-j", 0, "--threads", 1, "--device", "cpu", "-b", 4]
    said = run(cache, *flags, "--check", "--out", tmp_path / "run", code=2).stderr
    assert said.startswith(f"train: {cache}/penstock/jsonl-") and f"/test: {problem}" in said and said.count("\n") == 1, said
    assert not (tmp_path / "run").exists()


def test_numbers_are_learned_and_evaluated_by_their_errors(cache, tmp_path):
    out = trained(cache, tmp_path, AGE, "--epochs", 12)
    epochs = [one for one in metrics(out) if one["kind"] == "epoch"]
    assert all(one["accuracy"] is None and "test_accuracy" not in one for one in epochs)
    assert epochs[-1]["test_root_mean_squared_error"] < 0.7 * epochs[0]["test_root_mean_squared_error"]
    rows, result, printed = evaluated(cache, out)
    assert list(rows[0]) == ["id", "path", "loss", "target", "output"]
    targets = numbers(rows, "target")
    assert targets.std() > 0.3 and 0 < targets.min() and targets.max() < 4
    errors = numbers(rows, "output") - targets
    assert abs(result["mean_absolute_error"] - np.abs(errors).mean()) < 1e-6
    assert abs(result["root_mean_squared_error"] - np.sqrt((errors ** 2).mean())) < 1e-6
    assert abs(result["loss"] - (errors ** 2).mean()) < 1e-6 and result["samples"] == COUNT
    assert f"Root mean squared error over the {COUNT} test samples: {result['root_mean_squared_error']:.4g}, mean absolute" in printed
    assert summary(out)["accuracy"] is None and summary(out)["classes"] == []
    assert summary(out)["scores"]["mean_absolute_error"] == pytest.approx(result["mean_absolute_error"], rel=1e-9)


def test_several_labels_are_learned_and_evaluated_by_average_precision(cache, tmp_path):
    out = trained(cache, tmp_path, TAGS, "--epochs", 12)
    rows, result, printed = evaluated(cache, out)
    wanted, outputs = numbers(rows, "target"), numbers(rows, "output")
    assert set(wanted.flat) == {0, 1} and wanted.sum(1).min() == 0 < wanted.sum(1).max()
    expected = [average_precision(wanted[:, i], outputs[:, i]) for i in range(CLASSES)]
    assert np.allclose(result["scores_of_classes"], expected, atol=1e-9)
    assert result["mean_average_precision"] == pytest.approx(np.mean(expected), abs=1e-9)
    assert result["mean_average_precision"] > 0.9
    losses = np.logaddexp(0, np.where(wanted > 0, -outputs, outputs)).mean(1)
    assert np.allclose(numbers(rows, "loss")[:, 0], losses, atol=1e-5)
    assert f"  tags 2: {expected[2]:.4g}\n" in printed
    with open(out / "metrics.csv", newline="", encoding="utf-8") as file:
        epochs = list(csv.DictReader(file))
    assert len(epochs) == 12 and None not in epochs[-1]
    assert float(epochs[-1]["test_mean_average_precision"]) == pytest.approx(result["mean_average_precision"], rel=1e-6)


def write_coco(folder, split, count):
    (folder / split).mkdir(parents=True)
    (folder / "annotations").mkdir(exist_ok=True)
    colours = {3: (220, 40, 40), 17: (40, 220, 40), 90: (40, 40, 220)}  # ids as sparse as COCO's
    images, annotations = [], []
    for number in range(count):
        kinds = [kind for bit, kind in enumerate(colours) if number >> bit & 1]
        image = np.zeros((12, 12, 3), np.uint8)
        for place, kind in enumerate(kinds):
            image[:, 4 * place:4 * place + 4] = colours[kind]
            annotations.append({"id": len(annotations) + 1, "image_id": number, "category_id": kind, "area": 48, "iscrowd": 0,
                                "bbox": [4 * place, 0, 4, 12]})
        Image.fromarray(image).save(folder / split / f"{number}.png")
        images.append({"id": number, "file_name": f"{number}.png", "width": 12, "height": 12})
    categories = [{"id": 90, "name": "plum"}, {"id": 3, "name": "cherry"}, {"id": 17, "name": "pear"}]
    (folder / f"annotations/instances_{split}.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))


def test_the_categories_of_coco_are_classes_by_their_names(cache, tmp_path):
    write_coco(tmp_path / "in", "train2017", 32)
    write_coco(tmp_path / "in", "val2017", 16)
    flags = ["--data", f"coco(labels=index,masks=off):{tmp_path / 'in'}", "-a", "mlp(hidden=16)", "-b", 8, "-j", 1, "--threads", 1,
             "--device", "cpu", "--optimizer", "adam", "--lr", 0.01]
    done = run(cache, *flags, "--loss", "bce(target=labels)", "--epochs", 12, "--out", tmp_path / "run")
    assert [line.split(":")[0] for line in done.stdout.splitlines() if line.startswith("  labels ")] == [
        "  labels cherry", "  labels pear", "  labels plum"]
    assert summary(tmp_path / "run")["scores"]["mean_average_precision"] > 0.9
    sparse = [f"coco(masks=off):{tmp_path / 'in'}" if "coco" in str(word) else word for word in flags]
    done = run(cache, *sparse, "--loss", "bce(target=labels)", "--out", tmp_path / "none", code=2)
    assert "field labels has labels without names; expected classes=" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("loss, score", [(TAGS, "mean_average_precision"), (PLACE, "mean_absolute_error")])
def test_every_kind_of_mode_gets_the_targets(cache, tmp_path, loss, score):
    figures = []
    for mode, ranks in (("single", 1), ("ddp", 2), ("dp(devices=cpu:2)", 1), ("zero(stage=3)", 2), ("pipeline", 2),
                        ("pipeline(data=2)", 4)):
        more = [] if ranks == 1 else ["--nproc", ranks]
        out = trained(cache, tmp_path, loss, "--mode", mode, "--threads", 2 if "dp(" in mode else 1, *more, name=f"{mode}-{ranks}")
        last = [one for one in metrics(out) if one["kind"] == "epoch"][-1]
        figures.append([last["loss"], last["test_loss"], last["test_" + score]])
    assert np.allclose(figures, figures[0], rtol=1e-4), figures


def test_losses_of_the_class_need_no_target(cache, tmp_path):
    """And class weights: those that are balanced are 1 for digits, of which there are as many of each."""
    for loss in ("mse", "bce", "smooth-l1(beta=0.5)", "cross-entropy(weights=balanced)"):
        run(cache, *SMALL, "--epochs", 1, "--loss", loss, "--out", tmp_path / loss)
    run(cache, *SMALL, "--epochs", 1, "--out", tmp_path / "plain")
    assert summary(tmp_path / "mse")["accuracy"] is not None
    losses = [summary(tmp_path / name)["test_loss"] for name in ("plain", "cross-entropy(weights=balanced)")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("flags, message", [
    ([], "--loss cross-entropy with --data scenes(), whose samples have no class; expected a loss of a field, such as --loss "
         "'mse(target=age)'"),
    (["--loss", "mse"], "whose samples have no class"),
    (["--loss", "mse(target=ages)"], "--loss mse(target=ages): unknown field \"ages\"; did you mean \"age\"?"),
    (["--loss", "mse(target=tags)"], "field tags is of kind labels and of any length; expected numbers of a fixed shape"),
    (["--loss", "bce(target=tags)"], "field tags has labels without names; expected classes="),
    (["--loss", "bce(target=tags,classes=2)"], "expected 0 to 1"),
    (["--loss", AGE, "--label-smoothing", 0.1], "which does not smooth labels; expected 0, or --loss cross-entropy or bce"),
    (["--loss", AGE, "--augment", "mixup"], "which mixes classes and no fields"),
    (["--loss", AGE, "--resident"], "--resident, whose batches have no fields"),
    (["--loss", "cross-entropy(weights=1:2)", "--data", "digits(count=40)"], "2 weights; expected 10, one for each class")])
def test_what_cannot_be_trained_is_refused_in_one_line(cache, tmp_path, flags, message):
    done = run(cache, *FLAGS, "--epochs", 1, "--out", tmp_path / "run", *flags,
               code=4 if "classes=2" in str(flags) else 2)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
