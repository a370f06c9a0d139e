"""Ranks that differ, do not come, stop, die or are told to stop: each prints one line and has the right exit code."""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import pty
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

from test_launchers import children_of, rank_of
from train_tool import FAST, SMALL, TRAIN, environment, free_port, metrics, run, start, wait_for_steps


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    for data in (SMALL, ["--data", "digits(count=400,size=16,seed=1)", *SMALL[2:]]):
        run(folder, *data, "--epochs", 1, "--force", "--out", folder / "run")  # packs
    return folder


def world(size=2, host="127.0.0.1"):
    return ["--mode", "ddp", "--world-size", size, "--dist-url", f"tcp://{host}:{free_port()}"]


def replaced(flags, other):
    """`flags` with the values in `other` in place of their own."""
    names = other[::2]
    pairs = zip(flags[::2], flags[1::2])
    return [word for pair in pairs if pair[0] not in names for word in pair] + other


def start_ranks(cache, out, *flags):
    """Two ranks, started by hand, that train until they are stopped."""
    flags = [*SMALL, *world(), "--epochs", 500, "--print-freq", 1, "--out", out, *flags]
    return [start(cache, *flags, "--rank", rank) for rank in (0, 1)]


def ends_of(ranks, timeout=60):
    """Exit code and lines of stderr, for each rank."""
    errors = [rank.communicate(timeout=timeout)[1].splitlines() for rank in ranks]
    return [(rank.returncode, lines) for rank, lines in zip(ranks, errors)]


@pytest.mark.parametrize("flags, message", [
    (["--lr", "0.2"], "--lr is 0.2; expected 0.05, as rank 0 has it"),
    (["--arch", "mlp", "--epochs", "7"], "--arch is mlp; expected lenet, as rank 0 has it (--epochs differs too)"),
    (["--data", "digits(count=400,size=16,seed=1)"], "--data is 400 samples with checksum ")])
def test_ranks_that_differ_are_refused_at_all_of_them(cache, tmp_path, flags, message):
    common = [*FAST, *world(), "--out", tmp_path / "run"]
    ends = ends_of([start(cache, *common, "--rank", 0), start(cache, *replaced(common, flags), "--rank", 1)])
    assert ends[0] == ends[1]
    code, lines = ends[0]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("train: rank 1: " + message), lines
    assert not (tmp_path / "run").exists()


def test_ranks_with_other_pretrained_weights_are_refused(cache, tmp_path):
    files = [tmp_path / str(seed) / "model.safetensors" for seed in (1, 2)]
    for seed, file in zip((1, 2), files):
        run(cache, *SMALL, "--epochs", 1, "--seed", seed, "--out", file.parent)
    common = [*FAST, *world(), "--out", tmp_path / "run"]
    ends = ends_of([start(cache, *common, "--rank", rank, "--pretrained", files[rank]) for rank in (0, 1)])
    assert ends[0] == ends[1]
    code, lines = ends[0]
    assert code == 2 and len(lines) == 1 and lines[0].startswith("train: rank 1: --pretrained is "), lines
    assert not (tmp_path / "run").exists()


def test_every_flag_stands_in_options_json(cache, tmp_path):
    """Whoever adds a flag says in the flag table whether ranks must agree on it. Of --config ranks get the flags in the file."""
    flags = re.findall(r"^ +(?:-\w,\s*)?(--[\w,-]+)", run(cache, "--help").stdout, re.MULTILINE)
    assert len(flags) > 30
    options = run_options(cache, tmp_path)
    for names in flags:
        long = {name[2:] for name in names.split(",") if name.startswith("--")} - {"help", "version", "config", "print-config"}
        assert not long or long & set(options), f"{names} is not in the flag table"


def run_options(cache, tmp_path):
    import json
    run(cache, *SMALL, "--epochs", 1, "--out", tmp_path / "run")
    return json.loads((tmp_path / "run/options.json").read_text())


def interfaces_with_an_address():
    """Those with an IPv4 address: lo, and mostly another one."""
    get_address = 0x8915  # SIOCGIFADDR
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                fcntl.ioctl(probe, get_address, struct.pack("256s", name.encode()))
                found.append(name)
    assert "lo" in found
    return found


def test_ranks_of_one_machine_may_name_an_interface(cache, tmp_path):
    """Rank 0 listened on that interface's address, where no other rank of the machine looked for it."""
    for name in interfaces_with_an_address():
        run(cache, *FAST, "--mode", "ddp", "--nproc", 2, "--interface", name, "--timeout", 5, "--out", tmp_path / name)


