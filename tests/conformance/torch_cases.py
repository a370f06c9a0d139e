"""What is trained twice: flags of `train`, and the optimisers, schedules and losses of PyTorch that should do the same."""
import dataclasses
from collections.abc import Callable
from unittest import mock

import torch
from torch import optim
from torch.optim import lr_scheduler

STEPS, CLOSE, HALF = 30, 1e-5, 1e-4  # steps of a run; bounds of `training.distance`, in f32 and in bf16


def sgd(**options):
    return lambda parameters: [optim.SGD(parameters, **({"lr": 0.05, "momentum": 0.9, "weight_decay": 5e-4} | options))]


def adam(kind=optim.Adam, **options):
    return lambda parameters: [kind(parameters, **({"lr": 1e-3, "weight_decay": 5e-4} | options))]


class Muon(optim.Muon):
    """PyTorch's Muon makes matrices orthogonal in bf16, by Tensor.bfloat16(); Penstock in f32, and so does this one."""

    def step(self, closure=None):
        with mock.patch.object(torch.Tensor, "bfloat16", torch.Tensor.clone):
            return super().step(closure)


def muon(parameters):
    """Muon takes the matrices before the head alone; the other parameters are those of SGD, which looks ahead as well."""
    parameters = list(parameters)
    hidden = [p for p in parameters if p.dim() == 2][:-1]
    others = [p for p in parameters if all(p is not one for one in hidden)]
    return [Muon(hidden, lr=0.02, weight_decay=5e-4), optim.SGD(others, lr=0.02, momentum=0.9, weight_decay=5e-4, nesterov=True)]


def bias_groups(parameters):
    parameters = list(parameters)
    return [optim.SGD([{"params": [p for p in parameters if p.dim() > 1]},
                       {"params": [p for p in parameters if p.dim() == 1], "lr": 0.1, "weight_decay": 0.01}],
                      lr=0.05, momentum=0.9, weight_decay=5e-4)]


def first_layer_slow(parameters):
    parameters = list(parameters)
    return [optim.SGD([{"params": parameters[:2], "lr": 0.005}, {"params": parameters[2:]}], lr=0.05, momentum=0.9,
                      weight_decay=5e-4)]


def triangular(optimizer):
    """Up from 0.2 in 12 steps, and down to 0.1 in 18."""
    up = lr_scheduler.LinearLR(optimizer, start_factor=0.2, end_factor=1, total_iters=12)
    down = lr_scheduler.LinearLR(optimizer, start_factor=1, end_factor=0.1, total_iters=18)
    return lr_scheduler.SequentialLR(optimizer, [up, down], milestones=[12])


def constant(optimizer):
    return lr_scheduler.LambdaLR(optimizer, lambda step: 1)


@dataclasses.dataclass
class Case:
    flags: str
    optimizers: Callable = sgd()
    schedule: Callable = constant
    arch: str = "lenet"
    pieces: int = 1  # in which the gradient of a batch is added up
    label_smoothing: float = 0
    average: tuple = ()  # decay and every of an exponential moving average
    bf16: bool = False
    batch: int = 16  # rows; then the last of an epoch's ten batches has six
    frozen: str = ""  # module
    bound: float = CLOSE

    @property
    def name(self):
        return f"{self.flags} ({self.arch})"


COSINE = lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=STEPS)  # noqa: E731
CASES = [
    Case("--optimizer sgd"),
    Case("--optimizer sgd --momentum 0", sgd(momentum=0)),
    Case("--optimizer sgd --momentum 0.5 --wd 0", sgd(momentum=0.5, weight_decay=0)),
    Case("--optimizer sgd(nesterov=true) --wd 0.01", sgd(nesterov=True, weight_decay=0.01)),
    Case("--optimizer sgd --lr 0.2", sgd(lr=0.2), arch="mlp"),
    Case("--optimizer adam", adam()),
    Case("--optimizer adam(beta1=0.8,beta2=0.95,eps=1e-4) --wd 0.1", adam(betas=(0.8, 0.95), eps=1e-4, weight_decay=0.1)),
    Case("--optimizer adamw --wd 0.1", adam(optim.AdamW, weight_decay=0.1)),
    Case("--optimizer adamw(beta1=0.8,beta2=0.95,eps=1e-4) --lr 0.003 --wd 0.01",
         adam(optim.AdamW, lr=0.003, betas=(0.8, 0.95), eps=1e-4, weight_decay=0.01)),
    Case("--optimizer muon", muon, arch="mlp"),
    Case("--schedule cosine", schedule=COSINE),
    Case("--schedule step", schedule=lambda optimizer: lr_scheduler.MultiStepLR(optimizer, [15, 23])),
    Case("--schedule triangular(start=0.2,peak=0.4,end=0.1)", schedule=triangular),
    Case("--schedule onecycle(peak=0.25,divide=10,final=100)",
         schedule=lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=STEPS, pct_start=0.25, div_factor=10,
                                                            final_div_factor=100, cycle_momentum=False)),
    Case("--optimizer adamw --schedule onecycle",
         adam(optim.AdamW), lambda optimizer: lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=STEPS, cycle_momentum=False)),
    Case("--label-smoothing 0.1", label_smoothing=0.1),
    # With an eps of 1e-8 Adam makes steps of full size out of gradients that are nothing but rounding.
    Case("--label-smoothing 0.7 --optimizer adam(eps=1e-4)", adam(eps=1e-4), label_smoothing=0.7, arch="mlp"),
    Case("--mode single(accumulate=4)", pieces=4),
    Case("--mode single(accumulate=2) --label-smoothing 0.2 --optimizer adamw", adam(optim.AdamW), pieces=2, label_smoothing=0.2),
    Case("--average ema(decay=0.9,every=1)", average=(0.9, 1)),
    Case("--average ema(decay=0.8,every=5) --schedule cosine", schedule=COSINE, average=(0.8, 5)),
    Case("--bias-lr 2 --bias-decay 0.01", bias_groups),
    Case("--layer-lr conv1=0.1", first_layer_slow),
    Case("--freeze conv1", frozen="conv1"),
    # With six rows some sums round otherwise, and bf16 makes 0.01 of that within 30 steps; so all batches are full.
    Case("--precision bf16", bf16=True, batch=15, bound=HALF),
    Case("--precision bf16 --optimizer adamw --schedule cosine --label-smoothing 0.1", adam(optim.AdamW), COSINE, arch="mlp",
         label_smoothing=0.1, bf16=True, batch=15, bound=HALF),
]
