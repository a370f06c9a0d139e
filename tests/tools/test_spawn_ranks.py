"""spawn_ranks: ranks that work, fail, die, hang and are told to stop."""
import os
import pathlib
import signal
import subprocess

import pytest

LAUNCH = pathlib.Path(os.environ["PENSTOCK_BIN"]) / "launch"
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PENSTOCK_PARENT")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}


def run(*arguments):
    return subprocess.run([LAUNCH, *map(str, arguments)], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)


def start(scenario):
    """The launcher, both ranks of which have said that they are ready."""
    process = subprocess.Popen([LAUNCH, scenario], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    lines = []
    while lines.count("ready\n") < 2:
        lines.append(process.stdout.readline())
        assert lines[-1], "the launcher ended early: " + process.stderr.read()
    return process


def test_ranks_know_each_other_and_their_lines_pass_through():
    result = run("work")
    assert result.returncode == 0
    assert sorted(result.stdout.splitlines()) == [f"rank {r} of 2 by penstock at 127.0.0.1" for r in (0, 1)]
    assert sorted(result.stderr.splitlines()) == [f"[rank {r}] a line of rank {r}" for r in (0, 1)]


def test_a_failing_rank_ends_the_others_and_its_message_comes_last_once(tmp_path):
    result = run("fail", tmp_path)
    assert result.returncode == 3
    assert result.stderr.splitlines() == ["[rank 1] launch: disk: no space left; free some"]


def test_a_rank_that_ends_without_a_message_is_named(tmp_path):
    result = run("silent", tmp_path)
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1] == "rank 1: exit code 3 without a message; the other ranks were ended"


def test_a_killed_rank_is_named_with_its_signal(tmp_path):
    result = run("killed", tmp_path)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == "rank 1: killed by signal 9 (Killed); the other ranks were ended"


def test_a_rank_that_ignores_sigterm_is_killed(tmp_path):
    result = run("stubborn", tmp_path)  # takes the 10 s that a rank gets
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1] == "[rank 1] launch: disk: no space left; free some"


def test_the_cause_is_blamed_and_not_its_echo(tmp_path):
    result = run("echo", tmp_path)
    assert result.returncode == 4
    lines = result.stderr.splitlines()
    assert lines[-1] == "[rank 1] launch: shard 3: sample 35: crc32c is wrong; pack it again"
    assert any(line.startswith("[rank 0] launch: rank 0: gloo: all_reduce") for line in lines)


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_every_rank_once(sent, code):
    process = start("stop")
    process.send_signal(sent)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert output.splitlines() == ["stopped 1", "stopped 1"]


def test_a_second_signal_ends_ranks_that_hang():
    process = start("deaf")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)  # takes the 30 s that ranks get to save
    assert process.returncode in (130, 143)  # whichever the kernel delivers first


def test_no_rank_outlives_its_parent():
    process = start("orphan")
    process.kill()
    process.communicate(timeout=60)  # ends when the last rank has closed its end of the pipe
    assert process.returncode == -signal.SIGKILL
