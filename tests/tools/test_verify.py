"""train verify-modes: its table and JSON, the broken modes that it must catch, and its messages about impossible commands."""
import json
import os
import pathlib
import re
import subprocess

import pytest

BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
MUTANTS = BIN.parent / "lib" / "libmutants.so"
# By which class each must be caught. What one-step does not see is in later steps, or in what is not a gradient.
CAUGHT_BY = {
    "activation-scaled": {"one-step", "fp64"},
    "activation-stale": {"one-step", "fp64"},
    "backward-dropped": {"one-step", "fp64"},
    "backward-early": {"one-step", "fp64"},
    "bias-not-summed": {"one-step", "fp64"},
    "bucket-left-out": {"one-step", "fp64"},
    "division-forgotten": {"one-step", "fp64"},
    "factors-lost": {"one-step", "fp64"},
    "leaves-shifted": {"bitwise"},
    "mean-of-ranks": {"one-step", "fp64"},
    "micro-batch-twice": {"one-step", "fp64"},
    "momentum-lost": {"fp64"},
    "norms-not-synced": {"one-step", "fp64"},
    "old-gather": {"fp64"},
    "padding-counted": {"fp64"},
    "rate-of-another-group": {"fp64"},
    "slice-not-gathered": {"fp64"},
    "slice-shifted": {"one-step", "fp64"},
    "stale-buffers": {"fp64"},
    "stale-shard-buffers": {"bitwise"},
    "stale-sum": {"fp64"},
    "summed-twice": {"one-step", "fp64"},
    "weight-gradient-of-another": {"one-step", "fp64"},
}
# In which class, and with which of the models and flags that are trained without --arch, each is caught. All others hold.
CAUGHT_BY_DEFAULTS = {
    "border-left-out": {("fp64", ""), ("fp64", "adamw"), ("fp64", "clip-grad"), ("evaluation", "nesterov")},
    "buffers-of-each": {("evaluation", "nesterov")},
    "decay-of-another": {("fp64", "adamw")},
    "decay-squared": {("fp64", "adamw")},
    "later-bucket-left-out": {("fp64", "adamw")},
    "no-look-ahead": {("fp64", "nesterov")},
    "steps-lost": {("fp64", "adamw")},
}
OF_BATCH_NORM = ("norms-not-synced", "stale-buffers", "stale-shard-buffers")  # models without it do not show them
OF_JOINING = ("factors-lost",)  # the layers of torch::nn join no gradients
# Where --localise says that it is: step, rank, micro-batch, operation, tensor. Of 8 steps the checkpoint is after 4, and the fourth
# of each epoch has the short batch.
PLACES = {
    "activation-scaled": (0, 1, 0, "forward", "output of fc2"),
    "activation-stale": (0, 1, 1, "forward", "output of fc2"),
    "backward-dropped": (0, 0, 1, "backward", "gradient of the output of fc3"),
    "bias-not-summed": (0, 0, None, "sum", "gradient of conv1.bias"),
    "bucket-left-out": (0, 0, None, "sum", "gradient of conv1.bias"),
    "division-forgotten": (0, 0, 0, "backward", "gradient of the output of fc3"),
    "factors-lost": (0, None, None, "backward over several micro-batches", "fc2.weight"),
    "leaves-shifted": (0, 0, None, "sum", "gradient of conv1.bias"),
    "mean-of-ranks": (0, 0, None, "sum", "gradient of conv1.bias"),
    "micro-batch-twice": (0, None, None, "forward", "output of conv1"),
    "momentum-lost": (4, 0, None, "update", "conv1.bias"),
    "norms-not-synced": (0, 0, 0, "forward", "output of conv1"),
    "old-gather": (1, 0, None, "gather", "conv2.bias"),
    "padding-counted": (3, 0, 0, "backward", "gradient of the output of fc3"),
    "rate-of-another-group": (0, 0, None, "update", "fc3.bias"),
    "slice-not-gathered": (0, 0, None, "gather", "conv1.bias"),
    "slice-shifted": (0, 1, None, "update", "conv1.bias"),
    "stale-buffers": (1, 0, None, "between steps", "bn1.num_batches_tracked"),
    "stale-shard-buffers": (1, 0, None, "between steps", "bn1.num_batches_tracked"),
    "stale-sum": (1, 0, None, "sum", "gradient of fc3.bias"),
    "summed-twice": (0, 0, None, "sum", "gradient of conv1.bias"),
    "weight-gradient-of-another": (0, 1, 0, "backward", "gradient of fc3.weight"),
}


