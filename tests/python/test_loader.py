"""penstock.Loader gives what loadbench measures: order, bytes, layouts, places in an epoch."""
import os
import re

import numpy
import penstock
import pytest
import torch

from conftest import command, python

AUGMENT = "affine(degrees=15,translate=0.1),flip(p=0.5),normalize"
CROP = "random-resized-crop(size=32),flip,normalize"


def images_of(loader):
    return torch.cat([images for images, _ in loader])


def test_the_digest_is_that_of_loadbench(digits):
    done = command("loadbench", "--data", digits, "--digest", "--epochs", 2, "--batch-size", 48, "--augment", AUGMENT,
                   "--workers", 1, "--seed", 7)
    expected = re.findall("digest ([0-9a-f]{32})", done.stdout)
    assert len(expected) == 2 and expected[0] != expected[1]
    for workers, prefetch in ((0, 1), (1, 4), (3, 2)):
        loader = penstock.Loader(digits, batch_size=48, augment=AUGMENT, workers=workers, prefetch=prefetch, seed=7)
        assert loader.digest(epochs=2) == expected


def test_an_epoch_has_every_sample_once_and_the_next_has_another_order(digits):
    loader = penstock.Loader(digits, batch_size=48)
    assert len(loader) == 21 and loader.sample_count == 1000
    epochs = []
    for _ in range(2):
        batches = list(loader)
        assert [len(images) for images, labels in batches] == [48] * 20 + [40]
        assert [batch.index for batch in batches] == list(range(21))
        epochs.append(torch.cat([batch.ids for batch in batches]))
        assert sorted(epochs[-1].tolist()) == list(range(1000))
        assert batches[-1].images.shape == (40, 1, 28, 28) and batches[-1].labels.dtype == torch.int64
        assert batches[-1].weights.tolist() == [1.0] * 40 and batches[-1].second_labels is None
    assert epochs[0].tolist() != epochs[1].tolist()
    assert [batch.epoch for batch in loader][0] == 2


def test_labels_belong_to_their_images(digits):
    source = command("shardprep", "info", digits).stdout
    assert "1,000" in source
    for batch in penstock.Loader(digits, batch_size=100, shuffle=False):
        assert (batch.labels == batch.ids % 10).all()  # digits deals its classes in turn


def test_batches_that_are_kept_stay_as_they_were(digits):
    loader = penstock.Loader(digits, batch_size=10, workers=2, prefetch=2, augment=AUGMENT)
    kept = [images for images, _ in loader]  # the labels, and the batches, are gone
    loader.set_epoch(0)
    for images, (again, _) in zip(kept, loader, strict=True):
        assert torch.equal(images, again)
    assert loader.memory_bytes >= 100 * 10 * 28 * 28 * 4
    del images, again, kept
    list(loader)
    few = loader.memory_bytes
    assert few <= 8 * 10 * (28 * 28 * 4 + 64)


def test_tensors_outlive_the_loader_and_may_be_written_to(digits):
    images = next(iter(penstock.Loader(digits, batch_size=100)))[0]
    images *= 0
    assert images.sum() == 0


@pytest.mark.parametrize("layout, dtype", [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16)])
def test_layouts_have_the_same_values(pictures, layout, dtype):
    expected = images_of(penstock.Loader(pictures, augment=CROP, batch_size=7))
    assert expected.shape == (24, 3, 32, 32) and expected.std() > 0.5
    for channels_last in (False, True):
        got = images_of(penstock.Loader(pictures, augment=CROP, batch_size=7, layout=layout, channels_last=channels_last))
        assert got.dtype == dtype
        assert torch.equal(got, expected.to(dtype))


def test_channels_last_is_torchs_memory_format(pictures):
    for options in ({"channels_last": True}, {"layout": "u8"}):
        images = penstock.Loader(pictures, augment="random-resized-crop(size=32)", batch_size=7, **options).batch(0).images
        assert images.shape == (7, 3, 32, 32)
        assert images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()


def test_u8_has_the_levels(pictures):
    options = {"augment": "random-resized-crop(size=32)", "batch_size": 24, "shuffle": "none"}
    levels = penstock.Loader(pictures, layout="u8", **options).batch(0).images
    values = penstock.Loader(pictures, **options).batch(0).images
    assert levels.dtype == torch.uint8
    assert (levels - values * 255).abs().max() <= 0.51


