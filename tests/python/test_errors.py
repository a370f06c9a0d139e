"""What a user gets wrong ends in an exception of one line that says where, what, and what was expected."""
import os
import pathlib
import re
import shutil

import penstock
import pytest
from penstock.errors import as_arguments, in_python

from conftest import python


def failure(kind, function, *arguments, **options):
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    message = str(caught.value)
    assert type(caught.value) is kind and "\n" not in message and message, message
    return message


def test_the_exceptions_are_pythons_own_kinds():
    assert issubclass(penstock.ConfigError, ValueError) and issubclass(penstock.IoError, OSError)
    assert issubclass(penstock.CorruptError, ValueError) and issubclass(penstock.DeviceError, RuntimeError)


@pytest.mark.parametrize("options, message", [
    ({"workers": -1}, "loader: workers is -1; expected 0 or more"),
    ({"workers": 2**40}, "loader: workers is 1099511627776; expected -2147483648 to 2147483647"),
    ({"workers": "4"}, "loader: workers is '4'; expected a whole number"),
    ({"augment": "RandomResizedCrop(224)"}, 'transform "RandomResizedCrop(224)": "224" is not key=value; expected '
     "random-resized-crop(key=value,...), with the name of each value"),
    ({"batch_size": 0}, "loader: batch size is 0; expected 1 or more"),
    ({"batch_size": 2.5}, "loader: batch_size is 2.5; expected a whole number"),
    ({"seed": -1}, "loader: seed is -1; expected 0 to 18446744073709551615"),
    ({"prefetch": 0}, "loader: prefetch is 0; expected 1 or more"),
    ({"layout": "f33"}, "loader: layout is 'f33'; expected one of f32, f16, bf16, u8"),
    ({"arrays": "cupy"}, "loader: arrays is 'cupy'; expected one of torch, numpy, dlpack, or None"),
    ({"shuffle": "golbal"}, 'shuffle: unknown value "golbal"; did you mean "global"? known: global, none, rank-local, shards'),
    ({"split": "tset"}, None),
    ({"split": 3}, "loader: split is 3; expected a name"),
    ({"rank": 1}, "loader: rank is given without world_size; expected both or none"),
    ({"rank": 2, "world_size": 2}, "loader: rank is 2; expected 0 to 1"),
    ({"tail": True}, "loader: tail is True; expected one of drop, pad"),
    ({"shuffle": 1}, "loader: shuffle is 1; expected one of global, none, rank-local, shards, True or False"),
    ({"on_corrupt": None}, "loader: on_corrupt is None; expected one of fail, mask, substitute"),
    ({"dct_scale": False}, "loader: dct_scale is False; expected one of always, auto, off"),
    ({"layout": "u8", "augment": "flip,normalize"}, 'loader: layout is "u8", levels of 0 to 255, with normalize in augment; expected '),
    ({"batch_size": 1001, "tail": "drop"}, 'loader: batch_size is 1001 with tail="drop" and 1000 samples, so that no batch comes; '
     'expected a batch_size of 1000 or less, or tail="pad"'),
    ({"augment": 7}, 'loader: augment is 7; expected text such as "flip,normalize", or a list or Compose of transforms'),
    ({"augment": "flip\udcff"}, "loader: augment is 'flip\\udcff', which UTF-8 has no bytes for; expected "),
    ({"augment": [7]}, "augment: no counterpart for int"),
    ({"augment": "filp"}, 'unknown transform "filp"; did you mean "flip"? known: '),
    ({"augment": "affine(degree=3)"}, 'transform affine: unknown key "degree"; did you mean "degrees"? '),
    ({"augment": "flip("}, None),
])
def test_wrong_options(digits, options, message):
    said = failure(penstock.ConfigError, penstock.Loader, digits, **options)
    assert message is None or said.startswith(message), said


@pytest.mark.parametrize("name, message", [
    ("num_workers", "workers=None, which are threads"), ("drop_last", 'tail="drop"'), ("pin_memory", 'device="cuda"'),
    ("transform", "augment="), ("batch_sampler", "batch_size="), ("collate_fn", "nothing in its place"), ("prefetch_factor", "prefetch=4")])
def test_names_of_pytorch_say_what_they_are_called_here(digits, name, message):
    assert failure(TypeError, penstock.Loader, digits, **{name: None}).startswith(f"loader: {name} is no argument; expected {message}")


def test_a_number_of_workers_keeps_its_value(digits):
    assert failure(TypeError, penstock.Loader, digits, num_workers=2) == "loader: num_workers is no argument; expected workers=2, which are threads"


def test_names_that_are_nearly_right(digits):
    said = failure(TypeError, penstock.Loader, digits, bach_size=4)
    assert said.startswith("loader: bach_size is no argument; did you mean batch_size? known: data, split, batch_size, workers, ")


