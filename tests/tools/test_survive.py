"""A run that survives: --resume auto, --keep, --max-restarts and torchrun's, full disks, and checkpoints cut short."""
import os
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

from test_launchers import TORCHRUN, children_of, rank_of
from train_tool import SMALL, TRAIN, environment, free_port, merged, metrics, run, start, summary, wait_for_steps

RUN = [*SMALL, "--epochs", "4", "--save-every", "3 steps", "--print-freq", "1", "--resume", "auto"]  # 52 steps
DDP = ["--mode", "ddp", "--nproc", 2]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def left_alone(cache, tmp_path_factory):
    """Folders of runs that nothing happens to, by mode."""
    folder = tmp_path_factory.mktemp("runs")
    for mode, flags in (("single", []), ("ddp", DDP)):
        run(cache, *RUN, *flags, "--out", folder / mode)
    return folder


def weights(out):
    return (out / "model.safetensors").read_bytes()


def kill_at(process, out, steps, victim=None):
    """Kills the process, or the child of it that is this rank, when the run has made so many steps."""
    wait_for_steps(process, out, steps)
    assert process.poll() is None, process.communicate()
    os.kill(process.pid if victim is None else rank_pid(process, victim), signal.SIGKILL)


def start_and_kill(cache, command, out, steps):
    """Returns what the run had printed."""
    process = start(cache, *command)
    kill_at(process, out, steps)
    return process.communicate()[0]


def rank_pid(process, rank):
    return next(pid for pid in children_of(process.pid) if rank_of(pid) == rank)


@pytest.mark.parametrize("mode, flags", [("single", []), ("ddp", DDP)])
def test_one_command_starts_a_run_and_goes_on_with_it(cache, left_alone, tmp_path, mode, flags):
    out = tmp_path / "run"
    command = [*RUN, *flags, "--keep", 2, "--out", out]
    assert f"--resume auto: no checkpoint in {out}; the run starts\n" in start_and_kill(cache, command, out, 20)
    done = run(cache, *command)
    assert re.search(r"^resuming at epoch \d, step \d+ of it$", done.stdout, re.M), done.stdout
    assert weights(out) == weights(left_alone / mode)
    kept = sorted(path.name for path in out.glob("checkpoint-step-*"))
    assert kept == ["checkpoint-step-51.safetensors", "checkpoint-step-52.safetensors"]
    again = run(cache, *command)  # a run that has ended is only evaluated
    assert weights(out) == weights(left_alone / mode) and "Epoch [4/4]" not in again.stdout


