"""What a run finds in its folder: half-written files, other data, links, pipes, folders, and names that are not UTF-8."""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess

import pytest

from train_tool import DATA, FAST, SMALL, TRAIN, environment, merged, metrics, run, start, summary, wait_for_steps

SHARDPREP = TRAIN.parent / "shardprep"
BAD_DISK = TRAIN.parents[1] / "lib" / "libbad_disk.so"
OTHER = "digits(count=400,size=16,seed=5)"


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", name="trained")
def trained_run(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(cache, *FAST, "--out", out)
    return out


def copied(folder, to):
    shutil.copytree(folder, to)
    return to


def pack(source, out, *flags):
    subprocess.run([SHARDPREP, "pack", "--source", source, "--split", "train,test", "--out", out, "--quiet", *flags],
                   check=True)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def stop(cache, out, *flags, steps=3):
    """Starts a run, stops it by SIGTERM after some steps, and returns what it printed."""
    process = start(cache, *flags, "--print-freq", 1, "--out", out)
    wait_for_steps(process, out, steps)
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 143, printed + errors
    return printed


def test_a_run_that_is_killed_while_it_writes_its_options_begins_again(cache, trained, tmp_path):
    out = tmp_path / "run"
    command = [TRAIN, *merged([*FAST, "--resume", "auto", "--out", out])]
    done = subprocess.run(command, env={**environment(cache), "LD_PRELOAD": str(BAD_DISK), "PENSTOCK_TEST_KILLED": "options.json"})
    assert done.returncode == -signal.SIGKILL and names(out) == [".penstock-0.tmp"]
    run(cache, *FAST, "--resume", "auto", "--out", out)
    assert (out / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes()
    assert ".penstock-0.tmp" not in names(out)


@pytest.mark.parametrize("flags", [["--resume", "auto"], [], ["--max-restarts", 1]])
def test_what_earlier_versions_have_left_half_written_is_no_foreign_file(cache, tmp_path, flags):
    out = tmp_path / "run"
    out.mkdir()
    (out / "options.json.tmp").write_text('{"arch": ')
    run(cache, *SMALL, "--epochs", 1, *flags, "--out", out)
    assert not list(out.glob("*.tmp")) and (out / "model.safetensors").exists()


def test_checkpoints_without_options_are_refused_by_both_ways(cache, trained, tmp_path):
    """Whether there is no options.json or one that leads nowhere."""
    out = copied(trained, tmp_path / "run")
    (out / "options.json").unlink()
    last = out / "checkpoint-last.safetensors"
    for flags, flag in ((["--resume", out], "--resume"), (["-e", "--resume", out], "--resume"),
                        ([*FAST, "--resume", "auto", "--out", out], "--resume auto")):
        said = run(cache, *flags, code=2).stderr
        assert said == (f"train: {flag}: {out} has checkpoints and no options.json, so that their data and options are not "
                        f"known; expected the folder of a run, or --resume {last} with all flags of the run\n")
    printed = run(cache, *FAST, "--epochs", 3, "--resume", last, "--out", tmp_path / "other").stdout
    assert f"note: no options.json beside {last}: flags that were not typed have their defaults\n" in printed
    for target, message in (("options.json", "Too many levels of symbolic links"), ("gone", "No such file or directory"),
                            ("/dev/zero", "not a regular file"), (".", "not a regular file")):
        (out / "options.json").symlink_to(target)
        for flags in (["--resume", out], ["--resume", last], [*FAST, "--resume", "auto", "--out", out]):
            said = run(cache, *flags, code=3).stderr
            assert said.startswith(f"train: {out}/options.json: {message}; ") and said.count("\n") == 1, said
        (out / "options.json").unlink()


def test_options_that_are_a_pipe_or_a_folder_are_refused(cache, trained, tmp_path):
    out = copied(trained, tmp_path / "run")
    (out / "options.json").unlink()
    os.mkfifo(out / "options.json")
    for flags in (["--resume", out], ["-e", "--out", out], [*FAST, "--resume", "auto", "--out", out]):
        assert run(cache, *flags, code=3).stderr == f"train: {out}/options.json: not a regular file; expected one\n"
    (out / "options.json").unlink()
    (out / "options.json").mkdir()
    assert run(cache, "--resume", out, code=3).stderr == f"train: {out}/options.json: not a regular file; expected one\n"
    said = run(cache, *FAST, "--force", "--out", out, code=3).stderr
    assert said == f"train: {out}/options.json: Is a directory; expected to create it\n"


@pytest.mark.parametrize("name", ["metrics.jsonl", "metrics.csv", "checkpoint-last.safetensors"])
def test_what_a_run_goes_on_with_is_a_regular_file(cache, trained, tmp_path, name):
    out = copied(trained, tmp_path / "run")
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (out / name).unlink()
        make(out / name)
        said = run(cache, "--resume", out, "--epochs", 3, code=3).stderr
        assert said == f"train: {out}/{name}: not a regular file; expected one\n"


@pytest.mark.parametrize("epochs", [1, 4])
def test_data_that_were_packed_anew_are_refused(cache, tmp_path, epochs):
    """In the middle of an epoch, and at its end; as many samples, at the same path."""
    data, out = tmp_path / "data", tmp_path / "run"
    flags = [*SMALL, "--data", data]
    pack(DATA, data)
    if epochs == 1:
        run(cache, *flags, "--epochs", 1, "--out", out)
    else:
        stop(cache, out, *flags, "--epochs", epochs, "--save-every", 0)
    before = (out / "checkpoint-last.safetensors").read_bytes()
    pack(DATA, data, "--force")
    run(cache, "--resume", out, "--check")  # the same bytes
    pack(OTHER, data, "--force")
    last = out / "checkpoint-last.safetensors"
    for again in (["--resume", out, "--epochs", 5], [*flags, "--epochs", 5, "--resume", "auto", "--out", out]):
        said = run(cache, *again, code=2).stderr
        assert re.fullmatch(rf"train: --resume {last}: a checkpoint of a run on 400 samples with checksum \w{{8}}, and --data has "
                            r"400 samples with checksum \w{8}; expected the data of that run, or --pretrained .*\n", said), said
    assert last.read_bytes() == before
    run(cache, "-e", "--resume", out)  # an evaluation may be on other data


def without_data(checkpoint):
    """Rewrites a checkpoint as an earlier version wrote it."""
    whole = checkpoint.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:8 + length])
    info = json.loads(header["__metadata__"]["penstock"])
    assert re.fullmatch(r"400 samples with checksum \w{8}", info.pop("data"))
    header["__metadata__"] = {"penstock": json.dumps(info, separators=(",", ":"))}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    checkpoint.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length:])