def verify(*arguments, code=0):
    done = subprocess.run([BIN / "train", "verify-modes", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def test_modes_as_threads_and_as_processes_hold():
    modes = "single,dp,ddp(sync-bn=true),ddp(compress=fp16),zero(stage=3),pipeline"
    done = verify("--modes", modes, "--nproc", "2", "--steps", "8")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["mode", "ranks", "hosting", "arch", "class", "difference", "bound", "verdict", "flags"]
    rows = [line.split() for line in lines if "  holds" in line]
    assert {row[2] for row in rows} == {"-", "threads", "processes", "sockets"}
    assert {row[4] for row in rows} == {"fp64", "one-step", "compressed", "bitwise", "evaluation"}
    assert lines[-1] == f"{len(rows)} of {len(rows)} pairs hold"
    assert any(line.startswith("not run: dp with 2 ranks: --mode dp: launched with 2 ranks") for line in lines)
    assert all(float(row[5]) < float(row[6]) or (row[4] == "bitwise" and float(row[5]) == 0) for row in rows)
    assert any(0 < float(row[5]) for row in rows)  # otherwise nothing was compared with anything


def judge(*arguments):
    done = verify("--plugin", MUTANTS, "--nproc", "2", "--hosting", "threads", "--steps", "8", "--json", *arguments, code=1)
    return json.loads(done.stdout), done.stderr.splitlines()


@pytest.fixture(scope="module")
def judged():
    return judge("--modes", ",".join([*CAUGHT_BY, "released-early", "control"]), "--arch", "lenet,lenet(batch-norm=true)", "--localise")


@pytest.fixture(scope="module")
def judged_residual():
    """The same with a model that rounds more than LeNet."""
    return judge("--modes", ",".join([*CAUGHT_BY, "control"]), "--arch", "residual")


@pytest.mark.parametrize("mutant", [mutant for mutant in CAUGHT_BY if mutant not in OF_BATCH_NORM + OF_JOINING])
def test_every_mistake_is_caught_with_a_model_that_rounds_more(judged_residual, mutant):
    pairs = [pair for pair in judged_residual[0]["pairs"] if pair["mode"] == mutant]
    assert {pair["class"] for pair in pairs if not pair["holds"]} == CAUGHT_BY[mutant]
    # What rounding alone does is far below what a mistake does.
    for pair in pairs:
        assert pair["holds"] or pair["failure"] or pair["class"] == "bitwise" or pair["difference"] > 30 * pair["bound"], pair


def test_a_model_that_rounds_more_holds_below_a_bound_of_its_own(judged_residual):
    pairs = [pair for pair in judged_residual[0]["pairs"] if pair["mode"] == "control"]
    assert len(pairs) == 2 and all(pair["holds"] for pair in pairs), pairs
    one_step = next(pair for pair in pairs if pair["class"] == "one-step")
    assert 1e-6 < one_step["difference"] < one_step["bound"] < 1e-4


def test_a_model_with_dropout_is_compared_bit_by_bit():
    modes = "single(accumulate=8),ddp,ddp(sync-bn=true),dp,dp(devices=cpu:1),zero(stage=3),pipeline(recompute=always)"
    done = verify("--plugin", MUTANTS, "--arch", "dropout", "--modes", modes, "--nproc", "2", "--steps", "40")
    rows = [line.split() for line in done.stdout.splitlines() if line.endswith("holds")]
    assert [(row[0], row[2], row[4]) for row in rows] == [(mode, hosting, "bitwise") for mode, hosting in (
        ("single(accumulate=8)", "-"), ("ddp", "processes"), ("zero(stage=3)", "processes"),
        ("pipeline(recompute=always)", "processes"))]
    assert done.stdout.splitlines()[-1] == "4 of 4 pairs hold"
    assert "and dropout, one-step, fp64: the model draws random numbers, as dropout does, which are others in every mode" in done.stdout
    assert "not run: dp, dp(devices=cpu:1) with 1 rank and dropout, bitwise: the model draws random numbers" in done.stdout


def test_a_mistake_is_caught_with_dropout_too():
    done = verify("--plugin", MUTANTS, "--arch", "dropout", "--modes", "leaves-shifted", "--nproc", "2", "--steps", "40", code=1)
    assert "caught by bitwise: leaves-shifted, " in done.stdout and "0 of 1 pair hold" in done.stdout


@pytest.mark.parametrize("arch, hosting, reason", [
    ("dropout", "threads", "the model draws random numbers"),
    ("own-noise", "processes", "the model's forward in training mode gives something else when LibTorch's random numbers are the same"),
])
def test_random_numbers_that_nothing_fixes_are_not_compared(arch, hosting, reason):
    done = verify("--plugin", MUTANTS, "--arch", arch, "--modes", "ddp", "--nproc", "2", "--hosting", hosting, code=2)
    assert reason in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("mutant", CAUGHT_BY)
def test_every_mistake_is_caught_by_its_class(judged, mutant):
    pairs = [pair for pair in judged[0]["pairs"] if pair["mode"] == mutant and pair["class"] != "evaluation"]
    assert {pair["class"] for pair in pairs if not pair["holds"]} == CAUGHT_BY[mutant]
    for equivalence in CAUGHT_BY[mutant]:
        line = next(line for line in judged[1] if line.startswith(f"caught by {equivalence}: {mutant}, "))
        bound = r" > 0 \(" if equivalence == "bitwise" else r" > [\d.]+e-(06|12) \("
        assert re.search(bound, line) or mutant == "backward-early", line


@pytest.mark.parametrize("mutant", PLACES)
def test_the_place_of_every_mistake_is_named(judged, mutant):
    place = next(place for place in judged[0]["places"] if place["mode"] == mutant)
    assert tuple(place.get(key) for key in ("step", "rank", "micro_batch", "operation", "tensor")) == PLACES[mutant], place
    assert place["problem"] or place["difference"] is None or place["difference"] > place["bound"], place
    line = next(line for line in judged[1] if line.startswith(f"place: {mutant}, 2 ranks, threads, "))
    assert f": step {place['step']}" in line and place["tensor"] in line


@pytest.mark.parametrize("mutant, operation, tensor", [
    ("backward-early", "forward, backward or update", ""),
    ("released-early", "forward", "output of conv2"),
])
def test_a_mistake_that_ends_the_training_has_its_operation_and_its_message_as_place(judged, mutant, operation, tensor):
    assert {place["mode"] for place in judged[0]["places"]} == {*CAUGHT_BY, "released-early"}
    place = next(place for place in judged[0]["places"] if place["mode"] == mutant)
    assert (place["step"], place["operation"], place["tensor"], place["problem"]) == (0, operation, tensor, "fails"), place
    assert place["failure"] in next(line for line in judged[1] if line.startswith(f"place: {mutant}, "))
    assert any(line.startswith(f"caught by fp64: {mutant}, step 0, forward, backward or update: ") for line in judged[1])


@pytest.fixture(scope="module")
def judged_by_defaults():
    done = verify("--plugin", MUTANTS, "--modes", ",".join([*CAUGHT_BY_DEFAULTS, "control"]), "--nproc", "2", "--steps", "6", "--json",
                  code=1)
    return json.loads(done.stdout)["pairs"]


@pytest.mark.parametrize("mutant", CAUGHT_BY_DEFAULTS)
def test_mistakes_that_lenet_and_sgd_do_not_show_are_caught_by_the_defaults(judged_by_defaults, mutant):
    pairs = [pair for pair in judged_by_defaults if pair["mode"] == mutant]
    assert len(pairs) >= 5
    for pair in pairs:
        is_caught = any(pair["class"] == name and (word in pair["flags"] if word else not pair["flags"])
                        for name, word in CAUGHT_BY_DEFAULTS[mutant])
        assert pair["holds"] != is_caught and not pair["failure"], pair


def test_a_mode_without_a_mistake_holds_with_all_flags(judged_by_defaults):
    assert all(pair["holds"] for pair in judged_by_defaults if pair["mode"] == "control")


def test_flags_of_the_update_are_those_of_every_pair():
    flags = ["--optimizer", "adamw", "--average", "ema(every=1)", "--layer-lr", "fc1=0.5", "--bias-decay", "0", "--clip-grad", "value=0.1"]
    done = verify("--modes", "zero(stage=2)", "--nproc", "2", "--hosting", "threads", "--arch", "lenet", "--steps", "4", *flags)
    rows = [line for line in done.stdout.splitlines() if line.startswith("zero(stage=2) ")]
    assert len(rows) == 3 and all(row.endswith("holds    " + " ".join(flags)) for row in rows), rows


def test_places_of_what_only_the_average_and_evaluations_show():
    done = verify("--plugin", MUTANTS, "--modes", "decay-squared,buffers-of-each", "--nproc", "2", "--hosting", "threads", "--steps", "4",
                  "--arch", "lenet(batch-norm=true),mlp", "--average", "ema(every=3)", "--localise", "--json", code=1)
    places = {place["mode"]: (place["operation"], place["tensor"]) for place in json.loads(done.stdout)["places"]}
    assert places["decay-squared"][0] == "average" and places["buffers-of-each"] == ("evaluation", "said.of_weights"), places


def test_other_draws_in_a_second_forward_are_named():
    done = verify("--plugin", MUTANTS, "--arch", "row-dropout", "--modes", "recompute-draws-others", "--nproc", "2", "--hosting",
                  "threads", "--steps", "2", "--localise", code=1)
    assert "caught by one-step: recompute-draws-others, " in done.stdout and "caught by fp64: recompute-draws-others, " in done.stdout
    place = next(line for line in done.stdout.splitlines() if line.startswith("place: "))
    assert ": step 0, micro-batch 0, rank 0, stage in: output of in in recompute differs by " in place, place


def test_a_pair_that_holds_has_no_place():
    done = verify("--modes", "pipeline", "--arch", "lenet", "--nproc", "2", "--hosting", "threads", "--steps", "2", "--localise", "--json")
    assert json.loads(done.stdout)["places"] == []


def test_a_mode_of_a_plug_in_without_a_mistake_holds(judged):
    pairs = [pair for pair in judged[0]["pairs"] if pair["mode"] == "control"]
    assert {(pair["arch"], pair["class"]) for pair in pairs} == {
        (arch, equivalence) for arch in ("lenet", "lenet(batch-norm=true)") for equivalence in ("one-step", "fp64")}
    assert all(pair["holds"] for pair in pairs), pairs
    assert not judged[0]["holds"]


def test_a_mistake_alone_is_told_in_a_line():
    done = verify("--plugin", MUTANTS, "--modes", "bucket-left-out", "--arch", "lenet", "--nproc", "2", "--steps", "2", "--hosting",
                  "threads,processes", code=1)
    lines = [line for line in done.stdout.splitlines() if line.startswith("caught by fp64: bucket-left-out, ")]
    assert len(lines) == 1 and " > 1e-12 (2 ranks, threads, lenet; largest in " in lines[0]
    assert "processes" in done.stdout and "0 of 4 pairs hold" in done.stdout


@pytest.mark.parametrize("arguments, expected", [
    (["--modes", "dpp"], ['unknown mode "dpp"', 'did you mean "ddp"']),
    (["--modes", "ddp,ddp"], ["--modes", "twice"]),
    (["--modes", "mp", "--arch", "lenett"], ['unknown arch "lenett"']),
    (["--modes", "ddp(stage=2)"], ['unknown key "stage"']),
    (["--modes", "zero(stage=9)"], ["stage is 9; expected 1, 2 or 3"]),
    (["--modes", "ddp", "--nproc", "4", "-b", "3"], ["--batch-size is 3; expected 4 or more, one sample for each rank"]),
    (["--modes", "dp(devices=0:1)"], ["devices is 0:1 in a run on the CPU; expected threads, such as cpu:2"]),
    (["--modes", "mp", "--arch", "mlp", "--nproc", "4"], ["4 stages of a model of 2 blocks"]),
    (["--modes", "pipeline(micro-batches=5)"], ["micro-batches for --batch-size 24"]),
    (["--nproc", "0"], ["--nproc", "1 or more"]),
    (["--hosting", "fibres"], ["--hosting", "threads"]),
    (["--steps", "1"], ["--steps is 1; expected 2 or more"]),
    (["--optimizer", "adamm"], ['unknown optimizer "adamm"', "adam"]),
    (["--optimizer", "adam(beta1=2)"], ["beta1 is 2"]),
    (["--average", "mean"], ['unknown average "mean"', "ema"]),
    (["--layer-lr", "fc9=2"], ["--layer-lr", "fc9"]),
    (["--bias-decay", "-1"], ["--bias-decay is -1; expected 0 or more"]),
    (["--batch-size", "0"], ["--batch-size is 0"]),
    (["--batch-size", "99999999999"], ["--batch-size is 99999999999; expected 1 to 65536"]),
    (["--stepz", "3"], ["unknown flag", "--steps"]),
])
def test_impossible_commands_are_refused_in_a_line(arguments, expected):
    done = verify(*arguments, code=2)
    assert done.stderr.count("\n") == 1 and done.stdout == ""
    assert all(part in done.stderr for part in expected), done.stderr