def test_a_rank_alone_says_for_whom_it_waited(cache, tmp_path):
    for rank, other in ((0, 1), (1, 0)):
        place = world()
        done = run(cache, *FAST, *place, "--rank", rank, "--timeout", 1, "--out", tmp_path / "run", code=5)
        assert done.stderr == (f"train: rank {rank}: waited 5 s for rank {other} of 2 at {place[-1][6:]}; expected all "
                               "ranks there, with the same --dist-url (or a longer --timeout)\n")


def test_a_host_that_does_not_resolve_is_told_at_once(cache, tmp_path):
    host = "x" * 64  # too long for a host name, so no server is asked
    done = run(cache, *FAST, *world(host=host), "--rank", 1, "--out", tmp_path / "run", code=5)
    assert done.stderr.startswith(f"train: rendezvous: {host}: ") and done.stderr.count("\n") == 1


def test_a_rank_that_is_there_twice_is_refused_and_the_others_train(cache, tmp_path):
    flags = [*FAST, *world(3), "--out", tmp_path / "run"]
    twins = [start(cache, *flags, "--rank", 1), start(cache, *flags, "--rank", 1)]
    first = start(cache, *flags, "--rank", 0)
    while not (ended := [twin for twin in twins if twin.poll() is not None]):
        time.sleep(0.01)
    code, lines = ends_of(ended)[0]
    assert code == 5 and len(lines) == 1 and "rank 1: there is a rank 1 at 127.0.0.1:" in lines[0], lines
    rest = [first, start(cache, *flags, "--rank", 2), *(twin for twin in twins if twin not in ended)]
    assert [code for code, _ in ends_of(rest)] == [0, 0, 0]


def test_a_stopped_rank_is_named_by_the_others(cache, tmp_path):
    ranks = start_ranks(cache, tmp_path / "run", "--timeout", 4)
    wait_for_steps(ranks[0], tmp_path / "run", 10)
    ranks[1].send_signal(signal.SIGSTOP)
    (code, lines), = ends_of(ranks[:1])
    ranks[1].kill()
    ranks[1].communicate()
    assert code == 5 and len(lines) == 1
    assert re.match(r"train: rank 0: gloo: \w+: rank 1 did not come past step \d+ within 4 s, last heard of \d s ago; "
                    "expected it to run, it was killed or stopped, or its machine is gone$", lines[0]), lines


@pytest.mark.parametrize("mode", ["ddp", "pipeline"])
def test_ranks_that_ctrl_z_has_stopped_for_longer_than_the_time_out_go_on(cache, tmp_path, mode):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 500, "--print-freq", 1, "--mode", mode, "--nproc", 2, "--timeout", 2, "--out", out)
    wait_for_steps(process, out, 10)
    process.send_signal(signal.SIGTSTP)  # comes to the launcher alone
    while {state_of(pid) for pid in (process.pid, *children_of(process.pid))} != {"T"}:
        time.sleep(0.01)
    steps = len(metrics(out))
    time.sleep(3)  # the pause
    assert len(metrics(out)) == steps
    process.send_signal(signal.SIGCONT)
    wait_for_steps(process, out, steps + 30)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and errors == "", printed + errors


def test_ranks_of_gloo_that_are_all_suspended_go_on(cache, tmp_path):
    out = tmp_path / "run"
    ranks = start_ranks(cache, out, "--timeout", 2, "--dist-backend", "gloo")
    wait_for_steps(ranks[0], out, 10)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for rank in ranks:
            rank.send_signal(number)
        steps = len(metrics(out))
        time.sleep(3 if number == signal.SIGSTOP else 0)  # the pause
    wait_for_steps(ranks[0], out, steps + 30)
    for rank in ranks:
        rank.send_signal(signal.SIGTERM)
    assert ends_of(ranks) == [(143, []), (143, [])]


