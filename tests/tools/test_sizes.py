"""train --size-schedule: pictures of other sizes in later epochs, in every mode that has the whole model, and after a resume."""
import csv
import json

import pytest

from train_tool import SMALL, run, summary

ANY_SIZE = ["--arch", "bag-of-tricks-resnet(width=0.1,whiten=false)"]
LIST = "random-resized-crop(size=16),flip"
RUN = [*SMALL, *ANY_SIZE, "--augment", LIST, "--epochs", "4", "--size-schedule", "0:8,1:12,3:16"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def straight(cache, tmp_path_factory):
    """A run whose checkpoints are all kept. An epoch has 13 steps."""
    out = tmp_path_factory.mktemp("runs") / "straight"
    done = run(cache, *RUN, "--save-every", "5 steps", "--keep", "20", "--out", out)
    return out, done.stdout


def bits(out):
    return (out / "model.safetensors").read_bytes()


def test_the_sizes_are_said_where_they_change(straight):
    out, printed = straight
    said = [line for line in printed.splitlines() if "--size-schedule" in line]
    assert said == [f"epoch {epoch}: pictures of size {size} (--size-schedule)" for epoch, size in ((1, 8), (2, 12), (4, 16))]
    assert json.loads((out / "options.json").read_text())["size-schedule"] == "0:8,1:12,3:16"
    assert "of 1 x 16 x 16" in printed  # what evaluations and the model's shape have


@pytest.mark.parametrize("step, said", [(20, "epoch 2: pictures of size 12"), (45, "epoch 4: pictures of size 16")])
def test_a_resume_in_the_middle_of_an_epoch_has_its_size(cache, straight, tmp_path, step, said):
    out, _ = straight
    done = run(cache, "--resume", out / f"checkpoint-step-{step}.safetensors", "--out", tmp_path / "run")  # flags are taken over
    assert said in done.stdout
    assert bits(tmp_path / "run") == bits(out)


def test_another_schedule_trains_another_model(cache, straight, tmp_path):
    run(cache, *RUN, "--size-schedule", "0:8,1:12", "--out", tmp_path / "run")
    assert bits(tmp_path / "run") != bits(straight[0])
    run(cache, *RUN, "--size-schedule", "0:16", "--out", tmp_path / "one")
    run(cache, *RUN, "--size-schedule", "", "--out", tmp_path / "none")
    assert bits(tmp_path / "one") == bits(tmp_path / "none")


@pytest.mark.parametrize("flags", [["--mode", "ddp", "--nproc", 2], ["--mode", "zero(stage=2)", "--nproc", 2, "--hosting", "threads"],
                                   ["--mode", "dp(devices=cpu:2)", "--threads", 2], ["-j", "3", "--prefetch", "1"]])
def test_every_mode_with_whole_models_trains_the_same_bits(cache, exact, tmp_path, flags):
    run(cache, *RUN, "--exact", 4, "--epochs", 2, *flags, "--out", tmp_path / "run")
    assert bits(tmp_path / "run") == bits(exact)


@pytest.fixture(scope="module")
def exact(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "exact"
    run(cache, *RUN, "--exact", 4, "--epochs", 2, "--out", out)
    return out


def test_evaluations_keep_their_size(cache, exact):
    """The last epoch is trained on pictures of 12 x 12; `-e` is pass 0, whose training has 8 x 8."""
    run(cache, "-e", "--out", exact)
    evaluation = json.loads((exact / "evaluation.json").read_text())
    assert "center-crop(size=16)" in evaluation["augment"]
    with open(exact / "metrics.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 and evaluation["loss"] == pytest.approx(float(rows[1]["test_loss"]), rel=1e-5)
    assert float(rows[1]["test_accuracy"]) == summary(exact)["accuracy"]


@pytest.mark.parametrize("flags, message", [
    (["--size-schedule", "6:160,0:128"], '--size-schedule is "6:160,0:128": it begins with epoch 6; expected EPOCH:SIZE,...'),
    (["--size-schedule", "0:8,0:9"], "epoch 0 comes after epoch 0"),
    (["--size-schedule", "0:0"], "size is 0, not 1 to 65535"),
    (["--size-schedule", "0:-8"], "size is -8, not 1 to 65535"),
    (["--size-schedule", "small"], '"small" is not EPOCH:SIZE'),
    (["--augment", "flip"], 'size schedule: the transforms "flip,normalize" set no size; expected one of center-crop, crop,'),
    (["--arch", "lenet"], "arch lenet: pictures are 8 x 8; expected at least 12 x 12"),
    (["--size-schedule", "0:12,1:16", "--arch", "lenet"], "with --arch lenet, whose weights for pictures of 12 x 12 are others than for "
     "16 x 16; expected a model that takes any size, such as resnet18"),
    (["--size-schedule", "0:12,1:16", "--arch", "mlp"], "with --arch mlp, whose weights for pictures of 12 x 12 are others"),
    (["--size-schedule", "0:4"], "arch bag-of-tricks-resnet: pictures are 4 x 4; expected at least 8 x 8"),
    (["--resident"], "--size-schedule is 0:8,1:12,3:16 with --resident, whose kernels are prepared for pictures of one size"),
    (["--mode", "pipeline", "--nproc", 2], "with --mode pipeline, whose ranks send each other activations of one size"),
])
def test_what_cannot_be_trained_is_one_line(cache, tmp_path, flags, message):
    done = run(cache, *RUN, *flags, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1 and not (tmp_path / "run").exists(), done.stderr
