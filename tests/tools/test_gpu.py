"""script/gpu: the rehearsal on the CPU, and what it does when a step fails, hangs, is not built or is done already."""
import importlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import tarfile
import types
import zipfile

import numpy as np
import pytest
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
# Stands for train and the others: it does as it is told by FAKE, a table of what happens at which --out or program. Tests start it
# several hundred times: this Python without its packages takes a quarter of what a python3 of PATH may take, which can be a shell script.
FAKE = f"#!{sys.executable} -S\n" + """import json, os, pathlib, sys, time
words, name = sys.argv[1:], pathlib.Path(sys.argv[0]).name
if "--help" in words:
    print("  --device TEXT  cpu\\n  --resident        keep all pixels\\n  -j,--workers INT  threads")
    sys.exit(0)
out = pathlib.Path(words[words.index("--out") + 1]) if "--out" in words else None
what = json.loads(os.environ.get("FAKE", "{}")).get(out.name if out else name, {})
time.sleep(what.get("seconds", 0))
if "code" in what:
    print("working\\n" + what["said"], file=sys.stderr)
    sys.exit(what["code"])
if name == "shardprep":
    split = out / (words[words.index("--split") + 1] if "--split" in words else "train")
    split.mkdir(parents=True, exist_ok=True)
    (split / "manifest.json").write_text("{}")
elif name == "cuda_test":
    print(what.get("said", "Suite.\\n  Test"))
elif words[0] == "verify-modes":
    print(what.get("said", "2 of 2 pairs hold"))
else:
    out.mkdir(parents=True)
    words = {word: words[i + 1] for i, word in enumerate(words[:-1])}
    summary = {"device": words["--device"], "accuracy": 0.99, "mode": words.get("--mode", "single"), "arch": words.get("--arch"),
               "workers": int(words.get("--workers", 1)), "train_seconds": 1.5, "limit": {"sentence": "compute-bound: so it is"}}
    (out / "summary.json").write_text(json.dumps({**summary, **what}))
"""


def gpu(tmp_path, *words, code=0, **env):
    """Runs script/gpu. Returns what it printed, its error line and results.json's steps."""
    done = subprocess.run([ROOT / "script/gpu", "--folder", tmp_path / "bundle", *map(str, words)], capture_output=True, text=True,
                          timeout=700, env={**os.environ, "OMP_NUM_THREADS": "1", "PENSTOCK_WHEELS": str(tmp_path / "wheels"), **env})
    assert done.returncode == code, f"{done.returncode}\n{done.stdout[-3000:]}{done.stderr}"
    path = tmp_path / "out/results.json"
    return done.stdout, done.stderr, json.loads(path.read_text())["steps"] if path.exists() else {}


def run(tmp_path, *words, device="cpu", **options):
    return gpu(tmp_path, "run", "--device", device, "--out", tmp_path / "out", "--work", tmp_path / "work", *words, **options)


@pytest.fixture
def fake(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("train", "shardprep", "cuda_test"):
        (folder / name).write_text(FAKE)
        (folder / name).chmod(0o755)
    return {"PENSTOCK_BIN": str(folder), "PENSTOCK_DATA": str(tmp_path)}


def photos(folder, count=8):
    """JPEG files as those of ImageNet are named: no data set is needed."""
    (folder / "imagenet-sample").mkdir(parents=True)
    rng = np.random.default_rng(0)
    for number in range(count):
        picture = Image.fromarray(rng.integers(0, 255, (12, 15, 3), dtype=np.uint8)).resize((120, 96))
        picture.save(folder / "imagenet-sample" / f"n{number:08}_thing.JPEG")


def test_the_rehearsal_runs_every_step_that_is_built(tmp_path):
    photos(tmp_path / "data")
    printed, _, steps = run(tmp_path, "--budget", "600s", PENSTOCK_DATA=str(tmp_path / "data"))
    assert {step["status"] for step in steps.values()} <= {"passed", "not built"}, printed
    passed = [name for name, step in steps.items() if step["status"] == "passed"]
    assert {"start", "cuda_test", "finding-affine-resident", "finding-affine-ddp", "resnet50-workers-1", "mode-mp"} <= set(passed)
    assert steps["cifar10-94-seed-0"]["figures"]["accuracy"] > 0.3
    assert "- cifar10-94: mean of 1 seeds " in (tmp_path / "out/table.md").read_text()
    assert steps["cifar10-94-resnet-seed-0"]["figures"]["accuracy"] > 0.3
    first = steps["finding-affine-workers-1"]
    assert first["figures"]["train_seconds"] > 0 and first["figures"]["prediction_error"] is not None
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"results.json", "table.md", "logs.tar.gz"}
    with tarfile.open(tmp_path / "out/logs.tar.gz") as tar:
        assert {"logs/start.log", "logs/start.summary.json", "logs/mode-mp.log"} <= set(tar.getnames())