def test_a_stopped_rank_that_is_woken_blames_nobody_else(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 500, "--print-freq", 1, "--mode", "ddp", "--nproc", 2, "--timeout", 2, "--out", out)
    wait_for_steps(process, out, 10)
    os.kill(next(child for child in children_of(process.pid) if rank_of(child) == 1), signal.SIGSTOP)
    lines = process.communicate(timeout=60)[1].splitlines()
    assert process.returncode == 5 and lines
    for line in lines:  # rank 1's own, if it comes to write one before it is ended
        assert re.search(r"rank 1 did not come past step \d+ within 2 s, last heard of \d+ s ago", line) or re.match(
            r"\[rank 1\] train: rank 1: gloo: .*: this rank was stopped for \d+ s, and another one has not come since; ", line), lines


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_stopped_rank_is_what_a_restart_is_for(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 2, "--print-freq", 1, "--mode", "ddp", "--nproc", 2, "--save-every", "3 steps",
                    "--max-restarts", 1, "--timeout", 2, "--emulate-load", "10ms", "--out", out)
    wait_for_steps(process, out, 4)
    os.kill(next(child for child in children_of(process.pid) if rank_of(child) == 1), signal.SIGSTOP)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 0, printed + errors
    assert re.search(r"^launch: rank 0: gloo: \w+: rank 1 did not come past step \d+ within 2 s, last heard of \d s ago; restart 1 of 1, "
                     r"from step \d+ in ", errors, re.M), errors


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_named_by_the_survivor(cache, tmp_path, victim):
    ranks = start_ranks(cache, tmp_path / "run")
    wait_for_steps(ranks[0], tmp_path / "run", 10)
    ranks[victim].kill()
    code, lines = ends_of(ranks)[1 - victim]
    assert code == 5 and len(lines) == 1, lines
    assert re.match(rf"train: rank {1 - victim}: gloo: \w+: rank {victim} did not come past step \d+, last heard", lines[0])


def test_what_a_rank_fails_with_is_told_by_the_others(cache, tmp_path):
    out = tmp_path / "run"
    ranks = start_ranks(cache, out)
    wait_for_steps(ranks[0], out, 5)
    out.rename(tmp_path / "elsewhere")  # at once: files that are removed one by one are written anew meanwhile
    (code, lines), (other_code, other_lines) = ends_of(ranks)
    assert code == 3 and "metrics.jsonl: No such file or directory; expected" in lines[0] and len(lines) == 1, lines
    assert other_code == 5 and len(other_lines) == 1
    assert "gloo: " in other_lines[0] and "rank 0 has ended: " + lines[0].removeprefix("train: ") in other_lines[0]


def test_a_launcher_with_a_stopped_rank_ends_after_a_signal(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 500, "--print-freq", 1, "--mode", "ddp", "--nproc", 2, "--out", out)
    wait_for_steps(process, out, 10)
    stopped = next(child for child in children_of(process.pid) if rank_of(child) == 1)
    os.kill(stopped, signal.SIGSTOP)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)  # takes 5 s
    assert process.returncode == 130
    assert errors.splitlines()[-1].startswith("launch: rank 1 is stopped after SIGINT: all ranks were killed")


