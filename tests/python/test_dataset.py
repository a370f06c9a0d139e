"""penstock.Dataset and penstock.show: single samples, and sheets of them."""
import copy
import io
import json
import pickle
import shutil

import numpy
import penstock
import pytest
from PIL import Image

from conftest import command
from test_errors import failure


def test_a_sample_is_what_was_packed(pictures):
    data = penstock.Dataset(pictures)
    assert len(data) == 24 and data.class_names == ["class0", "class1", "class2"] and data.class_counts == [8, 8, 8]
    source = pictures.parent / "source"
    for sample in data:
        assert (source / sample.path).parent.name == sample.class_name == data.class_names[sample.label]
        expected = numpy.asarray(Image.open(source / sample.path))
        assert sample.image.dtype == numpy.uint8 and sample.image.shape == expected.shape
        # The decoder upsamples colour in another way than Pillow's library; a shift or a swap would differ by far more.
        assert numpy.abs(sample.image.astype(int) - expected).mean() < 2
    assert sorted(sample.id for sample in data) == list(range(24))


def test_samples_are_what_a_loader_without_transforms_gives(digits):
    data = penstock.Dataset(digits)
    batch = penstock.Loader(digits, augment="", layout="u8", shuffle=False, batch_size=1000, arrays="numpy").batch(0)
    assert (numpy.stack([sample.image for sample in data]) == batch.images).all()
    assert [sample.label for sample in data] == batch.labels.tolist() and [sample.id for sample in data] == batch.ids.tolist()


def test_grey_among_colours_has_three_channels_and_turned_pictures_are_upright(tmp_path):
    draw = numpy.random.default_rng(5)
    grey = draw.integers(0, 256, (9, 7, 1), dtype=numpy.uint8)
    colours = Image.fromarray(draw.integers(0, 256, (4, 6, 3), dtype=numpy.uint8)).resize((60, 40), Image.Resampling.BICUBIC)
    file, exif = io.BytesIO(), Image.Exif()
    exif[274] = 6  # to be turned by 90 degrees
    colours.save(file, "JPEG", quality=95, exif=exif)
    penstock.pack([(grey, 0), (file.getvalue(), 0)], tmp_path / "packed", shards=1)
    samples = {sample.id: sample.image for sample in penstock.Dataset(tmp_path / "packed")}
    assert samples[0].shape == (9, 7, 3) and (samples[0] == grey).all()
    upright = numpy.asarray(colours.transpose(Image.Transpose.ROTATE_270)).astype(int)
    assert samples[1].shape == (60, 40, 3) and numpy.abs(samples[1] - upright).mean() < 4


def test_indices_are_those_of_a_sequence(digits):
    data = penstock.Dataset(digits / "train")
    assert data[-1].id == data[999].id and data[-1000].id == data[numpy.int64(0)].id
    assert [sample.id for sample in data[3:9:2]] == [data[3].id, data[5].id, data[7].id] and data[2000:] == []
    for index in (1000, -1001, 2**80):
        with pytest.raises((IndexError, penstock.ConfigError)):
            data[index]
    with pytest.raises(IndexError, match="index is 1000; expected -1000 to 999"):
        data[1000]
    assert failure(penstock.ConfigError, data.__getitem__, "0") == "dataset: index is '0'; expected a whole number"


def test_an_image_outlives_its_data_set_and_may_be_written_to(digits):
    image = penstock.Dataset(digits)[0].image
    before = image.copy()
    again = penstock.Dataset(digits)[0].image
    image[:] = 0
    assert (again == before).all() and image.flags.owndata is False


def test_it_may_be_pickled(digits):
    data = penstock.Dataset(digits)
    for other in (pickle.loads(pickle.dumps(data)), copy.copy(data)):
        assert other.folder == data.folder and (other[5].image == data[5].image).all()


