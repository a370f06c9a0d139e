"""penstock.pack: sources by name as shardprep packs them, and anything that can be iterated."""
import hashlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import warnings

import numpy
import penstock
import pytest
import torch
import torchvision
import torchvision.tv_tensors
from PIL import Image

from conftest import command

DRAW = numpy.random.default_rng(3)


def jpeg(size=(32, 24), mode="RGB"):
    file = io.BytesIO()
    Image.fromarray(DRAW.integers(0, 256, (*size[::-1], 3), dtype=numpy.uint8)).convert(mode).save(file, "JPEG", quality=95)
    return file.getvalue()


def hashes(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(pathlib.Path(folder).rglob("shard-*"))}


def images_of(folder, **options):
    """The unchanged pictures and labels in the order of their ids."""
    loader = penstock.Loader(folder, layout="u8", augment="", shuffle="none", batch_size=1, arrays="numpy", **options)
    rows = sorted(((int(batch.ids[0]), batch.images[0].copy(), int(batch.labels[0])) for batch in loader), key=lambda row: row[0])
    return [row[1] for row in rows], [row[2] for row in rows], loader.class_names


def verified(folder):
    return command("shardprep", "verify", folder).returncode == 0


def test_a_source_by_name_gives_shardpreps_bytes(tmp_path, capfd):
    packed = penstock.pack("digits(count=300)", tmp_path / "python", split=["train", "test"], shards=3)
    assert packed.samples == 600 and packed.folder == tmp_path / "python" and packed.skipped == []
    done = command("shardprep", "pack", "--source", "digits(count=300)", "--split", "train,test", "--shards", 3, "--out",
                   tmp_path / "tool")
    assert done.returncode == 0
    assert hashes(tmp_path / "python") == hashes(tmp_path / "tool") and len(hashes(tmp_path / "tool")) == 3
    assert capfd.readouterr().err == ""  # no progress where stderr is no terminal


def test_a_folder_after_the_name_is_the_input(pictures, tmp_path):
    penstock.pack(f"image-folder:{pictures.parent}/source", tmp_path / "python", shards=2)
    assert hashes(tmp_path / "python") == hashes(pictures)


def test_an_iterable_of_files_gives_the_same_shards_but_for_ids_and_paths(pictures, tmp_path):
    files = sorted((pictures.parent / "source").rglob("*.jpg"))
    packed = penstock.pack(((path, path.parent.name) for path in files), tmp_path / "packed", shards=2)
    assert packed.samples == 24 and verified(tmp_path / "packed")
    crop = {"augment": "random-resized-crop(size=32)", "arrays": "numpy", "shuffle": "none", "batch_size": 24}
    ours, theirs = (penstock.Loader(folder, **crop).batch(0) for folder in (tmp_path / "packed", pictures))
    assert numpy.array_equal(ours.images, theirs.images) and numpy.array_equal(ours.labels, theirs.labels)
    assert penstock.Loader(tmp_path / "packed", **crop).class_names == ["class0", "class1", "class2"]


def test_bytes_are_kept_as_they_are(tmp_path):
    files = [jpeg() for _ in range(5)]
    items = [{"image": {"bytes": file, "path": f"{number}.jpg"}, "label": number % 2} for number, file in enumerate(files)]
    penstock.pack(items, tmp_path / "packed")
    assert command("shardprep", "unpack", tmp_path / "packed", "--out", tmp_path / "files").returncode == 0
    found = sorted((tmp_path / "files").rglob("*.jpg"))
    assert [path.read_bytes() for path in found] == files


