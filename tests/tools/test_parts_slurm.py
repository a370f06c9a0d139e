"""The job array of docs/PACKING.md on a Slurm with one node."""
import pathlib
import re

import numpy
import pytest
from PIL import Image

from shardprep_tool import SHARDPREP, run
from slurm_tool import slurm, wait_until  # noqa: F401

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/PACKING.md"


def source(folder):
    return "--source", "image-folder", "--input", folder / "photos"


@pytest.fixture
def job(tmp_path, slurm):  # noqa: F811
    """Runs the blocks of the document, with tmp_path as the folder they are in."""
    array, merge = re.findall(r"```bash\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    (tmp_path / "pack.sh").write_text(array)
    (tmp_path / "submit.sh").write_text(merge)
    for number in range(48):
        path = tmp_path / f"photos/class{number % 3}/{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numpy.random.default_rng(number).integers(0, 256, (20, 20 + number, 3), "u1")).resize((64, 48)).save(path)
    run("list", *source(tmp_path), "--out", tmp_path / "photos.jsonl", "--codebook", tmp_path / "photos.codebook", "--encode", "coef")
    path = f"{SHARDPREP.parent}:/usr/bin:/bin"

    def submit(*words):
        done = slurm("sh", "-c", f'cd "{tmp_path}" && "$@"', "sh", *words, PATH=path)
        assert done.returncode == 0, done.stdout + done.stderr
        try:
            wait_until(lambda: not slurm("squeue", "-h").stdout)
        except AssertionError:
            print(slurm("squeue").stdout, *(path.read_text() for path in tmp_path.glob("*.log")))
            slurm("scancel", "--user", "root")
            raise

    return submit


def files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_an_array_packs_what_one_machine_would(tmp_path, job):
    job("sh", "submit.sh")
    logs = "".join(path.read_text() for path in sorted(tmp_path.glob("*.log")))
    assert (tmp_path / "data/photos/train").is_dir(), logs
    run("pack", *source(tmp_path), "--encode", "coef", "--shards", 16, "--out", tmp_path / "one")
    assert files(tmp_path / "data/photos") == files(tmp_path / "one")


def test_parts_that_lack_are_packed_by_another_array(tmp_path, job):
    job("sbatch", "--array=0-2,4-7", "pack.sh")
    assert "part 3 of 8 is not finished" in run("merge", tmp_path / "data/photos", code=2).stderr
    job("sbatch", "--array=2,3", "pack.sh")
    assert "finished already" in (tmp_path / "pack-2.log").read_text()
    run("merge", tmp_path / "data/photos")
    run("verify", tmp_path / "data/photos")
