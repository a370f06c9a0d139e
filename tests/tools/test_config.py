"""train --config: a run is repeated from its folder alone, flags that are typed replace those of the file, and what is wrong
with a file is said."""
import json

import pytest

from train_tool import FAST, SMALL, run


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def options_of(folder):
    return json.loads((folder / "options.json").read_text())


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.parametrize("flags", [
    ["--optimizer", "adamw", "--lr", 0.002, "--schedule", "cosine(warmup=1)", "--bias-decay", 0, "--average", "ema(decay=0.9)",
     "--eval-at-end", "--save-every", "5 steps", "--seed", 7],
    ["--mode", "zero(stage=2)", "--nproc", 2, "--also", "digits(count=50,size=16,seed=4)", "--layer-lr", "conv1=0.5"],
    ["--recipe", "cifar10-94-resnet", "--arch", "bag-of-tricks-resnet(width=0.125)", "-b", 50, "--epochs", 1, "--lr", 0.1,
     "--momentum", 0.8, "--tta", "none"],
], ids=["single", "zero", "recipe"])
def test_a_run_is_repeated_from_its_options(cache, tmp_path, flags):
    run(cache, *FAST, *flags, "--out", tmp_path / "a")
    run(cache, "--config", tmp_path / "a/options.json", "--out", tmp_path / "b")
    assert weights(tmp_path / "b") == weights(tmp_path / "a")
    assert {**options_of(tmp_path / "b"), "out": ""} == {**options_of(tmp_path / "a"), "out": ""}
    run(cache, f"--config={tmp_path / 'a/options.json'}", "--seed", 8, "--out", tmp_path / "c")
    assert weights(tmp_path / "c") != weights(tmp_path / "a")


def printed(cache, *words):
    return json.loads(run(cache, *words, "--print-config").stdout)


def test_typed_flags_and_recipes_replace_those_of_the_file(cache, tmp_path):
    config = tmp_path / "small.json"
    config.write_text(json.dumps({"batch-size": 50, "epochs": 3, "bias-decay": 0.25, "eval-at-end": True, "momentum": 0.5}))
    default = printed(cache)
    assert printed(cache, "--config", config) == {**default, "batch-size": 50, "epochs": 3, "bias-decay": "0.25",
                                                  "eval-at-end": True, "momentum": 0.5}
    assert printed(cache, "--config", config, "-b", 20, "--eval-at-end=false") == {
        **default, "batch-size": 20, "epochs": 3, "bias-decay": "0.25", "momentum": 0.5}
    recipe = printed(cache, "--recipe", "cifar10-94-resnet")
    assert printed(cache, "--config", config, "--recipe", "cifar10-94-resnet") == recipe
    config.write_text(json.dumps({**recipe, "epochs": 10, "batch-size": 64, "eval-at-end": False}))
    assert printed(cache, "--config", config) == {**recipe, "batch-size": 64, "eval-at-end": False}


def test_a_file_may_be_toml(cache, tmp_path):
    config = tmp_path / "small.toml"
    config.write_text('# why\nbatch-size = 50\nlr = 3e-4\nmomentum = 0.1\nplugin = []\n'
                      'schedule = "cosine(warmup=5)"  # a line first\neval-at-end = true\n')
    assert printed(cache, "--config", config, "--momentum", 0.7) == {
        **printed(cache), "batch-size": 50, "lr": 3e-4, "momentum": 0.7, "schedule": "cosine(warmup=5)", "eval-at-end": True}


def test_a_study_takes_a_file_without_what_it_varies(cache, tmp_path):
    options = printed(cache, *FAST, "--mode", "ddp", "--nproc", 2, "-j", 5, "--seed", 9)
    (tmp_path / "run.json").write_text(json.dumps(options))
    run(cache, "study", "--config", tmp_path / "run.json", "--workers", "0,1", "--out", tmp_path / "study")
    rows = [options_of(path.parent) for path in sorted(tmp_path.glob("study/runs/**/options.json"))]
    assert {(row["mode"], row["nproc"], row["workers"], row["seed"]) for row in rows} == {("single", 1, 0, 9), ("single", 1, 1, 9)}


def test_what_print_config_prints_is_a_config(cache, tmp_path):
    flags = [*SMALL, "--epochs", 1, "--augment", "crop(pad=2)", "--label-smoothing", 0.1]
    (tmp_path / "run.json").write_text(run(cache, *flags, "--print-config").stdout)
    run(cache, *flags, "--out", tmp_path / "a")
    run(cache, "--config", tmp_path / "run.json", "--out", tmp_path / "b")
    assert weights(tmp_path / "b") == weights(tmp_path / "a")


@pytest.mark.parametrize("text, message", [
    ('{"epoch": 3}', 'unknown key "epoch"; did you mean "epochs"'),
    ('{"epochs": "three"}', 'epochs is "three"; expected a number'),
    ('{"eval-at-end": 1}', "eval-at-end is 1; expected true or false"),
    ('{"also": "x"}', 'also is "x"; expected a list of texts'),
    ('[1]', "holds a JSON array; expected an object of flags"),
    ('{"epochs": 3,\n "lr": }', "at line 2, column 8"),
    ('{"lr": 1e999}', "has the number 1e999, which is too large"),
    ('{"data": {"percent-encoded": 5}}', 'expected a text'),
    ('{"arch": "lenet\\u0000"}', "expected a text"),
])
def test_a_wrong_file_is_named_with_the_key_or_line(cache, tmp_path, text, message):
    check_refused(cache, tmp_path / "wrong.json", text, message)


@pytest.mark.parametrize("text, message", [
    ('lr = \n', "line 1: "),
    ('epochs = 3\nepochs = 4\n', "line 2: "),
    ('[model]\narch = "lenet"\n', 'unknown key "model"'),
    ('lr = 2026-11-25\n', 'lr is "2026-11-25"; expected a number'),
    ('lr = nan\n', 'lr is "NaN"; expected a number'),
])
def test_a_wrong_toml_file_is_named_with_the_key_or_line(cache, tmp_path, text, message):
    check_refused(cache, tmp_path / "wrong.toml", text, message)


def check_refused(cache, config, text, message):
    config.write_text(text)
    line = run(cache, "--config", config, code=2).stderr
    assert line.startswith(f"train: --config {config}: ") and message in line and line.count("\n") == 1, line


def test_a_file_that_is_not_there_is_named(cache, tmp_path):
    assert str(tmp_path / "none.json") in run(cache, "--config", tmp_path / "none.json", code=3).stderr


def test_an_empty_name_and_a_run_that_is_resumed_are_refused(cache, tmp_path):
    assert "--config is \"\"; expected a file" in run(cache, "--config=", "--check", code=2).stderr
    (tmp_path / "run.json").write_text('{"epochs": 10}')
    refused = run(cache, "--config", tmp_path / "run.json", "--resume", tmp_path / "a", "--check", code=2).stderr
    assert refused.count("\n") == 1 and f"with --resume {tmp_path / 'a'}, which has options; expected one of the two" in refused
