"""train --optimizer, --schedule and --average: 100 steps beside 100 steps of torch's optimisers, schedulers and AveragedModel, from
the same weights over the same batches; LAMB, which torch has not, beside its formula. test_rates.py has the warm-ups and plateau."""
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import optim
from torch.optim import lr_scheduler, swa_utils

from train_tool import ROOT, metrics, run

sys.path.insert(0, str(ROOT / "tests/conformance"))
import torch_cases  # noqa: E402
import training  # noqa: E402

EPOCHS, BATCH, STEPS = 10, 15, 100


class Lamb(optim.Optimizer):
    """You et al. 2020, algorithm 2, as timm's Lamb with max_grad_norm=None: with weight decay it exempts no parameter either."""

    def __init__(self, parameters, lr, weight_decay):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                step = state["step"] = state.get("step", 0) + 1
                m, v = state.setdefault("m", torch.zeros_like(p)), state.setdefault("v", torch.zeros_like(p))
                m.mul_(0.9).add_(p.grad, alpha=0.1)
                v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                r = (m / (1 - 0.9 ** step)) / (v.sqrt() / (1 - 0.999 ** step) ** 0.5 + 1e-6) + group["weight_decay"] * p
                p.sub_(group["lr"] * (p.norm() / r.norm()) * r)



CASES = {
    "--optimizer sgd --momentum 0.8 --lr 0.02 --wd 0.001 --schedule cosine --average ema(decay=0.9,every=5)": (
        lambda p: [optim.SGD(p, lr=0.02, momentum=0.8, weight_decay=0.001)],
        lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=STEPS), 1e-6),
    "--optimizer sgd(nesterov=true) --lr 0.01 --wd 0.01 --schedule step(every=3,gamma=0.5)": (
        lambda p: [optim.SGD(p, lr=0.01, momentum=0.9, weight_decay=0.01, nesterov=True)],
        lambda o: lr_scheduler.StepLR(o, 30, gamma=0.5), 1e-6),
    "--optimizer adam(eps=1e-3) --lr 0.001 --wd 0.01 --schedule polynomial(power=2)": (
        lambda p: [optim.Adam(p, lr=0.001, eps=1e-3, weight_decay=0.01)],
        lambda o: lr_scheduler.PolynomialLR(o, total_iters=STEPS, power=2), 1e-6),
    "--optimizer adamw(eps=1e-4) --lr 0.001 --wd 0.1 --schedule onecycle": (
        lambda p: [optim.AdamW(p, lr=0.001, eps=1e-4, weight_decay=0.1)],
        lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.001, total_steps=STEPS, cycle_momentum=False), 1e-6),
    "--optimizer lamb --lr 0.002 --wd 0.02 --schedule step": (
        lambda p: [Lamb(p, lr=0.002, weight_decay=0.02)], lambda o: lr_scheduler.MultiStepLR(o, [50, 75]), 1e-6),
    "--optimizer muon --lr 0.02 --wd 0.0005 --schedule triangular(peak=0,end=0.1)": (
        torch_cases.muon, lambda o: lr_scheduler.LinearLR(o, start_factor=1, end_factor=0.1, total_iters=STEPS), 1e-2),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hundred")
    torch.set_num_threads(1)
    return folder, *training.make_data(folder)


def steps_of_torch(model, make_optimizers, make_schedule, images, labels):
    """Rates of all steps, and the average of every fifth step."""
    optimizers = make_optimizers(list(model.parameters()))
    schedules = [make_schedule(optimizer) for optimizer in optimizers]
    average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    average.update_parameters(model)
    rates = []
    for step in range(STEPS):
        first = step * BATCH % len(labels)
        rates.append(optimizers[0].param_groups[0]["lr"])
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(images[first:first + BATCH]), labels[first:first + BATCH]).backward()
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            schedule.step()
        if (step + 1) % 5 == 0:
            average.update_parameters(model)
    return rates, average.module


@pytest.mark.parametrize("flags", CASES)
def test_a_hundred_steps_are_those_of_torch(data, tmp_path, flags):
    folder, images, labels = data
    make_optimizers, make_schedule, bound = CASES[flags]
    torch.manual_seed(1)
    model = training.mlp()
    save_file({key: value.detach().clone() for key, value in model.named_parameters()}, tmp_path / "begin.safetensors")
    run(folder / "cache", *training.FLAGS, "--epochs", EPOCHS, "--data", folder / "packed", "--arch", "mlp(hidden=32)", "-b", BATCH, "-p", 1,
        "--eval-at-end", "--pretrained", tmp_path / "begin.safetensors", "--out", tmp_path / "run", *flags.split())
    rates, average = steps_of_torch(model, make_optimizers, make_schedule, images, labels)
    assert [line["learning_rate"] for line in metrics(tmp_path / "run") if line["kind"] == "step"] == pytest.approx(rates, rel=1e-6, abs=1e-12)
    trained = load_file(tmp_path / "run/checkpoint-last.safetensors")
    begin = load_file(tmp_path / "begin.safetensors")
    assert all((value - begin[key]).abs().max() > 1e-3 for key, value in model.named_parameters())
    assert training.distance(trained, {f"model.{key}": value.detach() for key, value in model.named_parameters()})[0] < bound
    if "--average" in flags:
        assert training.distance(trained, {f"average.{key}": value.detach() for key, value in average.named_parameters()})[0] < bound
