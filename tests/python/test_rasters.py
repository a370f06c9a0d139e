"""Pictures of uint16, float32 and many channels, and second pictures: what a Loader delivers is what PIL and torchvision make of them."""
import contextlib
import io
import pathlib
import struct

import numpy
import penstock
import pytest
from conftest import command
from PIL import Image

torch = pytest.importorskip("torch")
functional = pytest.importorskip("torchvision.transforms.functional")

HEIGHT, WIDTH = 30, 42


def noise(dtype, channels, seed=0, height=HEIGHT, width=WIDTH):
    random = numpy.random.default_rng(seed)
    shape = (height, width, channels)
    if dtype == "float32":
        return random.normal(250, 80, shape).astype(dtype)
    return random.integers(0, numpy.iinfo(dtype).max + 1, shape, dtype=dtype)


def packed(folder, pictures, **words):
    penstock.pack(((picture, 0) for picture in pictures), folder / "data", shards=1, **words)
    return folder / "data"


def images(data, augment="", columns="", **words):
    """All samples, in the order of their ids."""
    loader = penstock.Loader(data, augment=augment, columns=columns, batch_size=100, shuffle=False, workers=0, arrays="numpy", **words)
    batch = next(iter(loader))
    return batch.columns[columns.split("field=")[1].rstrip(")").split(",")[0]] if columns else batch.images


@pytest.mark.parametrize("dtype,channels", [("uint8", 2), ("uint8", 5), ("uint16", 1), ("uint16", 3), ("uint16", 4), ("float32", 1),
                                            ("float32", 13), ("uint8", 32)])
def test_arrays_come_back_as_they_were(tmp_path, dtype, channels):
    pictures = [noise(dtype, channels, seed) for seed in range(5)]
    data = packed(tmp_path, pictures)
    dataset = penstock.Dataset(data)
    for picture, sample in zip(pictures, dataset):
        assert sample.image.dtype == dtype and (sample.image == picture).all()
    white = {"uint8": 255, "uint16": 65535, "float32": 1}[dtype]
    expected = numpy.stack(pictures).transpose(0, 3, 1, 2).astype(numpy.float32) * numpy.float32(1 / white)
    assert (images(data) == expected).all()
    tensors = tmp_path / "tensors"
    packed(tensors, [torch.from_numpy(picture.transpose(2, 0, 1).copy()) for picture in pictures])
    assert (penstock.Dataset(tensors / "data")[3].image == pictures[3]).all()


