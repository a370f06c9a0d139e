"""train plan-modes: what it prints, what a file of another machine gives, and what cannot be typed."""
import json
import re
import shlex

import pytest

from train_tool import SMALL, packed_cache, run  # noqa: F401 (a fixture)

PLAN = ["plan-modes", *SMALL, "--epochs", 1, "--eval-at-end"]


def rows_of(text):
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.fixture(scope="module", name="machine")
def measured_machine(cache, tmp_path_factory):
    file = tmp_path_factory.mktemp("machine") / "machine.json"
    run(cache, *PLAN, "--modes", "single,ddp(compress=fp16),pipeline(schedule=zero-bubble)", "--nproc", "1,2", "--save-machine",
        file)  # fmt: skip
    return file


def predictions(cache, tmp_path, machine, *flags):
    file = tmp_path / "plan.json"
    run(cache, *PLAN, "--machine", machine, "--json", file, *flags)
    return {(row["mode"], row["ranks"]): row for row in json.loads(file.read_text())["rows"]}


def test_the_last_line_is_the_command_of_the_fastest_whose_run_says_how_far_off_that_was(cache, tmp_path, machine):
    done = run(cache, *PLAN, "--machine", machine, "--modes", "single,ddp", "--nproc", "1,2")
    table, (said, command) = rows_of(done.stdout), done.stdout.splitlines()[-2:]
    assert said.startswith(f"fastest: {table[0][0]} with {table[0][1]} rank")
    words = shlex.split(command)
    assert words[0] == "train" and words[words.index("--mode") + 1] == table[0][0]
    trained = run(cache, *words[1:], "--out", tmp_path / "run")
    line = [line for line in trained.stdout.splitlines() if line.startswith("prediction: a step takes")]
    assert len(line) == 1 and re.fullmatch(r"prediction: a step takes \S+ ms; it took \S+ ms \(the prediction is \d+ % too (fast|slow)\)",
                                           line[0]), trained.stdout  # fmt: skip
    told = json.loads((tmp_path / "run" / "summary.json").read_text())["predicted_step"]
    assert told["error"] == pytest.approx(told["ms"] / told["measured_ms"] - 1)


def test_a_file_gives_the_same_predictions_every_time(cache, tmp_path, machine):
    flags = ["--modes", "single,ddp,zero(stage=3),ddp(compress=fp16),mp,pipeline(schedule=zero-bubble)", "--nproc", "1,2"]
    first = predictions(cache, tmp_path, machine, *flags)
    assert predictions(cache, tmp_path, machine, *flags) == first
    assert set(first) == {("single", 1), ("ddp", 2), ("zero(stage=3)", 2), ("ddp(compress=fp16)", 2), ("mp", 2), ("pipeline(schedule=zero-bubble)", 2)}
    assert all(row["step_seconds"] > 0 and len(row["rank_bytes"]) == row["ranks"] for row in first.values())


def test_another_machine_is_a_file_with_other_numbers(cache, tmp_path, machine):
    costs = json.loads(machine.read_text())
    flags = ["--modes", "single,ddp", "--nproc", "1,4"]
    few = predictions(cache, tmp_path, machine, *flags)
    costs["cores"] = 64
    costs["load"] = {"alone": 0, "beside": 0, "in_turn": 0}
    costs["message"] = {"seconds": 0, "seconds_per_byte": 0, "cores": 1}
    for collective in costs["collectives"]:
        collective["sum"] = collective["vote"] = costs["message"]
    file = tmp_path / "large.json"
    file.write_text(json.dumps(costs))
    many = predictions(cache, tmp_path, file, *flags)
    assert many["ddp", 4]["step_seconds"] < 0.7 * few["ddp", 4]["step_seconds"]


def test_an_emulated_step_over_an_emulated_network_is_what_its_numbers_say(cache, tmp_path, machine):
    emulation = ["--nproc", "1,2", "--emulate-step", "400ms", "--sim-net", "1ms,1GB/s"]
    rows = predictions(cache, tmp_path, machine, "--modes", "single,ddp", *emulation)
    assert rows["single", 1]["step_seconds"] == pytest.approx(0.4, rel=0.05)
    assert rows["ddp", 2]["step_seconds"] == pytest.approx(0.2, rel=0.05)
    done = run(cache, *PLAN, "--machine", machine, "--modes", "single,zero(stage=3)", *emulation)
    assert "plan-modes: no prediction of zero(stage=3) with 2 ranks: an emulated step gathers no parameters" in done.stderr
    assert rows_of(done.stdout)[-1][:1] == ["zero(stage=3)"] and rows_of(done.stdout)[-1][4] == "no prediction"


def test_modes_that_do_not_fit_are_marked(cache, machine):
    flags = ["--machine", machine, "--modes", "single,ddp", "--nproc", "1,2"]
    done = run(cache, *PLAN, *flags, "--memory", "1MB", code=1)
    assert all(row[-1] == "no" for row in rows_of(done.stdout))
    assert done.stdout.splitlines()[-1].startswith("none fits; the smallest needs ")
    assert all(row[-1] == "yes" for row in rows_of(run(cache, *PLAN, *flags, "--memory", "1TB").stdout))


@pytest.mark.parametrize("flags, line", [
    (["--memory", "16"], '--memory is "16"; expected a number with its unit, as 16GB or 900MB'),
    (["--memory", "-1GB"], '--memory is "-1GB"; expected a number with its unit'),
    (["--mode", "ddp"], "--mode ddp: cannot be given to plan-modes; expected --modes"),
    (["--exact", "8"], "--exact 8: cannot be given to plan-modes; expected no --exact"),
    (["--modes", "ddp", "--nproc", "1"], "--modes ddp: no mode can run with the ranks of --nproc"),
    (["--nproc", "0"], '--nproc is "0"; expected whole numbers, 1 or more'),
    (["--machine", "a", "--save-machine", "b"], "--save-machine is b with --machine a; expected one of the two"),
    (["--predicted-step", "5"], '--predicted-step is "5"; expected a time with its unit'),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_command_that_cannot_be_is_one_line(cache, flags, line):
    said = run(cache, *PLAN, *flags, code=2).stderr
    assert said.startswith("train: " + line) and said.count("\n") == 1, said


def test_a_file_that_is_no_machine_is_one_line(cache, tmp_path, machine):
    file = tmp_path / "machine.json"
    file.write_text(machine.read_text()[:-20])
    said = run(cache, *PLAN, "--machine", file, code=4).stderr
    assert said.startswith(f"train: {file}: ") and said.count("\n") == 1, said
    said = run(cache, *PLAN, "--machine", machine, "-a", "mlp", code=2).stderr
    assert said.startswith(f"train: --machine {machine}: is of lenet, ") and said.count("\n") == 1, said


def test_a_compression_that_a_file_lacks_is_one_line(cache, machine):
    said = run(cache, *PLAN, "--machine", machine, "--modes", "ddp(compress=powersgd)", "--nproc", "2", code=2).stderr
    assert said == "train: plan-modes: compress=powersgd with rank=2 was not measured; expected a --machine with that\n"
