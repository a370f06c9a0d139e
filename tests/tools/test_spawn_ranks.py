"""run_ranks(): ranks that work, fail, die, hang or are told to stop."""
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


def start(scenario, *before):
    """The launcher, after both of its ranks have said that they are ready."""
    process = subprocess.Popen([*before, LAUNCH, scenario], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
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
    assert result.returncode == 5
    assert result.stderr.splitlines()[-1] == "rank 1: killed by signal 9 (Killed); the other ranks were ended"


def test_a_rank_that_ignores_sigterm_is_killed(tmp_path):
    result = run("stubborn", tmp_path)  # takes the 10 s that a rank gets to end
    assert result.returncode == 3
    assert result.stderr.splitlines()[-1] == "[rank 1] launch: disk: no space left; free some"


def test_the_cause_is_blamed_and_not_its_echo(tmp_path):
    result = run("echo", tmp_path)
    assert result.returncode == 4
    lines = result.stderr.splitlines()
    assert lines[-1] == "[rank 1] launch: shard 3: sample 35: crc32c is wrong; pack it again"
    assert any(line.startswith("[rank 0] launch: rank 0: gloo: all_reduce") for line in lines)


def test_of_ranks_with_device_errors_the_first_is_blamed(tmp_path):
    result = run("echoes", tmp_path)
    assert result.returncode == 5
    lines = result.stderr.splitlines()
    assert lines[-1].startswith("[rank 0] launch: rank 0: gloo: all_reduce: Connection closed by peer")
    assert any(line.startswith("[rank 1] launch: rank 1: gloo: all_reduce") for line in lines)


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_reach_every_rank_once(sent, code):
    process = start("stop")
    process.send_signal(sent)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert output.splitlines() == ["stopped 1", "stopped 1"]


def test_a_rank_that_cannot_save_after_a_signal_is_what_failed():
    process = start("full")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 3
    assert errors.splitlines()[-1] == "[rank 1] launch: checkpoint: no space left; free some"


def signal_until_it_ends(process, sent):
    while True:
        process.send_signal(sent)
        try:
            return process.communicate(timeout=0.2)
        except subprocess.TimeoutExpired:
            pass


@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_ranks_at_work(sent, code):
    process = start("busy")
    _, errors = signal_until_it_ends(process, sent)
    assert process.returncode in (code, -sent)  # the latter if one more signal comes while it ends
    assert "a second signal came after" in errors


def test_ranks_that_do_nothing_after_a_signal_are_ended():
    process = start("deaf")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # takes 5 s
    assert process.returncode == 130
    assert errors.splitlines()[-1] == ("launch: no rank has used the processor or a disk for 5 s after SIGINT: all ranks were "
                                       "killed; the last checkpoint was saved before that")


def test_a_stopped_rank_keeps_nobody_after_a_signal():
    process = start("busy")
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGSTOP)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)  # takes 5 s
    assert process.returncode == 143
    assert errors.splitlines()[-1].startswith("launch: rank 1 is stopped after SIGTERM: all ranks were killed")


def test_a_signal_that_ends_one_rank_stops_all():
    process = start("orphan")  # whose ranks do not handle it
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[1]), signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert errors == "launch: SIGTERM ended rank 1; the others are told to stop\n"


def test_nohup_keeps_a_closed_terminal_from_ending_anything():
    process = start("stop", "nohup")
    process.send_signal(signal.SIGHUP)
    output, _ = signal_until_it_ends(process, signal.SIGTERM)
    assert process.returncode in (143, -signal.SIGTERM) and output.count("stopped") == 2


def test_no_rank_outlives_its_parent():
    process = start("orphan")
    process.kill()
    process.communicate(timeout=60)  # ends when the last rank has closed its end of the pipe
    assert process.returncode == -signal.SIGKILL