def test_resize_crop_flip_and_normalize_are_torchvisions(tmp_path):
    pictures = [noise("float32", 13, seed) for seed in range(3)]
    data = packed(tmp_path, pictures)
    made = images(data, "resize(height=17,width=23),center-crop(height=11,width=12),flip(p=1),normalize")
    stacked = torch.from_numpy(numpy.stack(pictures)).permute(0, 3, 1, 2)
    mean = stacked.double().mean(dim=(0, 2, 3)).tolist()
    deviation = stacked.double().std(dim=(0, 2, 3), unbiased=False).tolist()
    for image, tensor in zip(made, stacked):
        expected = functional.hflip(functional.center_crop(functional.resize(tensor, [17, 23], antialias=True), [11, 12]))
        expected = functional.normalize(expected, mean, deviation)
        numpy.testing.assert_allclose(image, expected.numpy(), atol=2e-5)
    larger = images(data, "resize(height=45,width=90)")
    for image, tensor in zip(larger, stacked):
        numpy.testing.assert_allclose(image, functional.resize(tensor, [45, 90], antialias=True).numpy(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("dtype", ["uint16", "float32"])
def test_an_affine_is_pils(tmp_path, dtype, interpolation):
    pictures = [noise(dtype, 1, seed) for seed in range(4)]
    data = packed(tmp_path, pictures)
    augment = f"affine(degrees=30,translate=0.2,scale=0.7:1.4,filter={interpolation},fill=7)"
    loader = penstock.Loader(data, augment=augment, layout="f32", batch_size=4, shuffle=False, workers=0, arrays="numpy")
    batch = next(iter(loader))
    filters = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}
    white = 65535 if dtype == "uint16" else 1
    for index, (picture, image) in enumerate(zip(pictures, batch.images)):
        whole = Image.fromarray(picture[..., 0].astype(numpy.float32), mode="F")
        expected = numpy.asarray(whole.transform((WIDTH, HEIGHT), Image.Transform.AFFINE, loader.plan(0, index).map, filters[interpolation],
                                                 fillcolor=7))
        close = numpy.isclose(image[0] * white, expected, rtol=1e-4, atol=0.05)
        assert close.mean() > (0.999 if interpolation == "bilinear" else 0.995)  # PIL's nearest steps in 16.16 fixed point
        assert (expected == 7).any()


def test_levels_of_u16_are_delivered_as_they_are(tmp_path):
    pictures = [noise("uint16", 2, seed) for seed in range(4)]
    data = packed(tmp_path, pictures)
    assert (images(data, None, layout="u16") == numpy.stack(pictures)).all()
    batch = next(iter(penstock.Loader(data, layout="u16", batch_size=4, shuffle=False, arrays="torch")))
    assert batch.images.dtype == torch.uint16 and batch.images.shape == (4, 2, HEIGHT, WIDTH)
    halves = images(data, "", layout="f16")
    numpy.testing.assert_allclose(halves.astype(float), images(data), rtol=1e-3, atol=1e-4)
    with pytest.raises(penstock.ConfigError, match="layout is \"u16\", levels of 0 to 65535, with normalize"):
        penstock.Loader(data, layout="u16", augment="normalize")
    with pytest.raises(penstock.ConfigError, match="layout u8: pictures have 2 channels of u16; expected f32, f16 or bf16, or u16"):
        penstock.Loader(data, layout="u8")


@pytest.mark.parametrize("dtype,channels", [("uint8", 5), ("uint16", 1), ("float32", 13)])
def test_render_is_what_the_loader_makes(tmp_path, dtype, channels):
    data = packed(tmp_path, [noise(dtype, channels, seed) for seed in range(4)])
    augment = "affine(degrees=30,filter=bilinear,fill=3),random-resized-crop(size=16),flip,erase(p=1)"
    loader = penstock.Loader(data, augment=augment, batch_size=4, shuffle=False, workers=0, arrays="numpy")
    for index, image in enumerate(next(iter(loader)).images):
        assert (penstock.render(loader.dataset[index].image, loader.plan(0, index)) == image).all()
    colored = loader.plan(0, 0)._replace(color_steps=[("brightness", 2.0)])
    with pytest.raises(penstock.ConfigError, match=f"the picture has {channels} channels? of .*, and the plan has colours"):
        penstock.render(loader.dataset[0].image, colored)


def test_workers_and_ranks_do_not_change_them(tmp_path):
    data = packed(tmp_path, [noise("float32", 5, seed) for seed in range(20)])
    words = dict(augment="random-resized-crop(size=16),affine(degrees=20,filter=bilinear),flip,normalize", batch_size=8)
    digests = [penstock.Loader(data, workers=workers, **words).digest(1) for workers in (0, 1, 3)]
    assert digests[1:] == digests[:1] * 2
    whole = {int(i): image for batch in penstock.Loader(data, workers=0, arrays="numpy", **words) for i, image in zip(batch.ids, batch.images)}
    for rank in range(3):
        for batch in penstock.Loader(data, workers=2, rank=rank, world_size=3, arrays="numpy", **words):
            for i, image in zip(batch.ids, batch.images):
                assert (image == whole[int(i)]).all()


@pytest.mark.parametrize("kind", ["npy", "png", "pil", "half"])
def test_a_second_picture_has_the_plan_of_the_first(tmp_path, kind):
    depths = [noise("uint16" if kind == "png" else "float32", 1, seed)[..., 0] for seed in range(6)]
    if kind == "half":  # one pixel for four
        depths = [depth[:HEIGHT // 2, :WIDTH // 2] for depth in depths]

    def stored(depth):
        if kind == "png":
            file = io.BytesIO()
            Image.fromarray(depth).save(file, "PNG")
            return file.getvalue()
        return Image.fromarray(depth, mode="F") if kind == "pil" else depth

    items = ({"image": noise("uint8", 3, i), "label": 0, "depth": stored(depth)} for i, depth in enumerate(depths))
    penstock.pack(items, tmp_path / "data", fields={"depth": penstock.Field("picture", fill=3)}, shards=1)
    loader = penstock.Loader(tmp_path / "data", augment="random-resized-crop(size=20),flip,color-jitter(brightness=0.5)",
                             columns="picture(field=depth,interpolation=nearest,layout=f32)", batch_size=6, shuffle=False, workers=2,
                             arrays="numpy")
    batch = next(iter(loader))
    white = 65535 if kind == "png" else 1
    for index, depth in enumerate(depths):
        full = depth.repeat(2, 0).repeat(2, 1) if kind == "half" else depth
        whole = Image.fromarray(full.astype(numpy.float32), mode="F")
        expected = numpy.asarray(whole.transform((20, 20), Image.Transform.AFFINE, loader.plan(0, index).map, Image.Resampling.NEAREST,
                                                 fillcolor=3))
        same = numpy.isclose(batch.columns["depth"][index, 0] * white, expected, rtol=1e-5)
        assert same.mean() > 0.98, index


def tiff(samples, planar, dtype, path):
    """A TIFF without compression: `samples` H x W x C, one strip, or one for each plane."""
    height, width, channels = samples.shape
    planes = samples.transpose(2, 0, 1) if planar == 2 else samples[None]
    data = [numpy.ascontiguousarray(plane).tobytes() for plane in planes]
    bits, kind = samples.dtype.itemsize * 8, 3 if dtype == "float32" else 1
    offsets, at = [], 8
    for strip in data:
        offsets.append(at)
        at += len(strip)
    extra = b""

    def values(code, numbers):
        nonlocal extra
        packed_values = struct.pack(f"<{len(numbers)}{code}", *numbers)
        if len(packed_values) <= 4:
            return packed_values.ljust(4, b"\0")
        place = struct.pack("<I", at + len(extra))
        extra += packed_values
        return place

    entries = [(256, 4, [width]), (257, 4, [height]), (258, 3, [bits] * channels), (259, 3, [1]), (262, 3, [1]), (273, 4, offsets),
               (277, 3, [channels]), (278, 4, [height]), (279, 4, [len(strip) for strip in data]), (284, 3, [planar]),
               (338, 3, [0] * max(channels - 1, 1)), (339, 3, [kind] * channels)]
    if channels == 1:
        entries = [entry for entry in entries if entry[0] != 338]
    directory = struct.pack("<H", len(entries))
    for tag, type_, numbers in entries:
        directory += struct.pack("<HHI", tag, type_, len(numbers)) + values("I" if type_ == 4 else "H", numbers)
    place = at + len(extra)
    path.write_bytes(struct.pack("<2sHI", b"II", 42, place) + b"".join(data) + extra + directory + b"\0\0\0\0")


@pytest.mark.parametrize("dtype,channels,planar", [("uint16", 7, 1), ("uint16", 7, 2), ("float32", 1, 1), ("float32", 4, 2), ("uint8", 6, 1)])
def test_a_tiff_of_bands_has_all_of_them(tmp_path, dtype, channels, planar):
    pictures = [noise(dtype, channels, seed) for seed in range(3)]
    (tmp_path / "in").mkdir()
    for number, picture in enumerate(pictures):
        tiff(picture, planar, dtype, tmp_path / "in" / f"{number}.tif")
    pixels = {"uint8": "u8", "uint16": "u16", "float32": "f32"}[dtype]
    penstock.pack(f"flat:{tmp_path}/in", tmp_path / "data", shards=1, pixels=pixels)
    for picture, sample in zip(pictures, penstock.Dataset(tmp_path / "data")):
        assert sample.image.dtype == dtype and (sample.image == picture).all()
    if pixels != "u8":
        with pytest.raises(penstock.CorruptError, match=f"picture of {channels} channels? of {pixels}; expected u8, or pixels {pixels}"):
            penstock.pack(f"flat:{tmp_path}/in", tmp_path / "other", pixels="u8")
        Image.fromarray(noise("uint8", 1)[..., 0]).save(tmp_path / "in/plain.png")
        mixed = penstock.pack(f"flat:{tmp_path}/in", tmp_path / "other", pixels="u8", on_corrupt="skip")
        assert mixed.samples == 1 and len(mixed.skipped) == 3


def test_files_of_16_and_8_bits_become_u16(tmp_path):
    (tmp_path / "in").mkdir()
    deep, plain = noise("uint16", 1), noise("uint8", 1)
    Image.fromarray(deep[..., 0]).save(tmp_path / "in/a.png")
    Image.fromarray(plain[..., 0]).save(tmp_path / "in/b.png")
    Image.fromarray(deep[..., 0]).save(tmp_path / "in/c.tif")
    made = command("shardprep", "pack", "--source", "flat", "--input", tmp_path / "in", "--out", tmp_path / "data", "--pixels", "u16",
                   "--shards", 1)
    assert made.returncode == 0, made.stderr
    first, second, third = (sample.image for sample in penstock.Dataset(tmp_path / "data"))
    assert (first == deep).all() and (second == plain * numpy.uint16(257)).all() and (third == deep).all()
    assert "raw u16" in command("shardprep", "info", tmp_path / "data").stdout
    assert command("shardprep", "verify", tmp_path / "data").returncode == 0
    shown = command("shardprep", "show", tmp_path / "data", "--out", tmp_path / "sheet.png", "--grid", "1x3")
    assert "of 1 channel of u16, the first 1, each from black for its least level to white" in shown.stdout
    assert command("shardprep", "unpack", tmp_path / "data", "--out", tmp_path / "out").returncode == 0
    unpacked = sorted(pathlib.Path(tmp_path / "out").rglob("*.npy"))
    assert [path.name for path in unpacked] == ["a.png.npy", "b.png.npy", "c.tif.npy"]
    assert (numpy.load(unpacked[0]) == deep).all()


@pytest.mark.parametrize("pixels,dtype,mode", [("u16", "uint16", "I;16"), ("u16", ">u2", "I;16B"), ("u16", "int32", "I"), ("f32", "float32", "F")])
def test_images_of_pil_keep_their_levels(tmp_path, pixels, dtype, mode):
    picture = noise("float32" if mode == "F" else "uint16", 1)
    image = Image.fromarray(picture[..., 0].astype(dtype))
    assert image.mode == mode
    for number, given in enumerate((None, pixels)):
        stored = penstock.Dataset(packed(tmp_path / str(number), [image], pixels=given))[0].image
        assert stored.dtype == picture.dtype and (stored == picture).all()
    with pytest.raises(penstock.ConfigError, match=f"gives raw pixels of {pixels}; expected pixels {pixels}, not u8"):
        packed(tmp_path / "levels", [image], pixels="u8")
    with pytest.raises(penstock.ConfigError, match=f"gives raw pixels of u8; expected pixels u8, not {pixels}"):
        packed(tmp_path / "other", [noise("uint8", 3)], pixels=pixels)
    with pytest.raises(penstock.ConfigError, match="item 1: pixels of .*; expected u8, as the pixels before have"):
        packed(tmp_path / "mixed", [noise("uint8", 1), image])


def test_levels_of_pil_beyond_sixteen_bits_are_refused(tmp_path):
    for levels in (-1, 65536):
        image = Image.fromarray(numpy.full((4, 4), levels, "int32"))
        with pytest.raises(penstock.ConfigError, match=f"picture is a PIL image of mode I with levels of {levels} to {levels}; expected 0 to 65535"):
            packed(tmp_path, [image])


def test_a_second_picture_of_pil_has_its_colors(tmp_path):
    palette = Image.fromarray(noise("uint8", 1)[..., 0] % 5).convert("P")
    palette.putpalette(noise("uint8", 3).tobytes()[:768])
    images_of_pil = {"palette": (palette, palette.convert("RGB")), "bits": (palette.convert("1"), palette.convert("1").convert("L")),
                     "deep": (Image.fromarray(noise("uint16", 1)[..., 0].astype(">u2")), noise("uint16", 1)[..., 0])}
    for name, (image, expected) in images_of_pil.items():
        penstock.pack([{"image": noise("uint8", 3), "label": 0, "other": image}], tmp_path / name, fields={"other": "picture"}, shards=1)
        stored = penstock.Dataset(tmp_path / name)[0].fields["other"]
        made = numpy.load(io.BytesIO(stored)) if stored[:1] == b"\x93" else numpy.asarray(Image.open(io.BytesIO(stored)))
        assert (made == numpy.asarray(expected)).all(), name


@pytest.mark.parametrize("kind", ["uint16", "int64", "tensor", "I;16", "GIF", "TIFF"])
def test_masks_of_whole_numbers_keep_them(tmp_path, kind):
    numbers = (numpy.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) * (1 if kind == "GIF" else 50)) % (256 if kind == "GIF" else 65536)

    def mask():
        if kind in ("GIF", "TIFF"):
            file = io.BytesIO()
            Image.fromarray(numbers.astype("uint8" if kind == "GIF" else "uint16")).save(file, kind)
            return file.getvalue()
        array = numbers.astype("int64" if kind == "tensor" else "uint16" if kind == "I;16" else kind)
        return torch.from_numpy(array) if kind == "tensor" else Image.fromarray(array) if kind == "I;16" else array

    penstock.pack([{"image": noise("uint8", 3), "label": 0, "m": mask()}], tmp_path, fields={"m": "mask"}, shards=1)
    assert (numpy.asarray(Image.open(io.BytesIO(penstock.Dataset(tmp_path)[0].fields["m"]))) == numbers).all()


def test_masks_that_no_png_holds_are_refused(tmp_path):
    for mask, message in ((numpy.full((HEIGHT, WIDTH), 70000), "'m' has numbers of 70000 to 70000; expected 0 to 65535"),
                          (numpy.full((HEIGHT, WIDTH), -1), "'m' has numbers of -1 to -1; expected 0 to 65535"),
                          (numpy.zeros((HEIGHT, WIDTH), "float32"), "'m' is float32 .* expected a PNG, or whole numbers, H x W")):
        with pytest.raises(penstock.ConfigError, match=message):
            penstock.pack([{"image": noise("uint8", 3), "label": 0, "m": mask}], tmp_path, fields={"m": "mask"})


def test_files_of_sixteen_bits_are_a_choice(tmp_path):
    file = io.BytesIO()
    Image.fromarray(noise("uint16", 1)[..., 0]).save(file, "PNG")
    items = [(file.getvalue(), 0), (noise("uint8", 3), 0)]
    with pytest.raises(penstock.ConfigError, match='item 0: .*expected 8, or penstock.pack.sixteen_bit="drop".*or pixels="u16"'):
        penstock.pack(items, tmp_path, shards=1)
    done = penstock.pack(items, tmp_path, shards=1, on_corrupt="skip")
    assert done.samples == 1 and "item 0: picture of 16 bits per channel" in done.skipped[0]


@pytest.mark.parametrize("pictures,message", [
    ([numpy.zeros((4, 4), "float64")], "array of float64; expected bytes of a JPEG or PNG, a path, PIL, NumPy u8, uint16 or float32"),
    ([numpy.zeros((4, 4, 33), "uint16")], "pixels of 4 x 4 x 33; expected H x W x C with 1 to 32 channels"),
    ([numpy.zeros((4, 4), "uint16"), numpy.zeros((4, 4), "float32")], "item 1: pixels of f32; expected u16, as the pixels before have"),
    ([numpy.zeros((4, 4, 5), "uint16"), numpy.zeros((4, 4, 6), "uint16")], "6 channels of u16 and 5 channels of u16; expected all of one"),
    ([numpy.zeros((5, 5, 2), "uint8"), numpy.zeros((5, 5, 3), "uint8")], "expected all of one kind"),
    ([numpy.zeros((0, 4), "float32")], "pixels of 0 x 4 x 1"),
])
def test_what_is_no_raster_is_refused(tmp_path, pictures, message):
    with pytest.raises(penstock.ConfigError, match=message):
        packed(tmp_path, pictures)
    assert not (tmp_path / "data" / "train").exists()


def test_strides_do_not_matter_and_nan_stays(tmp_path):
    picture = noise("float32", 6)
    picture[3, 4, 5], picture[0, 0, 0] = numpy.nan, numpy.inf
    turned = picture[::-1, ::2, ::2]
    data = packed(tmp_path, [turned])
    numpy.testing.assert_array_equal(penstock.Dataset(data)[0].image, turned)
    numpy.testing.assert_array_equal(images(data)[0], turned.transpose(2, 0, 1))


@pytest.mark.parametrize("augment,message", [
    ("color-jitter(brightness=0.4)", r"transform color-jitter: pictures have 13 channels of u16; expected 1 or 3 channels of u8"),
    ("grayscale", "pictures have 13 channels of u16"),
    ("trivial-augment", "pictures have 13 channels of u16"),
    ("affine(degrees=3,fill=70000)", "fill is 70000; expected a level from 0 to 65535"),
])
def test_what_takes_three_channels_of_8_bits_says_so(tmp_path, augment, message):
    data = packed(tmp_path, [noise("uint16", 13)])
    with pytest.raises(penstock.ConfigError, match=message):
        penstock.Loader(data, augment=augment)


def test_a_sheet_of_them(tmp_path):
    sheet = penstock.show(packed(tmp_path, [noise("float32", 5, seed) for seed in range(4)]), grid=2)
    assert sheet.pixels.shape == (2 * HEIGHT + 2, 2 * WIDTH + 2, 3)
    assert sheet.pixels[:HEIGHT, :WIDTH].min() == 0 and sheet.pixels[:HEIGHT, :WIDTH].max() == 255


def test_a_device_says_what_it_does_not_take(tmp_path, monkeypatch):
    data = packed(tmp_path, [noise("uint16", 3)])
    monkeypatch.setattr("penstock._loader.find_device", lambda device: device and torch.device("cuda", 0))
    monkeypatch.setattr("penstock._loader.page_locking", lambda: (0, 0))
    monkeypatch.setattr("penstock._loader.current", lambda device: contextlib.nullcontext())
    with pytest.raises(penstock.ConfigError) as refused:
        penstock.Loader(data, device="cuda")
    assert str(refused.value) == ('loader: device is "cuda:0", to which levels of u8 are copied, and pictures have 3 channels of u16; '
                                  'expected device=None, and a copy of each batch, as in images.to("cuda")')
    with pytest.raises(penstock.ConfigError, match="^layout u8: pictures have"):
        penstock.Loader(data, layout="u8", augment="")


def test_a_second_picture_may_follow_the_plan_of_a_view(tmp_path):
    random = numpy.random.default_rng(5)
    depths = [random.integers(0, 65536, (12, 12), dtype=numpy.uint16) for _ in range(6)]
    items = [{"image": random.integers(0, 256, (12, 12, 3), dtype=numpy.uint8), "label": 0, "depth": depth} for depth in depths]
    penstock.pack(items, tmp_path / "set", fields={"depth": penstock.Field("picture")})
    loader = penstock.Loader(tmp_path / "set", batch_size=6, shuffle=False, workers=0, views=["normalize", "flip(p=1),normalize"],
                             columns="picture(field=depth),picture(field=depth,view=1)")
    batch = loader.batch(0, 0)
    own, mirrored = (numpy.asarray(batch.columns[name])[..., 0] for name in ("depth", "view1.depth"))
    for row, number in enumerate(numpy.asarray(batch.ids)):
        assert (own[row] == depths[number]).all() and (mirrored[row] == depths[number][:, ::-1]).all()


def test_rasters_and_second_pictures_come_back_from_tars(tmp_path):
    random = numpy.random.default_rng(6)
    items = [{"image": random.integers(0, 65536, (12, 8 + i, 5), dtype=numpy.uint16), "label": i % 2,
              "depth": random.random((12 + i, 8), dtype=numpy.float32)} for i in range(6)]
    penstock.pack(items, tmp_path / "set", fields={"depth": penstock.Field("picture", fill=2)}, class_names=["a", "b"])
    for step in (("export", tmp_path / "set", "--to", "webdataset", "--out", tmp_path / "tars"),
                 ("pack", "--source", "webdataset", "--input", tmp_path / "tars", "--pixels", "u16", "--out", tmp_path / "back")):
        done = command("shardprep", *step)
        assert done.returncode == 0, done.stderr
    before, after = (penstock.Dataset(tmp_path / name) for name in ("set", "back"))
    assert after.class_names == ["a", "b"] and len(after) == 6
    for old, new in zip(sorted(before, key=lambda sample: sample.id), sorted(after, key=lambda sample: sample.path), strict=True):
        assert (old.label, old.fields["depth"]) == (new.label, new.fields["depth"])
        assert (old.image == new.image).all() and old.image.dtype == numpy.uint16
