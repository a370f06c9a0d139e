"""What a user gets wrong ends in an exception of one line that says where, what, and what was expected."""
import shutil

import penstock
import pytest


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
    ({"batch_size": 0}, "loader: batch size is 0; expected 1 or more"),
    ({"batch_size": 2.5}, "loader: batch_size is 2.5; expected a whole number"),
    ({"seed": -1}, "loader: seed is -1; expected 0 to 9223372036854775807"),
    ({"prefetch": 0}, "loader: prefetch is 0; expected 1 or more"),
    ({"layout": "f33"}, "loader: layout is 'f33'; expected one of f32, f16, bf16, u8"),
    ({"arrays": "cupy"}, "loader: arrays is 'cupy'; expected one of torch, numpy, dlpack, or None"),
    ({"shuffle": "golbal"}, 'shuffle: unknown value "golbal"; did you mean "global"? known: global, none, rank-local'),
    ({"split": "tset"}, None),
    ({"split": 3}, "loader: split is 3; expected a name"),
    ({"rank": 1}, "loader: rank is given without world_size; expected both or none"),
    ({"rank": 2, "world_size": 2}, "loader: rank is 2; expected 0 to 1"),
    ({"augment": ["flip"]}, "loader: augment is ['flip']; expected a list as text, such as \"flip,normalize\""),
    ({"augment": "filp"}, 'unknown transform "filp"; did you mean "flip"? known: '),
    ({"augment": "affine(degree=3)"}, 'transform affine: unknown key "degree"; did you mean "degrees"? '),
    ({"augment": "flip("}, None),
])
def test_wrong_options(digits, options, message):
    expected = penstock.IoError if "split" in options and isinstance(options["split"], str) else penstock.ConfigError
    said = failure(expected, penstock.Loader, digits, **options)
    assert message is None or said.startswith(message), said


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
    weights = [batch.weights.min().item() for batch in penstock.Loader(folder, batch_size=100, on_corrupt="substitute")]
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


def test_states_of_other_loaders_are_refused(digits):
    state = penstock.Loader(digits, batch_size=50).state_dict()
    other = penstock.Loader(digits, batch_size=60)
    assert failure(penstock.ConfigError, other.load_state_dict, state).startswith("loader: batch_size is 60 and was 50")
    for wrong in ({}, None, {**state, "batch": -1}, {**state, "epoch": "one"}):
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


def test_a_closed_loader_says_so(digits):
    with penstock.Loader(digits, batch_size=100, workers=1) as loader:
        batch = next(iter(loader))
    loader.close()
    assert failure(penstock.ConfigError, list, loader) == "loader: is closed; expected a loader that is open"
    assert batch.labels.shape == (100,)
