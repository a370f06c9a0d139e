"""penstock.pack: a label means the same class in every split of a data set."""
import numpy
import penstock
import pytest
import torch
import torchvision

from conftest import command

PICTURE = numpy.zeros((9, 7, 3), dtype=numpy.uint8)


def items(*labels):
    return [(PICTURE, label) for label in labels]


def labels_of(folder, split):
    data = penstock.Dataset(folder, split)
    return [sample.label for sample in sorted(data, key=lambda sample: sample.id)]


@pytest.fixture(name="photos")
def class_folders(tmp_path):
    """Class folders a, b and c for training, of which the validation has a and c."""
    from PIL import Image
    for place in ("train/a", "train/b", "train/c", "val/a", "val/c"):
        (tmp_path / "photos" / place).mkdir(parents=True)
        Image.fromarray(PICTURE).save(tmp_path / "photos" / place / "1.png")
    return tmp_path / "photos"


@pytest.mark.parametrize("calls", [["train", "val"], ["test", "train"], [["train", "test"]], [["validation", "all"]]])
def test_folders_of_a_split_that_lacks_a_class(photos, tmp_path, calls):
    for split in calls:
        penstock.pack(f"image-folder:{photos}", tmp_path / "out", split=split)
    assert labels_of(tmp_path / "out", "test") == [0, 2]
    for split in ("test", "val", "valid"):
        assert penstock.Loader(tmp_path / "out", split=split, augment="").class_names == ["a", "b", "c"]


@pytest.mark.parametrize("test", [items("c", "a"), [(PICTURE, b"c"), (PICTURE, b"a")]], ids=["text", "bytes"])
def test_names_are_found_among_the_classes_of_the_split_that_is_there(tmp_path, test):
    penstock.pack(items("c", "b", "a"), tmp_path)
    penstock.pack(test, tmp_path, split="val")
    assert labels_of(tmp_path, "test") == [2, 0] and penstock.Dataset(tmp_path, "test").class_counts == [1, 0, 1]


def test_folders_and_names_agree(photos, tmp_path):
    penstock.pack(photos, tmp_path / "out")  # a pathlib.Path
    penstock.pack(items("c", "a"), tmp_path / "out", split="test")
    assert labels_of(tmp_path / "out", "train") == [0, 1, 2] and labels_of(tmp_path / "out", "test") == [2, 0]


def test_numbers_are_their_own_names(tmp_path):
    penstock.pack(items(0, 9, 4), tmp_path)
    penstock.pack(items(3, 7), tmp_path, split="test")
    assert labels_of(tmp_path, "test") == [3, 7] and len(penstock.Dataset(tmp_path, "test").class_names) == 10
    with pytest.raises(penstock.ConfigError, match='all: class "10" is not among the 10 classes of '):
        penstock.pack(items(10), tmp_path, split="all")


def test_a_class_that_the_other_split_lacks_is_refused_and_class_names_help(tmp_path):
    penstock.pack(items("a", "c"), tmp_path)
    with pytest.raises(penstock.ConfigError) as caught:
        penstock.pack(items("a", "b", "c"), tmp_path, split="val")
    assert str(caught.value) == (
        f'{tmp_path}/test: class "b" is not among the 2 classes of {tmp_path}/train; expected the same classes in all splits: '
        f"remove {tmp_path}/train, then pack train with every class (class_names may list them), and then test")
    assert not (tmp_path / "test").exists()
    penstock.pack(items("a", "c"), tmp_path, class_names=["a", "b", "c"], force=True)
    penstock.pack(items("a", "b", "c"), tmp_path, split="val")
    assert labels_of(tmp_path, "train") == [0, 2] and labels_of(tmp_path, "test") == [0, 1, 2]


def test_train_after_test_may_not_have_other_classes(tmp_path):
    penstock.pack(items("a", "b"), tmp_path, split="test")
    with pytest.raises(penstock.ConfigError, match=f'train: lacks class "b" of {tmp_path}/test; expected the same classes '):
        penstock.pack(items("a"), tmp_path)
    with pytest.raises(penstock.ConfigError, match=f'train: class "c" is not among the 2 classes of {tmp_path}/test; '):
        penstock.pack(items("a", "b", "c"), tmp_path)
    penstock.pack(items("b", "a"), tmp_path)
    assert labels_of(tmp_path, "train") == [1, 0]


