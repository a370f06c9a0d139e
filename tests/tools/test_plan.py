"""shardprep plan: it prints a choice whose command works, and says what is the nearest where nothing reaches the target."""
import json
import re
import shlex
import subprocess

import numpy
import pytest
from PIL import Image

from shardprep_tool import SHARDPREP, manifest_of, run

BIN = SHARDPREP.parent


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
    table = done.stdout.split("\nover a link of 1 MB/s per node; images/s of all nodes (what limits)\n")[1]
    allowed = {form: int(rate.replace(",", "")) for form, rate in re.findall(r"^(--encode \w+) +([\d,]+) \(link\)$", table, re.MULTILINE)}
    sizes = {form: int(size.replace(",", "")) for form, size in re.findall(r"^(--encode \w+) +same +([\d,]+) ", done.stdout, re.MULTILINE)}
    for form, size in sizes.items():
        assert allowed[form] == pytest.approx(100 * 1e6 / size, rel=0.01)
    assert allowed["--encode raw"] < 500 and not done.stdout.split("\nplan: ")[1].startswith("--encode raw ")


def megabytes(number, unit):
    return float(number) * {"MB": 1, "KB": 1e-3}[unit]


def test_a_cache_brings_what_the_plan_said(tmp_path):
    run("pack", "--source", "digits(count=6000,size=32)", "--out", tmp_path / "digits", "--shards", 40)
    order = ("--shuffle", "shards(window=8,lanes=2)", "--cache-limit", "3mb")
    said = run("plan", "--target", 1, "--data", tmp_path / "digits", "--samples", 2000, "--link", "1ms,50MB/s", *order).stdout
    table = said.split("over a link of 1ms,50MB/s per node, with a cache of 3.0 MB per node and shuffle shards(window=8,lanes=2) of 40 shards;")[1]
    cells = re.search(r"^--encode auto +[\d,]+ \(\w+, ([\d.]+) (\wB)\) +[\d,]+ \(\w+, ([\d.]+) (\wB)\)$", table, re.MULTILINE).groups()
    first, later = megabytes(*cells[:2]), megabytes(*cells[2:])
    whole = sum(shard["byte_count"] for shard in manifest_of(tmp_path / "digits/train")["shards"]) / 1e6
    assert later < first and first == pytest.approx(whole, rel=0.2)
    epochs = 5
    subprocess.run([BIN / "loadbench", "--data", tmp_path / "digits", "--sim-link", "1ms,50MB/s", "--workers", "1", "--epochs", str(epochs), *order,
                    "--cache-dir", tmp_path / "cache", "--json", tmp_path / "out.json"], check=True, stdout=subprocess.DEVNULL)
    came = json.loads((tmp_path / "out.json").read_text())["runs"][0]["link"]["fetched_bytes"] / 1e6 / epochs
    assert later == pytest.approx(came, rel=0.2)


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
    said = plan(1, *source, "--split", "all", code=4).stderr
    assert "all 2 pictures are broken; " in said and "; the first: " in said and "--sixteen-bit" in said and said.count("\n") == 1
    kept = plan(1, *source, "--split", "all", "--sixteen-bit", "keep").stdout
    assert re.search(r"^run: .* --split all --out OUT --encode \w+ --sixteen-bit keep$", kept, re.MULTILINE) and "--encode raw" not in kept


@pytest.mark.parametrize("arguments, error", [
    (("--target", 0, "--source", "digits"), "--target: is 0; expected images per second, more than 0"),
    (("--target", "1e300", "--source", "digits"), "--target: is 1e+300; expected images per second, more than 0 and up to 1,000,000,000"),
    (("--target", "nan", "--source", "digits"), '--target: is "nan"; expected'),
    (("--target", 1, "--source", "digits", "--link=-1"), '--link: is "-1"; expected a delay and a rate as in 20ms,100MB/s'),
    (("--target", 1, "--source", "digits", "--link", ""), '--link: is ""; expected a delay and a rate'),
    (("--target", 1, "--source", "digits", "--link", 1, "--cache-limit", ""), '--cache-limit: is ""; expected bytes as in 100gb'),
    (("--target", 1, "--source", "digits", "--link", "20ms"), '--link: is "20ms"; expected a delay and a rate'),
    (("--target", 1, "--source", "digits", "--cache-limit", "1gb"), "--cache-limit: is given without --link; expected both, or neither"),
    (("--target", 1, "--source", "digits", "--link", 0, "--cache-limit", "1gb"), "--cache-limit: is given without a --link above 0; expected both, or neither"),
    (("--target", 1, "--source", "digits", "--link", 1, "--cache-limit", "1gb", "--shards", 0), "--shards: is 0; expected 1 to 1,000,000"),
    (("--target", 1, "--source", "digits", "--link", 1, "--cache-limit", "1gb", "--shuffle", "shards(window=9,lanes=9)", "--batch-size", 8),
     "--shuffle: is shards(window=9,lanes=9) with a batch size of 8; expected lanes of at most the batch size"),
    (("--target", 1, "--source", "digits", "--link", 1, "--shuffle", "global"), "--shuffle: is given without --cache-limit; expected both, or neither"),
    (("--target", 1, "--source", "digits", "--link", 1, "--shards", 9), "--shards: is given without --cache-limit; expected both, or neither"),
    (("--target", 1, "--source", "digits", "--link", 1, "--cache-limit", "80%"), '--cache-limit: is "80%"; expected bytes as in 100gb'),
    (("--target", 1, "--source", "digits", "--link", 1, "--cache-limit", "much"), '--cache-limit: is "much"; expected bytes as in 100gb'),
    (("--target", 1, "--source", "digits", "--link", 1, "--cache-limit", "1gb", "--shuffle", "rank-local"), '--shuffle: is "rank-local"; expected global or shards('),
    (("--target", 1, "--source", "digits", "--link", 1, "--cache-limit", "1gb", "--shards", 2_000_000), "--shards: is 2000000; expected 1 to 1,000,000"),
    (("--target", 1, "--source", "digits(count=200)", "--link", 1, "--cache-limit", "1kb", "--samples", 64),
     "--cache-limit: is 1.0 KB, which has no room for the shards that the order global uses at a time, of "),
    (("--target", 1, "--source", "digits", "--nodes", 0), "--nodes: is 0; expected 1 or more"),
    (("--target", 1), "plan: neither --source nor --data; expected one of the two"),
    (("--target", 1, "--source", "digits", "--data", "x"), "plan: both --source and --data; expected one of the two"),
])
def test_what_cannot_be_planned_is_said_in_one_line(arguments, error):
    stderr = run("plan", *arguments, code=2).stderr
    assert error in stderr and stderr.count("\n") == 1
