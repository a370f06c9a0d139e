"""README is short and names every document; the commands of docs/TRAIN.md that are marked as sh run as printed; the scripts and files that
both name exist."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"])
README, TRAIN, INDEX = ROOT / "README.md", ROOT / "docs/TRAIN.md", ROOT / "docs/README.md"


def links(document):
    return [(document.parent / name).resolve() for name in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text())]


def test_quickstart_commands_run_in_order(tmp_path):
    blocks = [block for document in (README, TRAIN) for block in re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL)]
    script = "".join(blocks)  # one shell: its first line sets PATH
    assert len(script.splitlines()) >= 8
    (tmp_path / "build/tools").mkdir(parents=True)
    (tmp_path / "build/tools/bin").symlink_to(BIN)
    done = subprocess.run(["bash", "-exc", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "runs/ddp/summary.json").exists()
    assert (tmp_path / "runs/study/study.csv").exists()


@pytest.mark.parametrize("document", [README, *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_are_written_without_a_folder(document):
    named = re.findall(r"^(?: {4}|```sh\n|)(\S*/)(?:shardprep|loadbench|train) ", document.read_text(), re.MULTILINE)
    assert not named


@pytest.mark.parametrize("document", [README, TRAIN, INDEX], ids=lambda path: str(path.relative_to(ROOT)))
def test_named_files_exist(document):
    scripts = re.findall(r"\b(?:script|tests)/[\w./-]*\w", document.read_text())
    assert links(document) and (scripts or document == INDEX)
    for name in links(document) + [ROOT / script for script in scripts]:
        assert name.exists(), name


def test_readme_has_at_most_8_kilobytes():
    assert README.stat().st_size <= 8192


@pytest.mark.parametrize("index", [README, INDEX], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_document_is_named(index):
    documents = {*(ROOT / "docs").rglob("*.md")} - {INDEX}
    assert documents <= {*links(index)}
