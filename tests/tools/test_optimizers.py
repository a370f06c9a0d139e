"""train --optimizer: that each learns, goes on from its checkpoints with the same bits, and is not taken for another."""
import json

import pytest

from train_tool import FAST, SMALL, metrics, run, summary


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("optimizer, rate", [("sgd(nesterov=true)", 0.05), ("adam", 0.001), ("adamw(beta2=0.99)", 0.001),
                                             ("lamb", 0.001)])
def test_an_optimizer_goes_on_in_another_mode_with_its_state(cache, tmp_path, optimizer, rate):
    """In f32 the sums of several ranks round in another order, so that a resumed run with one rank is the one that has the
    same bits."""
    flags = [*SMALL, "--schedule", "constant", "--optimizer", optimizer]
    printed = run(cache, *flags, "--epochs", 2, "--out", tmp_path / "whole").stdout
    assert (f"optimizer {optimizer}: --lr 0.001, --wd 0.0005\n" in printed) == (rate == 0.001)
    options = json.loads((tmp_path / "whole/options.json").read_text())
    assert (options["optimizer"], options["lr"]) == (optimizer, rate)
    assert summary(tmp_path / "whole")["optimizer"] == optimizer
    run(cache, *flags, "--epochs", 1, "--out", tmp_path / "part")
    first = metrics(tmp_path / "part")[-1]["test_loss"]
    run(cache, "--resume", tmp_path / "part", "--epochs", 2, "--mode", "zero", "--nproc", 2, "--threads", 1, "--out", tmp_path / "zero")
    run(cache, "--resume", tmp_path / "part", "--epochs", 2, "--threads", 1)
    assert (tmp_path / "part/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    whole, zero = summary(tmp_path / "whole"), summary(tmp_path / "zero")
    assert zero["test_loss"] == pytest.approx(whole["test_loss"], rel=1e-3)
    assert whole["test_loss"] < first


def test_an_evaluation_asks_for_no_optimizer(cache, tmp_path):
    out = tmp_path / "run"
    run(cache, *FAST, "--epochs", 1, "--optimizer", "adamw", "--out", out)
    (out / "options.json").unlink()  # which would say --optimizer
    done = run(cache, *SMALL, "-e", "--resume", out / "checkpoint-last.safetensors", "--out", tmp_path / "evaluated")
    assert "Accuracy over the" in done.stdout
    found = json.loads((tmp_path / "evaluated/evaluation.json").read_text())
    assert found["loss"] == pytest.approx(metrics(out)[-1]["test_loss"], rel=1e-6)


def test_another_optimizer_than_the_checkpoints_is_refused_in_a_line(cache, tmp_path):
    for first, second in (("sgd", "adamw"), ("adamw", "sgd"), ("adam", "adamw")):
        out = tmp_path / f"{first}-{second}"
        run(cache, *FAST, "--epochs", 1, "--optimizer", first, "--out", out)
        last = out / "checkpoint-last.safetensors"
        message = run(cache, "--resume", out, "--epochs", 2, "--optimizer", second, "--mode", "zero", "--nproc", 2, code=2).stderr
        assert message == f"train: --resume {last}: a checkpoint of optimizer {first}; expected {second}, as --optimizer is\n"