def test_a_checkpoint_of_an_earlier_version_goes_on_with_a_note(cache, trained, tmp_path):
    out = copied(trained, tmp_path / "run")
    last = out / "checkpoint-last.safetensors"
    without_data(last)
    run(cache, *FAST, "--epochs", 3, "--out", tmp_path / "alone")
    for flags in (["--resume", out, "--epochs", 3, "--threads", 1], [*FAST, "--epochs", 3, "--resume", "auto", "--out", out]):
        printed = run(cache, *flags, "--check").stdout
        assert f"note: {last} does not say which data it was trained on (an earlier version wrote it)" in printed
    printed = run(cache, "--resume", out, "--epochs", 3, "--threads", 1).stdout
    assert "resuming at epoch 3, step 0 of it" in printed and summary(out)["steps"] == 39


def test_links_in_the_folder_of_a_run_are_not_followed(cache, tmp_path):
    """Everything that a run and an evaluation write, where others may write as well."""
    out, users = tmp_path / "run", tmp_path / "users.txt"
    users.write_text("mine")
    run(cache, *SMALL, "--epochs", 1, "--profile", 5, "--out", out)
    run(cache, "-e", "--out", out)
    files = [*names(out), "checkpoint-best.safetensors", *(f".penstock-{number}.tmp" for number in range(3))]
    for number in range(2):
        for name in files:
            for path in (out / name, out / f"{name}.tmp"):
                if name != "options.json" or number == 1:
                    path.unlink(missing_ok=True)
                    path.symlink_to(users)
        if number == 1:
            (out / "options.json").unlink()
            (out / "options.json").write_text("{}")
        run(cache, *SMALL, "--epochs", 1, "--profile", 5, "--force", "--out", out)
        run(cache, "-e", "--out", out)
        assert users.read_text() == "mine"
        assert not [name for name in files if not name.startswith(".penstock") and (out / name).is_symlink()]


@pytest.mark.parametrize("mode, hint", [
    (["--mode", "ddp", "--nproc", 2], "--mode ddp --nproc 2"),
    (["--mode", "pipeline(micro-batches=2)", "--nproc", 2, "--hosting", "threads"],
     "--mode 'pipeline(micro-batches=2)' --nproc 2 --hosting threads"),
    ([], "")])