def test_pictures_of_a_run_that_was_killed_are_unpacked_again(tmp_path, monkeypatch):
    """Their folder has its name only when all archives are in it."""
    monkeypatch.syspath_prepend(str(ROOT / "bench/gpu"))
    gpu_run = importlib.import_module("run")

    (tmp_path / "data/cifar10").mkdir(parents=True)
    (tmp_path / "1.png").write_bytes(b"picture")
    with tarfile.open(tmp_path / "data/cifar10/cifar10.tar.xz", "w:xz") as tar:
        tar.add(tmp_path / "1.png", "train/cat/1.png")
    (tmp_path / "data/cifar10/later.tar.xz").write_bytes(b"cut off")
    runner = types.SimpleNamespace(work=tmp_path / "work", bundle=types.SimpleNamespace(data=tmp_path / "data"))
    with pytest.raises(tarfile.ReadError):
        gpu_run.Runner.unpack_cifar10(runner)
    assert not (runner.work / "cifar10").exists()
    (tmp_path / "data/cifar10/later.tar.xz").unlink()
    gpu_run.Runner.unpack_cifar10(runner)
    assert [path.name for path in (runner.work / "cifar10").rglob("*.png")] == ["1.png"]


def test_what_is_not_built_is_not_passed(tmp_path, fake):
    printed, _, steps = run(tmp_path, **fake)
    assert steps["cifar10-94-seed-0"]["status"] == "not built" and "--recipe" in steps["cifar10-94-seed-0"]["why"]
    assert "not built" in printed and "0 FAILED" in printed


def wheel(folder, tag, code):
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / f"penstock-1.0-{tag}-manylinux_2_35_x86_64.whl", "w") as file:
        file.writestr("penstock/__init__.py", code)


def test_the_steps_of_python_use_the_wheel_that_fits(tmp_path, fake):
    wheel(tmp_path / "wheels", "cp39-cp39", "raise SystemExit('this wheel is for another Python')")
    _, _, steps = run(tmp_path, "--only", "python", **fake)
    assert steps["python"]["status"] == "not built" and "no wheel for Python 3." in steps["python"]["why"]
    tag = "cp{}{}".format(*sys.version_info)
    wheel(tmp_path / "wheels", "cp312-abi3" if sys.version_info >= (3, 12) else f"{tag}-{tag}", "raise SystemExit('this wheel fits')")
    _, _, steps = run(tmp_path, "--only", "python", code=1, **fake)
    assert steps["python"]["why"] == "exit code 1: this wheel fits"
    assert {"python-photos-workers-1", "python-photos-by-hand-workers-1"} < set(steps)


def test_the_first_failure_comes_first_and_others_are_still_run(tmp_path, fake):
    table = {"finding-plain-workers-0": {"code": 5, "said": "train: rank 0: the device is on fire"},
             "mode-ddp": {"code": 2, "said": "train: a later failure"}}
    printed, _, steps = run(tmp_path, code=1, FAKE=json.dumps(table), **fake)
    failure = "first failure: finding-plain-workers-0: exit code 5: train: rank 0: the device is on fire"
    assert printed.splitlines()[-1] == failure
    assert (tmp_path / "out/table.md").read_text().splitlines()[2] == failure
    assert steps["mode-ddp"]["status"] == "FAILED" and steps["finding-affine-workers-1"]["status"] == "passed"