def test_a_checkpoint_that_is_cut_short_is_passed_over(cache, left_alone, tmp_path):
    out = tmp_path / "run"
    command = [*RUN, "--keep", 3, "--out", out]
    start_and_kill(cache, command, out, 30)
    last = out / "checkpoint-last.safetensors"
    os.truncate(last, last.stat().st_size // 2)
    (out / "checkpoint-step-99.safetensors.tmp").write_bytes(b"begun")
    whole = max(int(path.stem.rpartition("-")[2]) for path in out.glob("checkpoint-step-*.safetensors")
                if not path.samefile(last))
    printed = run(cache, *command).stdout
    assert f"--resume auto passes over {last}: " in printed and f"{out}/checkpoint-step-{whole}" not in printed, printed
    assert f"{out}/checkpoint-step-99.safetensors.tmp: its writing was cut short" in printed
    assert whole <= summary(out)["resumed_at_step"]  # checkpoint-best may be of a later step
    assert weights(out) == weights(left_alone / "single")
    assert not list(out.glob("*.tmp"))


def test_a_full_disk_leaves_the_checkpoint_before(cache, left_alone, tmp_path):
    out = tmp_path / "run"
    command = [*RUN, "--keep", 2, "--out", out]
    start_and_kill(cache, command, out, 10)
    before = {path.name: path.read_bytes() for path in out.glob("*.safetensors")}

    def fill_disk():  # every file ends at half of a checkpoint
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        half = (out / "checkpoint-last.safetensors").stat().st_size // 2
        resource.setrlimit(resource.RLIMIT_FSIZE, (half, half))

    failed = run(cache, *command, code=3, preexec_fn=fill_disk)
    assert re.fullmatch(r"train: \S+/checkpoint-step-\d+.safetensors: File too large; expected .*\n", failed.stderr), failed.stderr
    assert {path.name: path.read_bytes() for path in out.glob("*.safetensors")} == before
    run(cache, *command)
    assert weights(out) == weights(left_alone / "single")


def test_ranks_are_started_again_where_they_had_saved(cache, left_alone, tmp_path):
    out = tmp_path / "run"
    fresh = [word for word in RUN if word not in ("--resume", "auto")]
    process = start(cache, *fresh, *DDP, "--max-restarts", 2, "--out", out)
    kill_at(process, out, 10, victim=1)
    wait_for_restart(process, out)
    kill_at(process, out, 25, victim=0)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, printed + errors
    lines = [line for line in errors.splitlines() if line.startswith("launch: ")]
    assert len(lines) == 2, errors
    for number, (victim, line) in enumerate(zip((1, 0), lines), 1):
        assert re.fullmatch(rf"launch: rank {victim} was killed by signal 9 \(Killed\); restart {number} of 2, from step "
                            rf"\d+ in {out}/checkpoint-last.safetensors", line), line
    recovered = re.findall(r"^recovered: the next step was done (\d+\.\d) s after a rank had failed$", printed, re.M)
    assert len(recovered) == 2 and all(0 < float(seconds) < 100 for seconds in recovered), printed
    assert weights(out) == weights(left_alone / "ddp")
    assert [line["step"] for line in metrics(out) if line["kind"] == "step"] == list(range(1, 53))


def wait_for_restart(process, out):
    """Until the ranks have opened the folder again: before that, the metrics are those of the ranks that have ended."""
    options = out / "options.json"
    seen = options.stat().st_mtime_ns
    while process.poll() is None and (not options.exists() or options.stat().st_mtime_ns == seen):
        time.sleep(0.002)


def test_a_rank_that_is_killed_once_too_often_ends_the_run(cache, tmp_path):
    out = tmp_path / "run"
    process = start(cache, *RUN, "--save-every", 0, "--epochs", 500, "--max-restarts", 1, "--out", out)  # one rank
    kill_at(process, out, 5, victim=0)
    wait_for_restart(process, out)
    kill_at(process, out, 5, victim=0)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 5
    assert errors.splitlines()[-2:] == [
        "launch: rank 0 was killed by signal 9 (Killed); restart 1 of 1, from the start",
        "rank 0: killed by signal 9 (Killed); the other ranks were ended"]


def test_what_no_restart_mends_is_not_tried_again(cache, tmp_path):
    out = tmp_path / "run"
    diverged = run(cache, *RUN, *DDP, "--lr", 1e9, "--max-restarts", 2, "--out", out, code=2)
    assert "restart" not in diverged.stderr
    process = start(cache, *RUN, *DDP, "--save-every", 0, "--epochs", 500, "--max-restarts", 2, "--out", tmp_path / "other")
    wait_for_steps(process, tmp_path / "other", 5)
    process.send_signal(signal.SIGTERM)  # what Slurm sends before its time limit, with --signal=TERM@60
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and "restart" not in errors and "stopped by SIGTERM" in printed, errors
    assert (tmp_path / "other/checkpoint-last.safetensors").exists()


def test_another_number_of_ranks_goes_on(cache, tmp_path):
    out = tmp_path / "run"
    start_and_kill(cache, [*RUN, *DDP, "--out", out], out, 20)
    printed = run(cache, *RUN, "--mode", "ddp", "--nproc", 3, "--out", out).stdout
    assert "the checkpoint was written with 2 ranks" in printed
    assert [line["step"] for line in metrics(out) if line["kind"] == "step"] == list(range(1, 53))


def test_with_exact_sums_another_number_of_ranks_ends_with_the_same_bits(cache, tmp_path):
    alone, out = tmp_path / "alone", tmp_path / "run"
    run(cache, *RUN, "--exact", "--out", alone)
    process = start(cache, *RUN, *DDP, "--exact", "--max-restarts", 1, "--out", out)
    kill_at(process, out, 10, victim=0)
    wait_for_restart(process, out)
    kill_at(process, out, 25)
    process.communicate()
    assert "resuming at epoch" in run(cache, *RUN, "--mode", "ddp", "--nproc", 4, "--exact", "--out", out).stdout
    assert weights(out) == weights(alone)


def test_torchrun_brings_a_run_back(cache, left_alone, tmp_path):
    out = tmp_path / "run"
    launcher = [*map(str, TORCHRUN), "2", "--max-restarts", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint",
                f"127.0.0.1:{free_port()}"]
    command = [*launcher, TRAIN, *merged([*RUN, "--mode", "ddp", "--out", out])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(cache))
    kill_at(process, out, 15, victim=1)
    printed, errors = process.communicate(timeout=180)
    assert process.returncode == 0, printed + errors
    assert printed.count("resuming at epoch") == 1 and "2 ranks started by torchrun" in printed
    assert weights(out) == weights(left_alone / "ddp")


@pytest.mark.parametrize("flags, message", [
    (["--arch", "mlp"], r"--resume \S+/checkpoint-last.safetensors: a checkpoint of arch lenet; expected mlp, as --arch is"),
    (["--data", "digits(count=300,size=16)"],
     r'--resume auto: \S+ holds a run on data "digits\(count=400,size=16\)"; expected "digits\(count=300,size=16\)", as --data '
     "is, or another --out")])
def test_auto_refuses_a_folder_of_another_run(cache, left_alone, tmp_path, flags, message):
    out = tmp_path / "run"
    shutil.copytree(left_alone / "single", out)
    done = run(cache, *RUN, *flags, "--out", out, code=2)
    assert re.fullmatch(rf"train: {message}\n", done.stderr), done.stderr
    assert weights(out) == weights(left_alone / "single")


@pytest.mark.parametrize("flags, message", [
    (["--resume", "auto"], "--resume auto without --out, whose default is a new folder; expected --out with the run's folder"),
    (["--resume", "auto", "-e", "--out", "x"], "--resume auto with --evaluate: there may be nothing to evaluate"),
    (["--keep", 0], "--keep is 0; expected 1 or more"),
    (["--resume", "gone", "--max-restarts", 1], "--max-restarts is 1 with --resume gone, whose flags a restart would not take over"),
    (["--max-restarts", -1], "--max-restarts is -1; expected 0 or more"),
    ([*DDP, "--hosting", "threads", "--max-restarts", 1],
     "--max-restarts is 1 with --hosting threads, which end together; expected --hosting processes"),
    (["--mode", "ddp", "--world-size", 2, "--rank", 0, "--dist-url", "tcp://127.0.0.1:1", "--max-restarts", 1],
     "--max-restarts is 1 with a rank that --rank names; expected --resume auto, and restarts by what has started it")])
def test_what_cannot_be_is_refused(cache, tmp_path, flags, message):
    done = run(cache, *SMALL, *flags, code=2, cwd=tmp_path)
    assert done.stderr.startswith(f"train: {message}") and done.stderr.count("\n") == 1, done.stderr


def test_a_slow_rank_is_named(cache, tmp_path):
    out = tmp_path / "run"
    flags = [*SMALL, "--epochs", 2, "--mode", "ddp", "--world-size", 2, "--dist-url", f"tcp://127.0.0.1:{free_port()}",
             "--out", out]
    slow = start(cache, *flags, "--rank", 1, "--emulate-load", "2ms")
    printed = run(cache, *flags, "--rank", 0).stdout
    slow.communicate(timeout=60)
    assert re.search(r"^rank 1 makes every step \d+(\.\d+)?x longer \(its loader; \d+\.\d ms per step\)", printed, re.M), printed
    assert summary(out)["slow_rank"]["rank"] == 1
