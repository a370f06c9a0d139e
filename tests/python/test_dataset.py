"""penstock.Dataset and penstock.show: single samples, and sheets of them."""
import copy
import io
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
    ({"out": "/nonexistent/sheet.png"}, penstock.IoError), ({"split": "test"}, penstock.IoError)])
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
