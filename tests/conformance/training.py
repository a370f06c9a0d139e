"""30 steps of `train` beside 30 steps of a plain loop in PyTorch, from the same weights over the same batches."""
import collections
import sys

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import stored
import tools
from torch_cases import CASES, STEPS

sys.path.append(str(tools.ROOT / "tests/tools"))
from test_recipe_steps import SIDE, pictures  # noqa: E402
from train_tool import run  # noqa: E402

COUNT, EPOCHS = 150, STEPS // 10
FLAGS = ("--shuffle", "none", "--augment", "normalize", "--schedule", "constant", "--epochs", EPOCHS, "--device", "cpu",
         "--threads", 1, "-j", 0)


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(16, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x.flatten(1))))))


def mlp():
    layers = {"flatten": nn.Flatten(), "fc1": nn.Linear(3 * SIDE * SIDE, 32), "relu": nn.ReLU(), "fc2": nn.Linear(32, 10)}
    return nn.Sequential(collections.OrderedDict(layers))


ARCHS = {"lenet": ("lenet", LeNet), "mlp": ("mlp(hidden=32)", mlp)}


def make_data(folder):
    """Packs made-up pictures in a shuffled order; returns images and labels in the order in which they are stored."""
    images, labels = pictures(folder / "in", COUNT)
    tools.pack(folder / "in", folder / "packed", "--shards", 1, "--shuffle-seed", 1, "--force")
    names = [f"train/{label}/{number:04}.png" for number, label in enumerate(labels.tolist())]
    order = [names.index(f"train/{sample.path}" if sample.path.count("/") == 1 else sample.path)
             for sample in stored.samples(folder / "packed/train", set(names))]
    assert sorted(order) == list(range(COUNT)) and order != sorted(order)
    return images[order], labels[order]


def batches(images, labels, rows):
    for _ in range(EPOCHS):
        yield from zip(images.split(rows), labels.split(rows))


def loss_of(model, case, images, labels, row_count):
    with torch.autocast("cpu", torch.bfloat16, enabled=case.bf16):
        logits = model(images)
    return functional.cross_entropy(logits.float(), labels, label_smoothing=case.label_smoothing, reduction="sum") / row_count


def by_torch(case, state, images, labels):
    """The parameters after the steps of `case`, and their average as `average.NAME`."""
    model = ARCHS[case.arch][1]()
    model.load_state_dict(state)
    if case.frozen:
        model.get_submodule(case.frozen).requires_grad_(False)
    optimizers = case.optimizers(p for p in model.parameters() if p.requires_grad)
    schedules = [case.schedule(optimizer) for optimizer in optimizers]
    average = None
    if case.average:
        average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(case.average[0]))
        average.update_parameters(model)  # the first call copies: the average begins with the initial weights
    for step, (x, y) in enumerate(batches(images, labels, case.batch), 1):
        for optimizer in optimizers:
            optimizer.zero_grad()
        for piece, piece_labels in zip(x.chunk(case.pieces), y.chunk(case.pieces)):
            loss_of(model, case, piece, piece_labels, len(x)).backward()
        for optimizer, schedule in zip(optimizers, schedules):
            optimizer.step()
            schedule.step()
        if average and step % case.average[1] == 0:
            average.update_parameters(model)
    found = {f"model.{name}": value.detach() for name, value in model.named_parameters()}
    return found | {f"average.{name}": value.detach() for name, value in (average.module.named_parameters() if average else ())}


def by_train(case, state, folder):
    """The same by `train`, from its last checkpoint."""
    save_file(state, folder / "begin.safetensors")
    run(folder / "cache", *FLAGS, "--data", folder / "packed", "--arch", ARCHS[case.arch][0], "-b", case.batch, *case.flags.split(),
        "--pretrained", folder / "begin.safetensors", "--out", folder / "run")
    return load_file(folder / "run/checkpoint-last.safetensors")


def distance(found, expected):
    """The largest difference of an element, relative to the largest element of its tensor; and the name of that tensor."""
    return max((((found[name] - value).abs().max() / value.abs().max()).item(), name) for name, value in expected.items())


def judge(case, found, expected, state):
    """(distance, problem); a frozen layer must be as it was, and all others must have moved."""
    far, name = distance(found, expected)
    moved = {key: not torch.equal(found[f"model.{key}"], value) for key, value in state.items()}
    still = [key for key, has_moved in moved.items() if has_moved == bool(case.frozen and key.startswith(case.frozen))]
    if still:
        return far, f"{case.name}: {', '.join(still)} should{'' if case.frozen else ' not'} have stayed"
    return far, f"{case.name}: {name} differs by {far:.1e} of its largest element; expected {case.bound:.0e} or less" \
        if not far <= case.bound else ""


def check(report, folder):
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, labels = make_data(folder)
    for case in CASES:
        state = {name: value.detach().clone() for name, value in ARCHS[case.arch][1]().named_parameters()}
        try:
            found = by_train(case, state, folder)
        except AssertionError as error:  # another exit code than 0
            report.check(f"training: {case.name}", "train ends with an error", [str(error).strip().splitlines()[-1]])
            continue
        far, problem = judge(case, found, by_torch(case, state, images, labels), state)
        report.check(f"training: {case.name}", f"{STEPS} steps, {far:.1e} of the largest element from PyTorch's",
                     [problem] if problem else [])
