"""Recipe cifar10-94: its first steps are those of airbench94_muon (Jordan 2024), written here from the program: losses that are
added up over the batch, its rates, its weight decay, its momenta. A rate that is a factor of 2,000 too small still learns a
little, so that only this shows it."""
import json

import numpy as np
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional

from train_tool import run

PICTURES, SIDE, CLASSES, CHANNELS = 2000, 12, 10, (24, 8, 32, 32)


def pictures(folder):
    """Pictures whose class is a colour and a place, with noise."""
    random = np.random.default_rng(1)
    pixels = random.integers(0, 160, (PICTURES, SIDE, SIDE, 3), dtype=np.uint8)
    for number, picture in enumerate(pixels):
        label = number % CLASSES
        picture[label:label + 3, :, label % 3] += 90
        path = folder / f"train/{label}/{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)
    return torch.from_numpy(pixels), torch.arange(PICTURES) % CLASSES


def initial_state():
    """Names as Penstock has them: two convolutions and two norms in each of three blocks."""
    torch.manual_seed(2)
    state = {"whiten.weight": torch.randn(CHANNELS[0], 3, 2, 2) * 0.5, "whiten.bias": torch.randn(CHANNELS[0]) * 0.1,
             "head.weight": torch.randn(CLASSES, CHANNELS[-1])}
    for block, (inputs, outputs) in enumerate(zip(CHANNELS, CHANNELS[1:]), 1):
        for number, before in ((1, inputs), (2, outputs)):
            state[f"block{block}.conv{number}.weight"] = torch.randn(outputs, before, 3, 3) * 0.2
            state |= {f"block{block}.norm{number}.{name}": value for name, value in {
                "weight": torch.ones(outputs), "bias": torch.randn(outputs) * 0.1, "running_mean": torch.zeros(outputs),
                "running_var": torch.ones(outputs)}.items()}
    return state


def logits(state, x):
    x = functional.gelu(functional.conv2d(x, state["whiten.weight"], state["whiten.bias"]))
    for block in (1, 2, 3):
        for number in (1, 2):
            name = f"block{block}.norm{number}"
            x = functional.conv2d(x, state[f"block{block}.conv{number}.weight"], padding=1)
            x = functional.max_pool2d(x, 2) if number == 1 else x
            x = functional.gelu(functional.batch_norm(x, None, None, bias=state[f"{name}.bias"], training=True, eps=1e-12))
    return functional.linear(x.amax((2, 3)), state["head.weight"]) / CHANNELS[-1]


def nearly_orthogonal(matrix):
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (matrix.norm() + 1e-7)
    for _ in range(3):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def source_steps(state, images, labels, count):
    trained = {name: value.clone().requires_grad_() for name, value in state.items()
               if name != "whiten.weight" and ("conv" in name or "bias" in name or name == "head.weight")}
    filters = [value for name, value in trained.items() if "conv" in name]
    decay, bias_rate, head_rate = 2e-6 * PICTURES, 0.053, 0.67
    groups = [{"params": [value for name, value in trained.items() if "bias" in name], "lr": bias_rate, "weight_decay": decay / bias_rate},
              {"params": [trained["head.weight"]], "lr": head_rate, "weight_decay": decay / head_rate}]
    sgd = torch.optim.SGD(groups, momentum=0.85, nesterov=True)
    rates, momenta = [group["lr"] for group in sgd.param_groups], [torch.zeros_like(value) for value in filters]
    for step in range(count):
        functional.cross_entropy(logits(state | trained, images), labels, label_smoothing=0.2, reduction="sum").backward()
        left = 1 - step / count
        for group, rate in zip(sgd.param_groups, rates):
            group["lr"] = rate * left
        sgd.step()
        with torch.no_grad():
            for value, momentum in zip(filters, momenta):
                momentum.mul_(0.6).add_(value.grad)
                direction = value.grad + 0.6 * momentum
                value.mul_(len(value) ** 0.5 / value.norm())
                value.sub_(nearly_orthogonal(direction.flatten(1)).view_as(value), alpha=0.24 * left)
        for value in trained.values():
            value.grad = None
    return {name: value.detach() for name, value in trained.items()}


def test_two_steps_of_the_recipe_are_those_of_its_source(tmp_path):
    pixels, labels = pictures(tmp_path / "in")
    state = initial_state()
    save_file(state, tmp_path / "begin.safetensors")
    run(tmp_path / "cache", "--recipe", "cifar10-94", "--arch", "airbench(width=0.125)", "--data", f"image-folder:{tmp_path / 'in'}",
        "--augment", "normalize", "--epochs", 2, "--pretrained", tmp_path / "begin.safetensors", "--device", "cpu", "--threads", 2,
        "-j", 0, "--out", tmp_path / "run")
    levels = pixels.permute(0, 3, 1, 2) / 255
    mean, deviation = levels.mean((0, 2, 3), keepdim=True), levels.std((0, 2, 3), correction=0, keepdim=True)
    expected = source_steps(state, (levels - mean) / deviation, labels, 2)
    found = load_file(tmp_path / "run/model.safetensors")
    assert json.loads((tmp_path / "run/summary.json").read_text())["steps"] == 2
    for name, value in expected.items():
        change = (value - state[name]).abs().max()
        assert change > 1e-3, name
        assert (found[name] - value).abs().max() < 1e-2 * change, name
