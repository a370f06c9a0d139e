"""The commands in README's quickstart run as printed, and the scripts and files that it names exist."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"])
README = (ROOT / "README.md").read_text()


def test_quickstart_commands_run_in_order(tmp_path):
    script = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))  # one shell: its first line sets PATH
    assert len(script.splitlines()) >= 6
    (tmp_path / "build/tools").mkdir(parents=True)
    (tmp_path / "build/tools/bin").symlink_to(BIN)
    done = subprocess.run(["bash", "-exc", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs/ddp/summary.json").exists()


def test_commands_are_written_without_a_folder():
    named = re.findall(r"^(?: {4}|```sh\n|)(\S*/)(?:shardprep|loadbench|train) ", README, re.MULTILINE)
    assert not named


def test_named_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    scripts = re.findall(r"\b(?:script|tests)/[\w./-]*\w", README)
    assert links and scripts
    for name in links + scripts:
        assert (ROOT / name).exists(), name