def test_a_later_call_runs_only_what_has_not_passed(tmp_path, fake):
    broken = json.dumps({"mode-ddp": {"code": 2, "said": "train: broken"}})
    run(tmp_path, code=1, FAKE=broken, **fake)
    printed, _, steps = run(tmp_path, **fake)
    begun = [line.split(":")[0] for line in printed.split("\n\n")[0].splitlines()]
    assert "mode-ddp" in begun and "start" not in begun and steps["mode-ddp"]["status"] == "passed"
    # On another machine nothing has been packed yet, whatever the results of the first one say.
    (tmp_path / "bundle").mkdir()
    (tmp_path / "out/results.json").rename(tmp_path / "bundle/results.json")
    printed, _, steps = gpu(tmp_path, "run", "--device", "cpu", "--out", tmp_path / "out", "--work", tmp_path / "work-2", **fake)
    begun = [line.split(":")[0] for line in printed.split("\n\n")[0].splitlines()]
    assert {"mnist-train", "mnist-test", "photos"} <= set(begun) and "start" not in begun


def test_what_has_passed_with_other_programs_runs_again_after_the_rest(tmp_path, fake):
    only = ("--only", "mode-single,mode-dp")
    run(tmp_path, *only, code=1, FAKE=json.dumps({"mode-dp": {"code": 2, "said": "train: broken"}}), **fake)
    with (tmp_path / "bin/cuda_test").open("a") as program:
        program.write("# another build\n")
    printed, _, steps = run(tmp_path, *only, **fake)
    begun = [line.split(":")[0] for line in printed.split("\n\n")[0].splitlines()]
    assert begun == ["mode-dp", "start", "mode-single"] and {step["status"] for step in steps.values()} == {"passed"}
    # Where the budget ends before, what they have shown stays, and the exit code says that something is left.
    with (tmp_path / "bin/cuda_test").open("a") as program:
        program.write("# a third one\n")
    printed, _, steps = run(tmp_path, *only, "--budget", "1s", code=4, **fake)
    assert steps["mode-single"]["status"] == "passed" and "passed with the programs of " in steps["mode-single"]["why"]


