"""Bad input gives train one clear line and the right exit code, and leaves nothing half-written."""
import gzip
import json
import pathlib
import re
import shutil
import struct
import subprocess

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from train_tool import FAST, TRAIN, run

CONFIG, IO, CORRUPT, DEVICE = 2, 3, 4, 5


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def trained(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    run(cache, *FAST, "--save-every", "5", "--out", out)
    return out


def fails(cache, tmp_path, flags, code, *expected):
    """One line on stderr that holds every part of `expected`, and no folder."""
    done = run(cache, *flags, "--out", tmp_path / "out", code=code)
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("train: "), done.stderr
    for part in expected:
        assert part in lines[0], lines[0]
    assert not (tmp_path / "out").exists()
    assert not [path for path in pathlib.Path(cache).rglob("*") if ".partial" in path.name]


@pytest.mark.parametrize("flags,expected", [
    (["--mode", "pipeline", "--micro-batches", "8"],
     ["unknown flag \"--micro-batches\"; it is a key of --mode, as in --mode 'pipeline(micro-batches=8)'"]),
    (["--accumulate=4"], ["unknown flag \"--accumulate\"; it is a key of --mode, as in --mode 'ddp(accumulate=4)'"]),
    (["--worker", "2"], ['unknown flag "--worker"', 'did you mean "--workers"']),
    (["extra"], ['unexpected argument "extra"']),
    (["--workers", "-1"], ["--workers is -1; expected 0 or more"]),
    (["--workers", "two"], ['--workers: is "two"; expected a whole number']),
    (["--workers", ""], ['--workers: is ""; expected a whole number']),
    (["--workers=", "--lr", "1"], ['--workers: is ""; expected a whole number']),
    (["--workers=", "2"], ['--workers: is ""; expected a whole number']),
    (["--lr", "nan"], ['--lr: is "nan"; expected a finite number']),
    (["--seed", "-1"], ['--seed: is "-1"; expected a whole number, 0 or more']),
    (["--prefetch", "0"], ["--prefetch is 0; expected 1 or more"]),
    (["--nproc", "0"], ["--nproc is 0; expected 1 or more"]),
    (["--batch-size", "0"], ["--batch-size is 0; expected 1 or more"]),
    (["--epochs", "-1"], ["--epochs is -1; expected 0 or more"]),
    (["--lr", "-1"], ["--lr is -1; expected 0 or more"]),
    (["-a", "vit(patch=5)"], ["arch vit: pictures are 16 x 16 and patches 5 x 5; expected pictures whose sides 5 divides"]),
    (["-a", "vit(patch=8,width=30,heads=4)"], ["arch vit: width is 30 with 4 heads; expected a width that 4 divides"]),
    (["-a", "convnext-tiny"], ["arch convnext-tiny: pictures are 16 x 16; expected at least 32 x 32"]),
    (["--optimizer", "adamm"], ['--optimizer: unknown optimizer "adamm"', 'did you mean "adam"', "lamb, muon, sgd"]),
    (["--optimizer", "adamw(beta=1)"], ['optimizer adamw: unknown key "beta"', "beta1, beta2, eps"]),
    (["--optimizer", "adamw(beta2=1)"], ["--optimizer adamw: beta2 is 1; expected 0 or more and less than 1"]),
    (["--optimizer", "adamw", "--momentum", "0.9"], ["--momentum is 0.9 with --optimizer adamw; expected it with sgd alone"]),
    (["--optimizer", "sgd(nesterov=true)", "--momentum", "0"], ["nesterov is true with --momentum 0"]),
    (["--print-freq", "0"], ["--print-freq is 0; expected 1 or more"]),
    (["--timeout", "0"], ["--timeout is 0; expected 1 or more"]),
    (["--arch", "lenett"], ['unknown arch "lenett"', 'did you mean "lenet"', "resnet50"]),
    (["--arch", "lenet(depth=3)"], ['arch lenet: unknown key "depth"']),
    (["--arch", "resnet18("], ["arch", "resnet18("]),
    (["--mode", "dpp"], ['unknown mode "dpp"', 'did you mean "ddp"', "single"]),
    (["--device", "gpu"], ['unknown device "gpu"', "auto, cpu, cuda"]),
    (["--shuffle", "local"], ['unknown shuffle "local"', "rank-local"]),
    (["--split", "tarin"], ['--split: unknown split "tarin"; did you mean "train"?', "all, test, train"]),
    (["--tail", "keep"], ['unknown tail "keep"', "drop, pad"]),
    (["--schedule", "cosin"], ['unknown schedule "cosin"', 'did you mean "cosine"']),
    (["--augment", "afine(degrees=10)"], ['unknown transform "afine"', 'did you mean "affine"']),
    (["--augment", "affine(degree=10)"], ['transform affine: unknown key "degree"', "degrees"]),
    (["--augment", "affine(degrees=ten)"], ["transform affine", "degrees", "ten"]),
    (["--augment", "affine(degrees=10"], ["affine(degrees=10"]),
    (["--augment", "resize(size=8)"], ["arch lenet: pictures are 8 x 8"]),
    (["--augment", "resize(size=20)", "--eval-augment", "resize(size=24)"], ["--eval-augment: gives 1 x 24 x 24"]),
    (["--augment", "mixup(alpha=0)"], ["transform mixup: alpha is 0; expected more than 0"]),
    (["--augment", "mixup,mixup"], ["transform mixup: occurs twice; expected at most one mixup and one cutmix"]),
    (["--emulate-load", "1ms", "--resident"], ["--emulate-load with --resident: no loader makes the batches; expected one of the two"]),
    (["--augment", "mixup", "--resident"], ["--resident: the transforms mixup,normalize mix rows of a batch"]),
    (["--augment", "normalize,erase(value=random)", "--resident"],
     ["--resident: the transforms normalize,erase(value=random) erase with noise, which only the loader on the host makes"]),
    (["--eval-augment", "cutmix"], ["--eval-augment: cutmix would mix the pictures that are evaluated"]),
    (["--decode", "half"], ['unknown decode "half"', "auto, full, index, region"]),
    (["--dct-scale", "on"], ['unknown dct-scale "on"', "always, auto, off"]),
    (["--data", "mnst:somewhere"], ['unknown source "mnst"', 'did you mean "mnist"']),
    (["--data", "digits(size=28,colour=red)"], ['source digits: unknown key "colour"']),
    (["--save-every", "5 minutes"], ['--save-every is "5 minutes"']),
    (["--mode", "single", "--nproc", "2"], ["--mode single: launched with 2 ranks; expected 1 (use --mode ddp)"]),
    (["--mode", "ddp", "--nproc", "4", "-b", "3"], ["--batch-size is 3 with 4 ranks; expected 4 or more"]),
    (["--mode", "ddp", "--nproc", "2", "--world-size", "3"], ["--nproc is 2 and --world-size is 3"]),
    (["--mode", "ddp", "--nproc", "17", "--shuffle", "rank-local"], ["--shuffle rank-local: 16 shards for 17 ranks"]),
    (["--rank", "1"], ["--rank is 1 without --world-size"]),
    (["--rank", "2", "--world-size", "2", "--mode", "ddp"], ["--rank is 2; expected less than --world-size, 2"]),
    (["--rank", "0", "--world-size", "2", "--mode", "ddp", "--dist-url", "localhost"], ['--dist-url is "localhost"']),
    (["-b", "4000", "--tail", "drop"], ["--batch-size is 4000 with --tail drop and 400 samples"]),
    (["--mode", "ddp", "--nproc", "2", "--dist-url", "garbage"], ['--dist-url is "garbage"; expected tcp://host:port']),
    (["--mode", "ddp", "--nproc", "2", "--dist-backend", "nccl"], ["--dist-backend is nccl on the CPU"]),
    (["--threads", "1000000"], ["--threads is 1000000; expected 1024 or fewer"]),
    (["--gpu", "-1"], ["--gpu is -1; expected 0 or more"]),
    (["--world-size", "0"], ["--world-size is 0; expected 1 or more"]),
    (["--arch", "mlp(hidden=two,depth=3)"], ['arch mlp: unknown key "depth"']),
    (["--mode", "ddp(size=1)", "--nproc", "2"], ['mode ddp: unknown key "size"']),
    (["--augment", "random-resized-crop(siz=224)"], ['transform random-resized-crop: unknown key "siz"; did you mean "size"']),
    (["--gpu", "0", "--device", "cpu"], ["--gpu is 0 with --device cpu"]),
    (["--profile", "0"], ["--profile is 0; expected 1 to 1000 steps"]),
    (["--profile", "1001"], ["--profile is 1001; expected 1 to 1000 steps"]),
    (["--profile", "many"], ['--profile: is "many"; expected a whole number']),
    (["--profile", "--evaluate", "--pretrained", "a"], ["--profile 20 with --evaluate: no step is trained"]),
    (["--resume", "a", "--pretrained", "b"], ["--resume a with --pretrained b"]),
    (["--interface", "l0"], ['--interface: unknown interface "l0"', 'did you mean "lo"']),
    (["--interface", "l0", "--mode", "ddp", "--nproc", "2"], ['--interface: unknown interface "l0"']),
], ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith(("-", "extra")) else "")
def test_options_that_cannot_be(cache, tmp_path, flags, expected):
    fails(cache, tmp_path, [*FAST, *flags], CONFIG, *expected)


def test_the_runs_folder_has_a_name(cache):
    assert run(cache, *FAST, "--out", "", code=CONFIG).stderr == 'train: --out is ""; expected a folder, or no --out\n'


def test_a_misspelt_transform_is_noticed_before_packing(tmp_path):
    for flag in ("--augment", "--eval-augment"):
        fails(tmp_path / "cache", tmp_path, [*FAST, flag, "afine"], CONFIG, 'unknown transform "afine"')
    assert not (tmp_path / "cache").exists()


def test_a_device_that_is_not_there(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    fails(cache, tmp_path, [*FAST, "--device", "cuda"], DEVICE, "--device cuda: no CUDA device is visible")
    fails(cache, tmp_path, [*FAST, "--device", "auto", "--gpu", "3"], DEVICE, "--gpu 3: no CUDA device is visible")


def with_data(data):
    return [*FAST, "--data", data]


def test_data_that_are_not_there(cache, tmp_path):
    fails(cache, tmp_path, with_data("no/such/folder"), IO, "no/such/folder", "digits, flat, image-folder, jsonl, metadata-folder, mnist")
    fails(cache, tmp_path, with_data(f"mnist:{tmp_path}"), IO, "train-images")
    fails(cache, tmp_path, with_data(tmp_path), IO, str(tmp_path))
    fails(cache, tmp_path, with_data("x" * 300), IO, "there is no such folder")
    fails(cache, tmp_path, with_data("digits:nowhere"), IO, "--data digits:nowhere: No such file or directory")


def test_a_folder_of_a_source_that_is_not_packed_is_named_with_its_source(cache, tmp_path):
    for below in ("cat/1.JPG", "train/cat/1.jpeg", "train/pets/cat/1.png"):
        pictures = tmp_path / below.replace("/", "-")
        (pictures / below).parent.mkdir(parents=True)
        (pictures / "notes.txt").write_text("mine")
        (pictures / below).write_bytes(b"never looked into")
        fails(cache, tmp_path, with_data(pictures), CONFIG,
              f"--data {pictures}: not a packed data set", f"expected --data image-folder:{pictures}")
    write_idx(tmp_path / "idx", np.zeros((5, 28, 28), np.uint8), np.zeros(5, np.uint8))
    fails(cache, tmp_path, with_data(tmp_path / "idx"), CONFIG, f"expected --data mnist:{tmp_path / 'idx'}")
    (tmp_path / "cifar/cifar-10-batches-bin").mkdir(parents=True)
    (tmp_path / "cifar/cifar-10-batches-bin/test_batch.bin").touch()
    fails(cache, tmp_path, with_data(tmp_path / "cifar"), CONFIG, f"expected --data cifar10:{tmp_path / 'cifar'}")


@pytest.mark.parametrize("tool", ["train", "shardprep", "loadbench"])
def test_every_tool_says_its_version(tool):
    done = subprocess.run([TRAIN.with_name(tool), "--version"], capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r"penstock \d+\.\d+\.\d+\n", done.stdout) and not done.stderr


def test_the_help_says_how_sources_are_written(cache):
    assert "SOURCE(KEY=VALUE,...):DIR" in " ".join(run(cache, "--help").stdout.split())


def test_a_split_that_cannot_be_packed_is_not_taken_for_one_that_is_not_there(tmp_path):
    run(tmp_path / "cache", *FAST, "--out", tmp_path / "first")
    test = next(path for path in (tmp_path / "cache/penstock").glob("digits-*") if (path / "test").is_dir())
    shutil.rmtree(test)
    lock = test.with_name(test.name + ".lock")
    lock.unlink()
    lock.mkdir()
    fails(tmp_path / "cache", tmp_path, FAST, IO, f"{lock}: Is a directory")


def packed(cache, tmp_path):
    """A data set in two splits, as pack would write it."""
    run(cache, *FAST, "--out", tmp_path / "packs")
    folder = tmp_path / "data"
    for path in pathlib.Path(cache).rglob("manifest.json"):
        if '"sample_count": 400' in path.read_text():
            shutil.copytree(path.parent, folder / path.parent.name)
    return folder


def test_splits_whose_classes_have_other_names(cache, tmp_path):
    folder = packed(cache, tmp_path)
    path = folder / "test/manifest.json"
    manifest = json.loads(path.read_text())
    manifest["class_names"][3:5] = reversed(manifest["class_names"][3:5])
    path.write_text(json.dumps(manifest))
    fails(cache, tmp_path, with_data(folder), CONFIG, f'{folder}/test: class 3 is "4"; expected "3", as in {folder}/train')


def test_a_packed_folder_of_a_sources_name_wins_and_is_named(cache, tmp_path):
    packed(cache, tmp_path).rename(tmp_path / "mnist")
    done = run(cache, *with_data("mnist"), "--out", tmp_path / "run", cwd=tmp_path)
    assert "note: --data mnist is the packed data set ./mnist, not the source; mnist() names the source" in done.stdout


def write_idx(folder, images, labels, count=None):
    folder.mkdir()
    count = len(images) if count is None else count
    for split in ("train", "t10k"):
        with gzip.open(folder / f"{split}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
        with gzip.open(folder / f"{split}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 2049, len(labels)) + labels.tobytes())


def test_an_idx_file_whose_count_disagrees_with_its_size(cache, tmp_path):
    write_idx(tmp_path / "mnist", np.zeros((50, 28, 28), np.uint8), np.zeros(60, np.uint8), count=60)
    fails(cache, tmp_path, with_data(f"mnist:{tmp_path / 'mnist'}"), CORRUPT,
          "train-images-idx3-ubyte.gz", "39200", "47040")


def damaged(trained, tmp_path, name, change):
    path = tmp_path / name
    data = bytearray((trained / "checkpoint-last.safetensors").read_bytes())
    path.write_bytes(bytes(change(data)))
    return path


def test_a_checkpoint_with_a_flipped_bit(cache, trained, tmp_path):
    path = damaged(trained, tmp_path, "flip.safetensors", lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    fails(cache, tmp_path, [*FAST, "--resume", path], CORRUPT, "flip.safetensors: crc32c is ")


@pytest.mark.parametrize("kept", [0, 5, 200, 100_000, -1])
def test_a_truncated_checkpoint(cache, trained, tmp_path, kept):
    path = damaged(trained, tmp_path, "cut.safetensors", lambda data: data[:kept])
    fails(cache, tmp_path, [*FAST, "--resume", path], CORRUPT, "cut.safetensors")


def test_checkpoints_that_do_not_fit(cache, trained, tmp_path):
    last = trained / "checkpoint-last.safetensors"
    fails(cache, tmp_path, [*FAST, "-a", "mlp", "--resume", last], CONFIG, "a checkpoint of arch lenet; expected mlp, as --arch is")
    fails(cache, tmp_path, [*FAST, "--augment", "resize(size=20)", "--resume", last], CONFIG,
          "1 x 16 x 16", "1 x 20 x 20")
    fails(cache, tmp_path, [*FAST, "--resume", trained / "model.safetensors"], CORRUPT, "no checkpoint")
    fails(cache, tmp_path, [*FAST, "--resume", tmp_path / "missing"], IO, "missing")


def test_weights_that_do_not_fit(cache, tmp_path):
    save_file({"conv1.weight": np.zeros((2, 2), np.float32)}, tmp_path / "foreign.safetensors")
    fails(cache, tmp_path, [*FAST, "--pretrained", tmp_path / "foreign.safetensors"], CORRUPT,
          "foreign.safetensors", "conv1.weight")


def test_weights_of_another_model_name_three_tensors_and_how_many_more(cache, tmp_path):
    save_file({f"layer{i}": np.zeros(2, np.float32) for i in range(100)}, tmp_path / "foreign.safetensors")
    fails(cache, tmp_path, [*FAST, "--pretrained", tmp_path / "foreign.safetensors"], CORRUPT,
          "conv1.weight is missing, conv1.bias is missing, conv2.weight is missing and 7 more, layer0 is unexpected, layer1 is unexpected, "
          "layer10 is unexpected and 97 more; expected the weights")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_weights_that_are_not_finite_are_named(cache, trained, tmp_path, value):
    weights = load_file(trained / "model.safetensors")
    weights["fc2.weight"][3, 5] = weights["fc2.weight"][70, 0] = float(value)
    save_file(weights, tmp_path / "broken.safetensors")
    fails(cache, tmp_path, [*FAST, "--pretrained", tmp_path / "broken.safetensors"], CORRUPT,
          f'broken.safetensors: tensor "fc2.weight" holds {value} at [3, 5] and 1 more like it; expected finite weights')


def test_resident_needs_pixels_or_coefficients_of_one_size_and_says_how_to_get_them(cache, tmp_path):
    folder = tmp_path / "photos/train/a"
    folder.mkdir(parents=True)
    for name in ("one.jpg", "two.jpg"):
        Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(folder / name)
    subprocess.run([TRAIN.parent / "shardprep", "pack", "--source", "image-folder", "--input", tmp_path / "photos", "--encode", "keep",
                    "--out", tmp_path / "files", "--quiet"], check=True)
    fails(cache, tmp_path, ["--data", tmp_path / "files", "--resident", "--device", "cpu"], CONFIG,
          "shardprep pack --encode raw", "--encode coef")
    Image.fromarray(np.zeros((30, 20, 3), np.uint8)).save(folder / "three.jpg")
    fails(cache, tmp_path, ["--data", f"image-folder:{tmp_path / 'photos'}", "--resident", "--device", "cpu"], CONFIG,
          "30 x 20", "expected all of one size")


def test_evaluate_needs_weights_and_a_test_split(cache, tmp_path):
    assert "--evaluate: no weights are named" in run(cache, *FAST, "-e", code=CONFIG).stderr
    subprocess.run([TRAIN.parent / "shardprep", "pack", "--source", "digits(count=20,size=16)", "--out", tmp_path / "data", "--quiet"],
                   check=True)
    fails(cache, tmp_path, [*FAST, "-e", "--pretrained", "x.safetensors", "--data", tmp_path / "data"], CONFIG,
          f"--evaluate with --data {tmp_path}/data: no test split at {tmp_path}/data/test; expected a test split")


def test_somebodys_folder_is_not_written_into(cache, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").write_text("mine")
    done = run(cache, *FAST, "--out", tmp_path / "thesis", code=CONFIG)
    assert "holds files, but no options.json" in done.stderr
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_a_dataset_with_a_broken_shard_names_the_sample(cache, tmp_path):
    run(cache, *FAST, "--out", tmp_path / "first")
    source = next(path.parent for path in pathlib.Path(cache).rglob("manifest.json")
                  if path.parent.name == "train" and '"sample_count": 400' in path.read_text())
    shutil.copytree(source, tmp_path / "data/train")
    shard = tmp_path / "data/train/shard-00003-of-00016.safetensors"
    data = bytearray(shard.read_bytes())
    header_bytes = 8 + int.from_bytes(data[:8], "little")
    images_begin = json.loads(data[8:header_bytes])["images"]["data_offsets"][0]
    data[header_bytes + images_begin + 1000] ^= 1  # in sample 3: 256 bytes per sample
    shard.write_bytes(data)
    done = run(cache, *with_data(tmp_path / "data"), "--out", tmp_path / "run", code=CORRUPT)
    assert "shard-00003-of-00016.safetensors: sample 3 " in done.stderr and "crc32c" in done.stderr, done.stderr
    assert not (tmp_path / "run/model.safetensors").exists()
