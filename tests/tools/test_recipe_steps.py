"""Recipes: their first steps are those of their sources, written here from the programs: losses that are added up over the
batch, rates, weight decay, momenta. A rate that is a factor of 2,000 too small still learns a little, so that only this shows
it. cifar10-94 is airbench94_muon (Jordan 2024), cifar10-94-curriculum is E1 of Fulcrum's cifar-10-speedrun (2026), with the
deviations that docs/RECIPES.md lists, cifar10-94-resnet is bag_of_tricks.ipynb (Page 2019), imagenet-vit-s16 is vit_s16_i1k.py of
big_vision (Beyer et al. 2022)."""
import json
from typing import Callable, NamedTuple, Tuple

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch.nn import functional
from torch.optim import lr_scheduler, swa_utils

from train_tool import run

SIDE, CLASSES = 12, 10


@pytest.fixture(autouse=True)
def two_threads():
    """As the programs have them, whatever another file of tests has set: five steps at these rates make 2 % of rounding."""
    torch.set_num_threads(2)


def pictures(folder, count):
    """Pictures whose class is a colour and a place, with noise: normalised, and their classes."""
    random = np.random.default_rng(1)
    pixels = random.integers(0, 160, (count, SIDE, SIDE, 3), dtype=np.uint8)
    for number, picture in enumerate(pixels):
        label = number % CLASSES
        picture[label:label + 3, :, label % 3] += 90
        path = folder / f"train/{label}/{number:04}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(path)
    return normalized(torch.from_numpy(pixels).permute(0, 3, 1, 2) / 255), torch.arange(count) % CLASSES


def normalized(levels):
    mean, deviation = levels.mean((0, 2, 3), keepdim=True), levels.std((0, 2, 3), correction=0, keepdim=True)
    return (levels - mean) / deviation


def new_norm(name, channels):
    return {f"{name}.weight": torch.ones(channels), f"{name}.bias": torch.randn(channels) * 0.1,
            f"{name}.running_mean": torch.zeros(channels), f"{name}.running_var": torch.ones(channels)}


def trained_of(state):
    return {name: value.clone().requires_grad_() for name, value in state.items()
            if name != "whiten.weight" and ("conv" in name or "bias" in name or name == "head.weight")}


def steps_of_recipe(recipe, folder, state, epochs, *flags):
    """The state after `epochs` steps of all pictures in folder/in, in a batch."""
    save_file(state, folder / "begin.safetensors")
    augment = [] if "--augment" in flags else ["--augment", "normalize"]
    run(folder / "cache", "--recipe", recipe, "--data", f"image-folder:{folder / 'in'}", *augment, "--epochs", epochs,
        "--pretrained", folder / "begin.safetensors", "--device", "cpu", "--threads", 2, "-j", 0, "--out", folder / "run", *flags)
    assert json.loads((folder / "run/summary.json").read_text())["steps"] == epochs
    return load_file(folder / "run/checkpoint-last.safetensors")


def expect_steps(found, expected, state, prefix="model.", bound=1e-2):
    for name, value in expected.items():
        change = (value - state[name]).abs().max()
        assert change > 1e-4, name
        assert (found[prefix + name] - value).abs().max() < bound * change, name


PICTURES, CHANNELS = 2000, (24, 8, 32, 32)  # of cifar10-94, with an eighth of the width


def initial_airbench():
    """Names as Penstock has them: two convolutions and two norms in each of three blocks."""
    torch.manual_seed(2)
    state = {"whiten.weight": torch.randn(CHANNELS[0], 3, 2, 2) * 0.5, "whiten.bias": torch.randn(CHANNELS[0]) * 0.1,
             "head.weight": torch.randn(CLASSES, CHANNELS[-1])}
    for block, (inputs, outputs) in enumerate(zip(CHANNELS, CHANNELS[1:]), 1):
        for number, before in ((1, inputs), (2, outputs)):
            state[f"block{block}.conv{number}.weight"] = torch.randn(outputs, before, 3, 3) * 0.2
            state |= new_norm(f"block{block}.norm{number}", outputs)
    return state