@pytest.mark.parametrize("make", [
    lambda pixels: pixels,
    lambda pixels: Image.fromarray(pixels),
    lambda pixels: numpy.asfortranarray(pixels),
    lambda pixels: torch.from_numpy(numpy.moveaxis(pixels, -1, 0) if pixels.ndim == 3 else pixels),
    lambda pixels: torchvision.tv_tensors.Image(numpy.moveaxis(pixels, -1, 0) if pixels.ndim == 3 else pixels[None]),
], ids=["numpy", "pil", "fortran", "torch", "tv_tensor"])
@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_come_back(tmp_path, make, channels):
    pixels = [DRAW.integers(0, 256, (9, 7, 3)[:2 if channels == 1 else 3], dtype=numpy.uint8) for _ in range(6)]
    penstock.pack([(make(picture), number % 2) for number, picture in enumerate(pixels)], tmp_path, class_names=["a", "b"])
    images, labels, names = images_of(tmp_path)
    assert all(numpy.array_equal(image.squeeze(), picture) for image, picture in zip(images, pixels, strict=True))
    assert labels == [0, 1, 0, 1, 0, 1] and names == ["a", "b"]


@pytest.mark.parametrize("shape, is_tensor, channel", [
    ((9, 7, 4), False, 2),  # RGBA
    ((4, 9, 7), True, 0),
    ((3, 9, 7), False, 0),  # the array can only be C x H x W, and the tensor only H x W x C
    ((9, 7, 3), True, 2),
    ((4, 9, 7), False, 0),
    ((9, 7, 4), True, 2),
    ((3, 5, 4), False, 2),  # either is possible: an array is H x W x C, a tensor C x H x W
    ((4, 5, 3), True, 0),
    ((1, 5, 1), False, 2),
    ((1, 3, 3), True, 0),
])
def test_three_dimensions_are_read_as_documented_and_alpha_is_dropped(tmp_path, shape, is_tensor, channel):
    pixels = DRAW.integers(0, 256, shape, dtype=numpy.uint8)
    penstock.pack([(torch.from_numpy(pixels) if is_tensor else pixels, 0)], tmp_path)
    (image,) = images_of(tmp_path)[0]
    assert numpy.array_equal(image, numpy.moveaxis(pixels, channel, -1)[:, :, :3])


def test_alpha_is_dropped_alike_from_arrays_pil_and_png_files(tmp_path):
    pixels = DRAW.integers(0, 256, (9, 7, 4), dtype=numpy.uint8)
    picture = Image.fromarray(pixels)
    file = io.BytesIO()
    picture.save(file, "PNG")
    penstock.pack([(kind, 0) for kind in (pixels, torch.from_numpy(pixels).permute(2, 0, 1), picture, file.getvalue())], tmp_path)
    for image in images_of(tmp_path)[0]:
        assert numpy.array_equal(image, numpy.asarray(picture.convert("RGB")))


def test_class_names_come_from_torchvisions_data_sets(tmp_path):
    dataset = torchvision.datasets.FakeData(8, (3, 10, 10), 3)
    dataset.classes = ["x", "y", "z"]
    penstock.pack(dataset, tmp_path)
    images, labels, names = images_of(tmp_path)
    assert names == ["x", "y", "z"] and labels == [int(label) for _, label in dataset]
    assert numpy.array_equal(images[5], numpy.asarray(dataset[5][0]))


def test_names_are_classes_in_alphabetical_order(tmp_path):
    picture = DRAW.integers(0, 256, (9, 7, 3), dtype=numpy.uint8)
    penstock.pack([(picture, name) for name in ("dog", "cat", "ant", "cat")], tmp_path)
    assert images_of(tmp_path)[1:] == ([2, 1, 0, 1], ["ant", "cat", "dog"])


PICTURE = numpy.zeros((9, 7, 3), dtype=numpy.uint8)


