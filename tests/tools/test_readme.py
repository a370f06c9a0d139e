"""The commands in README's quickstart run as printed, and the scripts and files that it names exist."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"])
README = (ROOT / "README.md").read_text()


def test_quickstart_commands_run_in_order(tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if line.strip()]
    assert len(commands) >= 5
    (tmp_path / "build/release").mkdir(parents=True)
    (tmp_path / "build/release/bin").symlink_to(BIN)
    for command in commands:
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "runs/ddp/summary.json").exists()


def test_named_files_exist():
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    scripts = re.findall(r"\b(?:script|tests)/[\w./-]*\w", README)
    assert links and scripts
    for name in links + scripts:
        assert (ROOT / name).exists(), name
