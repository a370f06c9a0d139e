"""train --schedule and --layer-decay: the rates of whole runs, held against torch's own, and that a resumed run goes on with them."""
import json

import pytest
import torch
from torch.optim import lr_scheduler

from train_tool import SMALL, metrics, run

EPOCHS, STEPS, RATE = 8, 13, 0.4  # 400 pictures in batches of 32


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def rates_of(folder):
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["learning_rate"] for line in lines if line["kind"] == "step"]


def rates_of_torch(make, per_epoch):
    """As torchvision's references/classification/train.py makes them: a scheduler that steps after each epoch, or, where the
    rate changes in each step, after each step."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    unit = 1 if per_epoch else STEPS
    scheduler = make(optimizer, unit)
    rates = []
    for step in range(EPOCHS * STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if not per_epoch or (step + 1) % STEPS == 0:
            scheduler.step()
    return rates


def warmed(optimizer, warmup, main, steps):
    return lr_scheduler.SequentialLR(optimizer, schedulers=[warmup, main], milestones=[steps])


CASES = {
    "cosine(warmup=3,warmup-start=0.01)": lambda o, n: warmed(
        o, lr_scheduler.LinearLR(o, start_factor=0.01, total_iters=3 * n),
        lr_scheduler.CosineAnnealingLR(o, T_max=(EPOCHS - 3) * n), 3 * n),
    "cosine(warmup=2,warmup-kind=constant,warmup-start=0.1,floor=0.05)": lambda o, n: warmed(
        o, lr_scheduler.ConstantLR(o, factor=0.1, total_iters=2 * n),
        lr_scheduler.CosineAnnealingLR(o, T_max=(EPOCHS - 2) * n, eta_min=0.05 * RATE), 2 * n),
    "step(every=2,gamma=0.3,warmup=1)": lambda o, n: warmed(
        o, lr_scheduler.LinearLR(o, start_factor=0.01, total_iters=n), lr_scheduler.StepLR(o, 2 * n, gamma=0.3), n),
    "polynomial(power=2,warmup=1,warmup-start=0.5)": lambda o, n: warmed(
        o, lr_scheduler.LinearLR(o, start_factor=0.5, total_iters=n),
        lr_scheduler.PolynomialLR(o, total_iters=(EPOCHS - 1) * n, power=2), n),
}


@pytest.mark.parametrize("per", ["step", "epoch"])
@pytest.mark.parametrize("schedule", CASES)
def test_rates_are_those_of_torch(cache, tmp_path, schedule, per):
    run(cache, *SMALL, "--epochs", EPOCHS, "--lr", RATE, "--schedule", f"{schedule[:-1]},per={per})", "--emulate-step", "1us",
        "--eval-at-end", "--save-every", 0, "-p", 1, "--out", tmp_path / "run")
    ours, theirs = rates_of(tmp_path / "run"), rates_of_torch(CASES[schedule], per == "epoch")
    assert len(set(theirs)) >= (3 if per == "epoch" else 5)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-12)


def test_a_run_goes_on_in_its_warm_up_with_the_same_bits(cache, tmp_path):
    flags = [*SMALL, "--epochs", 4, "--schedule", "cosine(warmup=2.5,floor=0.1)", "--layer-decay", 0.7]
    run(cache, *flags, "--out", tmp_path / "whole")
    run(cache, *flags, "--save-every", "20 steps", "--keep", 100, "--out", tmp_path / "part")
    run(cache, "--resume", tmp_path / "part/checkpoint-step-20.safetensors", *SMALL, "--out", tmp_path / "resumed")
    assert (tmp_path / "resumed/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


@pytest.mark.parametrize("mode", ["ddp", "zero(stage=1)", "zero(stage=3)", "mp", "pipeline(micro-batches=4)"])
def test_modes_agree_to_the_bit(cache, tmp_path, mode):
    flags = [*SMALL, "--epochs", 1, "--schedule", "cosine(warmup=0.5)", "--layer-decay", 0.7, "--exact", 4]
    whole = cache / "exact"
    if not whole.exists():
        run(cache, *flags, "--out", whole)
    run(cache, *flags, "--mode", mode, "--nproc", 2, "--out", tmp_path / "run")
    assert (tmp_path / "run/model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


@pytest.mark.parametrize("schedule, mode, options", [
    ("plateau(factor=0.5,patience=0,threshold=0.2,cooldown=1,floor=0.2)", "min",
     {"factor": 0.5, "patience": 0, "threshold": 0.2, "cooldown": 1, "min_lr": 0.2 * RATE}),
    ("plateau(factor=0.3,patience=1,threshold=0.05,threshold-mode=abs,on=score)", "max",
     {"factor": 0.3, "patience": 1, "threshold": 0.05, "threshold_mode": "abs"})])
def test_a_plateau_has_the_rates_of_torch_and_goes_on_with_its_state(cache, tmp_path, schedule, mode, options):
    flags = [*SMALL, "--epochs", EPOCHS, "--lr", RATE, "--schedule", schedule, "-p", 1]
    printed = run(cache, *flags, "--save-every", "33 steps", "--keep", 100, "--out", tmp_path / "whole").stdout
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=RATE)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, **options)
    rates = []
    for line in metrics(tmp_path / "whole"):
        if line["kind"] == "epoch":
            rates += [optimizer.param_groups[0]["lr"]] * STEPS
            plateau.step(line["test_loss" if mode == "min" else "test_accuracy"])
    assert len(set(rates)) >= 3 and printed.count("(--schedule plateau)") >= 2
    assert rates_of(tmp_path / "whole") == pytest.approx(rates, rel=1e-6)
    run(cache, "--resume", tmp_path / "whole/checkpoint-step-66.safetensors", *SMALL, "--out", tmp_path / "resumed")
    assert (tmp_path / "resumed/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_a_plateau_has_one_rate_at_all_ranks(cache, tmp_path):
    flags = [*SMALL, "--epochs", 4, "--lr", RATE, "--schedule", "plateau(factor=0.1,patience=0,threshold=0.5,warmup=1)", "-p", 1, "--exact", 2]
    run(cache, *flags, "--out", tmp_path / "single")
    run(cache, *flags, "--mode", "ddp", "--nproc", 2, "--out", tmp_path / "ddp")
    assert len(set(rates_of(tmp_path / "single")[STEPS:])) > 1
    assert (tmp_path / "ddp/model.safetensors").read_bytes() == (tmp_path / "single/model.safetensors").read_bytes()


def test_what_cannot_be_is_refused(cache, tmp_path):
    done = run(cache, *SMALL, "--epochs", 2, "--schedule", "cosine(warmup=3)", "--out", tmp_path / "run", code=2)
    assert done.stderr == ("train: --schedule is cosine(warmup=3) with --epochs 2: the run would end in its warm-up; expected one "
                           "that is not longer than the run\n")
    done = run(cache, *SMALL, "--schedule", "plateau", "--eval-at-end", "--out", tmp_path / "run", code=2)
    assert done.stderr == ("train: --schedule is plateau with --eval-at-end: it follows the evaluation of each epoch; expected one of "
                           "the two\n")
    done = run(cache, *SMALL, "--schedule", "plateau", "--emulate-step", "1ms", "--out", tmp_path / "run", code=2)
    assert done.stderr == ("train: --schedule is plateau with --emulate-step, which learns nothing and is not evaluated; expected one of "
                           "the two\n")
    done = run(cache, *SMALL, "--layer-decay", 0, "--out", tmp_path / "run", code=2)
    assert done.stderr == "train: --layer-decay is 0; expected more than 0, and 1 or less\n"