@pytest.mark.parametrize("items, message", [
    ([(PICTURE.astype("float64"), 0)], "pack: item 0: the picture is an array of float64; expected bytes of a JPEG or PNG"),
    ([(PICTURE, 0), (None, 0)], "pack: item 1: the picture is NoneType; expected "),
    ([(PICTURE, 0), 7], "pack: item 1 is int; expected (picture, label) or a dict"),
    ([(PICTURE, 0, "a.jpg")], "pack: item 0 has 3 values; expected (picture, label)"),
    ([{"pixels": PICTURE, "label": 0}], "pack: item 0 is a dict of pixels, label; expected a picture (image, "),
    ([(PICTURE, 0), (PICTURE, "cat")], "pack: item 1: the label is 'cat' after labels of another kind; expected "),
    ([(PICTURE, -1)], "pack: item 0: the label is -1; expected a number, 0 or more, or a name"),
    ([(PICTURE, 0.5)], "pack: item 0: the label is 0.5; expected "),
    ([(PICTURE[:, :, :1].repeat(33, 2), 0)], "pack: item 0: pixels of 9 x 7 x 33; expected H x W x C with 1 to 32 channels"),
    ([(PICTURE[0, 0], 0)], "pack: item 0: pixels in 1 dimensions; expected "),
    ([(PICTURE[:0], 0)], "pack: item 0: pixels of 0 x 7 x 3; expected "),
    ([(torch.zeros(3, 9, 7).double(), 0)], "pack: item 0: the picture is an array of torch.float64; expected bytes of "),
    ([(torch.zeros(34, 9, 7, dtype=torch.uint8), 0)], "pack: item 0: pixels of 9 x 7 x 34; expected "),
    (7, "pack: source is 7; expected a name or an iterable of (picture, label)"),
])
def test_wrong_items(tmp_path, items, message):
    with pytest.raises(penstock.ConfigError) as caught:
        penstock.pack(items, tmp_path / "packed")
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value), str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind, arguments, options, message", [
    (penstock.ConfigError, ["filks"], {}, 'unknown source "filks"'),
    (penstock.ConfigError, ["{here}"], {}, "pack: source is the folder '{here}'; expected NAME:FOLDER, such as 'image-folder:{here}'"),
    (penstock.ConfigError, ["{here}/.."], {}, "pack: source is the folder '{here}/..'; expected NAME:FOLDER, such as "),
    (penstock.ConfigError, [pathlib.Path("/nowhere")], {}, "pack: source is PosixPath('/nowhere'); expected NAME:FOLDER, such as "),
    (penstock.ConfigError, [[(jpeg(), 0)]], {"class_names": [1, 2]}, "pack: class_names has 1; expected a list of names, one per class"),
    (penstock.ConfigError, [[(jpeg(), 0)]], {"class_names": "ab"}, "pack: class_names has 'ab'; expected a list of names"),
    (penstock.ConfigError, [[(jpeg(), 0)]], {"class_names": 2}, "pack: class_names has 2; expected a list of names"),
    (penstock.IoError, ["image-folder:/nowhere"], {}, None),
    (penstock.ConfigError, ["digits"], {"shards": 0}, "pack: shards is 0; expected 1 to "),
    (penstock.ConfigError, ["digits"], {"jobs": -1}, "pack: jobs is -1; expected 0 "),
    (penstock.ConfigError, ["digits"], {"encode": "jpg"}, 'encode: unknown value "jpg"; did you mean "jpeg"?'),
    (penstock.ConfigError, ["digits"], {"split": "tain"}, 'pack: split is "tain"; expected train, test or all'),
    (penstock.ConfigError, ["digits"], {"split": ["val", "test"]}, "pack: split is ['val', 'test']; expected each split only once"),
    (penstock.ConfigError, [[]], {"shards": "x"}, "pack: shards is 'x'; expected a whole number"),
    (penstock.ConfigError, [iter(int, 1)], {"quality": 0}, "pack: quality is 0; expected 1 to 100"),
    (penstock.IoError, [[]], {}, "source iterable: no samples for split train; expected one or more"),
    (penstock.CorruptError, [[(b"GIF89a", 0)]], {}, "item 0: GIF: "),
    (penstock.CorruptError, [[(jpeg()[:300], 0)]], {}, "item 0: "),
    (penstock.IoError, [[("/nowhere/1.jpg", 0)]], {}, "pack: item 0, /nowhere/1.jpg: No such file or directory; expected "),
])
def test_wrong_arguments(tmp_path, kind, arguments, options, message):
    arguments = [part.format(here=tmp_path) if isinstance(part, str) else part for part in arguments]
    with pytest.raises(kind) as caught:
        penstock.pack(*arguments, tmp_path / "packed", **options)
    assert type(caught.value) is kind and "\n" not in str(caught.value)
    assert message is None or str(caught.value).startswith(message.format(here=tmp_path)), str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_path_of_a_folder_is_that_of_image_folder(pictures, tmp_path):
    penstock.pack(pictures.parent / "source", tmp_path / "python", shards=2)
    assert hashes(tmp_path / "python") == hashes(pictures)
    (tmp_path / "empty (1)").mkdir()
    with pytest.raises(penstock.IoError, match="source image-folder: no samples for split train in .*empty .1.; expected one "):
        penstock.pack(tmp_path / "empty (1)", tmp_path / "packed")


