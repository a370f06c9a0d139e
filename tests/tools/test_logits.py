"""Models: their logits equal those of torchvision's ResNets, Vision Transformers and ConvNeXts, and of the others as written here,
for the same weights; torchvision takes the weights that they are trained to."""
import collections
import os
import pathlib
import subprocess

import pytest
import torch
import torchvision
from safetensors.torch import load_file, save_file

from train_tool import run

LOGITS = pathlib.Path(os.environ["PENSTOCK_BIN"]) / "logits"


def random_model(arch, classes):
    """Random weights. BatchNorm is far from 1 and 0, but the signal stays in range through all layers."""
    torch.manual_seed(1)
    model = getattr(torchvision.models, arch)(weights=None, num_classes=classes).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.weight.data.uniform_(0.3, 0.9)
            module.bias.data.uniform_(-0.3, 0.3)
            module.running_mean.uniform_(-0.2, 0.2)
            module.running_var.uniform_(0.6, 1.8)
    return model


def run_logits(tmp_path, arch, classes, state, images):
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, tmp_path / "weights.safetensors")
    save_file({"images": images}, tmp_path / "images.safetensors")
    arguments = [LOGITS, arch, str(classes)] + [tmp_path / f"{name}.safetensors" for name in ("weights", "images", "logits")]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("arch, classes, size", [("resnet18", 10, (64, 64)), ("resnet18", 1000, (33, 47)),
                                                 ("resnet50", 10, (64, 48))])
def test_logits_are_torchvisions(tmp_path, arch, classes, size):
    model = random_model(arch, classes)
    images = torch.randn(3, 3, *size)
    result = run_logits(tmp_path, arch, classes, model.state_dict(), images)
    assert result.returncode == 0, result.stderr
    with torch.no_grad():
        expected = model(images)
    logits = load_file(tmp_path / "logits.safetensors")["logits"]
    assert logits.shape == expected.shape
    assert expected.std() > 1e-3
    assert (logits - expected).abs().max() <= 1e-4 * expected.abs().max()


def tiny_vit(size, classes, **options):
    return torchvision.models.VisionTransformer(image_size=size, patch_size=8, num_layers=3, num_heads=4, hidden_dim=32, mlp_dim=48,
                                                num_classes=classes, **options)


TINY_VIT = "vit(patch=8,width=32,depth=3,heads=4,mlp=48{})"


def stirred(model):
    """In place of zeros and of a layer scale of 1e-6, which would hide what comes before them."""
    torch.manual_seed(1)
    for parameter in model.parameters():
        if parameter.abs().max() < 1e-4 or parameter.dim() == 1:
            parameter.data.add_(torch.randn_like(parameter) * 0.3)
    return model.eval()


def small_vit(size, classes):
    return torchvision.models.VisionTransformer(image_size=size, patch_size=16, num_layers=12, num_heads=6, hidden_dim=384, mlp_dim=1536,
                                                num_classes=classes)


def vit_b_16(size, classes):
    return torchvision.models.vit_b_16(image_size=size, num_classes=classes)


def convnext_tiny(size, classes):
    return torchvision.models.convnext_tiny(num_classes=classes)


@pytest.mark.parametrize("arch, build, size", [(TINY_VIT.format(""), tiny_vit, 40), ("vit-s16", small_vit, 64), ("vit-b16", vit_b_16, 64),
                                               ("convnext-tiny", convnext_tiny, 75)])
def test_logits_of_vision_transformers_and_convnexts_are_torchvisions(tmp_path, arch, build, size):
    model = stirred(build(size, 10))
    images = torch.randn(3, 3, size, size)
    result = run_logits(tmp_path, arch, 10, model.state_dict(), images)
    assert result.returncode == 0, result.stderr
    with torch.no_grad():
        expected = model(images)
    logits = load_file(tmp_path / "logits.safetensors")["logits"]
    assert expected.std() > 1e-2
    assert (logits - expected).abs().max() <= 1e-5 * expected.abs().max()


def of_grey_pictures(model):
    """With a first convolution for one channel."""
    path, first = next((path, module) for path, module in model.named_modules() if isinstance(module, torch.nn.Conv2d))
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, torch.nn.Conv2d(1, first.out_channels, first.kernel_size, first.stride))
    return model


