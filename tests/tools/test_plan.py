"""shardprep plan: it prints a choice whose command works, and says what is the nearest where nothing reaches the target."""
import json
import re
import shlex
import subprocess

import numpy
import pytest
from PIL import Image

from shardprep_tool import SHARDPREP, manifest_of, run


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    for number in range(12):
        path = folder / f"class{number % 2}/{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        small = Image.fromarray(numpy.random.default_rng(number).integers(0, 256, (12, 9, 3), "u1"))
        small.resize((400, 300 + number), Image.Resampling.BICUBIC).save(path)
    return folder


def plan(target, *arguments, code=0):
    return run("plan", "--target", target, *arguments, "--samples", 12, code=code)


def test_the_command_of_the_plan_packs(photos, tmp_path):
    done = plan(1, "--source", "image-folder", "--input", photos, "--augment", "resize(size=96),center-crop(size=96),normalize")
    forms = re.findall(r"^(--encode \S+(?: --resize \d+)?) +(same|other) ", done.stdout, re.MULTILINE)
    assert forms == [("--encode keep", "same"), ("--encode coef", "same"), ("--encode raw", "same"),
                     ("--encode jpeg --resize 110", "other"), ("--encode raw --resize 110", "other")]
    assert re.search(r"^plan: --encode (keep|coef) reaches 1 images/s with --workers 1 on 1 node: up to ", done.stdout, re.MULTILINE)
    command = re.search(r"^run: (shardprep .*)$", done.stdout, re.MULTILINE)[1].replace("OUT", str(tmp_path / "out"))
    assert subprocess.run([SHARDPREP, *shlex.split(command)[1:]], stdout=subprocess.DEVNULL, check=False).returncode == 0
    assert (tmp_path / "out/train/manifest.json").exists()


def test_the_link_makes_raw_pictures_slow(photos):
    done = plan(500, "--source", "image-folder", "--input", photos, "--link", 1, "--nodes", 100)
    allowed = dict((form, int(rate.replace(",", ""))) for rate, form in re.findall(r"([\d,]+) images/s \((--encode \w+)\)", done.stdout))
    sizes = {form: int(size.replace(",", "")) for form, size in re.findall(r"^(--encode \w+) +same +([\d,]+) ", done.stdout, re.MULTILINE)}
    for form, size in sizes.items():
        assert allowed[form] == pytest.approx(100 * 1e6 / size, rel=0.01)
    assert allowed["--encode raw"] < 500 and not done.stdout.split("\nplan: ")[1].startswith("--encode raw ")


def test_a_target_that_nothing_reaches_names_the_nearest(photos):
    done = plan(1e9, "--source", "image-folder", "--input", photos, code=2)
    assert re.fullmatch(r"shardprep: plan: --target is 1,000,000,000 images/s, which nothing reaches on 1 node; the nearest is --encode \S.* "
                        r"with [\d,]+ images/s, where \d+ workers? per node are the limit; expected that or less, or --nodes \d+\n", done.stderr)
    done = plan(1000, "--source", "image-folder", "--input", photos, "--link", 0.001, code=2)
    assert "where the link is the limit; expected that or less, or --nodes " in done.stderr


def test_raw_pixels_are_planned_for(tmp_path):
    done = plan(1, "--source", "digits(count=200,size=28)")
    assert "--encode auto" in done.stdout and "--encode raw" not in done.stdout
    run("pack", "--source", "digits(count=200,size=28)", "--out", tmp_path / "digits")
    assert f"\nrun: nothing; {tmp_path}/digits is stored so\n" in plan(1, "--data", tmp_path / "digits").stdout


def test_fields_come_back_by_the_command_and_no_form_is_offered_that_pack_refuses(photos, tmp_path):
    lines = [{"path": f"class{i % 2}/{i}.jpg", "label": str(i % 2), "box": [[0, 0, i + 1, 9]], "n": i} for i in range(12)]
    (photos / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    small = ("--augment", "resize(size=96),center-crop(size=96),normalize")
    source = ("--source", "jsonl(boxes=box)", "--input", photos)
    run("pack", *source, "--out", tmp_path / "packed")
    done = plan(1, "--data", tmp_path / "packed", *small).stdout
    assert " --resize " not in done
    commands = re.search(r"^run: (.*)$", done, re.MULTILINE)[1].replace("OUT", str(tmp_path / "out")).replace("FILES", str(tmp_path / "files"))
    subprocess.run(commands.replace("shardprep", str(SHARDPREP)), shell=True, check=True, stdout=subprocess.DEVNULL)
    again, first = (manifest_of(tmp_path / name / "train") for name in ("out", "packed"))
    assert again["fields"] == first["fields"] and again["class_names"] == first["class_names"] and list(first["fields"]) == ["box", "n"]


def test_sixteen_bits_are_planned_for_as_they_are_packed(tmp_path):
    for i in range(2):
        Image.fromarray(numpy.arange(400, dtype="u2").reshape(20, 20) * 100).save(tmp_path / f"{i}.png")
    source = ("--source", "flat", "--input", tmp_path)
    assert "--sixteen-bit" in plan(1, *source, "--split", "all", code=2).stderr
    kept = plan(1, *source, "--split", "all", "--sixteen-bit", "keep").stdout
    assert re.search(r"^run: .* --split all --out OUT --encode \w+ --sixteen-bit keep$", kept, re.MULTILINE) and "--encode raw" not in kept


@pytest.mark.parametrize("arguments, error", [
    (("--target", 0, "--source", "digits"), "--target: is 0; expected images per second, more than 0"),
    (("--target", "1e300", "--source", "digits"), "--target: is 1e+300; expected images per second, more than 0 and up to 1,000,000,000"),
    (("--target", "nan", "--source", "digits"), '--target: is "nan"; expected'),
    (("--target", 1, "--source", "digits", "--link=-1"), "--link: is -1; expected MB/s"),
    (("--target", 1, "--source", "digits", "--nodes", 0), "--nodes: is 0; expected 1 or more"),
    (("--target", 1), "plan: neither --source nor --data; expected one of the two"),
    (("--target", 1, "--source", "digits", "--data", "x"), "plan: both --source and --data; expected one of the two"),
])
def test_what_cannot_be_planned_is_said_in_one_line(arguments, error):
    stderr = run("plan", *arguments, code=2).stderr
    assert error in stderr and stderr.count("\n") == 1
