"""Every flag of every tool: given twice, below its range, and with 100 KB of text."""
import functools
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
COMMANDS = [["shardprep", "pack"], ["shardprep", "info"], ["shardprep", "verify"], ["shardprep", "unpack"], ["loadbench"],
            ["train"], ["train", "study"]]
# What a command needs beside the flag that is tested.
NEEDED = {"pack": {"--source": "mnist", "--out": "out"}, "loadbench": {"--data": "data"},
          "unpack": {"DIR": "data", "--out": "out"}, "info": {"DIR": "data"}, "verify": {"DIR": "data"},
          "train": {"--data": "missing"}, "study": {"--workers": "0", "--out": "out"}}
SLOW = ("train", "study")  # LibTorch takes 0.3 s to start


@pytest.fixture(scope="module", name="folder")
def folder_with_data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flags")
    subprocess.run([BIN / "shardprep", "pack", "--source", "digits(count=20)", "--out", folder / "data", "--quiet"], check=True)
    return folder


def call(command, words, folder):
    done = subprocess.run([BIN / command[0], *command[1:], *words], capture_output=True, text=True, cwd=folder)
    lines = done.stderr.splitlines()
    assert len(lines) == 1, (command, words, done.stderr[:500])
    return done.returncode, lines[0]


@functools.cache
def help_of(*command):
    return subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, check=True).stdout


def flags_of(command):
    """First long name of each flag that has a value, with the value's type as --help has it."""
    text = help_of(*command)
    found = re.findall(r"^  (?:-\w,)?(--[\w-]+)(?:,--?[\w-]+)* (INT|UINT|FLOAT|TEXT)\b", text, re.M)
    assert found, text
    return found


def is_given_several_times(command, flag):
    return re.search(rf"{flag} TEXT \.\.\.", help_of(*command)) is not None


def words_of(command, flag, *values):
    needed = {name: value for name, value in NEEDED.get(command[-1], {}).items() if name != flag}
    words = [word for name, value in needed.items() for word in ([value] if name == "DIR" else [name, value])]
    return words + [word for value in values for word in (flag, value)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_flag_is_given_once(command, folder):
    for flag, _ in flags_of(command)[::5 if command[-1] in SLOW else 1]:
        if is_given_several_times(command, flag):
            continue
        code, line = call(command, words_of(command, flag, "1", "1"), folder)
        assert code == 2 and line.startswith(f"{command[0]}: {flag}: is given more than once"), line
        assert line.endswith("; expected it once"), line


def test_no_flag_takes_the_last_of_several_values():
    """CLI11 refuses a second value unless it is told otherwise: --save-every alone takes two words, "100 steps"."""
    text = "".join(path.read_text() for path in (ROOT / "tools").rglob("*.cpp"))
    assert text.count("multi_option_policy") == text.count("MultiOptionPolicy::TakeAll") == 1


def test_save_every_is_given_once(folder):
    words = words_of(["train"], "--save-every", "5 steps", "6")
    assert call(["train"], words, folder) == (
        2, 'train: --save-every: is given more than once ("5 steps 6"); expected it once')


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_number_is_below_its_range(command, folder):
    for flag, kind in flags_of(command):
        if kind != "TEXT":
            code, line = call(command, words_of(command, flag, "-1"), folder)
            assert code == 2 and re.search(r' is "?-1"?[;, ]', line), line


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_long_value_is_cut_in_the_message(command, folder):
    for number, (flag, kind) in enumerate(flags_of(command)):
        if kind == "TEXT" or command[-1] not in SLOW:
            text = "x(" + "y " * 50_000 if number % 2 else "x" * 100_000
            code, line = call(command, words_of(command, flag, text), folder)
            assert code in (2, 3) and len(line) < 2100, (flag, code, line)
            assert not re.search(r"[xy]{101}", line), flag
