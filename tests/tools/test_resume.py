"""A run that is killed and resumed ends with the same bits; a signal saves, on all ranks at the same step."""
import json
import random
import re
import signal

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from train_tool import DATA, FAST, SMALL, merged, metrics, run, start, summary, wait_for_steps

STEPS = 52  # 4 epochs of 13 steps
RUN = [*SMALL, "--epochs", "4", "--augment", "affine(degrees=15,translate=0.1)", "--save-every", "3 steps",
       "--print-freq", "1"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def uninterrupted(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "uninterrupted"
    run(cache, *RUN, "--out", out)
    return out


def resume_flags(out):
    last = out / "checkpoint-last.safetensors"
    return ["--resume", last] if last.exists() else []


def same_figures(one, other):
    """The step and epoch records without their times."""
    keys = ("kind", "epoch", "step", "loss", "accuracy", "learning_rate", "test_loss", "test_accuracy")
    return [{key: line.get(key) for key in keys} for line in metrics(one)] == [
        {key: line.get(key) for key in keys} for line in metrics(other)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_sigkill_at_random_steps_and_resume_ends_with_the_same_bits(cache, uninterrupted, tmp_path, seed):
    moments = random.Random(seed)
    out = tmp_path / "run"
    kills, reached = 0, 0
    while kills < 4:
        reached = min(reached + moments.randrange(1, 16), STEPS - 1)
        process = start(cache, *RUN, *resume_flags(out), "--out", out)
        wait_for_steps(process, out, reached)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += process.returncode == -signal.SIGKILL
        assert process.returncode in (0, -signal.SIGKILL)
    run(cache, *RUN, *resume_flags(out), "--out", out)
    assert (out / "model.safetensors").read_bytes() == (uninterrupted / "model.safetensors").read_bytes()
    assert summary(out)["accuracy"] == summary(uninterrupted)["accuracy"]
    assert same_figures(out, uninterrupted)
    assert not [path for path in out.iterdir() if "tmp" in path.name]


@pytest.mark.parametrize("name,code", [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_saves_and_the_run_goes_on_from_that_step(cache, uninterrupted, tmp_path, name, code):
    out = tmp_path / "run"
    flags = [*RUN, "--save-every", 0]  # only the signal makes it save
    process = start(cache, *flags, "--out", out)
    wait_for_steps(process, out, 20)
    process.send_signal(signal.Signals[name])
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == code, printed + errors
    assert f"stopped by {name} at epoch" in printed
    assert not (out / "model.safetensors").exists()
    resumed = run(cache, *flags, *resume_flags(out), "--out", out)
    (where,) = re.findall(r"resuming at (epoch \d, step \d+ of it)", resumed.stdout)
    assert re.search(rf"^Total training time: \d+\.\d s since {where}, where --resume went on$", resumed.stdout, re.M)
    assert 0 < summary(out)["resumed_at_step"] < summary(out)["steps"] == STEPS
    assert (out / "model.safetensors").read_bytes() == (uninterrupted / "model.safetensors").read_bytes()
    assert same_figures(out, uninterrupted)


def test_ranks_stop_at_one_step_and_another_number_of_ranks_goes_on(cache, tmp_path):
    out = tmp_path / "run"
    ddp = ["--mode", "ddp", "--nproc"]
    process = start(cache, *RUN, *ddp, 2, "--out", out)
    wait_for_steps(process, out, 20)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130, printed + errors
    step = int(re.search(r"stopped by SIGINT at epoch (\d), step (\d+) of it", printed).group(2))
    resumed = run(cache, *RUN, *ddp, 3, *resume_flags(out), "--out", out).stdout
    assert f"step {step} of it; the checkpoint was written with 2 ranks" in resumed
    records = metrics(out)
    assert [line["step"] for line in records if line["kind"] == "step"] == list(range(1, STEPS + 1))
    assert summary(out)["world_size"] == 3
    single = tmp_path / "single"
    run(cache, *RUN, "--resume", out / "checkpoint-best.safetensors", "--out", single)
    assert summary(single)["test_samples"] == 400


def test_a_run_that_is_stopped_while_ranks_take_steps_alone_ends_with_the_same_bits(cache, tmp_path):
    """They meet after 5 and 10 of 13 steps, and at the end of an epoch; a signal is counted 5 to 10 steps later."""
    flags = [*RUN, "--save-every", 0, "--mode", "ddp(local-steps=5,outer=nesterov)", "--nproc", 2]
    alone, out = tmp_path / "alone", tmp_path / "run"
    run(cache, *flags, "--out", alone)
    process = start(cache, *flags, "--out", out)
    wait_for_steps(process, out, 15)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143, printed + errors
    resumed = run(cache, *flags, *resume_flags(out), "--out", out)
    assert "left out" not in resumed.stdout and 0 < summary(out)["resumed_at_step"] < STEPS
    assert (out / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()
    assert same_figures(out, alone)


@pytest.mark.parametrize("mode", ["ddp", "pipeline"])
def test_a_signal_in_an_evaluation_saves_and_the_next_run_makes_it(cache, tmp_path, mode):
    # 10 batches, before each of which a vote takes 0.1 s
    flags = [*merged([*SMALL, "--data", "digits(count=400,size=224)", "-b", 40, "--arch", "mlp(hidden=8)"]), "--mode", mode,
             "--nproc", 2, "--sim-net", "100ms,1GB/s", "--epochs", 1, "--print-freq", 1, "--save-every", 0]
    alone, out = tmp_path / "alone", tmp_path / "run"
    run(cache, *flags, "--out", alone)
    process = start(cache, *flags, "--out", out)
    wait_for_steps(process, out, 10)  # the last one; then the evaluation begins
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and not errors, printed + errors
    assert re.search(r"^stopped by SIGTERM at epoch 1, step 10 of it, before its evaluation; go on with", printed, re.M), printed
    assert not [line for line in metrics(out) if line["kind"] == "epoch"]
    run(cache, *flags, "--resume", out / "checkpoint-last.safetensors", "--out", out)
    assert (out / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()
    assert same_figures(out, alone)


def test_more_epochs_say_how_the_rate_jumps(cache, tmp_path):
    out = tmp_path / "run"
    run(cache, *SMALL, "--epochs", 2, "--lr", 0.1, "-p", 1, "--out", out)
    rates = [line["learning_rate"] for line in metrics(out) if line["kind"] == "step"]
    own = ["-j", 1, "--threads", 1, "--device", "cpu"]
    printed = run(cache, "--resume", out, "--epochs", 4, "-p", 1, *own).stdout
    after = [line["learning_rate"] for line in metrics(out) if line["kind"] == "step"][len(rates)]
    (note,) = re.findall(r"^note: --epochs is 4 and was 2: the learning rate was (\S+) in step 26 and goes on at (\S+)$", printed, re.M)
    assert [float(text) for text in note] == pytest.approx([rates[-1], after], rel=1e-3)
    assert "learning rate was" not in run(cache, "--resume", out, "--epochs", 4, *own).stdout


def test_tensorboard_shows_each_step_once_after_a_kill(cache, tmp_path):
    """The first start has recorded steps that the second one, which goes on from a checkpoint, makes again."""
    out = tmp_path / "run"
    process = start(cache, *RUN, "--save-every", "10 steps", "--out", out)
    wait_for_steps(process, out, 17)
    process.kill()
    process.communicate()
    again = run(cache, *RUN, *resume_flags(out), "--out", out).stdout
    assert "resuming at " in again and len(list(out.glob("events.out.tfevents.*"))) == 2
    events = EventAccumulator(str(out), size_guidance={"scalars": 0})
    events.Reload()
    for kind, tag in (("step", "step/loss"), ("epoch", "epoch/loss")):
        records = [(line["step"], line["loss"]) for line in metrics(out) if line["kind"] == kind]
        assert [(event.step, event.value) for event in events.Scalars(tag)] == [(step, pytest.approx(loss, rel=1e-6)) for step, loss in records]


def test_a_finished_run_is_only_evaluated(cache, uninterrupted, tmp_path):
    out = tmp_path / "again"
    run(cache, *RUN, "--resume", uninterrupted / "checkpoint-last.safetensors", "--out", out)
    assert (out / "model.safetensors").read_bytes() == (uninterrupted / "model.safetensors").read_bytes()
    assert summary(out)["accuracy"] == summary(uninterrupted)["accuracy"]


def test_going_on_with_another_folders_run_replaces_this_ones_if_asked(cache, uninterrupted, tmp_path):
    out = tmp_path / "run"
    run(cache, *FAST, "--out", out)
    others = [*SMALL, "--epochs", 5, "--resume", uninterrupted / "checkpoint-last.safetensors", "--out", out]
    assert f"train: --out {out}: holds checkpoint-" in run(cache, *others, code=2).stderr
    run(cache, *others, "--force")
    assert [line["epoch"] for line in metrics(out) if line["kind"] == "epoch"] == [5]


def test_two_runs_do_not_share_a_folder(cache, tmp_path):
    out = tmp_path / "run"
    first = start(cache, *RUN, "--epochs", 400, "--out", out)
    wait_for_steps(first, out, 3)
    second = run(cache, *FAST, "--out", out, code=2)
    assert f"--out {out}: another run is writing into it" in second.stderr
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)
    assert first.returncode == 130 and (out / "checkpoint-last.safetensors").exists()


def test_resuming_without_out_goes_on_in_the_checkpoints_folder(cache, tmp_path):
    out = tmp_path / "run"
    run(cache, *FAST, "--out", out)
    run(cache, *SMALL, "--epochs", 3, "--resume", out / "checkpoint-last.safetensors", cwd=tmp_path)
    assert [line["epoch"] for line in metrics(out) if line["kind"] == "epoch"] == [1, 2, 3]
    assert json.loads((out / "options.json").read_text())["epochs"] == 3
    assert not (tmp_path / "runs").exists()


def test_a_resumed_or_evaluated_run_is_the_one_that_it_was(cache, tmp_path):
    out = tmp_path / "run"
    trained = run(cache, *SMALL, "--epochs", 1, "--lr", 0.02, "--augment", "flip(p=0.1)", "--out", out).stdout
    accuracy = re.search(r"Accuracy over .*", trained).group()
    last = out / "checkpoint-last.safetensors"
    for flags in (["-e", "--out", out], ["-e", "--resume", last], ["-e", "--resume", out]):
        assert accuracy in run(cache, *flags).stdout, flags
    resumed = run(cache, "--resume", last, "--epochs", 2).stdout
    assert f"data {DATA}" in resumed and "augment flip(p=0.1)" in resumed and "batch 32" in resumed
    options = json.loads((out / "options.json").read_text())
    assert (options["lr"], options["epochs"], options["batch-size"]) == (0.02, 2, 32)
    (out / "options.json").write_text("{}")
    assert "options.json" in run(cache, "--resume", last, code=4).stderr