def test_broken_pictures_may_be_left_out(tmp_path):
    good = jpeg()
    broken = [good[:300], b"GIF89a", b"\0", b""]
    packed = penstock.pack([(good, 0), *((bytes, 0) for bytes in broken), (good, 1)], tmp_path, on_corrupt="skip")
    assert packed.samples == 2
    assert sorted(line.split(":")[0] for line in packed.skipped) == [f"item {number}" for number in range(1, 5)]
    listed = [json.loads(line) for line in (tmp_path / "train/skipped.jsonl").read_text().splitlines()]
    assert [line["id"] for line in listed] == [1, 2, 3, 4]
    assert sorted(f"item {line['id']}: {line['reason']}" for line in listed) == sorted(packed.skipped)
    for number, bytes in enumerate(broken):
        with pytest.raises(penstock.CorruptError) as caught:
            penstock.pack([(bytes, 0)], tmp_path / "packed")
        assert str(caught.value).endswith(', or penstock.pack(on_corrupt="skip")') and "\n" not in str(caught.value), str(caught.value)


def test_what_is_left_of_a_file_with_an_unknown_format_is_its_name(tmp_path):
    (tmp_path / "odd.jpg").write_bytes(b"XIF89a")
    with pytest.raises(penstock.CorruptError, match="source iterable: all 1 pictures are broken; expected one that can be packed"):
        penstock.pack([(tmp_path / "odd.jpg", 0)], tmp_path / "packed", on_corrupt="skip")
    packed = penstock.pack([(tmp_path / "odd.jpg", 0), (PICTURE, 0)], tmp_path / "packed", on_corrupt="skip")
    assert packed.skipped[0].startswith("item 0 (00000000-odd.jpg): 6 bytes that begin with ")


def test_an_iterable_that_raises_half_way_leaves_nothing(tmp_path):
    def items():
        yield PICTURE, 0
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        penstock.pack(items(), tmp_path / "packed")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_leaves_nothing_or_all(tmp_path):
    code = "import sys, penstock\nprint('begun', flush=True)\npenstock.pack('digits(count=300000)', sys.argv[1])"
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path / "packed"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    while not any(tmp_path.rglob("shard-*")):  # it packs
        assert process.poll() is None
    process.send_signal(2)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == -2 and errors.endswith("KeyboardInterrupt\n"), errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", ["'digits'", "[(numpy.zeros((9, 7, 3), dtype=numpy.uint8), 0)]"])
def test_two_processes_do_not_pack_into_one_folder(tmp_path, source):
    code = "import sys, penstock\npenstock.pack('digits(count=2000000)', sys.argv[1])"
    first = subprocess.Popen([sys.executable, "-c", code, tmp_path / "packed"], stderr=subprocess.PIPE, text=True)
    while not any(tmp_path.rglob("shard-*")):  # it packs
        assert first.poll() is None
    first.send_signal(signal.SIGSTOP)  # however long the second takes, the first still packs
    second = subprocess.run([sys.executable, "-c", f"""
import sys, numpy, penstock
try:
    penstock.pack({source}, sys.argv[1])
except penstock.IoError as error:
    print(error)
""", tmp_path / "packed"], capture_output=True, text=True, timeout=60, check=False)
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGCONT)
    first.communicate(timeout=60)
    assert second.stderr == "" and second.stdout.count("\n") == 1, second.stderr
    assert "another process is packing into it; expected one at a time" in second.stdout