EVALUATION = "resize(size=64),center-crop(size=56)"


@pytest.fixture(scope="module")
def hard(tmp_path_factory):
    """Single pixels of black and white, stripes and a chessboard, all of which a decode at half of the size shows otherwise."""
    from PIL import Image
    folder = tmp_path_factory.mktemp("hard")
    draw = numpy.random.default_rng(0)
    y, x = numpy.mgrid[0:150, 0:200]
    planes = [draw.integers(0, 2, (150, 200)), (x // 2 + y // 2) % 2, x // 3 % 2, (x * x + y * y) // 97 % 2]
    pictures = [Image.fromarray((255 * plane).astype(numpy.uint8)) for plane in planes]
    pictures.append(Image.merge("RGB", pictures[:3]))
    files = []
    for number, picture in enumerate(pictures):
        picture.convert("RGB").save(folder / f"{number}.jpg", quality=95, subsampling=2 * (number % 2))
        files.append((folder / f"{number}.jpg", 0))
    penstock.pack(files, folder / "packed")
    return folder


def levels_by_pillow(path):
    from PIL import Image
    picture = Image.open(path)
    short = min(picture.size)
    picture = picture.resize([side * 64 // short for side in picture.size], Image.Resampling.BILINEAR)
    left, top = (round((side - 56) / 2) for side in picture.size)
    return numpy.asarray(picture.crop((left, top, left + 56, top + 56)), dtype=float)


def test_an_evaluation_shows_what_pillow_shows(hard):
    """The bound of docs/TRANSFORMS.md; Pillow rounds twice, after its pass over rows and after that over columns."""
    def images(**options):
        return penstock.Loader(hard / "packed", batch_size=5, shuffle=False, workers=0, arrays="numpy", augment=EVALUATION,
                               **options).batch(0).images.transpose(0, 2, 3, 1) * 255

    expected = numpy.stack([levels_by_pillow(hard / f"{number}.jpg") for number in range(5)])
    assert numpy.abs(images() - expected).max() < 1.01
    assert (images() == images(dct_scale="off")).all()
    smaller = numpy.abs(images(dct_scale="always") - expected)
    assert smaller.max() > 20  # the pictures are hard


def test_a_smaller_decode_differs_by_no_more_than_the_documents_say(tmp_path):
    """Grey pictures at half of their size, where the filters differ most. The first picture has the worst pattern."""
    from PIL import Image
    y, x = numpy.mgrid[0:128, 0:128]
    draw = numpy.random.default_rng(1)
    holes = 1 - (x % 4 > 1) * (y % 4 > 1)
    for number, plane in enumerate([holes, (x + y) % 2, x // 2 % 2, draw.integers(0, 2, (128, 128))]):
        Image.fromarray((255 * plane).astype(numpy.uint8)).save(tmp_path / f"{number}.jpg", quality=100)
    penstock.pack([(tmp_path / f"{number}.jpg", 0) for number in range(4)], tmp_path / "packed")
    whole, smaller = (255 * penstock.Loader(tmp_path / "packed", batch_size=4, shuffle=False, workers=0, arrays="numpy",
                                            augment="resize(size=64)", dct_scale=scale).batch(0).images for scale in ("auto", "always"))
    away = numpy.abs(whole - smaller).max(axis=(1, 2, 3))
    assert 110 < away[0] and away.max() < 114, away  # 111.6, and the levels that JPEG compression has moved


def test_training_decodes_smaller_pictures_unless_told_otherwise(hard):
    def digest(augment, **options):
        return penstock.Loader(hard / "packed", augment=augment, workers=0, **options).digest(epochs=1)

    flipped = EVALUATION + ",flip(p=0)"
    assert digest(flipped) == digest(flipped, dct_scale="always") == digest(EVALUATION, dct_scale="always")
    assert digest(flipped, dct_scale="off") == digest(EVALUATION) != digest(EVALUATION, dct_scale="always")


def test_numpy_and_dlpack_see_the_same_bytes(pictures):
    options = {"augment": CROP, "batch_size": 7}
    for layout in ("f32", "f16"):
        tensor = penstock.Loader(pictures, layout=layout, **options).batch(1)
        array = penstock.Loader(pictures, layout=layout, arrays="numpy", **options).batch(1)
        assert isinstance(array.images, numpy.ndarray) and isinstance(array.labels, numpy.ndarray)
        assert numpy.array_equal(array.images, tensor.images.numpy()) and numpy.array_equal(array.labels, tensor.labels.numpy())
        for from_dlpack in (numpy.from_dlpack, torch.from_dlpack):
            other = penstock.Loader(pictures, layout=layout, arrays="dlpack", **options).batch(1)
            assert numpy.array_equal(numpy.asarray(from_dlpack(other.images)), array.images)
            assert from_dlpack(other.labels).tolist() == array.labels.tolist()
    last = penstock.Loader(pictures, channels_last=True, arrays="numpy", **options).batch(1).images
    assert last.shape == (7, 32, 32, 3) and last.flags.c_contiguous


def test_mixup_gives_second_labels(digits):
    batch = penstock.Loader(digits, augment="normalize,mixup(alpha=1)", batch_size=64).batch(0)
    assert batch.second_labels.shape == (64,) and (batch.second_labels != batch.labels).any()
    assert ((batch.mix_weights > 0) & (batch.mix_weights < 1)).all()


def test_a_single_batch_is_that_of_the_epoch_and_disturbs_no_iteration(digits):
    loader = penstock.Loader(digits, batch_size=100, augment=AUGMENT, workers=2)
    loader.set_epoch(3)
    batches = []
    for index, batch in enumerate(loader):
        batches.append(batch)
        again = loader.batch(index)
        assert torch.equal(again.images, batch.images) and again.epoch == 3
    other = loader.batch(9, epoch=4)
    assert other.index == 9 and other.epoch == 4 and not torch.equal(other.images, batches[9].images)


def test_ranks_divide_the_same_batches(digits):
    whole = penstock.Loader(digits, batch_size=50, augment=AUGMENT)
    parts = [penstock.Loader(digits, batch_size=50, augment=AUGMENT, rank=rank, world_size=3) for rank in range(3)]
    assert {len(part) for part in parts} == {20}
    for images, *divided in zip((images for images, _ in whole), *parts):
        assert torch.equal(torch.cat([part.images for part in divided]), images)
        assert {part.global_count for part in divided} == {50}


def test_the_last_batch_is_divided_evenly(tmp_path):
    penstock.pack("digits(count=161)", tmp_path / "data")
    ranks = [list(penstock.Loader(tmp_path / "data", batch_size=64, rank=rank, world_size=2)) for rank in range(2)]
    whole = list(penstock.Loader(tmp_path / "data", batch_size=64))
    assert [[batch.count for batch in batches] for batches in ranks] == [[32, 32, 16], [32, 32, 17]]
    for parts, batch in zip(zip(*ranks), whole, strict=True):
        assert torch.equal(torch.cat([part.images for part in parts]), batch.images)
        assert torch.equal(torch.cat([part.ids for part in parts]), batch.ids)
        assert all(part.global_count == batch.count for part in parts)


def test_a_batch_larger_than_the_data_set_takes_the_memory_of_its_samples(digits):
    loader = penstock.Loader(digits, batch_size=10**12)
    assert [batch.count for batch in loader] == [1000] and loader.memory_bytes < 100e6
    assert penstock.Loader(digits, batch_size=10**12, rank=1, world_size=3).batch(0).count == 333


@pytest.mark.parametrize("launcher, warns", [({}, True), ({"TORCHELASTIC_RUN_ID": "none"}, False)])
def test_ranks_that_a_shell_has_left_over_are_told_once(digits, launcher, warns):
    variables = {"RANK": "1", "WORLD_SIZE": "4", **launcher}
    done = python("import sys, penstock\nfor _ in range(3): print(penstock.Loader(sys.argv[1], batch_size=100).batch(0).count)", digits,
                  env={**os.environ, **variables})
    assert done.stdout == 3 * "25\n"
    assert done.stderr.count("RANK=1 and WORLD_SIZE=4 are in the environment, so that this process loads its share of every batch, "
                             "1 of 4; rank=0, world_size=1 loads all of it") == (1 if warns else 0), done.stderr


@pytest.mark.filterwarnings("ignore:loader. RANK=")
def test_ranks_come_from_the_launcher_or_from_torch(digits, monkeypatch, tmp_path):
    assert penstock.Loader(digits).world_size == 1
    with monkeypatch.context() as environment:
        environment.setenv("SLURM_PROCID", "1")
        environment.setenv("SLURM_NTASKS", "3")
        assert (penstock.Loader(digits).rank, penstock.Loader(digits).world_size) == (1, 3)
        environment.setenv("RANK", "2")
        environment.setenv("WORLD_SIZE", "4")
        assert (penstock.Loader(digits).rank, penstock.Loader(digits).world_size) == (2, 4)
        torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
        try:
            assert (penstock.Loader(digits).rank, penstock.Loader(digits).world_size) == (0, 1)
        finally:
            torch.distributed.destroy_process_group()
        assert penstock.Loader(digits, rank=1, world_size=2).rank == 1
        environment.setenv("RANK", "two")
        with pytest.raises(penstock.ConfigError, match='RANK is "two"; expected a number'):
            penstock.Loader(digits)


@pytest.mark.parametrize("taken", [0, 1, 13, 20])
def test_a_loader_goes_on_where_another_one_stopped(digits, taken):
    options = {"batch_size": 50, "augment": AUGMENT, "workers": 1}
    first = penstock.Loader(digits, **options)
    first.set_epoch(2)
    steps = iter(first)
    for _ in range(taken):
        next(steps)
    state = first.state_dict()
    assert state["epoch"] == 2 and state["batch"] == taken
    rest = [batch.images for batch in steps]
    second = penstock.Loader(digits, rank=0, world_size=1, **options)
    second.load_state_dict(state)
    again = [batch.images for batch in second]
    assert len(again) == len(rest) == 20 - taken
    assert all(torch.equal(*pair) for pair in zip(rest, again))
    assert first.state_dict() == second.state_dict() == {**state, "epoch": 3, "batch": 0}
    assert next(iter(second)).epoch == 3


def test_leaving_an_epoch_early_begins_the_next(digits):
    loader = penstock.Loader(digits, batch_size=50)
    seen = []
    for _ in range(3):
        for batch in loader:
            seen.append((batch.epoch, batch.index))
            if batch.index == 1:
                break
    assert seen == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]


def test_statistics_count_what_was_made(digits):
    loader = penstock.Loader(digits, batch_size=50, workers=1, epochs=1)
    list(loader)
    found = loader.statistics()
    assert found["batch_count"] == 20 and found["stages"]["read"]["count"] == 1000 and len(found["workers"]) == 1
    assert found["stages"]["render"]["mean_us"] > 0


def test_what_a_loader_says_about_itself(pictures):
    loader = penstock.Loader(pictures, augment=CROP, batch_size=8, split="train")
    assert loader.class_names == ["class0", "class1", "class2"] and loader.image_shape == (3, 32, 32)
    assert loader.batch_size == 8 and len(loader.dataset) == 24 and loader.dataset[3].class_name in loader.class_names
    assert repr(loader).startswith("<penstock.Loader ") and "24 samples, 3 batches of 8" in repr(loader)


def test_u8_has_levels_without_being_asked(digits):
    loader = penstock.Loader(digits, layout="u8", shuffle=False)
    assert (loader.batch(0).images[5].numpy() == loader.dataset[5].image.transpose(2, 0, 1)).all()


def test_a_seed_has_64_bits(digits):
    torch.manual_seed(-1)
    assert torch.initial_seed() == 2**64 - 1
    first, other = (penstock.Loader(digits, seed=seed) for seed in (torch.initial_seed(), 2**63 - 1))
    assert first.batch(0).ids.tolist() != other.batch(0).ids.tolist()
    again = penstock.Loader(digits, seed=torch.initial_seed())
    again.load_state_dict(first.state_dict())
    assert again.batch(0).ids.tolist() == first.batch(0).ids.tolist()
