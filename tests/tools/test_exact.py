"""train --exact: the bits of a run do not depend on its mode, ranks, hosting, workers and processor's instructions."""
import json
import signal
import subprocess
from pathlib import Path

import pytest

from train_tool import DATA, TRAIN, environment, merged, run, start, summary, wait_for_steps

# 400 samples in batches of 32: the last batch of an epoch has 16.
EXACT = ["--data", DATA, "-b", "32", "-j", "1", "--device", "cpu", "--epochs", "2", "-p", "1", "--exact"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def expected(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("single") / "run"
    printed = run(cache, *EXACT, "--out", out).stdout
    assert "exact: 8 shards of 4 rows per batch; kernels that every processor with AVX2 has, by one thread" in printed
    assert summary(out)["exact_shards"] == 8
    return out


def bits(out):
    return (out / "model.safetensors").read_bytes()


def said(out):
    """The losses of every step, and of every epoch also the scores of its evaluation."""
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return {(record["kind"], record["step"]): {key: value for key, value in record.items()
                                               if key in ("loss", "accuracy") or key.startswith("test_")}
            for record in records}


@pytest.mark.parametrize("flags", [
    ["--mode", "ddp", "--nproc", 2],
    ["--mode", "ddp", "--nproc", 4, "--hosting", "threads"],
    ["--mode", "pipeline(schedule=zero-bubble)", "--nproc", 3],
    ["--mode", "pipeline(data=2)", "--nproc", 4],
    ["--mode", "pipeline(data=2,zero=1)", "--nproc", 4, "--hosting", "threads"],
    ["--mode", "zero(stage=2)", "--nproc", 2],
    ["--mode", "zero(stage=3)", "--nproc", 2],
    ["--mode", "dp"],
    ["-j", "3", "--prefetch", "1"]])
def test_every_mode_has_the_bits_of_single(cache, expected, tmp_path, flags):
    run(cache, *EXACT, *flags, "--out", tmp_path / "run")
    assert bits(tmp_path / "run") == bits(expected)
    assert said(tmp_path / "run") == said(expected)
    assert {"loss", "accuracy", "test_loss", "test_accuracy"} == said(expected)["epoch", 26].keys()


def test_an_average_is_evaluated_to_the_same_bits(cache, tmp_path):
    flags = [*EXACT, "--epochs", 1, "--average", "ema(decay=0.9)", "--tta", "flip"]
    run(cache, *flags, "--out", tmp_path / "single")
    run(cache, *flags, "--mode", "pipeline(data=2)", "--nproc", 4, "--hosting", "threads", "--out", tmp_path / "run")
    assert said(tmp_path / "run") == said(tmp_path / "single")
    assert "test_loss_of_weights" in said(tmp_path / "single")["epoch", 13]


def test_when_losses_are_read_changes_none(cache, expected, tmp_path):
    run(cache, *EXACT, "-p", 5, "--save-every", "3 steps", "--mode", "ddp", "--nproc", 2, "--hosting", "threads", "--out",
        tmp_path / "run")
    for step in (13, 26):
        assert said(tmp_path / "run")["epoch", step] == said(expected)["epoch", step]


def test_an_evaluation_alone_says_the_same_in_every_mode(cache, expected, tmp_path):
    loss, samples = said(expected)["epoch", 26]["test_loss"], []
    for flags in ([], ["--mode", "ddp", "--nproc", 4], ["--mode", "pipeline", "--nproc", 2, "--hosting", "threads"], ["--mode", "dp"]):
        out = tmp_path / f"run-{len(samples)}"
        printed = run(cache, "-e", "--exact", 8, "--pretrained", expected / "model.safetensors", "--data", DATA, "-b", 32,
                      "--device", "cpu", *flags, "--out", out).stdout
        assert "exact: 8 shards per batch; kernels that every processor with AVX2 has" in printed
        evaluation = json.loads((out / "evaluation.json").read_text())
        assert evaluation["loss"] == loss
        samples.append((out / "evaluation.csv").read_text())
    assert all(other == samples[0] for other in samples)


def test_without_it_they_differ(cache, expected, tmp_path):
    run(cache, *EXACT, 0, "--out", tmp_path / "run")
    assert bits(tmp_path / "run") != bits(expected)
    assert said(tmp_path / "run") != said(expected)
    assert "exact_shards" not in summary(tmp_path / "run")


def test_a_run_goes_on_in_another_mode_in_the_middle_of_an_epoch(cache, tmp_path):
    """The options of the first run say that it is exact."""
    first, on = tmp_path / "first", tmp_path / "on"
    flags = ["--mode", "ddp", "--nproc", 4, "--hosting", "threads", "-p", 1, "--save-every", "1 steps", "--epochs", 200]
    process = start(cache, *EXACT, *flags, "--out", first, "--schedule", "constant")
    wait_for_steps(process, first, 4)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    printed = run(cache, "--resume", first, "--mode", "pipeline", "--nproc", 2, "--hosting", "processes", "--device",
                  "cpu", "--epochs", 20, "-p", 1, "--out", on).stdout
    assert "exact: 8 shards" in printed and "rounded differently" not in printed
    run(cache, *EXACT, "--schedule", "constant", "--epochs", 20, "--out", tmp_path / "whole")
    assert bits(on) == bits(tmp_path / "whole")
    whole = said(tmp_path / "whole")
    assert said(on) == {record: whole[record] for record in said(on)}


def test_the_environment_does_not_choose_kernels(cache, expected, tmp_path):
    given = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "AVX2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run([TRAIN, *merged([*EXACT, "--out", tmp_path / "run"])], capture_output=True, text=True,
                          timeout=300, env={**environment(cache), **given})
    assert done.returncode == 0, done.stderr
    assert "exact: ATEN_CPU_CAPABILITY is default in the environment; it is taken as avx2" in done.stdout
    assert "exact: MKL_CBWR is AVX2 in the environment; it is taken as COMPATIBLE" in done.stdout
    assert bits(tmp_path / "run") == bits(expected)


def test_kernels_of_this_processor_have_the_same_bits_in_every_mode(cache, expected, tmp_path):
    native = [*EXACT, "--exact-kernels", "native"]
    printed = run(cache, *native, "--out", tmp_path / "single").stdout
    assert "exact: 8 shards of 4 rows per batch; the kernels of this processor (" in printed
    assert "), whose bits others may not have, by one thread per rank or replica" in printed
    run(cache, *native, "--mode", "pipeline(data=2)", "--nproc", 4, "--hosting", "threads", "--out", tmp_path / "mesh")
    run(cache, *native, "--mode", "zero(stage=3)", "--nproc", 2, "--out", tmp_path / "zero")
    assert bits(tmp_path / "single") == bits(tmp_path / "mesh") == bits(tmp_path / "zero")
    if "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        assert bits(tmp_path / "single") != bits(expected)


@pytest.mark.parametrize("flags, message", [
    (["--exact-kernels", "avx512"], "--exact-kernels: unknown exact-kernels \"avx512\"; did you mean \"avx2\"? known: avx2, native"),
    (["--exact", 0, "--exact-kernels", "native"], "--exact-kernels native without --exact, which alone chooses kernels; "
                                                  "expected both"),
    (["--exact", 6], "--exact is 6; expected a power of two from 1 to 4096, or 0 for a run without"),
    (["-b", 36], "--exact is 8 with --batch-size 36; expected a batch that it divides"),
    (["--mode", "ddp", "--nproc", 3], "--mode ddp: 3 ranks with --exact 8; expected a number of ranks that divides 8"),
    (["--threads", 2], "--threads is 2 with --exact 8; expected 1, because kernels sum in another order with more"),
    (["--shuffle", "rank-local"], "--exact is 8 with --shuffle rank-local, which gives other batches to other numbers of "
                                  "ranks; expected --shuffle global or none"),
    (["--exact="], "--exact: is \"\"; expected a whole number")])
def test_what_it_cannot_be_with_is_one_line(cache, tmp_path, flags, message):
    done = run(cache, *EXACT, *flags, "--out", tmp_path / "run", code=2)
    assert done.stderr == f"train: {message}\n"
