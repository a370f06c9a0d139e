"""script/conformance, without a network: that its comparisons hold where nothing is wrong, and notice one wrong level, byte,
coefficient, refusal, digest or step."""
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance"))

import coefficients  # noqa: E402
import corpus  # noqa: E402
import digests  # noqa: E402
import jpeg  # noqa: E402
import pictures  # noqa: E402
import reference  # noqa: E402
import refusals  # noqa: E402
import stored  # noqa: E402
import torch_cases  # noqa: E402
import training  # noqa: E402
from report import Report  # noqa: E402


class NoDjpeg:
    """The programs of Debian's packages are not here: djpeg gives no pixels and no warning."""

    def run(self, *arguments, **options):
        return subprocess.CompletedProcess(arguments, 1, b"", b"")


def save(folder, name, size=(61, 45), mode="RGB", **options):
    rng = np.random.default_rng(1)
    small = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8))
    path = folder / "c" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    small.resize(size, Image.Resampling.BICUBIC).convert(mode).save(path, **options)
    return path


@pytest.fixture(name="report")
def new_report(tmp_path):
    return Report(tmp_path / "problems.txt")


def problems(report):
    return report.out.read_text().splitlines()


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """(inputs, root, paths) of four good pictures and one that is cut, packed in every way."""
    folder = tmp_path_factory.mktemp("conformance")
    exif = Image.Exif()
    exif[0x0112] = 6
    save(folder / "in", "a.jpg")
    save(folder / "in", "b.png")
    save(folder / "in", "progressive.jpg", progressive=True)
    save(folder / "in", "turned.jpg", exif=exif)
    cut = save(folder / "in", "cut.jpg")
    cut.write_bytes(cut.read_bytes()[:500])
    pictures.pack_all(folder / "in", folder / "packed")
    return folder / "in", folder / "packed", {f"c/{path.name}" for path in (folder / "in/c").iterdir()}


def test_good_pictures_pass_every_check(packed, report, monkeypatch, capsys):
    """jpeglib is not here, and has in its place what we read; with one coefficient changed the check fails."""
    inputs, root, paths = packed
    by_jpeglib = {inputs / sample.path: coefficients.read_sample(sample) for sample in stored.samples(root / "coef/train", paths)
                  if sample.encoding == stored.COEFFICIENTS}
    monkeypatch.setattr(coefficients, "by_jpeglib", by_jpeglib.__getitem__)
    pictures.check_folder(report, "few", inputs, root, NoDjpeg())
    assert problems(report) == [] and report.finish() == 0
    printed = capsys.readouterr().out
    for fact in ("packed: 4 of 5 pictures", "1 rightly: Pillow refuses it too", "1 rewritten", "3 JPEGs against jpeglib"):
        assert fact in printed
    by_jpeglib[inputs / "c/a.jpg"][0][1, 2, 3, 4] += 1
    pictures.check_coefficients(report, "few", inputs, root, paths)
    assert problems(report) == ["few: coefficients: c/a.jpg: 1 coefficients differ"] and report.finish() == 1


def test_one_level_and_one_turn_are_noticed():
    levels = np.random.default_rng(1).integers(1, 255, (5, 7, 3), dtype=np.uint8)
    changed = levels.copy()
    changed[2, 3, 1] += 1
    assert pictures.judge_pixels(levels, "x", 1, {"Pillow": levels, "djpeg": levels}) == ("", "")
    assert "1 of 35 pixels differ, by up to 1 levels; djpeg" in pictures.judge_pixels(levels, "x", 1, {"Pillow": levels, "djpeg": changed})[0]
    assert pictures.judge_pixels(reference.turned(levels, 6), "x", 6, {"Pillow": levels}) == ("", "")
    assert "is not turned" in pictures.judge_pixels(levels, "x", 6, {"Pillow": levels})[1]
    assert "5 x 7 x 3 here, 7 x 5 x 3 there" in reference.difference(levels, reference.turned(levels, 6))
    assert "no reference" in pictures.judge_pixels(levels, "x", 1, {})[0]


def test_a_changed_file_fails_pixels_and_bytes(packed, report, tmp_path):
    """Against inputs in which one picture has another level, and another one a byte more."""
    inputs, root, paths = packed
    for path in paths:
        corpus.add_picture(inputs / path, tmp_path / "in" / path)
    with Image.open(inputs / "c/b.png") as image:
        levels = np.asarray(image).copy()
    levels[4, 4, 0] ^= 1
    (tmp_path / "in/c/b.png").unlink()
    Image.fromarray(levels).save(tmp_path / "in/c/b.png")
    content = (tmp_path / "in/c/a.jpg").read_bytes()
    (tmp_path / "in/c/a.jpg").unlink()
    (tmp_path / "in/c/a.jpg").write_bytes(content + b"\0")
    pictures.check_pixels(report, "few", tmp_path / "in", root, paths, NoDjpeg())
    assert [line.split(";")[0] for line in problems(report)] == ["few: pixels: c/b.png: 1 of 2745 pixels differ, by up to 1 levels"]
    pictures.check_bytes(report, "few", tmp_path / "in", root, paths - {"c/cut.jpg"})
    assert "few: bytes back, auto: c/a.jpg: comes back with other bytes" in problems(report)
    assert report.finish() == 1