@pytest.mark.parametrize("arch, build", [(TINY_VIT.format(",dropout=0.1,drop-path=0.1"), tiny_vit), ("convnext-tiny(drop-path=0.1)", convnext_tiny)])
def test_torchvision_takes_the_weights_of_a_run(tmp_path, arch, build):
    model = of_grey_pictures(build(32, 10))
    run(tmp_path / "cache", "--data", "digits(count=32,size=32)", "-b", 16, "-j", 0, "--threads", 2, "--device", "cpu", "--epochs", 1,
        "--arch", arch, "--out", tmp_path / "run")
    model.load_state_dict(load_file(tmp_path / "run/model.safetensors"), strict=True)


def test_another_class_count_is_one_clear_line(tmp_path):
    result = run_logits(tmp_path, "resnet18", 10, random_model("resnet18", 1000).state_dict(), torch.zeros(1, 3, 32, 32))
    assert result.returncode == 4
    assert "fc.weight is 1000 x 512, the model's is 10 x 512" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def lenet(channels, height, width, classes):
    features = 16 * ((height // 2 - 4) // 2) * ((width // 2 - 4) // 2)
    layers = [("conv1", torch.nn.Conv2d(channels, 6, 5, padding=2)), ("relu1", torch.nn.ReLU()), ("pool1", torch.nn.MaxPool2d(2)),
              ("conv2", torch.nn.Conv2d(6, 16, 5)), ("relu2", torch.nn.ReLU()), ("pool2", torch.nn.MaxPool2d(2)),
              ("flatten", torch.nn.Flatten()), ("fc1", torch.nn.Linear(features, 120)), ("relu3", torch.nn.ReLU()),
              ("fc2", torch.nn.Linear(120, 84)), ("relu4", torch.nn.ReLU()), ("fc3", torch.nn.Linear(84, classes))]
    return torch.nn.Sequential(collections.OrderedDict(layers))


def mlp(channels, height, width, classes):
    layers = [("flatten", torch.nn.Flatten()), ("fc1", torch.nn.Linear(channels * height * width, 50)), ("relu1", torch.nn.ReLU()),
              ("fc2", torch.nn.Linear(50, 30)), ("relu2", torch.nn.ReLU()), ("fc3", torch.nn.Linear(30, classes))]
    return torch.nn.Sequential(collections.OrderedDict(layers))


class BagOfTricks(torch.nn.Module):
    """The network of Page 2019, "How to train your ResNet", part 8, with an eighth of its channels."""

    def __init__(self, channels, classes):
        super().__init__()
        self.whiten = torch.nn.Conv2d(channels, 9 * channels, 3, padding=1, bias=False)
        self.prep = self.conv(9 * channels, 8, kernel=1)
        self.layer1, self.residual1 = self.conv(8, 16, pool=2), torch.nn.Sequential(self.conv(16, 16), self.conv(16, 16))
        self.layer2 = self.conv(16, 32, pool=2)
        self.layer3, self.residual3 = self.conv(32, 64, pool=2), torch.nn.Sequential(self.conv(64, 64), self.conv(64, 64))
        self.head = torch.nn.Linear(64, classes, bias=False)
        for module in self.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.bias.data.uniform_(-0.3, 0.3)
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.6, 1.8)

    @staticmethod
    def conv(inputs, outputs, kernel=3, pool=1):
        return torch.nn.Sequential(collections.OrderedDict(
            conv=torch.nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False), pool=torch.nn.MaxPool2d(pool),
            norm=torch.nn.BatchNorm2d(outputs), act=torch.nn.CELU(0.3)))

    def forward(self, x):
        x = self.layer1(self.prep(self.whiten(x)))
        x = self.layer2(x + self.residual1(x))
        x = self.layer3(x)
        x = x + self.residual3(x)
        return self.head(x.amax(dim=(2, 3))) / 16


def bag_of_tricks(channels, height, width, classes):
    return BagOfTricks(channels, classes).eval()


@pytest.mark.parametrize("arch, build", [("lenet", lenet), ("mlp(hidden=50:30)", mlp),
                                         ("bag-of-tricks-resnet(width=0.125)", bag_of_tricks)])
@pytest.mark.parametrize("channels, height, width", [(1, 28, 28), (3, 33, 20)])
def test_small_models_are_what_they_say(tmp_path, arch, build, channels, height, width):
    torch.manual_seed(1)
    model = build(channels, height, width, 7)
    images = torch.randn(5, channels, height, width)
    result = run_logits(tmp_path, arch, 7, model.state_dict(), images)
    assert result.returncode == 0, result.stderr
    expected = model(images).detach()
    logits = load_file(tmp_path / "logits.safetensors")["logits"]
    assert (logits - expected).abs().max() <= 1e-4 * expected.abs().max()
