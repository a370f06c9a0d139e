"""--plugin: plug-ins of another project, compiled against an installation, in the stock tools."""
import csv
import json
import math
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"])


def run(*command, code=0, **environment):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300,
                          env={**os.environ, **environment})
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


VERSION = run(BIN / "train", "--version").removeprefix("penstock ").strip()
OTHER_VERSION = "".join("0" if digit.isdigit() and digit != "0" else digit for digit in VERSION)  # of equal length


def refusal(*command, code=2, **environment):
    """The one line that a tool prints."""
    message = run(*command, code=code, **environment)
    assert message.count("\n") == 1, message
    return message


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BIN.parent, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def plugin(installed, tmp_path_factory):
    build = tmp_path_factory.mktemp("plugins")
    run("cmake", "-S", ROOT / "tests/consumer/plugin", "-B", build, f"-DCMAKE_PREFIX_PATH={installed}")
    run("cmake", "--build", build)
    return build / "libpictures.so"


@pytest.fixture(scope="module")
def stripes(installed, plugin, tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "stripes"
    run(installed / "bin/shardprep", "pack", "--plugin", plugin, "--source", "stripes(count=64)", "--out", out, "--split",
        "train,test", "--quiet")
    return out


def test_a_source_and_a_transform_are_those_of_the_stock_tools(installed, plugin, stripes):
    info = run(installed / "bin/shardprep", "info", stripes / "train")
    assert "stripes(count=64)" in info and "lying" in info and "standing" in info

    def digest(augment):
        return run(installed / "bin/loadbench", f"--plugin={plugin}", "--data", stripes, "--digest", "--epochs", 1,
                   "--augment", augment, "--workers", 1)
    # Inverting twice gives the same picture, and inverting once does not: the plug-in's edit reaches the pixels.
    assert digest("complement(p=1),complement(p=1),normalize") == digest("normalize") != digest("complement(p=1),normalize")
    assert "complement: turn levels round" in run(installed / "bin/loadbench", "--plugin", plugin, "--help")
    assert "unknown key \"q\"" in refusal(installed / "bin/loadbench", "--plugin", plugin, "--data", stripes, "--augment",
                                          "complement(q=1)")


def test_a_column_is_in_the_batches_of_the_stock_tools(installed, plugin, stripes):
    def digest(*columns, workers=1):
        return run(installed / "bin/loadbench", "--plugin", plugin, "--data", stripes, "--digest", "--epochs", 1, "--workers", workers,
                   *columns)
    halves = digest("--columns", "halves")
    assert halves == digest("--columns", "halves", workers=2) != digest() != digest("--columns", "halves(times=2)") != halves
    assert "halves: means of the two" in run(installed / "bin/loadbench", "--plugin", plugin, "--help")
    assert 'unknown column "halvs"; did you mean "halves"? known: boxes, field, halves, keypoints, mask' in refusal(
        installed / "bin/loadbench", "--plugin", plugin, "--data", stripes, "--columns", "halvs")


def test_a_sampler_says_which_samples_an_epoch_has(installed, plugin, stripes):
    loadbench = [installed / "bin/loadbench", "--plugin", plugin, "--data", stripes, "--digest", "--epochs", 1, "--workers", 1]
    few, all_rows = (run(*loadbench, "--sampler", f"firsts(rows={rows})").splitlines() for rows in (8, 64))
    assert all_rows[0] == "sampler firsts(rows=64): 64 rows per epoch of 64 samples; the first 64 samples"
    assert few[-1] != all_rows[-1] == run(*loadbench, "--shuffle", "none").splitlines()[-1]  # a digest does not tell orders apart
    assert "firsts: rows is 65; expected at most 64" in refusal(*loadbench, "--sampler", "firsts(rows=65)")


def test_a_codec_reads_what_no_other_one_does(installed, plugin, tmp_path):
    for name, level in (("a", 10), ("b", 200)):
        place = tmp_path / "source" / name
        place.mkdir(parents=True)
        (place / "1.tone").write_bytes(b"TONE" + bytes((3, 4)) + bytes([level] * 12))
    shardprep = [installed / "bin/shardprep"]
    pack = ["pack", "--source", "image-folder", "--input", tmp_path / "source", "--out", tmp_path / "packed"]
    assert "no samples" in refusal(*shardprep, *pack, code=3)
    run(*shardprep, *pack, "--plugin", plugin)
    assert "TONE" in run(*shardprep, "info", tmp_path / "packed/train", "--plugin", plugin)
    run(*shardprep, "unpack", tmp_path / "packed", "--out", tmp_path / "again", "--plugin", plugin)
    again = sorted((tmp_path / "again").rglob("*.tone"))
    assert [file.read_bytes()[6] for file in again] == [10, 200]
    assert run(*shardprep, "verify", tmp_path / "packed", code=4).count("encoding is 200; expected one of 0 (raw)") == 2
    (tmp_path / "source/a/1.tone").write_bytes(b"TONE\x03\x04")
    assert "6 bytes; expected a whole TONE picture" in refusal(*shardprep, *pack, "--force", "--plugin", plugin, code=4)


@pytest.fixture(scope="module")
def memory(installed, plugin):
    """A tool with the plug-in of `memory:`, which holds files in memory."""
    return lambda tool, *words: [installed / "bin" / tool, *words, "--plugin", plugin.parent / "libmemory.so"]


def test_a_kind_of_files_is_that_of_every_tool(memory, stripes, tmp_path):
    far = f"memory:{stripes}"
    for split in ("train", "test"):
        digests = [run(*memory("loadbench", "--data", data, "--split", split, "--digest", "--epochs", 2, "--workers", 2,
                               "--augment", "affine(degrees=9),normalize")) for data in (stripes, far, f"{far}/{split}")]
        assert digests[0] == digests[1] == digests[2] != ""
    shown = [run(*memory("shardprep", "info", data)).replace("memory:", "") for data in (f"{stripes}/train", f"{far}/train")]
    assert shown[0] == shown[1]
    assert f"{far}/test: 64 samples in 8 shards, every one as packed\n" in run(*memory("shardprep", "verify", far))
    sheets, trees = [], []
    for name, data in (("local", stripes), ("far", far)):
        run(*memory("shardprep", "show", data, "--split", "train", "--out", tmp_path / f"{name}.png"))
        run(*memory("shardprep", "unpack", data, "--out", tmp_path / name))
        sheets.append((tmp_path / f"{name}.png").read_bytes())
        trees.append({file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("*.png")})
    assert sheets[0] == sheets[1] and trees[0] == trees[1] and len(trees[0]) == 128


@pytest.mark.parametrize("fault, fact", [("short", r"(\d+) bytes were read; expected its (\d+)"),
                                         ("broken", "read in part; expected all of it")])
def test_files_that_cannot_be_read_are_named_in_a_line(memory, stripes, fault, fact):
    far = f"memory:{stripes}"
    for tool, words in (("loadbench", ["--data", far, "--digest"]), ("shardprep", ["info", far])):
        message = refusal(*memory(tool, *words), code=3, MEMORY_FAULT=fault)
        found = re.fullmatch(rf"{tool}: {far}/train/shard-00000-of-00008\.safetensors: {fact}\n", message)
        assert found, message
        assert fault == "broken" or int(found[1]) + 1 == int(found[2])
    problems = run(*memory("shardprep", "verify", far), code=3, MEMORY_FAULT=fault).splitlines()
    assert len(problems) == 17 and problems[-1] == "shardprep: verify: 16 problems; expected none"
    assert refusal(*memory("loadbench", "--data", f"{far}/none"), code=3).startswith(
        f"loadbench: {far}/none: no manifest.json and no train/manifest.json; ")


def test_training_from_another_kind_of_files_gives_the_same_bits(memory, stripes, tmp_path):
    for name, data in (("local", stripes), ("far", f"memory:{stripes}"), ("split", f"memory:{stripes}/train")):
        printed = run(*memory("train", "--data", data, "--arch", "mlp", "--epochs", 2, "-b", 16, "--threads", 1, "-j", 1,
                              "--device", "cpu", "--out", tmp_path / name))
        assert "nothing is evaluated" not in printed
    models = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("local", "far", "split")]
    accuracies = [json.loads((tmp_path / name / "summary.json").read_text())["accuracy"] for name in ("local", "far", "split")]
    assert models[0] == models[1] == models[2] and accuracies[0] == accuracies[1] == accuracies[2]