def test_messages_have_pythons_arguments(digits):
    said = in_python("shard: sample 3 of a --jobs folder; expected fewer --jobs, penstock --force, or shardprep pack --on-corrupt skip")
    assert said == ("shard: sample 3 of a --jobs folder; expected fewer jobs, penstock force=True, or "
                    'penstock.pack(on_corrupt="skip")')
    assert as_arguments("8, or --sixteen-bit drop or --pixels u16") == '8, or sixteen_bit="drop" or pixels="u16"'
    assert as_arguments("35 %, --encode coef would give 2x") == '35 %, encode="coef" would give 2x'
    assert in_python("loader: 1 of 2 (--batch-size); expected a smaller batch size (--batch-size) or less --prefetch") == (
        "loader: 1 of 2 (--batch-size); expected a smaller batch size (batch_size) or less prefetch")
    said = failure(penstock.ConfigError, penstock.Loader, digits, shuffle="rank-local", rank=0, world_size=5)
    assert said.endswith("expected a shard or more for each rank: pack with more shards, or shuffle globally")


def test_nothing_is_left_open(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "dog").mkdir()
    done = python("import sys, penstock\ntry: penstock.Loader(sys.argv[1])\nexcept OSError as error: print(error)", tmp_path,
                  flags=("-W", "error", "-X", "dev"))
    assert "makes one of a folder of class folders" in done.stdout and done.stderr == ""


def test_paths_may_have_any_bytes(digits, tmp_path):
    place = os.fsencode(tmp_path) + b"/d\xff"
    shutil.copytree(digits, os.fsdecode(place))
    for path in (place, os.fsdecode(place), pathlib.Path(os.fsdecode(place))):
        loader, dataset = penstock.Loader(path, batch_size=100), penstock.Dataset(path)
        assert len(list(loader)) == 10 and len(dataset) == 1000 and loader.dataset.folder == os.fsdecode(place) + "/train"
        assert "d\\udcff/train: 1000 samples" in repr(loader) and "d\\udcff/train: 1000 samples" in repr(dataset)
        assert len(penstock.show(path, grid=2).ids) == 4
        with loader.watch(history=place + b"/history.json", say=None) as watch:
            list(loader)
        assert watch.limit is not None
    assert "d\ufffdx: no manifest.json" in failure(penstock.IoError, penstock.Loader, place + b"x")
    assert failure(penstock.ConfigError, penstock.Loader, "\ud800") == (
        "loader: data is '\\ud800'; expected the folder of a packed data set")
    assert "split is 'tr\\udcff', which UTF-8 has no bytes for" in failure(penstock.ConfigError, penstock.Loader, digits, split="tr\udcff")


def test_a_path_that_is_no_data_set(tmp_path):
    said = failure(penstock.IoError, penstock.Loader, tmp_path / "nothing")
    assert said.startswith(f"{tmp_path}/nothing: ") and "expected" in said
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat/1.jpg").write_bytes(b"")
    said = failure(penstock.IoError, penstock.Loader, tmp_path)
    assert said.endswith(f"; penstock.pack('image-folder:{tmp_path}', '{tmp_path}.packed') makes one of a folder of class folders")
    failure(penstock.ConfigError, penstock.Loader, 7)
    assert failure(penstock.ConfigError, penstock.Loader, "") == "loader: data is ''; expected the folder of a packed data set"
    assert failure(penstock.IoError, penstock.Loader, "mnist:digits").endswith(
        "; penstock.pack('mnist:digits', 'digits.packed') makes one of that source")


def test_pictures_of_different_sizes_name_what_would_help(pictures):
    assert "random-resized-crop" in failure(penstock.ConfigError, list, penstock.Loader(pictures, augment="flip"))


