"""bench/peers on photographs, as far as it can be checked without the peers: the data, the check of batches, results, page and chart."""

import itertools
import json
import sys
from pathlib import Path

import numpy
import pytest
from PIL import Image

PEERS = Path(__file__).parents[2] / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import harness  # noqa: E402
import page  # noqa: E402
import photo_check  # noqa: E402
import photo_draws  # noqa: E402
import prepare_photos  # noqa: E402
import results  # noqa: E402
import run  # noqa: E402
import table  # noqa: E402
from peers import OWN, PEERS as ROWS  # noqa: E402
from workloads import BATCH_SIZE, WORKLOADS  # noqa: E402

WORKLOAD = WORKLOADS["photos"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """26 pictures of coloured clouds, ten times each, and what Pillow's crops of them look like."""
    folder = tmp_path_factory.mktemp("photos")
    random = numpy.random.default_rng(1)
    for number in range(26):
        clouds = random.integers(0, 120, (30, 40, 3)) + [130, 80, 60]
        Image.fromarray(clouds.astype(numpy.uint8)).resize((320, 240)).save(folder / f"{number}.JPEG")
    sys.argv[1:] = [str(folder), str(folder / "out")]
    prepare_photos.main()
    return folder / "out"


def batches_of(data, edit=lambda pictures: pictures, crop=photo_draws.draw_crop):
    """What an honest loader gives, with an edit of its u8 pictures and a way to draw crops."""
    rng = numpy.random.default_rng(2)
    paths = itertools.cycle(photo_draws.files(data))
    while True:
        pictures = []
        for path in itertools.islice(paths, BATCH_SIZE):
            picture = Image.open(path)
            x, y, width, height = crop(rng, *picture.size)
            pictures.append(picture.resize((224, 224), Image.Resampling.BILINEAR, box=(x, y, x + width, y + height)))
        pictures = edit(numpy.stack([numpy.asarray(picture) for picture in pictures]))
        yield photo_draws.normalise(pictures, WORKLOAD), numpy.zeros(BATCH_SIZE)


def unchecked(images, labels, workload):
    pass


def test_every_file_is_there_ten_times_and_once_more_in_the_archive(data):
    paths = photo_draws.files(data)
    assert len(paths) == 260 and len({Path(path).read_bytes() for path in paths}) == 26
    assert (data / "photos.tar").stat().st_size > sum(Path(path).stat().st_size for path in paths)


def test_honest_crops_pass(data):
    found = photo_check.check(batches_of(data), WORKLOAD, data, unchecked)
    assert found["tint"] > 40  # the clouds are red


WRONG = {
    "blue for red": (dict(edit=lambda pictures: pictures[..., ::-1]), "tint is"),
    "darker": (dict(edit=lambda pictures: pictures // 2), "level is"),
    "flat": (dict(edit=lambda pictures: pictures // 4 + [142, 105, 90]), "contrast is"),
    "whole pictures": (dict(crop=lambda rng, width, height: (0, 0, width, height)), "different"),
    "small crops": (dict(crop=lambda rng, width, height: (int(rng.integers(260)), int(rng.integers(180)), 60, 60)), "sharpness"),
    "one crop a picture": (dict(crop=lambda rng, width, height: (40, 40, 200, 160)), "different"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_crops_of_something_else_are_refused(wrong, data):
    options, message = WRONG[wrong]
    with pytest.raises(ValueError, match=message):
        photo_check.check(batches_of(data, **options), WORKLOAD, data, unchecked)


@pytest.mark.parametrize("variant", ["pil", "io"])
def test_pytorch_delivers_random_resized_crops(variant, data):
    import peer_photos_pytorch

    batches = peer_photos_pytorch.make_epochs(WORKLOAD, data, 0, variant)()
    look = photo_check.Look(WORKLOAD)
    for images, _ in itertools.islice(batches, photo_check.BATCHES):
        assert images.shape == (BATCH_SIZE, 3, 224, 224) and images.is_contiguous()
        look.add(images)
    photo_check.compare(look.summary(), json.loads((data / photo_check.REFERENCE).read_text()))


def test_crops_are_drawn_as_torchvision_draws_them():
    import torch
    from torchvision.transforms import RandomResizedCrop

    torch.manual_seed(1)
    rng = numpy.random.default_rng(1)
    ours = numpy.array([photo_draws.draw_crop(rng, 300, 200) for _ in range(1500)])
    picture = torch.zeros(1, 200, 300)
    theirs = numpy.array([RandomResizedCrop.get_params(picture, (0.08, 1), (3 / 4, 4 / 3)) for _ in range(1500)])
    areas = [(ours[:, 2] * ours[:, 3]).mean(), (theirs[:, 2] * theirs[:, 3]).mean()]
    assert abs(areas[0] - areas[1]) < 0.05 * areas[1]
    assert (ours[:, 0] + ours[:, 2]).max() <= 300 and (ours[:, 1] + ours[:, 3]).max() <= 200
    assert photo_draws.draw_crop(rng, 1000, 10) == (493, 0, 13, 10)  # no draw fits, so it is the middle with ratio 4/3


def test_rates_count_images_and_processor_time():
    batches = itertools.repeat((None, None))
    wall, cpu = harness.rate(batches, 0, 0.1)
    assert wall > 0 and 0 < harness.cpu_seconds() and cpu > 0


def record(rates, own, command, missing=()):
    return {
        "rows": results.rows(rates, own, {"FFCV": 5}),
        "missing": dict(missing),
        "versions": ["a 1"],
        "runs": [{"command": command, "machine": "M", "rounds": 2, "load": "low"}],
    }


def test_a_later_run_of_one_loader_replaces_its_rows_alone():
    titles = ["Penstock", "FFCV", "SPDL"]
    old = record({("Penstock", 1): [10, 10], ("FFCV", 1): [5, 5]}, ["Penstock"], "all", {"SPDL": "no FFmpeg"})
    new = record({("Penstock", 1): [20, 20], ("SPDL", 1): [4, 5]}, ["Penstock"], "--only spdl")
    both = results.merged(old, new, titles)
    assert [(row["title"], row["rates"], row["own"]) for row in both["rows"]] == [
        ("Penstock", [20, 20], {}),
        ("FFCV", [5, 5], {"Penstock": [10, 10]}),
        ("SPDL", [4, 5], {"Penstock": [20, 20]}),
    ]
    assert both["missing"] == {} and [run["command"] for run in both["runs"]] == ["all", "--only spdl"]
    lines = table.rows(both["rows"], ["Penstock"])
    assert lines[3:] == [
        "| FFCV | 1 | 5 (5-5) | 2.00 (2.00-2.00) | 5 |",
        "| SPDL | 1 | 4 (4-5) | 4.50 (4.00-5.00) |  |",
    ]


def test_the_page_keeps_its_text_and_the_chart_shows_every_loader(tmp_path):
    rates = {("Penstock, auto", 2): [900, 1000], ("FFCV, the same JPEGs", 2): [100, 120]}
    source = tmp_path / "results.json"
    source.write_text(json.dumps({"photos": record(rates, OWN["photos"], "script/peers")}))
    (tmp_path / "peers.md").write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    page.write(source, tmp_path)
    text = (tmp_path / "peers.md").read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert "\n\n![Images per second, 2 workers](peers-photos.svg)\n\n| loader |" in text
    assert "| FFCV, the same JPEGs | 2 | 110 (100-120) | 8.67 (8.33-9.00) |" in text
    drawing = (tmp_path / "peers-photos.svg").read_text()
    assert all(title in drawing for title, _ in rates)


def test_every_row_has_its_program_and_its_data():
    for row in ROWS:
        assert row.is_penstock or row.program == "torch_data_peer" or (PEERS / f"peer_{row.program}.py").exists(), row
        assert not WORKLOADS[row.workloads[0]].is_photos or row.store, row
    for name, titles in OWN.items():
        assert set(titles) <= {row.title for row in ROWS if name in row.workloads}


def test_a_store_that_could_not_be_packed_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "HOME", tmp_path)
    peer = next(row for row in ROWS if row.title == "Penstock, auto")
    assert run.not_there(peer, WORKLOAD) is None
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / f"{peer.store}.failed").write_text("shardprep: no\n")
    assert run.not_there(peer, WORKLOAD) == "shardprep: no"