def airbench_logits(state, x, activate):
    x = functional.gelu(functional.conv2d(x, state["whiten.weight"], state["whiten.bias"]))
    for block in (1, 2, 3):
        for number in (1, 2):
            name = f"block{block}.norm{number}"
            x = functional.conv2d(x, state[f"block{block}.conv{number}.weight"], padding=1)
            x = functional.max_pool2d(x, 2) if number == 1 else x
            x = activate(functional.batch_norm(x, None, None, bias=state[f"{name}.bias"], training=True, eps=1e-12))
    return functional.linear(x.amax((2, 3)), state["head.weight"]) / CHANNELS[-1]


def nearly_orthogonal(matrix, a0, b0, c0):
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (matrix.norm() + 1e-7)
    for _ in range(3):
        a = x @ x.T
        x = a0 * x + (b0 * a + c0 * a @ a) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


class Airbench(NamedTuple):
    """What differs between airbench94_muon and E1: momentum of filters and of SGD, rates of filters, biases and head, weight decay
    for each picture of a batch, and the factor of the rates in a step of so many."""
    momentum: float
    sgd_momentum: float
    rates: Tuple[float, float, float]
    decay: float
    smoothing: float
    activate: Callable
    coefficients: Tuple[float, float, float]
    left: Callable


JORDAN = Airbench(0.6, 0.85, (0.24, 0.053, 0.67), 2e-6, 0.2, functional.gelu, (3.4445, -4.7750, 2.0315), lambda step, count: 1 - step / count)
CURRICULUM = Airbench(0.655, 0.825, (0.2255, 0.0573, 0.5415), 1.0418e-6, 0.09, functional.silu, (3.4576, -4.7391, 2.0843),
                      lambda step, count: max(1 - 0.95 * step / (count * (1 - 0.1028)), 0.05))


def airbench_steps(program, state, images_of, labels, count):
    """`images_of` gives the pictures of a step."""
    trained = trained_of(state)
    filters = [value for name, value in trained.items() if "conv" in name]
    decay, (rate, bias_rate, head_rate) = program.decay * len(labels), program.rates
    groups = [{"params": [value for name, value in trained.items() if "bias" in name], "lr": bias_rate, "weight_decay": decay / bias_rate},
              {"params": [trained["head.weight"]], "lr": head_rate, "weight_decay": decay / head_rate}]
    sgd = torch.optim.SGD(groups, momentum=program.sgd_momentum, nesterov=True)
    rates, momenta = [group["lr"] for group in sgd.param_groups], [torch.zeros_like(value) for value in filters]
    for step in range(count):
        logits = airbench_logits(state | trained, images_of(step), program.activate)
        functional.cross_entropy(logits, labels, label_smoothing=program.smoothing, reduction="sum").backward()
        left = program.left(step, count)
        for group, full in zip(sgd.param_groups, rates):
            group["lr"] = full * left
        sgd.step()
        with torch.no_grad():
            for value, momentum in zip(filters, momenta):
                momentum.mul_(program.momentum).add_(value.grad)
                direction = value.grad + program.momentum * momentum
                value.mul_(len(value) ** 0.5 / value.norm())
                value.sub_(nearly_orthogonal(direction.flatten(1), *program.coefficients).view_as(value), alpha=rate * left)
        for value in trained.values():
            value.grad = None
    return {name: value.detach() for name, value in trained.items()}


def test_steps_of_cifar10_94(tmp_path):
    images, labels = pictures(tmp_path / "in", PICTURES)
    state = initial_airbench()
    found = steps_of_recipe("cifar10-94", tmp_path, state, 2, "--arch", "airbench(width=0.125)")
    expect_steps(found, airbench_steps(JORDAN, state, lambda step: images, labels, 2), state)


def test_steps_of_cifar10_94_curriculum(tmp_path):
    images, labels = pictures(tmp_path / "in", 1536)
    state = initial_airbench()
    smaller = functional.interpolate(images, size=(9, 9), mode="bilinear")
    found = steps_of_recipe("cifar10-94-curriculum", tmp_path, state, 3, "--arch", "airbench(width=0.125,activation=silu,norm-momentum=0.4434)",
                            "--augment", f"resize(size={SIDE},filter=bilinear),normalize", "--size-schedule", f"0:9,2:{SIDE}")
    expect_steps(found, airbench_steps(CURRICULUM, state, lambda step: smaller if step < 2 else images, labels, 3), state)