def test_a_corrupt_sample_is_named_and_the_epoch_goes_on(digits, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(digits, folder)
    shard = sorted(folder.glob("train/shard-*"))[0]
    content = bytearray(shard.read_bytes())
    content[-2000] ^= 1
    shard.write_bytes(content)
    for workers in (0, 2):
        steps = iter(penstock.Loader(folder, batch_size=100, workers=workers))
        got, failed = 0, []
        while True:
            try:
                got += len(next(steps).labels)
            except StopIteration:
                break
            except penstock.CorruptError as error:
                failed.append(str(error))
        assert got == 900 and len(failed) == 1 and shard.name in failed[0] and "sample" in failed[0]
    weights = [batch.weights.min().item() for batch in penstock.Loader(folder, batch_size=100, on_corrupt="mask")]
    assert weights.count(0) == 1


def test_a_shard_that_is_cut_short_is_an_error_and_no_crash(digits, tmp_path):
    folder = tmp_path / "short"
    shutil.copytree(digits, folder)
    loader = penstock.Loader(folder, batch_size=100, workers=2)
    shard = sorted(folder.glob("train/shard-*"))[0]
    with open(shard, "r+b") as file:
        file.truncate(shard.stat().st_size // 2 // 4096 * 4096)
    with pytest.raises(penstock.IoError, match=shard.name):
        list(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loop_that_skips_errors_of_a_cut_shard_ends(digits, tmp_path, workers):
    folder = tmp_path / "short"
    shutil.copytree(digits, folder)
    loader = penstock.Loader(folder, batch_size=100, workers=workers)
    shard = sorted(folder.glob("train/shard-*"))[0]
    with open(shard, "r+b") as file:
        file.truncate(shard.stat().st_size - 1)
    for _ in range(2):
        steps, got, failed = iter(loader), 0, 0
        while failed < 20:
            try:
                got += len(next(steps).labels)
            except StopIteration:
                break
            except penstock.IoError:
                failed += 1
        assert (got, failed) == (1000, 1)
    assert loader.epoch == 2


def test_states_of_loaders_that_make_other_batches_are_refused(digits):
    options = {"batch_size": 50, "augment": "flip,normalize", "layout": "f16"}
    state = penstock.Loader(digits, **options).state_dict()
    penstock.Loader(digits, **{**options, "augment": ["flip", "normalize"]}, workers=0, channels_last=True).load_state_dict(state)
    for changed in ({"augment": "normalize"}, {"layout": "f32"}, {"batch_size": 51}, {"seed": 1}, {"tail": "drop"}, {"dct_scale": "off"}):
        other = penstock.Loader(digits, **{**options, **changed})
        name = next(iter(changed))
        assert failure(penstock.ConfigError, other.load_state_dict, state).startswith(f"loader: {name} is {changed[name]!r} and was ")
        assert other.state_dict()["batch"] == 0
    earlier = {key: value for key, value in state.items() if key not in ("augment", "layout", "data", "dct_scale")}  # as version 0.1
    penstock.Loader(digits, batch_size=50).load_state_dict({**earlier, "batch": 7})


def test_a_state_of_other_data_of_the_same_length_is_refused(digits, tmp_path):
    for name, seed in (("same", 4), ("other", 5)):
        penstock.pack(((sample.image, sample.label) for sample in penstock.Dataset(digits)[:60]), tmp_path / name / "data", shards=seed)
    shutil.copytree(tmp_path / "same", tmp_path / "moved")
    state = {"batch": 2, **penstock.Loader(tmp_path / "same/data").state_dict()}
    penstock.Loader(tmp_path / "moved/data").load_state_dict(state)
    said = failure(penstock.ConfigError, penstock.Loader(tmp_path / "other/data").load_state_dict, state)
    assert re.fullmatch(r"loader: data is '60 samples with checksum \w{8}' and was '60 samples with checksum \w{8}' when the state was taken; "
                        r"expected the same, or set_epoch\(\), which begins an epoch with other batches", said)


def test_states_of_other_loaders_are_refused(digits):
    state = penstock.Loader(digits, batch_size=50).state_dict()
    other = penstock.Loader(digits, batch_size=60)
    assert failure(penstock.ConfigError, other.load_state_dict, state).startswith("loader: batch_size is 60 and was 50")
    for wrong in ({}, None, {**state, "batch": -1}, {**state, "epoch": "one"}, {**other.state_dict(), "views": 2}):
        failure(penstock.ConfigError, other.load_state_dict, wrong)


def test_wrong_places(digits):
    loader = penstock.Loader(digits, batch_size=100)
    assert failure(penstock.ConfigError, loader.batch, 10) == "loader: batch is 10; expected 0 to 9"
    failure(penstock.ConfigError, loader.batch, -1)
    failure(penstock.ConfigError, loader.set_epoch, -1)
    failure(penstock.ConfigError, loader.set_epoch, 1.5)
    failure(penstock.ConfigError, loader.digest, 0)


def test_numpy_has_no_bf16(digits):
    loader = penstock.Loader(digits, layout="bf16", arrays="numpy")
    assert "which NumPy does not have" in failure(penstock.ConfigError, list, loader)


def test_an_earlier_iteration_does_not_mix_its_batches_with_a_later_one(digits):
    loader = penstock.Loader(digits, batch_size=100)
    first, second = iter(loader), iter(loader)
    next(second)
    assert "a later iteration has begun" in failure(penstock.ConfigError, next, first)
    assert len(list(second)) == 9


def test_an_iterator_that_nobody_asks_begins_no_epoch(digits):
    loader = penstock.Loader(digits, batch_size=100, workers=1)
    iter(loader)
    assert [batch.epoch for batch in loader] == 10 * [0]
    iter(loader)
    assert next(iter(loader)).epoch == 1
    assert next(iter(loader)).epoch == 2
    loader.load_state_dict(penstock.Loader(digits, batch_size=100).state_dict() | {"epoch": 5, "batch": 3})
    iter(loader)
    first = next(iter(loader))
    assert (first.epoch, first.index) == (5, 3)


def test_a_closed_loader_says_so(digits):
    with penstock.Loader(digits, batch_size=100, workers=1) as loader:
        batch = next(iter(loader))
    loader.close()
    assert failure(penstock.ConfigError, list, loader) == "loader: is closed; expected a loader that is open"
    assert batch.labels.shape == (100,)