def test_a_rank_that_alone_is_told_to_stop_stops_all(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 500, "--print-freq", 1, "--mode", "ddp", "--nproc", 2, "--max-restarts", 1,
                    "--out", out)
    wait_for_steps(process, out, 10)
    os.kill(next(child for child in children_of(process.pid) if rank_of(child) == 1), signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped by SIGTERM" in printed and not errors, errors
    assert (out / "checkpoint-last.safetensors").exists()


@pytest.mark.parametrize("mode", [["--mode", "single"], ["--mode", "ddp", "--nproc", 2]])
def test_a_closed_terminal_leaves_a_checkpoint(cache, tmp_path, mode):
    out = tmp_path / "run"
    main, terminal = pty.openpty()
    command = [TRAIN, *SMALL, *mode, "--epochs", 500, "--print-freq", 1, "--save-every", 0, "--out", out]
    process = subprocess.Popen([*map(str, command)], env=environment(cache), start_new_session=True, stdin=terminal,
                               stdout=terminal, stderr=terminal, preexec_fn=lambda: os.ttyname(0) and claim_terminal())
    os.close(terminal)
    wait_for_steps(process, out, 5)
    os.close(main)
    assert process.wait(timeout=60) == 128 + signal.SIGHUP
    assert (out / "checkpoint-last.safetensors").exists()


def claim_terminal():
    import termios
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_second_interrupt_ends_a_rank_that_waits(cache, tmp_path):
    ranks = start_ranks(cache, tmp_path / "run")
    wait_for_steps(ranks[0], tmp_path / "run", 5)
    ranks[1].send_signal(signal.SIGSTOP)
    while ranks[0].poll() is None:
        ranks[0].send_signal(signal.SIGINT)
        time.sleep(0.1)
    ranks[1].kill()
    assert [code for code, _ in ends_of(ranks)] == [-signal.SIGINT, -signal.SIGKILL]


def test_a_signal_ends_an_emulated_load(cache, tmp_path):
    process = start(cache, *SMALL, "--emulate-load", "1000s", "--out", tmp_path / "run")
    handles = re.compile(r"SigCgt:\t([0-9a-f]+)")
    while not int(handles.search(pathlib.Path(f"/proc/{process.pid}/status").read_text())[1], 16) >> (signal.SIGTERM - 1) & 1:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped by SIGTERM" in printed and errors == "", errors


@pytest.mark.parametrize("mode, code, message", [
    (["--mode", "single"], -signal.SIGPIPE, ""),
    (["--mode", "ddp", "--nproc", 2, "--max-restarts", 1], 128 + signal.SIGPIPE,
     "launch: the output of rank 0 was closed; all ranks were ended")])
def test_an_output_that_is_closed_ends_ranks_as_it_ends_one(cache, tmp_path, mode, code, message):
    process = start(cache, *SMALL, *mode, "--epochs", 500, "--print-freq", 1, "--out", tmp_path / "run")
    process.stdout.readline()
    process.stdout.close()  # as `| head -1` does
    errors = process.stderr.read()
    assert process.wait(timeout=60) == code
    assert errors.splitlines()[-1:] == [message] * bool(message), errors


def test_a_parent_that_is_another_is_told(cache, tmp_path):
    launcher = ["env", "PENSTOCK_PARENT=1", "RANK=0", "WORLD_SIZE=1"]
    done = run(cache, *FAST, "--out", tmp_path / "run", code=2, launcher=launcher)
    assert done.stderr == (f"train: PENSTOCK_PARENT is 1, and this process was started by {os.getpid()}; expected no such variable, "
                           "train sets it for the ranks that it starts\n")


@pytest.mark.parametrize("flags, name", [(["--mode", "pipeline", "--nproc", 10001], "--nproc"),
                                         (["--mode", "mp(devices=cpu:10001)"], "--mode mp(devices=cpu:10001)")])
def test_more_ranks_than_a_machine_may_have_are_refused_by_their_number(cache, tmp_path, flags, name):
    done = run(cache, *FAST, *flags, "--out", tmp_path / "run", code=2)
    assert done.stderr == f"train: {name}: 10001 ranks on this machine; expected 1024 or fewer\n"


def variable(pid, name):
    """Read from the environment of a process; "" before it runs its program."""
    entries = pathlib.Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next((entry.partition("=")[2] for entry in entries if entry.startswith(f"{name}=")), "")


def test_a_stranger_in_the_meeting_ends_no_rank(cache, tmp_path):
    """Rank 1 is stopped before it arrives. Meanwhile somebody who knows where ranks look says that all of them shall end."""
    from torch.distributed import TCPStore  # takes seconds
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 500, "--print-freq", 1, "--mode", "ddp", "--nproc", 2, "--out", out)
    while set(ranks := {variable(pid, "RANK"): pid for pid in children_of(process.pid)}) != {"0", "1"}:
        time.sleep(0.001)
    os.kill(ranks["1"], signal.SIGSTOP)
    port, token = int(variable(ranks["0"], "MASTER_PORT")), variable(ranks["0"], "PENSTOCK_TOKEN")
    while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
        time.sleep(0.01)
    room = "penstock/first" + hashlib.sha1(f"name {token}".encode()).hexdigest()
    store = TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False)
    store.wait([f"{room}/terms/0"])
    for key in ("refusal", "reason", "terms/1", "place/1"):
        store.set(f"{room}/{key}", "all of you shall end")
    store.add(f"{room}/arrived", 1)
    os.kill(ranks["1"], signal.SIGCONT)
    wait_for_steps(process, out, 3)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and errors == "", printed + errors


def test_a_loopback_interface_that_is_down_is_told_at_once(cache, tmp_path):
    flags = [*FAST, "--mode", "ddp", "--nproc", 2, "--out", tmp_path / "run"]
    done = run(cache, *flags, code=5, launcher=["unshare", "-n"])
    assert done.stderr == ("train: --nproc is 2: ranks meet at 127.0.0.1, where this machine does not reach itself: Network is unreachable; "
                           "expected a loopback interface that is up (ip link set lo up), or --hosting threads\n")


def test_too_few_descriptors_are_one_line(cache, tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
    done = run(cache, *FAST, "--mode", "ddp", "--nproc", 2, "--out", tmp_path / "run", code=5, preexec_fn=limit)
    assert done.stderr.count("\n") == 1 and "16 file descriptors" in done.stderr, done.stderr


def test_metrics_that_are_removed_during_a_run_are_written_anew(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 20, "--print-freq", 1, "--out", out)
    wait_for_steps(process, out, 5)
    for path in [out / "metrics.jsonl", out / "metrics.csv", *out.glob("events.*")]:
        path.unlink()
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert [line["step"] for line in metrics(out) if line["kind"] == "step"] == list(range(1, 20 * 13 + 1))
    assert len((out / "metrics.csv").read_text().splitlines()) == 21 and len(list(out.glob("events.*"))) == 1