def test_without_the_plug_in_its_names_are_unknown(installed, stripes):
    assert "unknown transform \"complement\"" in refusal(installed / "bin/loadbench", "--data", stripes, "--augment", "complement")


def test_a_plug_in_of_another_version_is_refused_before_it_runs(installed, plugin, stripes, tmp_path):
    other = tmp_path / "other.so"
    own, foreign = (f"penstock {version}, libstdc++" for version in (VERSION, OTHER_VERSION))
    assert own != foreign and plugin.read_bytes().count(own.encode() + b"\0") == 1
    other.write_bytes(plugin.read_bytes().replace(own.encode(), foreign.encode()))
    message = refusal(installed / "bin/loadbench", "--plugin", other, "--data", stripes)
    assert message == f"loadbench: --plugin {other}: compiled against {foreign}; expected {own}, compile it again\n"


def test_what_is_no_plug_in_is_refused_in_a_line(installed, plugin, tmp_path):
    shardprep = [installed / "bin/shardprep", "pack", "--source", "digits", "--out", tmp_path / "out"]
    text = tmp_path / "text.so"
    text.write_text("not ELF\n" * 20)
    empty = tmp_path / "empty.so"
    empty.touch()
    for file in (text, empty, installed / "bin/shardprep"):
        assert "shared library" in refusal(*shardprep, "--plugin", file), file
    assert "no plug-in of Penstock; expected PENSTOCK_PLUGIN()" in refusal(
        *shardprep, "--plugin", next(installed.glob("lib*/libpenstock.so")))
    for file, fact in ((tmp_path / "missing.so", "No such file"), (tmp_path, "no regular file")):
        assert fact in refusal(*shardprep, "--plugin", file, code=3)
    for words in (["--plugin", ""], ["--plugin="]):
        assert refusal(*shardprep, *words) == 'shardprep: --plugin is ""; expected a shared library, or no --plugin\n'
    assert "--plugin: has no value" in refusal(*shardprep, "--plugin")
    assert not (tmp_path / "out").exists()


