"""Ranks on two machines with Debian's own /etc/hosts: they train without --interface, and say what keeps them apart."""
import os
import shlex
import subprocess

import pytest

from machines import HOSTS, ip, machines, named_machines  # noqa: F401
from train_tool import SMALL, TRAIN, environment, free_port, merged, packed_cache, run  # noqa: F401

RUN = [*SMALL, "--mode", "ddp", "--epochs", "1", "--timeout", "20"]


@pytest.fixture(scope="module")
def left_alone(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(cache, *RUN, "--nproc", 2, "--out", out)
    return (out / "model.safetensors").read_bytes()


def ends(cache, commands, url, out, flags=((), ())):
    """Exit code and lines of stderr of the ranks, which are started by hand, one on each machine."""
    world = [*RUN, "--world-size", 2, "--dist-url", url, "--out", out]
    ranks = [subprocess.Popen([*command, TRAIN, *merged([*world, "--rank", rank, *flags[rank]])], text=True, env=environment(cache),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank, command in enumerate(commands)]
    try:
        errors = [rank.communicate(timeout=60)[1].splitlines() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return [(rank.returncode, lines) for rank, lines in zip(ranks, errors)]


@pytest.mark.parametrize("place", ["alpha", "10.77.0.1", "file"])
def test_machines_whose_own_names_mean_loopback_train(cache, left_alone, tmp_path, named_machines, place):
    url = f"file://{tmp_path}/meeting" if place == "file" else f"tcp://{place}:{free_port()}"
    assert ends(cache, named_machines, url, tmp_path / "run") == [(0, [])] * 2
    assert (tmp_path / "run/model.safetensors").read_bytes() == left_alone


def test_machines_of_a_hostfile_train(cache, left_alone, tmp_path, monkeypatch, named_machines):
    (tmp_path / "hosts").write_text("".join(f"{host} slots=1\n" for host in HOSTS))
    (tmp_path / "bin").mkdir()
    cases = "".join(f'{host}) exec {shlex.join(command)} bash -c "$2" ;;\n' for host, command in zip(HOSTS, named_machines))
    (tmp_path / "bin/ssh").write_text('#!/bin/bash\nwhile [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done\n'
                                      f'case "$1" in\n{cases}esac\n')
    (tmp_path / "bin/ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    done = run(cache, *RUN, "--hostfile", tmp_path / "hosts", "--out", tmp_path / "run")
    assert "2 ranks started by penstock (gloo) on cpu" in done.stdout
    assert (tmp_path / "run/model.safetensors").read_bytes() == left_alone


def test_addresses_that_do_not_reach_each_other_are_named_at_both_ranks(cache, tmp_path, named_machines, machines):
    """Rank 1 announces the address of another network, to which rank 0 knows no way. Rank 0 hears of that at once, and rank 1
    from rank 0: it would wait 25 times the time-out."""
    assert ip("-n", machines[1], "link", "add", "other", "type", "veth", "peer", "name", "end").returncode == 0
    ip("-n", machines[1], "addr", "add", "10.66.0.2/24", "dev", "other")
    for device in ("other", "end"):
        ip("-n", machines[1], "link", "set", device, "up")
    url = f"tcp://alpha:{free_port()}"
    found = ends(cache, named_machines, url, tmp_path / "run", flags=(["--timeout", 6], ["--timeout", 6, "--interface", "other"]))
    for rank, (code, lines) in enumerate(found):
        assert code == 5 and len(lines) == 1, found
        assert lines[0].startswith(f"train: rank {rank}: gloo: connect: "), lines
        assert "Network is unreachable" in lines[0] and "rank 0 is at 10.77.0.1, rank 1 at 10.66.0.2; expected" in lines[0]
        assert "--interface NAME" in lines[0] and "hangs" not in lines[0], lines
    assert "rank 0 has ended: " in found[1][1][0]