def test_a_refusal_without_a_reason_fails(report, tmp_path):
    """A whole picture counts as refused here; a message that is on the list is none, nor damage that djpeg reports."""
    save(tmp_path / "in", "a.jpg")
    pictures.check_refusals(report, "few", tmp_path / "in", {"c/a.jpg"}, NoDjpeg(), tmp_path / "refused.txt")
    assert len(problems(report)) == 1 and "NOT EXPECTED" in (tmp_path / "refused.txt").read_text()
    assert refusals.left_out("JPEG: no scan has component 1", b"") and not refusals.left_out("JPEG: anything else", b"")
    assert refusals.shared("", "Corrupt JPEG data: premature end of data segment")
    assert refusals.shared("", "Invalid SOS parameters for sequential JPEG") == ""


def test_digests_that_differ_name_the_picture(report, tmp_path, monkeypatch):
    paths = [save(tmp_path / "in", f"{number}.png", (20 + number, 20)) for number in range(3)]
    true_digest = digests.digest

    def lying(data, way, arguments):
        """As if --decode region went wrong for pictures that are 21 pixels wide."""
        names = {path.name for path in (data.parent / "in/c").iterdir()}
        return "other" if way == "region" and "1.png" in names and data.name == "coef" else true_digest(data, way, arguments)

    monkeypatch.setattr(digests, "LOADS", {"whole pictures": (digests.WHOLE, [("raw", "auto"), ("coef", "full"), ("coef", "region")])})
    digests.check(report, "few", paths, tmp_path / "packed")
    assert problems(report) == []
    monkeypatch.setattr(digests, "digest", lying)
    digests.check(report, "few", paths, tmp_path / "packed")
    assert problems(report) == ["few: one digest, whole pictures: c/1.png: 2 digests; apart stand coef, --decode region"]


def test_the_example_of_the_format_is_read():
    widths = np.zeros((2, 256, 64), np.uint8)
    widths[0, 0, [0, 1, 8, 9]] = 6, 3, 2, 2
    data = bytes.fromhex("06000000 0800 01fd00 de8d 80bf00")
    block, = coefficients.read_blocks(data, coefficients.Frame(8, 8, [(1, 1)]), widths)
    expected = np.zeros(64, np.int16)
    expected[[0, 1, 8, 9, 63]] = -26, 3, -2, 1, 5
    assert np.array_equal(block.reshape(64), expected)
    other = block.copy()
    other[0, 0, 7, 7] += 1
    assert coefficients.difference([block], [block]) == ""
    assert coefficients.difference([block], [other]) == "1 coefficients differ"
    assert coefficients.difference([block], [block, block]) == "1 components here, 2 there"


def test_the_plain_jpegs_are_those_that_must_come_back(tmp_path):
    assert jpeg.is_plain(save(tmp_path, "a.jpg").read_bytes())
    assert jpeg.is_plain(save(tmp_path, "b.jpg", mode="L").read_bytes())
    for name, options in {"c.jpg": {"progressive": True}, "d.jpg": {"restart_marker_rows": 1}}.items():
        assert not jpeg.is_plain(save(tmp_path, name, **options).read_bytes())
    assert not jpeg.is_plain(save(tmp_path, "e.jpg", mode="CMYK").read_bytes())


def test_steps_of_another_optimizer_are_noticed(report, tmp_path, monkeypatch):
    """`train` against PyTorch with the flags' own optimiser, schedule and loss, and with others."""
    cases = [torch_cases.Case("--label-smoothing 0.1 --schedule cosine", schedule=torch_cases.COSINE, arch="mlp", label_smoothing=0.1),
             torch_cases.Case("--schedule cosine", arch="mlp"),
             torch_cases.Case("--wd 0.001", arch="mlp")]
    monkeypatch.setattr(training, "CASES", cases)
    training.check(report, tmp_path)
    assert [line.split(" (mlp)")[0] for line in problems(report)] == ["training: --schedule cosine", "training: --wd 0.001"]
    assert report.check_count == 3


def test_no_check_is_a_failure_and_unknown_parts_are_refused(report, tmp_path):
    assert report.finish() == 1
    done = subprocess.run([sys.executable, ROOT / "tests/conformance/run.py", "--folder", tmp_path, "picturs"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and "unknown part picturs; expected pictures, random, training" in done.stderr