def test_what_the_stop_hint_says_goes_on_with_the_same_run(cache, tmp_path, mode, hint):
    alone, out = tmp_path / "alone", tmp_path / "the run"
    flags = [*SMALL, "--epochs", 2, *mode]
    run(cache, *flags, "--out", alone)
    printed = stop(cache, out, *flags, "--save-every", 0)
    (said,) = re.findall(r"; go on with (.*)\n", printed)
    assert said == f"--resume '{out}/checkpoint-last.safetensors'" + (f" {hint}" if hint else "")
    own = ["-j", 1, "--threads", 1, "--device", "cpu"]  # which differ between machines
    run(cache, *shlex.split(said), *own)
    assert (out / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes()
    assert (summary(out)["mode"], summary(out)["world_size"]) == (summary(alone)["mode"], summary(alone)["world_size"])


def test_the_stop_hint_of_ranks_that_flags_name_says_so(cache, tmp_path):
    out = tmp_path / "run"
    printed = stop(cache, out, *SMALL, "--epochs", 50, "--save-every", 0, "--mode", "ddp", "--world-size", 1, "--rank", 0,
                   "--dist-url", "tcp://127.0.0.1:1")
    assert printed.endswith(f"; go on with --resume {out}/checkpoint-last.safetensors --mode ddp --world-size 1, with the "
                            "--rank and --dist-url of each rank\n"), printed


def test_help_names_what_resume_does_not_take_over():
    text = " ".join(subprocess.run([TRAIN, "--help"], capture_output=True, text=True, check=True).stdout.split())
    (sentence,) = re.findall(r"Not taken over: (.*?)\. The data must be", text)
    for flag in ("--mode", "--threads", "--workers", "--resident", "--graph", "--save-every", "--keep", "--eval-at-end"):
        assert flag in sentence


def test_the_initial_weights_can_be_saved_evaluated_and_trained(cache, trained, tmp_path):
    out = tmp_path / "run"
    printed = run(cache, *SMALL, "--epochs", 0, "--out", out).stdout
    (accuracy,) = re.findall(r"Accuracy over .*", printed)
    evaluated = run(cache, "-e", "--out", out, "-j", 1, "--threads", 1, "--device", "cpu").stdout
    assert accuracy in evaluated and summary(out)["steps"] == 0 and not metrics(out)
    initial = (out / "model.safetensors").read_bytes()
    run(cache, "--resume", out, "--epochs", 2, "-j", 1, "--threads", 1, "--device", "cpu")
    assert (out / "model.safetensors").read_bytes() == (trained / "model.safetensors").read_bytes() != initial
    ranks = tmp_path / "ranks"
    run(cache, *SMALL, "--epochs", 0, "--mode", "ddp", "--nproc", 2, "--out", ranks)
    assert (ranks / "model.safetensors").read_bytes() == initial


def test_data_whose_path_is_not_utf8_are_found_again(cache, tmp_path):
    data, out = tmp_path / os.fsdecode(b"d\xe9j\xe0 100%"), tmp_path / os.fsdecode(b"caf\xe9")
    pack(DATA, data)
    flags = [*SMALL, "--data", data]
    own = ["-j", 1, "--threads", 1, "--device", "cpu"]
    run(cache, *flags, "--epochs", 1, "--out", out, errors="replace")
    options = json.loads((out / "options.json").read_text(encoding="utf-8"))
    assert options["data"] == {"percent-encoded": f"{tmp_path}/d%E9j%E0 100%25"} and options["arch"] == "lenet"
    run(cache, "-e", "--out", out, *own, errors="replace")
    run(cache, "--resume", out, "--epochs", 2, *own, errors="replace")
    run(cache, *flags, "--epochs", 3, "--resume", "auto", "--out", out, errors="replace")
    assert summary(out)["steps"] == 39
    # An earlier version has lost these bytes, and says with which name.
    options["data"] = f"{tmp_path}/d\ufffdj\ufffd 100%"
    (out / "options.json").write_text(json.dumps(options))
    assert "d\ufffdj\ufffd 100%: there is no such folder" in run(cache, "--resume", out, "--epochs", 4, code=3).stderr


def test_a_study_that_was_killed_while_it_wrote_its_command_begins_again(cache, tmp_path):
    out, users = tmp_path / "study", tmp_path / "users.txt"
    users.write_text("mine")
    out.mkdir()
    for left in (".penstock-0.tmp", "study.json.tmp"):
        (out / left).write_text("{")
    command = ["study", "--workers", "0", *SMALL[:4], "--epochs", 1, "--threads", 1, "--device", "cpu", "--emulate-step", "1ms",
               "--out", out]
    run(cache, *command)
    assert not (out / ".penstock-0.tmp").exists() and (out / "report.html").exists()
    (folder,) = (path for path in (out / "runs").iterdir() if path.is_dir())
    shutil.rmtree(folder)
    for name in (f"{folder.name}.log", f"{folder.name}.err"):
        (out / "runs" / name).unlink(missing_ok=True)
        (out / "runs" / name).symlink_to(users)
    run(cache, *command)
    assert users.read_text() == "mine" and folder.is_dir()
