"""The Python that README and docs/PYTHON.md show runs as it is printed, on a folder of pictures that is called photos."""
import pathlib
import re

import penstock
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(name):
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL)


@pytest.mark.parametrize("name", ["README.md", "docs/PYTHON.md"])
def test_the_first_loop_runs(name, pictures, tmp_path, monkeypatch):
    (tmp_path / "photos").symlink_to(pictures.parent / "source")
    code = blocks(name)[0]
    assert "penstock.pack(" in code and "for images, labels in loader:" in code
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(code.replace("range(90)", "range(2)"), names)
    assert names["images"].shape == (24, 3, 224, 224) and names["loader"].epoch == 2


def test_the_line_for_ones_own_pictures_runs(pictures, tmp_path, monkeypatch):
    (tmp_path / "photos").symlink_to(pictures.parent / "source")
    line = next(line for block in blocks("docs/PYTHON.md") for line in block.splitlines() if "rglob" in line)
    monkeypatch.chdir(tmp_path)
    exec(line, {"pathlib": pathlib, "penstock": penstock})
    assert penstock.Loader("data/photos", augment="resize(height=32,width=32)").sample_count == 24