def test_logs_that_weigh_too_much_together_keep_their_ends(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench/gpu"))
    import report
    monkeypatch.setattr(report, "MOST_BYTES", 200_000)
    logs = tmp_path / "logs"
    logs.mkdir()
    rng = np.random.default_rng(1)
    for number in range(12):  # none of them is too long alone
        (logs / f"{number}.log").write_bytes(rng.bytes(1000 if number < 4 else 30_000) + b"the end")
    report.keep_logs(logs, tmp_path / "logs.tar.gz")
    assert 150_000 < (tmp_path / "logs.tar.gz").stat().st_size <= 200_000
    with tarfile.open(tmp_path / "logs.tar.gz") as tar:
        kept = {name: tar.extractfile(f"logs/{name}.log").read() for name in map(str, range(12))}
    assert all(text.endswith(b"the end") for text in kept.values())
    assert all(len(kept[str(number)]) == 1007 for number in range(4)) and kept["11"].startswith(b"(cut)\n")


@pytest.mark.parametrize("what,why", [
    ({"device": "cuda"}, "device is cuda in summary.json; expected cpu"),
    ({"accuracy": 0.1}, "accuracy is 0.1; expected 0.3 or more"),
    ({"accuracy": None}, "accuracy is None; expected 0.3 or more"),
    ({"workers": 7}, "workers is 7 in summary.json; expected 1"),
])
def test_a_step_that_ends_well_must_also_have_shown_something(tmp_path, fake, what, why):
    name = "finding-affine-workers-1"
    _, _, steps = run(tmp_path, "--only", name, code=1, FAKE=json.dumps({name: what}), **fake)
    assert steps[name]["status"] == "FAILED" and steps[name]["why"] == why
    assert set(steps) == {"start", "mnist-train", "mnist-test", name}


def test_cuda_tests_of_which_none_has_passed_have_failed(tmp_path, fake):
    (tmp_path / "mnist").mkdir()
    table = {"cuda_test": {"said": "[==========] 0 tests ran.\n[  PASSED  ] 0 tests."}}
    _, _, steps = run(tmp_path, "--only", "cuda_test", device="cuda", code=1, FAKE=json.dumps(table), **fake)
    assert steps["cuda_test"]["why"] == "no test has passed"
    table = {"cuda_test": {"code": 1, "said": "[  FAILED  ] NcclTest.Sums (3 ms)\n 1 FAILED TEST"}}
    _, _, steps = run(tmp_path, "--only", "cuda_test", device="cuda", code=1, FAKE=json.dumps(table), **fake)
    assert steps["cuda_test"]["why"] == "exit code 1: NcclTest.Sums"


def test_pairs_of_modes_must_be_said_to_hold(tmp_path, fake):
    for said, why in (("1 of 2 pairs hold", "no line says that all pairs hold"), ("0 of 0 pairs hold", "no line says that all pairs hold")):
        table = json.dumps({"train": {"said": said}})
        _, _, steps = run(tmp_path, "--only", "verify-modes", code=1, FAKE=table, **fake)
        assert steps["verify-modes"]["why"] == why


def test_without_a_device_nothing_else_is_tried(tmp_path, fake):
    table = {"start": {"code": 5, "said": "train: --device cuda: no CUDA device is visible"}}
    printed, _, steps = run(tmp_path, device="cuda", code=1, FAKE=json.dumps(table), **fake)
    assert printed.splitlines()[-1].startswith("first failure: start: exit code 5: train: --device cuda: no CUDA device")
    assert steps["finding-affine-workers-0"] == {**steps["finding-affine-workers-0"], "status": "left out", "why": "start has not passed"}


def test_the_budget_ends_a_step_and_the_next_call_begins_there(tmp_path, fake):
    slow = json.dumps({"mode-single": {"seconds": 60}})
    only = ("--only", "mode-single,mode-dp")
    _, _, steps = run(tmp_path, *only, "--budget", "12s", code=4, FAKE=slow, **fake)
    assert steps["mode-single"]["status"] == "not reached" and "the budget " in steps["mode-single"]["why"]
    assert steps["mode-dp"]["status"] == "not reached"
    _, _, steps = run(tmp_path, *only, **fake)
    assert steps["mode-single"]["status"] == steps["mode-dp"]["status"] == "passed"


@pytest.mark.parametrize("words,code,said", [
    (["run", "--budget", "soon"], 2, 'argument --budget: is "soon"; expected seconds, such as 540s, or 9min'),
    (["run", "--device", "tpu"], 2, "invalid choice: 'tpu'"),
    (["pack", "--photos", "-1"], 2, "gpu: --photos is -1; expected 0 or more"),
])
def test_wrong_options_are_one_line(tmp_path, fake, words, code, said):
    _, errors, _ = gpu(tmp_path, *words, code=code, **fake)
    assert said in errors.splitlines()[-1]


def test_results_of_another_device_and_missing_programs_are_refused(tmp_path, fake):
    run(tmp_path, "--only", "start", **fake)
    _, errors, _ = run(tmp_path, device="cuda", code=4, **fake)
    assert errors.startswith("gpu: ") and "format 1, --device cpu; expected the results.json of script/gpu run --device cuda" in errors
    (tmp_path / "bin/shardprep").unlink()
    _, errors, _ = run(tmp_path, code=3, **fake)
    assert errors == f"gpu: {tmp_path}/bin/shardprep: not there; expected script/gpu pack, or script/build release\n"


def test_a_pack_that_fails_is_one_line_and_leaves_nothing(tmp_path, fake):
    for name in ("train", "shardprep", "cuda_test"):  # ldd knows what /bin/true needs, and strip what it is
        (tmp_path / "bin" / name).unlink()
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/strip").write_text("#!/bin/sh\necho strip: no space >&2\nexit 1\n")
    (tmp_path / "tools/strip").chmod(0o755)
    path = f"{tmp_path / 'tools'}:{os.environ['PATH']}"
    _, errors, _ = gpu(tmp_path, "pack", code=3, **{**fake, "PATH": path})
    assert len(errors.splitlines()) == 1 and "strip: no space; expected a program or a library" in errors
    assert not (tmp_path / "bundle").exists() and not (tmp_path / "bundle.partial").exists()


def test_a_bundle_holds_what_another_machine_lacks_and_runs(tmp_path):
    data = tmp_path / "data"
    photos(data, count=3)
    for name in ("mnist", "cifar10"):
        (data / name).mkdir()
        (data / name / "file").write_bytes(b"x" * 1000)
    wheel(tmp_path / "wheels", "cp312-abi3", "raise SystemExit('of an older commit')")
    env = {"PENSTOCK_DATA": str(data)}
    _, errors, _ = gpu(tmp_path, "pack", "--limit", 5, code=2, **env)
    assert len(errors.splitlines()) == 1 and "expected at most 5: fewer --photos than 100" in errors
    assert not (tmp_path / "bundle").exists() and not (tmp_path / "bundle.partial").exists()
    printed, _, _ = gpu(tmp_path, "pack", "--photos", 2, **env)
    assert "of 64 MiB (bin " in printed
    bundle = tmp_path / "bundle"
    assert len(list((bundle / "data/imagenet-sample").iterdir())) == 2
    assert printed.splitlines()[1] == (
        f"without the Python package, as the wheel in {tmp_path}/wheels was built from other sources than this checkout has; "
        "expected script/wheel before, for the steps `python`")
    assert list((bundle / "wheels").iterdir()) == []
    libraries = {path.name.split(".so")[0] for path in (bundle / "lib").iterdir()}
    assert {"libpenstock", "libpenstock_train", "libpenstock_cuda", "libtbb", "libjpeg", "libhwy", "libisal", "libspng", "libxxhash"} <= libraries
    assert not libraries & {"libc", "libstdc++", "libgomp", "libtorch_cpu", "libc10", "libcudart", "libnccl"}
    assert (bundle / "bin/train").stat().st_mode & stat.S_IXUSR
    # PENSTOCK_BIN would be used without a bundle.
    _, _, steps = run(tmp_path, "--only", "start", PENSTOCK_BIN="/nonexistent")
    assert steps["start"]["status"] == "passed" and steps["start"]["command"].startswith(f"{bundle}/bin/train ")


def test_a_wheel_travels_if_it_is_of_these_sources(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench/gpu"))
    pack = importlib.import_module("pack")
    root, wheels = tmp_path / "root", tmp_path / "wheels"
    for name in ("core", "augment", "loader/batch", "python", "tools/train", "cmake", "script"):
        (root / name).mkdir(parents=True)
    for name in ("CMakeLists.txt", "pyproject.toml", "loader/batch/loader.h", "tools/train/main.cpp"):
        (root / name).write_text("1\n")
    (root / "script/wheel").write_text((ROOT / "script/wheel").read_text())
    (root / "script/wheel").chmod(0o755)
    wheels.mkdir()
    assert pack.why_no_wheel(root, wheels) == f"there is no wheel in {wheels}"
    wheel(wheels, "cp312-abi3", "")
    other = f"the wheel in {wheels} was built from other sources than this checkout has"
    assert pack.why_no_wheel(root, wheels) == other  # it does not say of which
    (wheels / "sources").write_text(subprocess.run([root / "script/wheel", "--sources"], capture_output=True, text=True).stdout)
    assert pack.why_no_wheel(root, wheels) == ""
    (root / "tools/train/main.cpp").write_text("2\n")  # a wheel has no `train`
    assert pack.why_no_wheel(root, wheels) == ""
    (root / "loader/batch/loader.h").write_text("2\n")
    assert pack.why_no_wheel(root, wheels) == other
