"""train --hosting threads: ranks that are threads of one process train, stop and fail as processes do."""
import json
import signal

import pytest

from train_tool import FAST, MUTANTS, run, start, summary, wait_for_steps

THREADS = [*FAST, "--hosting", "threads"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("mode, ranks", [("ddp", 2), ("zero(stage=2)", 2), ("mp", 3), ("pipeline(data=2)", 4)])
def test_threads_train_what_processes_train_to_the_bit(cache, tmp_path, mode, ranks):
    """Sums of two do not depend on their order; nothing here is summed over more ranks."""
    flags = ["--mode", mode, "--nproc", ranks]
    run(cache, *FAST, *flags, "--out", tmp_path / "processes")
    printed = run(cache, *THREADS, *flags, "--out", tmp_path / "threads").stdout
    assert f"{ranks} ranks (threads) on cpu" in printed
    bytes_of = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("processes", "threads")]
    assert bytes_of[0] == bytes_of[1]
    found, expected = summary(tmp_path / "threads"), summary(tmp_path / "processes")
    assert found["test_loss"] == expected["test_loss"] and found["world_size"] == ranks
    assert found["peak_memory_bytes"] < 0.8 * expected["peak_memory_bytes"]  # it is that of one process


def test_one_rank_needs_no_threads(cache, tmp_path):
    assert "1 rank (self)" in run(cache, *THREADS, "--out", tmp_path / "run").stdout


def test_an_evaluation_is_that_of_processes(cache, tmp_path):
    run(cache, *FAST, "--out", tmp_path / "run")
    for name, flags in (("processes", FAST), ("threads", THREADS)):
        run(cache, *flags, "-e", "--pretrained", tmp_path / "run" / "model.safetensors", "--mode", "ddp", "--nproc", 2,
            "--out", tmp_path / name)
    found, expected = ((tmp_path / name / "evaluation.csv").read_text() for name in ("threads", "processes"))
    assert found == expected


def test_a_signal_stops_all_ranks_and_the_run_goes_on_as_processes(cache, tmp_path):
    out = tmp_path / "run"
    flags = ["--mode", "ddp", "--nproc", 2, "-p", 1, "--epochs", 200, "--eval-at-end"]
    process = start(cache, *THREADS, *flags, "--out", out)
    wait_for_steps(process, out, 2)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and errors == ""
    assert printed.count("stopped by SIGTERM") == 1
    run(cache, *FAST, "--mode", "ddp", "--nproc", 2, "--resume", out / "checkpoint-last.safetensors", "--epochs", 1,
        "--out", tmp_path / "on")


def test_the_first_failure_is_the_one_line_and_the_exit_code(cache, tmp_path):
    """Every rank finds that the run has diverged; one of them says so."""
    done = run(cache, *THREADS, "--mode", "ddp", "--nproc", 3, "--lr", "1e30", "--out", tmp_path / "run", code=2)
    assert done.stderr.startswith("train: epoch 1, step ") and "the run diverged" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_rank_that_never_comes_back_does_not_keep_the_process(cache, tmp_path):
    """Rank 0 loads its first batch for minutes, and rank 1 waits for its labels. A thread cannot be killed, so the process
    ends without it."""
    done = run(cache, *THREADS, "--emulate-load", "10s", "--timeout", 1, "--mode", "pipeline", "--nproc", 2, "--out",
               tmp_path / "run", code=5)
    assert done.stderr == ("train: rank 1: threads: waiting for the labels from rank 0: nothing came within 1 s; rank 0 is "
                           "at step 0\n")


def test_models_that_are_built_in_turn_for_longer_than_a_step_may_take(cache, tmp_path):
    """With stage 3 each rank draws all weights, one rank after the other: 0.6 s each here. --timeout is of a step."""
    run(cache, *THREADS, "--plugin", MUTANTS, "--arch", "slow-to-build", "--timeout", 1, "--mode", "zero(stage=3)", "--nproc", 3, "-b", 33,
        "--out", tmp_path / "run")
    assert summary(tmp_path / "run")["world_size"] == 3


def test_a_profile_has_all_ranks_and_the_operators_of_rank_0(cache, tmp_path):
    run(cache, *THREADS, "--mode", "ddp", "--nproc", 2, "--profile", "3", "--out", tmp_path / "run")
    events = json.loads((tmp_path / "run" / "trace.json").read_text())["traceEvents"]
    lanes = [(event["pid"], event["args"]["name"]) for event in events if event["name"] == "thread_name"]
    assert [pid for pid, name in lanes if name == "trainer"] == [0, 1]
    assert {pid for pid, name in lanes if name.startswith("ops of thread")} == {0}


@pytest.mark.parametrize("flags, message", [
    (["--hosting", "fibres"], "--hosting: unknown hosting \"fibres\""),
    (["--rank", 0, "--world-size", 2, "--dist-url", "tcp://127.0.0.1:1"],
     "--hosting is threads for a rank that --rank names; expected processes, or --nproc alone"),
    (["--nproc", 2, "--dist-backend", "gloo"], "--dist-backend is gloo with --hosting threads; expected auto, or processes"),
])
def test_what_does_not_go_with_threads_is_refused(cache, tmp_path, flags, message):
    done = run(cache, *THREADS, "--mode", "ddp", *flags, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1
