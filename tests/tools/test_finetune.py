"""Fine-tuning: a new head for other classes, frozen layers, a learning rate by layer; and that a resumed run keeps them."""
import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file

from train_tool import FAST, SMALL, run

KEEP = ["--schedule", "constant", "--freeze", "conv1,fc1", "--layer-lr", "conv2=0.1,fc3=2"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def pretrained(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "pretrained"
    run(cache, *SMALL, "--epochs", 1, "--out", out)
    return out / "model.safetensors"


@pytest.fixture(scope="module")
def three_classes(tmp_path_factory):
    """24 grey pictures of 16 x 16 in the classes dark, middle and light."""
    folder = tmp_path_factory.mktemp("three")
    noise = np.random.default_rng(1)
    for split in ("train", "test"):
        for label, level in (("dark", 30), ("middle", 120), ("light", 210)):
            (folder / split / label).mkdir(parents=True)
            for i in range(8):
                pixels = noise.integers(level - 20, level + 20, (16, 16)).astype(np.uint8)
                Image.fromarray(pixels).save(folder / split / label / f"{i}.png")
    return ["--data", f"image-folder:{folder}", "-b", 8, "-j", 1, "--threads", 1, "--device", "cpu"]


def test_a_model_of_ten_classes_starts_one_of_three(cache, pretrained, three_classes, tmp_path):
    flags = [*three_classes, "--epochs", 8, "--lr", 0.02, "--pretrained", pretrained, "--out", tmp_path / "run"]
    message = run(cache, *flags, code=4).stderr
    assert message.count("\n") == 1 and "fc3.weight is 10 x 84, the model's is 3 x 84" in message
    assert "--new-head" in message
    printed = run(cache, *flags, "--new-head", "--freeze", "conv1,conv2").stdout
    assert f"pretrained {pretrained}: all but fc3, which starts from random weights for 3 classes\n" in printed
    assert "frozen conv1,conv2: 2,572 of 20,791 parameters get no update, and BatchNorm in these layers keeps" in printed
    before, after = load_file(pretrained), load_file(tmp_path / "run/model.safetensors")
    assert after["fc3.weight"].shape == (3, 84)
    for name in before:
        if not name.startswith("fc3"):
            assert np.array_equal(before[name], after[name]) == name.startswith("conv"), name
    assert (tmp_path / "run/checkpoint-last.safetensors").exists()


def test_advice_to_take_a_new_head_is_for_heads_alone(cache, pretrained, tmp_path):
    message = run(cache, *SMALL, "--arch", "mlp", "--pretrained", pretrained, "--out", tmp_path / "run", code=4).stderr
    assert "--new-head" not in message and message.count("\n") == 1


@pytest.mark.parametrize("flags,expected", [
    (["--new-head"], "--new-head without --pretrained"),
    (["--new-head", "--pretrained", "FILE", "-e"], "--new-head with --evaluate"),
    (["--freeze", "conv1,conv3"], "unknown layer \"conv3\"; did you mean \"conv1\"? known: conv1, conv2, fc1, fc2, fc3"),
    (["--freeze", "conv1,conv2,fc1,fc2,fc3"], "no parameter would be trained"),
    (["--layer-lr", "fc3"], "--layer-lr: \"fc3\"; expected LAYER=FACTOR"),
    (["--layer-lr", "fc3=0.1,conv1=2", "--freeze", "conv1"], "conv1 has no parameter that is trained")])
def test_what_cannot_be_is_refused_in_a_line(cache, pretrained, tmp_path, flags, expected):
    flags = [pretrained if flag == "FILE" else flag for flag in flags]
    message = run(cache, *FAST, *flags, "--out", tmp_path / "run", code=2).stderr
    assert expected in message and message.count("\n") == 1


def test_frozen_batch_norm_keeps_its_statistics(cache, tmp_path):
    flags = ["--data", "digits(count=64,size=20)", "-b", 16, "-j", 1, "--threads", 1, "--device", "cpu", "--arch", "resnet18"]
    run(cache, *flags, "--epochs", 1, "--out", tmp_path / "one")
    run(cache, *flags, "--epochs", 1, "--pretrained", tmp_path / "one/model.safetensors", "--freeze", "stem,layer1",
        "--lr", 0.01, "--out", tmp_path / "two")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert sum(name.endswith("running_mean") for name in before) == 20
    for name in before:
        is_frozen = name.split(".")[0] in ("conv1", "bn1", "layer1")
        assert np.array_equal(before[name], after[name]) == is_frozen, name


def test_a_resumed_run_keeps_what_is_frozen_and_its_rates(cache, pretrained, tmp_path):
    flags = [*SMALL, "--pretrained", pretrained, *KEEP]
    printed = run(cache, *flags, "--epochs", 2, "--out", tmp_path / "whole").stdout
    assert "learning rate by layer: conv2=0.1,fc3=2 times --lr\n" in printed
    run(cache, *flags, "--epochs", 1, "--out", tmp_path / "parts")
    resumed = run(cache, "--resume", tmp_path / "parts", "--epochs", 2, "-j", 1, "--threads", 1, "--device", "cpu").stdout
    assert "frozen conv1,fc1: " in resumed
    whole, parts = tmp_path / "whole/model.safetensors", tmp_path / "parts/model.safetensors"
    assert whole.read_bytes() == parts.read_bytes()
    run(cache, "--resume", tmp_path / "parts", "--epochs", 3, "--freeze", "", "--layer-lr", "", "--out", tmp_path / "free",
        "-j", 1, "--threads", 1, "--device", "cpu")
    assert not np.array_equal(load_file(parts)["conv1.weight"], load_file(tmp_path / "free/model.safetensors")["conv1.weight"])


def test_ranks_freeze_the_same(cache, pretrained, tmp_path):
    for name, mode in (("one", []), ("two", ["--mode", "ddp", "--nproc", 2])):
        run(cache, *FAST, "--pretrained", pretrained, *KEEP, *mode, "--out", tmp_path / name)
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, start in load_file(pretrained).items():
        np.testing.assert_allclose(one[name], two[name], rtol=1e-3, atol=1e-5)
        assert np.array_equal(start, two[name]) == name.startswith(("conv1", "fc1")), name
