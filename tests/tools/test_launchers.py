"""Ranks from torchrun, Open MPI, flags and --nproc; contradictions; and a rank that dies."""
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import time

import pytest

from train_tool import FAST, SMALL, run, start, summary, wait_for_steps

TORCHRUN = [pathlib.Path(sys.executable).parent / "torchrun", "--no-python", "--nproc-per-node"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    run(folder, *SMALL, "--epochs", 1, "--out", folder / "run")  # packs
    return folder


@pytest.mark.parametrize("name,launcher", [("torchrun", [*TORCHRUN, "2"]), ("openmpi", [*MPIRUN, "2"])])
def test_launchers_start_ranks(cache, tmp_path, name, launcher):
    assert shutil.which(str(launcher[0])), f"{launcher[0]} is missing: run script/setup"
    done = run(cache, *FAST, "--mode", "ddp", "--out", tmp_path / "run", launcher=launcher)
    assert f"2 ranks started by {name} (gloo and shared memory)" in done.stdout
    assert len(re.findall(r"Epoch \[1/2\]", done.stdout)) == 1
    result = summary(tmp_path / "run")
    assert result["world_size"] == 2 and result["test_samples"] == 400


def test_launched_ranks_pack_once(tmp_path):
    done = run(tmp_path / "cache", *FAST, "--mode", "ddp", "--out", tmp_path / "run", launcher=[*TORCHRUN, "2"])
    assert done.stdout.count("packed 400 train samples") == 1


def test_flags_alone_make_a_world(cache, tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"tcp://127.0.0.1:{probe.getsockname()[1]}"
    world = ["--mode", "ddp", "--world-size", 2, "--dist-url", url, "--out", tmp_path / "run"]
    ranks = [start(cache, *FAST, *world, "--rank", rank) for rank in (0, 1)]
    printed = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], printed
    assert "2 ranks started by flags (gloo and shared memory)" in printed[0][0] and "Epoch" not in printed[1][0]


RANK_OF_TWO = ["env", "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=1"]


@pytest.mark.parametrize("launcher,flags,message", [
    # torchrun would take --nproc as a flag of its own.
    ([*MPIRUN, "2"], ["--mode", "ddp", "--nproc", 3], "--nproc is 3; expected 2, the ranks that openmpi started"),
    ([*TORCHRUN, "2"], ["--mode", "ddp", "--world-size", 4], "--world-size is 4; expected 2, the ranks that torchrun started"),
    # The variables of torchrun alone, which itself takes seconds to start.
    (RANK_OF_TWO, ["--mode", "ddp", "--rank", 7], "torchrun says"),
    (RANK_OF_TWO, ["--mode", "single"], "--mode single: launched with 2 ranks; expected 1 (use --mode ddp)")])
def test_flags_that_contradict_the_launcher(cache, tmp_path, launcher, flags, message):
    code = 1 if TORCHRUN[0] in launcher else 2  # torchrun has an exit code of its own
    done = run(cache, *FAST, *flags, "--out", tmp_path / "run", code=code, launcher=launcher)
    assert message in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("launcher, message", [
    (RANK_OF_TWO, "--nproc is 2 with RANK=0 and WORLD_SIZE=2, by which this process is one rank and starts none; expected no --nproc, or "
                  "torchrun --nproc-per-node 2 in each container, or RANK and WORLD_SIZE unset"),
    (["env", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"],
     "--nproc is 2; expected 1, the ranks that slurm started, as SLURM_PROCID and SLURM_NTASKS (or SLURM_STEP_NUM_TASKS) say; unset them "
     "where train shall start ranks itself"),
    (["env", "PMI_RANK=1", "PMI_SIZE=2"],
     "PMI_RANK is 1 and PMI_SIZE is 2, which mpirun of MPICH or Intel MPI has set and train does not read, so that each process would "
     "start 2 ranks; expected Slurm, torchrun or Open MPI, or --rank and --world-size for each"),
    (["env", "MV2_COMM_WORLD_RANK=0", "MV2_COMM_WORLD_SIZE=2"], "MV2_COMM_WORLD_RANK is 0 and MV2_COMM_WORLD_SIZE is 2, which mpirun of MVAPICH")])
def test_ranks_that_something_else_has_started_start_none(cache, tmp_path, launcher, message):
    said = run(cache, *FAST, "--mode", "ddp", "--nproc", 2, "--out", tmp_path / "run", code=2, launcher=launcher).stderr
    assert said.startswith(f"train: {message}") and said.count("\n") == 1, said


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def rank_of(pid):
    variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(int(text[5:]) for text in variables if text.startswith(b"RANK="))


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_dies_ends_the_others_with_the_cause_named_last(cache, tmp_path, victim):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 200, "--print-freq", 1, "--mode", "ddp", "--nproc", 2, "--out", out)
    wait_for_steps(process, out, 10)
    ranks = sorted(children_of(process.pid), key=rank_of)
    begin = time.monotonic()
    os.kill(ranks[victim], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - begin < 30
    assert process.returncode == 5
    last = errors.strip().splitlines()[-1]
    assert f"rank {victim}" in last and "signal 9" in last, errors
    assert not any(map(is_alive, ranks))


def test_ranks_end_with_the_process_that_started_them(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *SMALL, "--epochs", 200, "--print-freq", 1, "--mode", "ddp", "--nproc", 2, "--out", out)
    wait_for_steps(process, out, 5)
    ranks = children_of(process.pid)
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(map(is_alive, ranks)):
        time.sleep(0.01)
    assert not any(is_alive(pid) for pid in ranks)


def is_alive(pid):
    """Whether a process has not ended; one whose exit code was not read yet has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