def test_splits_whose_labels_differ_are_refused_where_they_are_opened(tmp_path):
    """As earlier versions packed them."""
    penstock.pack(items("a", "b", "c"), tmp_path / "data")
    penstock.pack(items("a", "c"), tmp_path / "other", split="test")
    (tmp_path / "other/test").rename(tmp_path / "data/test")
    for kind in (penstock.Dataset, penstock.Loader):
        for place, split in ((tmp_path / "data", "test"), (tmp_path / "data", "val"), (tmp_path / "data/test", "train")):
            with pytest.raises(penstock.ConfigError) as caught:
                kind(place, split=split)
            assert str(caught.value) == (f'{tmp_path}/data/test: class 1 is "c"; expected "b", as in {tmp_path}/data/train; '
                                         "pack it again")
        assert kind(tmp_path / "data").class_names == ["a", "b", "c"]
    penstock.pack(items("a", "c"), tmp_path / "data", split="test", force=True)
    assert labels_of(tmp_path / "data", "test") == [0, 2]


def test_a_subset_has_the_class_names_of_the_whole(tmp_path):
    dataset = torchvision.datasets.FakeData(8, (3, 10, 10), 3)
    dataset.classes = ["x", "y", "z"]
    part = torch.utils.data.Subset(torch.utils.data.Subset(dataset, range(6)), [0, 3, 5])
    penstock.pack(part, tmp_path)
    assert penstock.Dataset(tmp_path).class_names == ["x", "y", "z"]
    assert labels_of(tmp_path, "train") == [int(dataset[index][1]) for index in (0, 3, 5)]


@pytest.mark.parametrize("label", [100_000, 5_000_000, 2**31 - 1])
def test_numbers_far_above_the_number_of_pictures_are_refused(tmp_path, label):
    with pytest.raises(penstock.ConfigError) as caught:
        penstock.pack(items(0, label, 1), tmp_path / "out")
    assert str(caught.value) == (f"pack: item 1: the label is {label}, so that classes outnumber pictures, {label + 1:,} to 3; "
                                 "expected numbers from 0 on without large gaps, or text, of which each is a class")
    assert list(tmp_path.iterdir()) == []
    penstock.pack(items("0", str(label), "1"), tmp_path / "out")
    assert penstock.Dataset(tmp_path / "out").class_names == sorted(["0", str(label), "1"])


@pytest.mark.parametrize("labels, expected", [
    ([b" 1", b"\xef\xbb\xbf0\n", b"002"], [1, 0, 2]), ([2.0, numpy.float32(0), numpy.float64(1)], [2, 0, 1]),
    (["10", "9", "-1"], [2, 1, 0]), (["2.0", "10.0", "0.0"], [1, 2, 0]), (["10b", "9b", "nan"], [0, 1, 2])])
def test_labels_that_are_numbers_count_as_numbers(tmp_path, labels, expected):
    penstock.pack(items(*labels), tmp_path)
    assert labels_of(tmp_path, "train") == expected


@pytest.mark.parametrize("labels, message", [
    (["0", "10", "nan"], "item 2: the label is 'nan'; expected a number, as the others are"),
    (["0", "", "10"], "item 1: the label is ''; expected a number, as the others are"),
    ([0.0, float("nan")], "item 1: the label is nan; expected a number"),
    ([1.5], "item 0: the label is 1.5; expected a number"),
    ([b"1.0"], "item 0: the label is b'1.0'; expected a whole number, or a name"),
    ([b"nan"], "item 0: the label is b'nan'; expected a whole number, or a name")])
def test_labels_that_are_no_numbers_among_numbers_are_refused(tmp_path, labels, message):
    with pytest.raises(penstock.ConfigError, match=f"pack: {message}"):
        penstock.pack(items(*labels), tmp_path)


def test_the_greatest_number_of_few_pictures(tmp_path):
    penstock.pack(items(99_999), tmp_path, shards=1)
    assert labels_of(tmp_path, "train") == [99_999]
    assert command("shardprep", "verify", tmp_path).returncode == 0