class NormalizedLeNet(torch.nn.Module):
    """As `lenet(batch-norm=true)`: deeper networks make other numbers of their rounding within these steps (ResNet-18 in f32 is half as
    far from itself in f64 as it has come)."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = torch.nn.Conv2d(3, 6, 5, padding=2), torch.nn.Conv2d(6, 16, 5)
        self.bn1, self.bn2 = torch.nn.BatchNorm2d(6), torch.nn.BatchNorm2d(16)
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(16, 120), torch.nn.Linear(120, 84), torch.nn.Linear(84, CLASSES)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(x))), 2)
        x = functional.max_pool2d(functional.relu(self.bn2(self.conv2(x))), 2)
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x.flatten(1))))))


def torchvision_steps(model, images, labels, epochs, decay):
    """What references/classification/train.py does with the flags of the recipe, but for the weight decay of biases that are not those
    of norms, and for what is drawn at random: the average of the weights after `epochs` steps, one per epoch."""
    vectors = [p for p in model.parameters() if p.dim() == 1]
    matrices = [p for p in model.parameters() if p.dim() > 1]
    sgd = torch.optim.SGD([{"params": matrices}, {"params": vectors, "weight_decay": 0}], lr=0.5, momentum=0.9, weight_decay=2e-5)
    warm_up = lr_scheduler.LinearLR(sgd, start_factor=0.01, total_iters=5)
    schedule = lr_scheduler.SequentialLR(sgd, [warm_up, lr_scheduler.CosineAnnealingLR(sgd, T_max=epochs - 5, eta_min=0)], [5])
    average = swa_utils.AveragedModel(model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(decay), use_buffers=True)
    average.update_parameters(model)
    for step in range(1, epochs + 1):
        sgd.zero_grad()
        functional.cross_entropy(model(images), labels, label_smoothing=0.1).backward()
        sgd.step()
        schedule.step()
        if step % 2 == 0:
            average.update_parameters(model)
    return average.module


def test_steps_of_imagenet_resnet50_v2(tmp_path):
    """32 pictures, four times each, and a shorter average. Without weight decay they end 4e-4 of their way elsewhere."""
    images, labels = pictures(tmp_path / "in", 32)
    torch.manual_seed(4)
    model = NormalizedLeNet().train()
    state = {name: value.clone() for name, value in model.state_dict().items() if value.dim() > 0}
    average = torchvision_steps(model, images, labels, 8, 0.5)
    found = steps_of_recipe("imagenet-resnet50-v2", tmp_path, state, 8, "--arch", "lenet(batch-norm=true)", "-b", 128, "--sampler", "repeat(n=4)",
                            "--augment", "normalize", "--eval-augment", "normalize", "--size-schedule", "", "--average", "ema(decay=0.5,every=2)")
    for prefix, weights in (("model.", model), ("average.", average)):
        moved = {name: value.detach() for name, value in weights.named_parameters() if name not in ("conv1.bias", "conv2.bias")}
        expect_steps(found, moved, state, prefix, 1e-5)


BATCH, WIDTHS = 512, {"prep": (27, 8), "layer1": (8, 16), "residual1.0": (16, 16), "residual1.1": (16, 16), "layer2": (16, 32),
                      "layer3": (32, 64), "residual3.0": (64, 64), "residual3.1": (64, 64)}  # an eighth of the width


def initial_resnet():
    torch.manual_seed(3)
    state = {"whiten.weight": torch.randn(27, 3, 3, 3) * 0.3, "head.weight": torch.randn(CLASSES, 64) * 0.1}
    for name, (inputs, outputs) in WIDTHS.items():
        side = 1 if name == "prep" else 3
        state[f"{name}.conv.weight"] = torch.randn(outputs, inputs, side, side) / (inputs * side * side) ** 0.5
        state |= new_norm(f"{name}.norm", outputs)
    return state


def resnet_logits(state, statistics, x):
    """`statistics` has the running means and variances of the norms; they are moved."""
    def layer(name, x):
        x = functional.conv2d(x, state[f"{name}.conv.weight"], padding=0 if name == "prep" else 1)
        x = functional.max_pool2d(x, 2) if name.startswith("layer") else x
        means = [statistics[f"{name}.norm.{kind}"] for kind in ("running_mean", "running_var")]
        return functional.celu(functional.batch_norm(x, *means, bias=state[f"{name}.norm.bias"], training=True), 0.3)
    x = layer("layer1", layer("prep", functional.conv2d(x, state["whiten.weight"], padding=1)))
    x = x + layer("residual1.1", layer("residual1.0", x))
    x = layer("layer3", layer("layer2", x))
    x = x + layer("residual3.1", layer("residual3.0", x))
    return functional.linear(x.amax((2, 3)), state["head.weight"]) / 16


def resnet_steps(state, images, labels, count):
    """With the momentum of torch.optim.SGD: the program multiplies by the rate before it adds up, which is the same where the
    rate stays as it is. The rate of a step is the program's of the step before. Also the norms' statistics."""
    trained = trained_of(state)
    statistics = {name: value.clone() for name, value in state.items() if "running" in name}
    biases = [value for name, value in trained.items() if "bias" in name]
    others = [value for name, value in trained.items() if "bias" not in name]
    decay = 5e-4 * BATCH
    sgd = torch.optim.SGD([{"params": others, "weight_decay": decay}, {"params": biases, "weight_decay": decay / 64}], lr=1,
                          momentum=0.9, nesterov=True)
    for step in range(count):
        rate = np.interp(step / count, [0, 0.2, 0.8, 1], [0, 1, 0.1, 0.1]) / BATCH
        for group, factor in zip(sgd.param_groups, (1, 64)):
            group["lr"] = rate * factor
        sgd.zero_grad()
        logits = resnet_logits(state | trained, statistics, images)
        functional.cross_entropy(logits, labels, label_smoothing=0.2, reduction="sum").backward()
        sgd.step()
    return {name: value.detach() for name, value in (trained | statistics).items()}


def test_steps_of_cifar10_94_resnet(tmp_path):
    images, labels = pictures(tmp_path / "in", BATCH)
    state = initial_resnet()
    found = steps_of_recipe("cifar10-94-resnet", tmp_path, state, 5, "--arch", "bag-of-tricks-resnet(width=0.125)")
    expected = resnet_steps(state, images, labels, 5)
    expect_steps(found, expected, state)
    kept = 0.99 ** 5
    expect_steps(found, {name: kept * state[name] + (1 - kept) * value for name, value in expected.items()}, state, "average.")


VIT_PICTURES, PATCH, WIDTH, DEPTH, HEADS, MLP = 1024, 4, 16, 2, 2, 32
VIT = f"vit(patch={PATCH},width={WIDTH},depth={DEPTH},heads={HEADS},mlp={MLP},pool=mean,positions=sincos2d)"


def sincos2d(rows, columns, width):
    y, x = np.mgrid[:rows, :columns]
    omega = 1 / 10_000 ** (np.arange(width // 4) / (width // 4 - 1))
    y, x = y.reshape(-1, 1) * omega, x.reshape(-1, 1) * omega
    return torch.from_numpy(np.concatenate([np.sin(x), np.cos(x), np.sin(y), np.cos(y)], 1)).float()[None]


def initial_vit():
    torch.manual_seed(4)
    shapes = {"conv_proj.weight": (WIDTH, 3, PATCH, PATCH), "conv_proj.bias": (WIDTH,), "encoder.ln.bias": (WIDTH,),
              "heads.head.weight": (CLASSES, WIDTH), "heads.head.bias": (CLASSES,)}
    for layer in range(DEPTH):
        name = f"encoder.layers.encoder_layer_{layer}"
        shapes |= {f"{name}.ln_1.bias": (WIDTH,), f"{name}.ln_2.bias": (WIDTH,), f"{name}.self_attention.in_proj_weight": (3 * WIDTH, WIDTH),
                   f"{name}.self_attention.in_proj_bias": (3 * WIDTH,), f"{name}.self_attention.out_proj.weight": (WIDTH, WIDTH),
                   f"{name}.self_attention.out_proj.bias": (WIDTH,), f"{name}.mlp.0.weight": (MLP, WIDTH), f"{name}.mlp.0.bias": (MLP,),
                   f"{name}.mlp.3.weight": (WIDTH, MLP), f"{name}.mlp.3.bias": (WIDTH,)}
    state = {name: torch.randn(shape) * (0.1 if len(shape) == 1 else (1 / np.prod(shape[1:])) ** 0.5) for name, shape in shapes.items()}
    state = {name: value.float() for name, value in state.items()}
    return state | {name.replace("bias", "weight"): torch.ones(WIDTH) for name in shapes if ".ln" in name}


def vit_logits(state, positions, x):
    def linear(name, x):
        return functional.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(name, x):
        return functional.layer_norm(x, (WIDTH,), state[f"{name}.weight"], state[f"{name}.bias"], 1e-6)

    def attention(name, x):
        qkv = functional.linear(x, state[f"{name}.in_proj_weight"], state[f"{name}.in_proj_bias"])
        q, k, v = qkv.unflatten(-1, (3, HEADS, WIDTH // HEADS)).permute(2, 0, 3, 1, 4)
        mixed = (q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5).softmax(-1) @ v
        return linear(f"{name}.out_proj", mixed.transpose(1, 2).flatten(2))

    x = functional.conv2d(x, state["conv_proj.weight"], state["conv_proj.bias"], stride=PATCH).flatten(2).transpose(1, 2) + positions
    for layer in range(DEPTH):
        name = f"encoder.layers.encoder_layer_{layer}"
        x = x + attention(f"{name}.self_attention", norm(f"{name}.ln_1", x))
        x = x + linear(f"{name}.mlp.3", functional.gelu(linear(f"{name}.mlp.0", norm(f"{name}.ln_2", x))))
    return linear("heads.head", norm("encoder.ln", x).mean(1))


def vit_steps(state, images, labels, count):
    """The chain of the program: clip by the norm, Adam, times the rate, plus 1e-4 times the kernels, times the schedule's factor."""
    trained = {name: value.clone().requires_grad_() for name, value in state.items()}
    moments = {name: (torch.zeros_like(value), torch.zeros_like(value)) for name, value in state.items()}
    positions = sincos2d(SIDE // PATCH, SIDE // PATCH, WIDTH)
    warmup = 7.9936
    for step in range(count):
        factor = step / warmup if step < warmup else (1 + np.cos(np.pi * (step - warmup) / (count - warmup))) / 2
        loss = functional.cross_entropy(vit_logits(trained, positions, images), labels)
        gradients = dict(zip(trained, torch.autograd.grad(loss, list(trained.values()))))
        clip = min(1, 1 / torch.stack([gradient.norm() for gradient in gradients.values()]).norm().item())
        with torch.no_grad():
            for name, value in trained.items():
                first, second = moments[name]
                first.lerp_(gradients[name] * clip, 1 - 0.9)
                second.lerp_((gradients[name] * clip) ** 2, 1 - 0.999)
                direction = first / (1 - 0.9 ** (step + 1)) / ((second / (1 - 0.999 ** (step + 1))).sqrt() + 1e-8)
                is_kernel = value.dim() > 1
                value.sub_(factor * (1e-3 * direction + (1e-4 * value if is_kernel else 0)))
    return {name: value.detach() for name, value in trained.items()}


def test_steps_of_imagenet_vit_s16(tmp_path):
    images, labels = pictures(tmp_path / "in", VIT_PICTURES)
    state = initial_vit()
    found = steps_of_recipe("imagenet-vit-s16", tmp_path, state | {"encoder.pos_embedding": sincos2d(SIDE // PATCH, SIDE // PATCH, WIDTH)},
                            10, "--arch", VIT)
    expected = vit_steps(state, images, labels, 10)
    for layer in range(DEPTH):  # softmax does not see the bias of keys, so that its gradient is rounding alone
        for tensors, prefix in ((found, "model."), (expected, ""), (state, "")):
            name = f"{prefix}encoder.layers.encoder_layer_{layer}.self_attention.in_proj_bias"
            tensors[name] = torch.cat([tensors[name][:WIDTH], tensors[name][2 * WIDTH:]])
    expect_steps(found, expected, state)