def test_a_damaged_sample_is_named_and_the_others_are_there(digits, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(digits, folder)
    shard = sorted(folder.glob("train/shard-*"))[0]
    content = bytearray(shard.read_bytes())
    content[-2000] ^= 1
    shard.write_bytes(content)
    data, damaged = penstock.Dataset(folder), []
    for index in range(len(data)):
        try:
            data[index]
        except penstock.CorruptError as error:
            damaged.append(str(error))
    assert len(damaged) == 1 and damaged[0].startswith(str(shard)) and "crc32c is" in damaged[0]


def test_a_shard_that_is_cut_short_is_an_error(digits, tmp_path):
    folder = tmp_path / "short"
    shutil.copytree(digits, folder)
    data = penstock.Dataset(folder)
    shard = sorted(folder.glob("train/shard-*"))[0]
    with open(shard, "r+b") as file:
        file.truncate(shard.stat().st_size // 2 // 4096 * 4096)
    with pytest.raises(penstock.IoError, match=shard.name):
        list(data)


def test_no_data_set(tmp_path, digits):
    (tmp_path / "cat").mkdir()
    assert "penstock.pack(" in failure(penstock.IoError, penstock.Dataset, tmp_path)
    failure(penstock.IoError, penstock.Dataset, digits, split="test")
    failure(penstock.ConfigError, penstock.Dataset, 7)


def test_a_sheet_is_that_of_shardprep(pictures, tmp_path):
    augment = "random-resized-crop(size=32),flip,trivial-augment,normalize"
    done = command("shardprep", "show", pictures, "--augment", augment, "--grid", "3x4", "--seed", 5, "--epoch", 2,
                   "--out", tmp_path / "shardprep.png")
    sheet = penstock.show(pictures, augment, grid=(3, 4), seed=5, epoch=2, out=tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").read_bytes() == (tmp_path / "shardprep.png").read_bytes() == sheet.png == sheet._repr_png_()
    assert done.stdout.startswith(str(sheet) + "\n"), done.stdout
    assert (numpy.asarray(Image.open(io.BytesIO(sheet.png))) == sheet.pixels).all()
    assert sheet.pixels.shape == (3 * 34 - 2, 4 * 34 - 2, 3) and len(sheet.class_names) == len(sheet.ids) == 12


def test_one_sample_with_other_draws(pictures):
    sheet = penstock.show(pictures, "random-resized-crop(size=32),flip", grid=(2, 5), sample=-1)
    assert set(sheet.ids) == {penstock.Dataset(pictures)[-1].id}
    cells = [sheet.pixels[34 * (i // 5):34 * (i // 5) + 32, 34 * (i % 5):34 * (i % 5) + 32] for i in range(10)]
    assert len({cell.tobytes() for cell in cells}) == 10


def test_a_loader_is_shown_with_its_transforms_and_seed(pictures):
    loader = penstock.Loader(pictures, augment="random-resized-crop(size=32),flip,normalize", batch_size=4, seed=9)
    sheet = penstock.show(loader, grid=2)
    images = penstock.Loader(pictures, augment="random-resized-crop(size=32),flip", layout="u8", batch_size=4, seed=9,
                             arrays="numpy").batch(0).images
    assert (sheet.pixels[:32, :32] == images[0]).all() and (sheet.pixels[34:, 34:] == images[3]).all()
    assert (penstock.show(penstock.Dataset(pictures), "resize(height=32,width=32)", grid=2).pixels != sheet.pixels).any()


@pytest.mark.parametrize("options, kind", [
    ({"grid": 0}, penstock.ConfigError), ({"grid": (2, 2, 2)}, penstock.ConfigError), ({"grid": "8x8"}, penstock.ConfigError),
    ({"sample": 24}, penstock.ConfigError), ({"augment": "filp"}, penstock.ConfigError), ({"epoch": -1}, penstock.ConfigError),
    ({"shuffle": "golbal"}, penstock.ConfigError), ({"out": 7}, penstock.ConfigError),
    ({"out": "/dev/null/sheet.png"}, penstock.IoError), ({"split": "test"}, penstock.IoError)])
def test_what_cannot_be_shown(pictures, options, kind):
    failure(kind, penstock.show, pictures, **{"augment": "resize(height=32,width=32)", **options})


def test_several_data_sets_are_one(digits, tmp_path):
    pack = command("shardprep", "pack", "--source", "digits(count=30,seed=5)", "--out", tmp_path / "more", "--shards", 1)
    assert pack.returncode == 0, pack.stderr
    first, more = penstock.Dataset(digits), penstock.Dataset(tmp_path / "more")
    both = penstock.Dataset([digits, tmp_path / "more"])
    loaded = penstock.Loader([digits, tmp_path / "more"], batch_size=10).dataset
    for data in (both, loaded, pickle.loads(pickle.dumps(both))):
        assert len(data) == 1030 and sum(data.class_counts) == 1030
        assert (data[5].image == first[5].image).all() and (data[1004].image == more[4].image).all()
    assert failure(penstock.ConfigError, penstock.Dataset, []).startswith("dataset: data is []; expected the folder")


def sources(folder):
    """The files that were packed, in the order of their ids, with their labels: what torchvision's ImageFolder lists."""
    return [(path, int(path.parent.name.removeprefix("class"))) for path in sorted((folder.parent / "source").rglob("*.jpg"))]


@pytest.mark.parametrize("options", [{}, {"subset": "percent(25-100)"}, {"subset": "classes(class1)", "on_corrupt": "mask"},
                                     {"sampler": "repeat(n=2)", "subset": "fraction(0.5)"}])
@pytest.mark.parametrize("arrays", ["torch", "numpy"])
def test_indices_of_a_batch_are_those_of_the_loaders_data_set(pictures, options, arrays):
    loader = penstock.Loader(pictures, augment="random-resized-crop(size=16)", batch_size=6, arrays=arrays, **options)
    data, seen = loader.dataset, set()
    for batch in loader:
        assert str(batch.indices.dtype).endswith("int64")
        for index, number, label in zip(batch.indices.tolist(), batch.ids.tolist(), batch.labels.tolist(), strict=True):
            assert (data[index].id, data[index].label) == (number, label) == (int(data.ids[index]), int(data.labels[index]))
            assert data.by_id(number).path == data[index].path
            seen.add(index)
    assert seen == set(range(len(data))) and repr(loader).startswith(f"<penstock.Loader {data.folder}: {len(data)} samples, ")
    assert len(data) == loader.sample_count // (2 if "sampler" in options else 1) == sum(data.class_counts)
    assert data.class_counts == [sum(sample.label == label for sample in data) for label in range(3)]


def test_a_loaders_data_set_keeps_its_subset_and_its_place(pictures, monkeypatch):
    monkeypatch.chdir(pictures.parent)
    loader = penstock.Loader("packed", subset="percent(0-50)", augment="resize(height=8,width=8)")
    plan = loader.plan(0, 11)
    monkeypatch.chdir("/")
    data = pickle.loads(pickle.dumps(loader.dataset))
    assert len(data) == 12 and [sample.id for sample in data] == loader.dataset.ids.tolist() == data.ids.tolist()
    height, width, _ = data[11].image.shape
    assert (plan.input_height, plan.input_width) == (height, width)
    with pytest.raises(penstock.ConfigError, match="index is 12; expected 0 to 11"):
        loader.plan(0, 12)
    shown = penstock.show(loader, sample=-1, grid=1)
    assert shown.ids == [data[11].id]


def test_a_row_of_a_substitute_has_the_substitutes_index(pictures, tmp_path):
    shutil.copytree(pictures, tmp_path / "data")
    shard = next((tmp_path / "data/train").glob("*.safetensors"))
    damaged = penstock.Dataset(pictures)[0].id
    whole = bytearray(shard.read_bytes())
    start = len(whole) // 2
    whole[start:start + 40] = bytes(40)
    shard.write_bytes(whole)
    loader = penstock.Loader(tmp_path / "data", augment="resize(height=8,width=8)", on_corrupt="substitute", batch_size=24)
    batch = next(iter(loader))
    assert loader.statistics()["substituted_count"] > 0 and damaged >= 0
    assert loader.dataset.ids[batch.indices].tolist() == batch.ids.tolist()


def test_ids_that_are_missing_or_those_of_several_are_told(pictures):
    data, both = penstock.Dataset(pictures), penstock.Dataset([pictures, pictures])
    with pytest.raises(KeyError, match="no sample has id 24; expected one of dataset.ids"):
        data.by_id(24)
    with pytest.raises(penstock.ConfigError, match=f"2 samples have id {data[3].id}, those of index 3, 27; expected dataset"):
        both.by_id(data[3].id)
    loader = penstock.Loader([pictures, pictures], subset="percent(0-50)", augment="resize(height=8,width=8)", batch_size=24)
    batch = loader.batch(0)
    assert [both.part_of(index) for index in (0, 23, 24, -1 % 48)] == [0, 0, 1, 1]
    assert sorted(loader.dataset.part_of(batch.indices).tolist()) == 12 * [0] + 12 * [1]


def test_weights_are_in_the_order_of_the_data_set_and_by_id_through_its_ids(pictures):
    files = sources(pictures)
    heavy = numpy.array([10.0 if label == 2 else 1.0 for _, label in files])  # as from ImageFolder.targets: by id
    data = penstock.Dataset(pictures)
    expected = [heavy[sample.id] for sample in data]
    assert heavy[data.ids].tolist() == expected and data.ids.tolist() != sorted(data.ids.tolist())
    options = {"augment": "resize(height=8,width=8)", "batch_size": 240}
    drawn = penstock.Loader(pictures, sampler="weighted(rows=240)", weights=heavy[data.ids], **options).batch(0).labels.tolist()
    assert drawn.count(2) == 200
    half = penstock.Loader(pictures, subset="percent(0-50)", **options).dataset
    digests = [penstock.Loader(pictures, subset="percent(0-50)", sampler="weighted(rows=240)", weights=weights, **options).digest()
               for weights in (heavy[data.ids], heavy[half.ids])]
    assert digests[0] == digests[1]
    with pytest.raises(penstock.ConfigError, match="23 weights for 24 samples, 12 of them chosen; expected one for each"):
        penstock.Loader(pictures, subset="percent(0-50)", sampler="weighted", weights=heavy[1:], **options)


def test_names_of_torchvisions_data_sets_are_there_or_are_told(pictures):
    data = penstock.Dataset(pictures)
    assert data.classes == data.class_names and data.class_to_idx == {"class0": 0, "class1": 1, "class2": 2}
    assert data.targets.tolist() == [sample.label for sample in data]
    assert data.samples == data.imgs == [(sample.path, sample.label) for sample in data]
    with pytest.raises(AttributeError, match=r"dataset: root is no attribute; expected dataset.folder"):
        data.root
    assert not hasattr(data, "nothing") and copy.copy(data)[0].id == data[0].id


@pytest.fixture(scope="module")
def dark_and_light(tmp_path_factory):
    """Dark pictures to train on, light ones to test with."""
    folder = tmp_path_factory.mktemp("statistics") / "data"
    for split, level in (("train", 40), ("test", 200)):
        penstock.pack([(numpy.full((4, 4, 1), level + 20 * (i % 2), numpy.uint8), i % 2) for i in range(8)], folder, split=split)
    return folder


def test_normalize_takes_the_statistics_of_the_training_split(dark_and_light):
    folder = dark_and_light
    train, test = (penstock.Dataset(folder, split) for split in ("train", "test"))
    assert train.statistics == test.statistics and test.statistics.split == "train" and len(test.statistics.mean) == 1
    assert train.statistics.mean[0] == pytest.approx(50 / 255) and train.statistics.deviation[0] == pytest.approx(10 / 255)
    options = {"augment": "normalize", "arrays": "numpy", "batch_size": 8, "views": ()}
    loaders = [penstock.Loader(folder, split=split, **options) for split in ("train", "val")]
    assert sorted({float(value) for value in loaders[0].batch(0).images.flat}) == pytest.approx([-1, 1], abs=1e-5)
    assert sorted({float(value) for value in loaders[1].batch(0).images.flat}) == pytest.approx([15, 17], abs=1e-5)
    assert all("by the mean and deviation of split train" in repr(loader) for loader in loaders)
    stated = penstock.Loader(folder, split="val", augment="normalize(mean=0.5,std=0.5)")
    assert "mean and deviation" not in repr(stated)
    views = penstock.Loader(folder, split="test", views=["normalize", "flip,normalize"], arrays="numpy", batch_size=8)
    assert sorted({float(value) for view in views.batch(0).views for value in view.flat}) == pytest.approx([15, 17], abs=1e-5)
    assert "normalize | flip,normalize by the mean" in repr(views)
    done = command("loadbench", "--data", folder, "--split", "test", "--digest", "--augment", "normalize", "--workers", 0, "--epochs", 1,
                   "--batch-size", 8)
    assert loaders[1].digest()[0] in done.stdout


def test_a_split_without_a_train_beside_it_has_its_own_statistics(dark_and_light, tmp_path):
    alone = tmp_path / "moved"
    shutil.copytree(dark_and_light / "test", alone)
    assert penstock.Dataset(alone).statistics.split == "test"
    assert penstock.Dataset(alone).statistics.mean[0] == pytest.approx(210 / 255)
    assert "deviation of split test" in repr(penstock.Loader(alone))
    joined = penstock.Dataset([dark_and_light, dark_and_light], "test")
    assert joined.statistics.split == "train" and joined.statistics.mean[0] == pytest.approx(50 / 255)


def test_paths_and_fields_are_read_without_a_picture(tmp_path):
    names = [f"{i % 2}/{name}.png" for i, name in enumerate(("a", "b b", "\u00e4", "d", "e"))]
    for i, name in enumerate(names):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(numpy.full((4, 4), i, numpy.uint8)).save(tmp_path / "in" / name)
    rows = [{"file_name": name, "label": i % 2, "age": i * 3, "place": [i, i + 0.5], "text": f"line\n{i}", "tags": [i] * (i % 3)}
            for i, name in enumerate(names)]
    (tmp_path / "in/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    penstock.pack(f"jsonl(number=age,text=text,labels=tags):{tmp_path / 'in/train.jsonl'}", tmp_path / "out", shards=2)
    for options in ({}, {"subset": "percent(0-60)"}):
        loader = penstock.Loader(tmp_path / "out", batch_size=3, workers=0, layout="u8", augment="flip", **options)
        data = loader.dataset
        expected = list(data)
        assert data.paths == [sample.path for sample in expected] and sorted(data.paths) == sorted(names[i] for i in data.ids.tolist())
        assert data.fields["age"].dtype == numpy.asarray(expected[0].fields["age"]).dtype
        assert data.fields["age"].tolist() == [sample.fields["age"] for sample in expected]
        assert data.fields["place"].shape == (len(data), 2) and data.fields["place"].dtype == numpy.float32
        assert data.fields["text"] == [sample.fields["text"] for sample in expected]
        assert [tags.tolist() for tags in data.fields["tags"]] == [sample.fields["tags"].tolist() for sample in expected]
        assert set(data.fields) == set(expected[0].fields) and len(data.fields) == len(expected[0].fields)
        with pytest.raises(KeyError, match="no field ages; expected one of "):
            data.fields["ages"]
        for batch in loader:
            assert batch.paths == [data[index].path for index in batch.indices.tolist()] == batch.to("cpu").paths
    with pytest.raises(AttributeError, match="expected loader.dataset.paths, by batch.indices"):
        copy.deepcopy(batch).paths
    del loader
    with pytest.raises(AttributeError, match="expected loader.dataset.paths, by batch.indices"):
        batch.paths


def test_an_epoch_does_not_open_the_data_set_again(pictures):
    loader = penstock.Loader(pictures, batch_size=24, augment="resize(height=8,width=8)")
    batch = next(iter(loader))
    assert loader._dataset is None and len(batch.paths) == 24 and loader._dataset is not None
