"""Running `train` in tests: one cache of packed data per test session, and short runs on small digits."""
import json
import os
import pathlib
import socket
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve() / "train"
MUTANTS = TRAIN.parents[1] / "lib" / "libmutants.so"
DATA = "digits(count=400,size=16)"
SMALL = ["--data", DATA, "-b", "32", "-j", "1", "--threads", "1", "--device", "cpu"]
FAST = [*SMALL, "--epochs", "2"]
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def environment(cache):
    env = {name: value for name, value in os.environ.items() if name not in LAUNCHER_VARIABLES}
    return {**env, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}


SHORT = {"-b": "--batch-size", "-j": "--workers", "-a": "--arch", "-p": "--print-freq"}


def merged(arguments):
    """The words, with only the last value of each flag. Flags of a test replace those of SMALL and FAST, because `train`
    refuses a flag that is given twice."""
    groups = {}
    name = ""
    for word in map(str, arguments):
        if word.startswith("-") and not word[1:2].isdigit():
            name = SHORT.get(word, word.split("=")[0])
            groups.pop(name, None)
            groups[name] = [word]
        else:
            groups.setdefault(name, []).append(word)
    return [word for group in groups.values() for word in group]


def run(cache, *arguments, code=0, launcher=(), **options):
    done = subprocess.run([*map(str, launcher), TRAIN, *merged(arguments)], capture_output=True, text=True,
                          timeout=300, env=environment(cache), **options)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module", name="cache")
def packed_cache(tmp_path_factory):
    """The fixture `cache` of a test file that imports this: the data of SMALL are packed, so that ranks that a test
    starts at the same time do not pack them at once."""
    folder = tmp_path_factory.mktemp("cache")
    run(folder, *SMALL, "--epochs", 1, "--out", folder / "run")
    return folder


def start(cache, *arguments, **options):
    return subprocess.Popen([TRAIN, *merged(arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=environment(cache), **options)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def summary(out):
    return json.loads((out / "summary.json").read_text())


def metrics(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def wait_for_steps(process, out, count):
    """Waits until metrics.jsonl has `count` steps (of a run with --print-freq 1), or the process has ended."""
    path = out / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b'"kind":"step"') >= count:
            return
        time.sleep(0.002)
