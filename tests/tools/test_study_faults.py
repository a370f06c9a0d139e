"""train study: what cannot be typed, each in one line, with nothing left behind."""
import pytest

from test_study import COMMAND
from train_tool import run


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize("flags, line", [
    (["--workers", ""], '--workers is ""; expected whole numbers, 0 or more, such as 0,1,2,4'),
    (["--workers", "0,-1"], '--workers is "0,-1"; expected whole numbers, 0 or more, such as 0,1,2,4'),
    (["--workers", "0,1,0"], '--workers is "0,1,0", with 0 twice; expected each value only once'),
    (["--modes", "single,dpd"], '--modes: unknown mode "dpd"; did you mean "ddp"?'),
    (["--modes", ""], '--modes is ""; expected modes of '),
    (["--modes", "ddp", "--nproc", "1"], "--modes ddp: no mode can run with the ranks of --nproc; expected 1 for single"),
    (["--nproc", "0"], '--nproc is "0"; expected whole numbers, 1 or more, such as 1,2'),
    (["--repeat", "0"], "--repeat is 0; expected 1 or more"),
    (["--ablate", "augment"], '--ablate augment: --augment is ""; expected the transforms that half of the rows leave out'),
    (["--ablate", "agment"], '--ablate: unknown ablation "agment"; did you mean "augment"?'),
    (["--mode", "ddp"], "--mode ddp: cannot be given to a study; expected --modes"),
    (["--profile", "5"], "--profile 5: cannot be given to a study; expected no --profile"),
    (["--print-schedule"], "--print-schedule: cannot be given to a study; expected no --print-schedule"),
    (["--print-config"], "--print-config: cannot be given to a study; expected no --print-config"),
    (["--check"], "--check: cannot be given to a study; expected no --check"),
    (["--epohcs", "2"], 'unknown flag "--epohcs"; did you mean "--epochs"?'),
    (["--emulate-step", "2"], '--emulate-step is "2"; expected a time with its unit'),
    (["--repeet", "3"], 'unknown flag "--repeet"; did you mean "--repeat"?'),
    (["--worker=2"], 'unknown flag "--worker"; did you mean "--workers"?'),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_a_command_that_cannot_be_is_one_line_and_leaves_nothing(cache, tmp_path, flags, line):
    given = [*COMMAND, "--out", tmp_path / "out"]
    if flags[0] == "--workers":
        given = [given[0], *given[3:]]
    said = run(cache, *given, *flags, code=2).stderr
    assert said.startswith("train: " + line) and said.count("\n") == 1, said
    assert not (tmp_path / "out").exists()