def test_a_plug_in_that_is_cut_short_anywhere_is_refused(installed, plugin, tmp_path):
    whole, cut = plugin.read_bytes(), tmp_path / "cut.so"
    for byte_count in (1, 63, 64, 65, 500, len(whole) // 2, len(whole) - 1):
        cut.write_bytes(whole[:byte_count])
        assert "cut short" in refusal(installed / "bin/loadbench", "--plugin", cut, "--data", tmp_path)


START = '''#include <cstdlib>
#include <stdexcept>
#include "core/plugin.h"
PENSTOCK_PLUGIN();
namespace { const struct Start { Start() HOW } start; }
'''


@pytest.mark.parametrize("how, fact", [
    ("{ throw 7; }", "its start-up code threw something that is no std::exception; expected code that throws nothing"),
    ("{ throw std::runtime_error(\"no licence\"); }", 'its start-up code threw "no licence"; expected code that throws nothing'),
    ("{ std::abort(); }", "ended this process while it was loaded; expected start-up code that returns"),
    ("noexcept { throw 7; }", "its start-up code threw something that is no std::exception; expected code that throws nothing"),
    ("{ std::exit(0); }", "ended this process while it was loaded; expected start-up code that returns"),
    ("{ *static_cast<volatile int*>(nullptr) = 0; }", "ended this process while it was loaded; expected start-up code that returns")])
def test_a_plug_in_that_fails_while_it_is_loaded_is_named(installed, tmp_path, how, fact):
    file = tmp_path / "start.so"
    (tmp_path / "start.cpp").write_text(START.replace("HOW", how))
    include = next(installed.rglob("core/plugin.h")).parents[1]
    run("g++", "-std=c++20", "-w", "-shared", "-fPIC", f"-I{include}", tmp_path / "start.cpp", "-o", file)
    assert refusal(installed / "bin/loadbench", "--plugin", file, "--data", tmp_path) == f"loadbench: --plugin {file}: {fact}\n"


def test_a_plug_in_is_taken_once(installed, plugin, stripes, tmp_path):
    loadbench = [installed / "bin/loadbench", "--data", stripes, "--plugin", plugin, "--plugin"]
    link = tmp_path / "link.so"
    link.symlink_to(plugin)
    for again in (plugin, link):
        assert f"--plugin {again}: is loaded already, as {plugin}" in refusal(*loadbench, again)
    copy = tmp_path / "copy.so"
    shutil.copy(plugin, copy)
    assert f"--plugin {copy}: transform complement is there already" in refusal(*loadbench, copy)


@pytest.fixture(scope="module")
def train(installed, plugin, stripes):
    """`train` on the plug-in's data, with both plug-ins."""
    return [installed / "bin/train", "--plugin", plugin, "--plugin", plugin.parent / "libtraining.so", "--data", stripes,
            "--threads", 1, "-j", 1, "--device", "cpu", "--augment", "complement"]


def test_a_model_and_a_mode_train_and_are_known_when_the_run_goes_on(installed, train, plugin, tmp_path):
    out = tmp_path / "run"
    printed = run(*train, "--arch", "spreads", "--mode", "signs", "--nproc", 1, "--epochs", 5, "-b", 8, "--lr", 0.1, "--out", out)
    training = plugin.parent / "libtraining.so"
    assert f"plug-in {plugin}: transform complement, source stripes, column halves, sampler firsts, codec TONE (encoding 200)\n" in printed
    assert (f"plug-in {training}: arch spreads, arch edges, mode signs, mode pairs, optimizer signum, loss brier, schedule in-order, "
            "sink losses\n") in printed
    assert [line.split()[0] for line in (out / "losses.txt").read_text().splitlines()] == list("12345")
    assert json.loads((out / "summary.json").read_text())["accuracy"] > 0.9
    options = json.loads((out / "options.json").read_text())
    assert options["plugin"] == [str(plugin), str(training)]
    resumed = run(installed / "bin/train", "--resume", out, "--mode", "signs", "--nproc", 1, "--epochs", 6, "--threads", 1, "-j", 1, "--device", "cpu")
    assert "arch spreads, mode signs" in resumed
    run(installed / "bin/train", "-e", "--out", out, "--plugin", plugin, "--plugin", training, "--device", "cpu")


def test_a_schedule_trains_what_one_rank_trains(train, tmp_path):
    lenet = [*train, "--arch", "lenet", "--exact", 4, "-b", 8, "--epochs", 1]
    run(*lenet, "--out", tmp_path / "single")
    printed = run(*lenet, "--mode", "pipeline(schedule=in-order)", "--nproc", 2, "--out", tmp_path / "pipeline")
    assert "2 pipe, in-order, 4 micro-batches" in printed, printed
    assert (tmp_path / "pipeline/model.safetensors").read_bytes() == (tmp_path / "single/model.safetensors").read_bytes()
    drawn = run(*train, "--arch", "lenet", "--mode", "pipeline(schedule=in-order,micro-batches=2)", "--nproc", 2,
                "--print-schedule")
    assert "rank 0  F0 F1 .  .  .  B0 =  B1 =\n" in drawn, drawn
    assert "known: 1f1b, dualpipe-v, gpipe, in-order, interleaved, zb-v, zero-bubble" in refusal(
        *lenet, "--mode", "pipeline(schedule=out-of-order)", "--nproc", 2)


def test_a_mode_that_is_its_plan_runs_and_is_predicted_drawn_emulated_verified_and_measured(train, plugin, tmp_path):
    lenet = ["--arch", "lenet", "-b", 8]
    paired = [*train, *lenet, "--epochs", 1, "--mode", "pairs(pieces=4)"]
    printed = run(*paired, "--nproc", 4, "--out", tmp_path / "run")
    assert "mode pairs(pieces=4), 4 ranks as 2 data x 2 pipe, gpipe, 4 micro-batches, zero 1, bubble 20 %; stage 0: conv1" in printed, printed
    memory = json.loads((tmp_path / "run/summary.json").read_text())["tensor_memory"]
    assert {kind: use["formula"] for kind, use in memory.items()} == {"parameters": "phi", "gradients": "phi", "optimizer": "phi / 2"}
    for use in memory.values():
        assert use["bytes"] == use["formula_bytes"] and use["bytes"][0] == use["bytes"][2] > use["bytes"][1], use
    run(*paired, "--nproc", 2, "--emulate-step", "40ms", "--out", tmp_path / "emulated")
    emulated = json.loads((tmp_path / "emulated/summary.json").read_text())
    assert emulated["emulated"] and emulated["bubble"]["predicted"] == 0.2 and 0 < emulated["bubble"]["measured"] < 1, emulated
    drawn = run(*train, *lenet, "--mode", "pairs", "--nproc", 2, "--print-schedule")
    assert "rank 0  F0 F1 .  .  .  B1 =  B0 =\n" in drawn, drawn
    verified = run(train[0], "verify-modes", "--plugin", plugin.parent / "libtraining.so", "--modes", "pairs", *lenet[:2],
                   "--nproc", "2,4", "--steps", 10)
    assert "4 of 4 pairs hold" in verified, verified
    planned = tmp_path / "plan.json"
    run(train[0], "plan-modes", *train[1:], *lenet, "--modes", "pairs,pipeline(schedule=gpipe,micro-batches=2)", "--nproc", 2, "--json", planned)
    rows = json.loads(planned.read_text())["rows"]
    assert rows[0]["step_seconds"] == rows[1]["step_seconds"] > 0 and rows[0]["rank_bytes"] == rows[1]["rank_bytes"], rows
    assert "--mode pairs: 3 ranks; expected an even number" in refusal(*paired, "--nproc", 3, "--out", tmp_path / "odd")


def losses_in(folder):
    with open(folder / "evaluation.csv", newline="") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def test_a_loss_trains_evaluates_and_predicts(installed, train, tmp_path):
    flags = [*train, "--arch", "lenet", "--mode", "ddp", "--nproc", 2, "--epochs", 2, "-b", 8, "--label-smoothing"]
    assert "--label-smoothing is 0.1 with --loss brier, which does not smooth labels" in refusal(*flags, 0.1, "--loss", "brier")
    run(*flags, 0, "--loss", "brier", "--out", tmp_path / "run")
    assert json.loads((tmp_path / "run/options.json").read_text())["loss"] == "brier"
    evaluate = [train[0], "--evaluate", "--resume", tmp_path / "run", "--mode", "single", "--nproc", 1, "--device", "cpu"]
    for out, words in (("brier", []), ("other", ["--loss", "cross-entropy"])):
        run(*evaluate, *words, "--out", tmp_path / out)
    brier, other = losses_in(tmp_path / "brier"), losses_in(tmp_path / "other")
    # With two classes, and p for the right one: 2 (1 - p)^2 and -log p.
    assert brier == pytest.approx([2 * (1 - math.exp(-loss)) ** 2 for loss in other], rel=1e-4, abs=1e-5)
    evaluation = json.loads((tmp_path / "brier/evaluation.json").read_text())
    assert evaluation["loss"] == pytest.approx(sum(brier) / len(brier), rel=1e-4)
    trained = [json.loads(line)["loss"] for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert 0 < trained[0] < 0.6  # 0.5 for p = 1/2, where cross entropy is 0.69


def test_every_mode_trains_a_loss_as_one_rank_does(train):
    printed = run(train[0], "verify-modes", *train[3:5], "--loss", "brier", "--modes",
                  "ddp,dp,mp,pipeline,pipeline(schedule=in-order),zero,zero(stage=2),zero(stage=3)", "--arch", "lenet", "--nproc", 2,
                  "--hosting", "threads", "--steps", 10)
    assert re.search(r"^(\d+) of \1 pairs hold$", printed, re.MULTILINE), printed
    assert "unknown loss \"briar\"" in refusal(train[0], "verify-modes", *train[3:5], "--loss", "briar")


def test_what_half_precision_does_not_reach_is_said(train):
    check = [*train, "--check", "--out", "/nowhere", "--precision"]
    said = ("--precision bf16 with --arch edges: f32 stay the weights of conv; only penstock::Conv2d, Linear and Attention "
            "compute in half precision\n")
    assert said in run(*check, "bf16", "--arch", "edges")
    for precision, arch in (("f32", "edges"), ("bf16", "lenet")):
        assert "stay the weights" not in run(*check, precision, "--arch", arch)


def test_ranks_and_studies_have_the_plug_ins_too(train, tmp_path):
    printed = run(*train, "--arch", "spreads", "--mode", "ddp", "--nproc", 2, "--optimizer", "signum(beta=0.5)", "--epochs", 1,
                  "--out", tmp_path / "run")
    assert "2 ranks started by penstock" in printed and "optimizer signum(beta=0.5): --lr 0.001" in printed
    run(train[0], "study", *train[1:7], "--threads", 1, "--device", "cpu", "--augment", "complement", "--arch", "spreads",
        "--workers", "0,1", "--epochs", 1, "--out", tmp_path / "study")


@pytest.mark.parametrize("fault, code, message", [
    ("memory", 5, r"--batch-size 64: no memory for a step( \(.*\))?; expected a smaller batch, or a smaller --arch than "
                  r"faulty\(fault=memory\), or more memory"),
    ("shape", 1, r"(?:addmm: )?mat1 and mat2 shapes cannot be multiplied \(32x0 and 1x2\)")])
def test_what_a_rank_fails_with_reaches_the_others_in_a_line(train, plugin, tmp_path, fault, code, message):
    flags = [*train[:3], "--plugin", plugin.parent / "libfaulty.so", *train[5:], "--arch", f"faulty(fault={fault})",
             "--mode", "ddp", "--nproc", 2, "--epochs", 1, "--out", tmp_path / "run"]
    lines = set(run(*flags, code=code).splitlines())  # the one that the launcher blames comes once more
    (heard,) = [line for line in lines if line.startswith("[rank 0] ")]
    (own,) = [line for line in lines if line.startswith("[rank 1] ")]
    assert re.fullmatch(r"\[rank 0\] train: rank 0: gloo: \w+: rank 1 has ended: " + message, heard), heard
    assert re.match(r"\[rank 1\] train: (unforeseen: )?" + message, own), own


def test_plug_ins_of_models_are_for_train_and_its_libtorch(installed, train, plugin, stripes, tmp_path):
    training = plugin.parent / "libtraining.so"
    assert f"--plugin {training}: a plug-in for LibTorch" in refusal(installed / "bin/loadbench", "--plugin", training, "--data",
                                                                     stripes)
    other = tmp_path / "other.so"
    (own,) = set(re.findall(rf"penstock {re.escape(VERSION)}, libstdc\+\+, LibTorch [^\0]+".encode(), training.read_bytes()))
    foreign = own.replace(b"LibTorch ", b"LibTorch-")
    other.write_bytes(training.read_bytes().replace(own, foreign))
    message = refusal(train[0], "--plugin", other, "--data", stripes)
    assert f"compiled against {foreign.decode()}; expected {own.decode()}, compile it again" in message
    with_plugin = run(*train[:5], "--help")
    assert "spreads" not in run(train[0], "--help") and "spreads" in with_plugin
    assert "signum: steps of the sign of the mean gradient" in with_plugin