def test_two_threads_do_not_either(tmp_path):
    """One of them packs all of it, and the others are told."""
    outcomes, barrier = [], threading.Barrier(4)

    def work():
        barrier.wait()
        try:
            outcomes.append(penstock.pack("digits(count=2000,size=32)", tmp_path, jobs=1).samples)
        except penstock.IoError as error:
            outcomes.append("one at a time" in str(error))
        except penstock.ConfigError as error:
            outcomes.append("exists already" in str(error))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [True, True, True, 2000] and os.listdir(tmp_path) == ["train"]


def test_a_second_packing_into_one_folder_is_refused(tmp_path):
    penstock.pack([(PICTURE, 0)], tmp_path)
    with pytest.raises(penstock.ConfigError, match="exists already; expected a new folder, or force=True to replace it$"):
        penstock.pack(iter(int, 1), tmp_path)  # before the iterable, which has no end, is asked
    penstock.pack([(PICTURE, 0), (PICTURE, 0)], tmp_path, force=True)
    assert len(images_of(tmp_path)[0]) == 2 and os.listdir(tmp_path) == ["train"]


@pytest.mark.parametrize("name", [b"caf\xe9", "caf\udce9"])
def test_an_output_may_have_any_bytes(tmp_path, name):
    out = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    packed = penstock.pack([(PICTURE, 0)], os.fsdecode(out) if isinstance(name, str) else out)
    assert packed.samples == 1 and os.path.exists(out + b"/train/manifest.json")
    with pytest.raises(penstock.ConfigError, match="out is 'a.x00b'; expected a folder"):
        penstock.pack([(PICTURE, 0)], "a\0b")


def test_what_is_left_out_or_grows_is_a_warning(tmp_path):
    from PIL import Image
    (tmp_path / "in/a").mkdir(parents=True)
    Image.fromarray(numpy.zeros((8, 8, 3), numpy.uint8)).save(tmp_path / "in/a/1.jpg")
    (tmp_path / "in/a/notes.txt").write_text("x")
    with pytest.warns(UserWarning) as warned:
        penstock.pack(f"image-folder:{tmp_path}/in", tmp_path / "one")
    assert [str(one.message) for one in warned] == ["pack: 1 file ignored (no pictures, or outside of class folders): a/notes.txt"]
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="item 0 is a decoded JPEG, .* expected pictures as PIL's .filename") as warned:
        penstock.pack([(Image.open(tmp_path / "in/a/1.jpg"), 0)], tmp_path / "two")
    assert warned[0].filename == __file__
    import torchvision
    with pytest.warns(UserWarning, match="pack.dataset.samples, class_names=dataset.classes."):
        penstock.pack(torchvision.datasets.ImageFolder(tmp_path / "in"), tmp_path / "three")


def test_keys_of_dicts_that_are_left_out_are_named(tmp_path):
    item = {"image": numpy.zeros((2, 2), numpy.uint8), "label": 0, "depth": 3.5, "note": "x", "__key__": "7"}
    with pytest.warns(UserWarning) as warned:
        penstock.pack([item, item], tmp_path / "silent")
    assert [str(one.message) for one in warned] == [
        "pack: item 0 has depth, note, which are not stored; expected fields=['depth', 'note'], or fields=[] to leave them out"]
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        penstock.pack([item], tmp_path / "chosen", fields=[])
        penstock.pack([item], tmp_path / "stored", fields=["depth", "note"])
        penstock.pack([(item["image"], 0)], tmp_path / "pairs")
