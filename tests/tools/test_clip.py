"""train --clip-grad: whole runs with the norms that torch's clipping says of the same steps, and what is refused."""
import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from train_tool import ROOT, SMALL, metrics, run

sys.path.insert(0, str(ROOT / "tests/conformance"))
import training  # noqa: E402


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def norms_of(folder):
    return [norm for line in metrics(folder) for norm in line.get("gradient_norms", [])]


def clip_as_torch(name, most, parameters):
    """Returns the norm before."""
    if name == "norm":
        return torch.nn.utils.clip_grad_norm_(parameters, most).item()
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters]).item()
    torch.nn.utils.clip_grad_value_(parameters, most)
    return norm


@pytest.mark.parametrize("name, most", [("norm", 0.3), ("value", 0.01)])
def test_a_hundred_steps_are_those_of_torch(tmp_path, name, most):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    images, labels = training.make_data(tmp_path)
    model = training.mlp()
    state = {key: value.detach().clone() for key, value in model.named_parameters()}
    save_file(state, tmp_path / "begin.safetensors")
    run(tmp_path / "cache", *training.FLAGS, "--epochs", 10, "--data", tmp_path / "packed", "--arch", "mlp(hidden=32)", "-b", 15, "--lr",
        0.01, "--clip-grad", f"{name}={most}", "-p", 7, "--eval-at-end", "--pretrained", tmp_path / "begin.safetensors",
        "--out", tmp_path / "run")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
    norms = []
    for _ in range(10):
        for x, y in zip(images.split(15), labels.split(15)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            norms.append(clip_as_torch(name, most, list(model.parameters())))
            optimizer.step()
    found = norms_of(tmp_path / "run")
    assert len(found) == 100 and sum(norm > most for norm in norms) > 20
    assert found == pytest.approx(norms, rel=1e-5)
    trained = load_file(tmp_path / "run/checkpoint-last.safetensors")
    assert training.distance(trained, {f"model.{key}": value.detach() for key, value in model.named_parameters()})[0] < 1e-6


def test_a_resumed_run_clips_with_the_same_bits_and_no_norms_are_said_without_it(cache, tmp_path):
    flags = [*SMALL, "--epochs", 2, "-p", 4]
    run(cache, *flags, "--clip-grad", "norm=0.05", "--out", tmp_path / "whole")
    run(cache, *flags, "--clip-grad", "norm=0.05", "--save-every", "10 steps", "--keep", 9, "--out", tmp_path / "part")
    run(cache, "--resume", tmp_path / "part/checkpoint-step-10.safetensors", *SMALL, "--out", tmp_path / "resumed")
    assert json.loads((tmp_path / "resumed/options.json").read_text())["clip-grad"] == "norm=0.05"
    assert (tmp_path / "resumed/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    run(cache, *flags, "--out", tmp_path / "free")
    assert len(norms_of(tmp_path / "whole")) == 26 and norms_of(tmp_path / "free") == []
    assert (tmp_path / "free/model.safetensors").read_bytes() != (tmp_path / "whole/model.safetensors").read_bytes()


@pytest.mark.parametrize("flags, words", [
    (["--clip-grad", "norm"], "train: --clip-grad is norm; expected norm=1.0, value=0.5 or agc=0.01"),
    (["--clip-grad", "norm=0"], "train: --clip-grad is norm=0; expected a number of more than 0"),
    (["--clip-grad", "agc=0.01", "--mode", "zero", "--nproc", 2],
     "train: --mode zero with --clip-grad agc=0.01, which needs whole parameters; expected a mode that does not cut them into slices, "
     "such as ddp")])
def test_what_cannot_be_is_refused(cache, tmp_path, flags, words):
    assert run(cache, *SMALL, *flags, "--out", tmp_path / "run", code=2).stderr == words + "\n"
