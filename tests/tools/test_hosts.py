"""Ranks on several machines: --hostfile over ssh, --dist-url, and two network namespaces as two machines."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from machines import ip, machines  # noqa: F401
from test_launchers import children_of, is_alive, rank_of
from train_tool import SMALL, TRAIN, environment, free_port, merged, packed_cache, run, start, wait_for_steps  # noqa: F401

RUN = [*SMALL, "--mode", "ddp", "--epochs", "2", "--save-every", "3 steps", "--print-freq", "1"]
HOSTS = "127.0.0.1 slots=1  # both are this machine\nlocalhost slots=1\n"
# Runs the command in a shell, as ssh does, in another folder.
SSH = """#!/bin/bash
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
if [ "$1" = nowhere ]; then echo "ssh: connect to host nowhere port 22: No route to host" >&2; exit 255; fi
cd /
exec bash -c "$2"
"""


@pytest.fixture(scope="module")
def left_alone(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(cache, *RUN, "--nproc", 2, "--out", out)
    return out


@pytest.fixture(autouse=True)
def fake_ssh(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/ssh").write_text(SSH)
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")


def hosts(tmp_path, text=HOSTS):
    (tmp_path / "hosts").write_text(text)
    return ["--hostfile", tmp_path / "hosts"]


def weights(out):
    return (out / "model.safetensors").read_bytes()


def test_hosts_train_as_ranks_of_one_machine_do(cache, left_alone, tmp_path):
    done = run(cache, *RUN, *hosts(tmp_path), "--out", tmp_path / "run")
    assert "2 ranks started by penstock (gloo and shared memory)" in done.stdout
    assert weights(tmp_path / "run") == weights(left_alone)


def test_a_dry_run_prints_what_it_would_start(cache, tmp_path):
    out = tmp_path / "run"
    text = run(cache, "--data", "/nowhere", "--mode", "ddp", *hosts(tmp_path, "a slots=4\nb slots=2\n"), "--include", "a:1,3@b",
               "--dry-run", "--out", out).stdout
    lines = text.splitlines()
    assert len(lines) == 4 and not out.exists()
    assert re.match(r"ssh -T .* a 'cd \S+ && exec env CUDA_VISIBLE_DEVICES=1,3 .*LOCAL_RANK=1 .*RANK=1 WORLD_SIZE=4 ", lines[1]), lines
    assert " b 'cd " in lines[3] and "LOCAL_RANK=1 " in lines[3] and "MASTER_ADDR=a " in lines[3], lines
    assert not re.search("--(hostfile|include|dry-run)", text)
    lines = run(cache, "--mode", "ddp", "--nproc", 3, "--dry-run").stdout.splitlines()
    assert len(lines) == 3 and " RANK=2 " in lines[2] and lines[2].endswith("train --mode ddp --nproc 3"), lines


def test_signals_reach_other_machines(cache, tmp_path):
    out = tmp_path / "run"
    command = [*RUN, *hosts(tmp_path), "--epochs", 500, "--save-every", 0, "--out", out]
    process = start(cache, *command)
    wait_for_steps(process, out, 5)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped by SIGTERM" in printed, errors
    assert (out / "checkpoint-last.safetensors").exists()


def test_ranks_end_with_the_machine_that_started_them(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *RUN, *hosts(tmp_path), "--epochs", 500, "--out", out)
    wait_for_steps(process, out, 5)
    ranks = children_of(process.pid)
    assert len(ranks) == 2
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(map(is_alive, ranks)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_alive, ranks))


def test_ranks_on_other_machines_are_started_again(cache, left_alone, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *RUN, *hosts(tmp_path), "--max-restarts", 1, "--out", out)
    wait_for_steps(process, out, 8)
    os.kill(next(pid for pid in children_of(process.pid) if rank_of(pid) == 1), signal.SIGKILL)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, printed + errors
    assert re.search(r"^launch: rank 1 was killed by signal 9 \(Killed\); restart 1 of 1, from step \d+ in ", errors, re.M), errors
    assert weights(out) == weights(left_alone)


def test_a_host_that_does_not_answer_is_named(cache, tmp_path):
    flags = hosts(tmp_path, "127.0.0.1 slots=1\nnowhere slots=1\n")
    done = run(cache, *RUN, *flags, "--dist-url", "tcp://127.0.0.1:" + str(free_port()), "--out", tmp_path / "run", code=5)
    assert done.stderr.splitlines()[-1] == (
        "rank 1 on nowhere: ssh: connect to host nowhere port 22: No route to host; expected a host that ssh reaches without "
        "a password, and that keeps running")


def test_a_host_that_only_ssh_knows_is_told_with_what_to_give(cache, tmp_path):
    alias = "x" * 64  # too long for a host name, so no server is asked
    done = run(cache, *RUN, *hosts(tmp_path, f"{alias} slots=1\nlocalhost slots=1\n"), "--out", tmp_path / "run", code=5)
    assert re.fullmatch(rf"\[rank [01]\] train: rendezvous: {alias}: [^;]+; expected a name of rank 0's machine that every rank can "
                        r"resolve, or its address \(--dist-url tcp://IP:PORT\)", done.stderr.splitlines()[-1]), done.stderr


def test_the_token_of_a_run_is_on_no_command_line(cache, tmp_path):
    process = start(cache, *RUN, *hosts(tmp_path), "--epochs", 500, "--save-every", 0, "--out", tmp_path / "run")
    wait_for_steps(process, tmp_path / "run", 1)
    for pid in [process.pid, *children_of(process.pid)]:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() + pathlib.Path(f"/proc/{pid}/environ").read_bytes()
        assert b"PENSTOCK_TOKEN" not in words
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=60)[1] == "" and process.returncode == 143


@pytest.mark.parametrize("text, flags, message", [
    ("", [], "0 hosts; expected lines such as worker-0 slots=4"),
    ("a\n", [], 'line 1 is "a"; expected HOST slots=N, such as worker-0 slots=4'),
    ("a slots=0\n", [], 'line 1: a has "slots=0"; expected slots=1 to slots=1024'),
    ("a slots=1\na slots=1\n", [], "line 2: a is in line 1 already; expected every host once"),
    ("a slots=2\n", ["--nproc", 2], "--nproc is 2 with --hostfile; expected one of the two"),
    ("a slots=2\n", ["--world-size", 3], "--world-size is 3; expected 2, the ranks that --hostfile started"),
    ("a slots=2\n", ["--include", "b"], '--include: unknown host "b"'),
    ("localhost slots=1\na slots=1\n", [], "the first host is localhost, where a cannot reach it"),
    ("a slots=2\n", ["--hosting", "threads"], "--hosting threads, which end together"),
    ("a slots=2\n", ["--dist-url", "file:///x"], '--dist-url is "file:///x" with --hostfile'),
    ("a slots=2\n", ["--rank", 0, "--world-size", 2, "--dist-url", "tcp://a:1"], "with a rank that --rank names")])
def test_hostfiles_that_cannot_be_are_refused(cache, tmp_path, text, flags, message):
    done = run(cache, *RUN, *hosts(tmp_path, text), *flags, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "run").exists()


def ranks_of(cache, flags, **variables):
    """Two ranks that are started by hand: their exit codes, and what they have printed."""
    ranks = [subprocess.Popen([TRAIN, *merged([*RUN, "--world-size", 2, *flags, "--rank", rank])], text=True,
                              env={**environment(cache), **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
             for rank in (1, 0)]
    return [(rank.communicate(timeout=60), rank.returncode) for rank in reversed(ranks)]


def test_ranks_meet_by_a_file(cache, left_alone, tmp_path):
    place = tmp_path / "meeting"
    flags = ["--dist-url", f"file://{place}", "--out", tmp_path / "run"]
    ends = ranks_of(cache, flags)
    assert [code for _, code in ends] == [0, 0], ends
    assert weights(tmp_path / "run") == weights(left_alone) and not place.exists()
    place.write_text("penstock rendezvous 0123\nat elsewhere 4321\n")  # of a run that was killed
    flags[-1] = tmp_path / "other"
    done = run(cache, *RUN, "--world-size", 2, "--rank", 0, *flags, code=2)
    assert done.stderr == (f"train: --dist-url file://{place}: the file is there already, left by an earlier run, or of another "
                           "one that is starting; expected a path where nothing is, remove it if no run is starting\n")
    port = free_port()
    place.write_text(f"penstock rendezvous 0123\nat localhost {port}\n")
    done = run(cache, *RUN, "--world-size", 2, "--rank", 1, "--timeout", 1, *flags, code=5)
    assert f"s for rank 0 of 2 at file://{place}, which names localhost:{port}, where nobody listens; expected" in done.stderr
    done = run(cache, *RUN, "--world-size", 2, "--rank", 0, "--dist-url", f"file://{tmp_path}", *flags[2:], code=2)
    assert done.stderr == f"train: --dist-url file://{tmp_path}: is a folder; expected the path of a file, which is made\n"
    place.write_text("a file of somebody")
    done = run(cache, *RUN, "--world-size", 2, "--rank", 1, *flags, code=2)
    assert done.stderr == f"train: --dist-url file://{place}: is no file of a rank 0; expected a path where nothing is\n"
    assert place.read_text() == "a file of somebody"
    flags[1] = "file:///dev/zero"
    done = run(cache, *RUN, "--world-size", 2, "--rank", 1, *flags, code=2)
    assert done.stderr == "train: --dist-url file:///dev/zero: is no file of a rank 0; expected a path where nothing is\n"


def test_ranks_meet_by_variables(cache, left_alone, tmp_path):
    ends = ranks_of(cache, ["--dist-url", "env://", "--out", tmp_path / "run"], MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    assert [code for _, code in ends] == [0, 0], ends
    assert weights(tmp_path / "run") == weights(left_alone)


@pytest.fixture
def sshd(tmp_path, monkeypatch):
    """A server on loopback, and an ssh that knows its port and key."""
    server, client = shutil.which("sshd", path="/usr/sbin"), "/usr/bin/ssh"
    if not server or not os.path.exists(client):
        pytest.skip("did not run: there is no /usr/sbin/sshd here (Debian: openssh-server)")
    port = free_port()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    (tmp_path / "keys").write_text((tmp_path / "user.pub").read_text())
    os.makedirs("/run/sshd", exist_ok=True)
    process = subprocess.Popen([server, "-D", "-e", "-f", "/dev/null", "-p", str(port), "-h", tmp_path / "host", "-o",
                                f"AuthorizedKeysFile={tmp_path}/keys", "-o", "StrictModes=no", "-o", "UsePAM=no", "-o",
                                f"PidFile={tmp_path}/pid", "-o", "ListenAddress=127.0.0.1"], stderr=subprocess.DEVNULL)
    (tmp_path / "bin/ssh").write_text(f'#!/bin/sh\nexec {client} -F /dev/null -p {port} -i {tmp_path}/user -o StrictHostKeyChecking=no '
                                      f'-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "$@"\n')
    yield process
    process.kill()
    process.wait()


def test_real_ssh_starts_stops_and_loses_ranks(cache, left_alone, tmp_path, sshd):
    run(cache, *RUN, *hosts(tmp_path), "--out", tmp_path / "run")
    assert weights(tmp_path / "run") == weights(left_alone)
    out = tmp_path / "stopped"
    process = start(cache, *RUN, *hosts(tmp_path), "--epochs", 500, "--save-every", 0, "--out", out)
    wait_for_steps(process, out, 5)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped by SIGTERM" in printed, errors
    sshd.kill()
    sshd.wait()
    refused = run(cache, *RUN, *hosts(tmp_path), "--out", tmp_path / "none", code=5)
    assert re.search(r"^rank [01] on \S+: ssh: connect to host \S+ port \d+: Connection refused; expected a host",
                     refused.stderr.splitlines()[-1]), refused.stderr


def start_machines(cache, machines, out, *flags):
    world = [*RUN, "--world-size", 2, "--dist-url", f"tcp://10.77.0.1:{free_port()}", "--interface", "net", "--resume", "auto",
             "--out", out, *flags]
    return [subprocess.Popen(["ip", "netns", "exec", name, TRAIN, *merged([*world, "--rank", rank])], text=True,
                             env=environment(cache), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for rank, name in enumerate(machines)]


def ends_of(ranks):
    return [(*rank.communicate(timeout=90), rank.returncode) for rank in ranks]


def test_a_machine_that_is_cut_off_is_named_and_the_run_goes_on(cache, left_alone, tmp_path, machines):
    out = tmp_path / "run"
    ranks = start_machines(cache, machines, out, "--timeout", 3)
    wait_for_steps(ranks[0], out, 8)
    ip("-n", machines[1], "link", "set", "net", "down")
    ends = ends_of(ranks)
    for rank, (_, errors, code) in enumerate(ends):
        assert code == 5 and errors.count("\n") == 1, errors
        assert errors.startswith(f"train: rank {rank}: gloo: ") and f"rank {1 - rank} " in errors, errors
    ip("-n", machines[1], "link", "set", "net", "up")
    ends = ends_of(start_machines(cache, machines, out, "--timeout", 20))
    assert [code for *_, code in ends] == [0, 0], ends
    assert "resuming at epoch" in ends[0][0]
    assert weights(out) == weights(left_alone)


def test_a_slow_and_lossy_link_costs_time_alone(cache, left_alone, tmp_path, machines):
    for name in machines:  # a queue of 8 KB drops what a step sends at once
        shaped = ip("netns", "exec", name, "tc", "qdisc", "add", "dev", "net", "root", "tbf", "rate", "200mbit", "burst", "8kb",
                    "limit", "8kb")
        if shaped.returncode != 0:
            pytest.skip("did not run: this kernel has no token bucket filter")
    out = tmp_path / "run"
    ends = ends_of(start_machines(cache, machines, out, "--epochs", 1))
    assert [code for *_, code in ends] == [0, 0], ends
    assert "2 ranks started by flags (gloo) on cpu" in ends[0][0]  # they see each other's memory, which is not for them
    dropped = ip("netns", "exec", machines[0], "tc", "-s", "qdisc", "show", "dev", "net").stdout
    assert int(re.search(r"dropped (\d+)", dropped).group(1)) > 0, dropped
    other = tmp_path / "other"
    run(cache, *RUN, "--nproc", 2, "--epochs", 1, "--out", other)
    assert weights(out) == weights(other)
