"""Type checkers accept the examples, and refuse what the package does not take."""
import json
import pathlib
import subprocess
import sys

import penstock
import pytest

EXAMPLES = sorted((pathlib.Path(__file__).resolve().parents[2] / "python/examples").glob("*.py"))
USE = """
import penstock
loader = penstock.Loader("data", batch_size=4, augment=["flip", "normalize"])
for images, labels in loader:
    print(images.shape, labels.sum())
for batch in loader:
    print(batch.global_count / loader.world_size, batch.mix_weights)
name: str = loader.dataset[0].class_name
names: list[penstock.Sample] = loader.dataset[2:4]
angle: float = loader.plan(0, 3).map[1]
penstock.render(loader.dataset[3].image, loader.plan(epoch=0, index=3))
"""
WRONG = ['loader.batch("three")', 'penstock.Loader("data", num_workers=3)', 'penstock.Loader("data", batch_size="4")',
         "loader.plan(0)", "number: int = loader.dataset[0].class_name", "loader.next()"]


def mypy(files, folder):
    """Lines with errors, by file name."""
    done = subprocess.run([sys.executable, "-m", "mypy", "--ignore-missing-imports", "--cache-dir", folder / "cache", "--no-error-summary",
                           *files], capture_output=True, text=True, cwd=folder, check=False)
    return [line.split(":")[:2] for line in done.stdout.splitlines() if ": error:" in line], done.stdout + done.stderr


def pyright(files, folder):
    """As mypy(). basedpyright is pyright with all that it needs in its wheel."""
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard", "reportMissingImports": "none"}', encoding="utf-8")
    done = subprocess.run([sys.executable, "-m", "basedpyright", "--project", folder, "--pythonpath", sys.executable, "--level", "error",
                           "--outputjson", *files], capture_output=True, text=True, cwd=folder, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [[one["file"], str(one["range"]["start"]["line"] + 1)] for one in found], done.stdout + done.stderr


@pytest.mark.parametrize("check", [mypy, pyright])
def test_checkers_accept_the_examples_and_see_what_is_wrong(check, tmp_path):
    assert pathlib.Path(penstock.__file__).with_name("py.typed").exists()
    good, wrong = tmp_path / "good.py", tmp_path / "wrong.py"
    good.write_text(USE, encoding="utf-8")
    wrong.write_text('import penstock\nloader = penstock.Loader("data")\n' + "\n".join(WRONG) + "\n", encoding="utf-8")
    errors, output = check([*EXAMPLES, good, wrong], tmp_path)
    assert [pathlib.Path(name).name for name, _ in errors] == ["wrong.py"] * len(WRONG), output
    assert [int(line) for _, line in errors] == list(range(3, 3 + len(WRONG))), output
