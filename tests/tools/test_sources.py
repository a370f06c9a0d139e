"""shardprep pack from pictures of other formats, which Pillow has written."""
import struct

import numpy as np
import pytest
from PIL import Image, ImageOps

from shardprep_tool import manifest_of, run
from source_tool import RNG, pack, picture, samples_of, save, unpacked


def test_pictures_of_other_formats_keep_their_pixels(tmp_path):
    image, see_through = picture(), picture(mode="RGBA")
    wanted = {
        "a.webp": (image, {"lossless": True}), "b.tiff": (image, {}), "c.tif": (image, {"compression": "tiff_lzw"}),
        "d.bmp": (image, {}), "e.gif": (image.convert("P"), {}), "f.tif": (image.convert("L"), {}),
        "g.bmp": (image.convert("P"), {}), "h.tif": (image.convert("1"), {"compression": "group4"}),
        "i.tif": (image.convert("P"), {}), "j.tif": (see_through, {"compression": "tiff_adobe_deflate"}), "o.webp": (see_through, {"lossless": True, "exact": True}),
        "p.bmp": (see_through, {}), "q.tif": (image.convert("YCbCr"), {"compression": "jpeg"}),
        "k.bmp": (image.convert("L"), {}), "l.webp": (image, {"quality": 60}),
    }
    for name, (source, options) in wanted.items():
        save(tmp_path / "in/deep" / name, source, **options)
    frames = [picture(), picture()]
    frames[0].convert("P").save(tmp_path / "in/m.gif", save_all=True, append_images=[frames[1].convert("P")], interlace=1)
    frames[0].save(tmp_path / "in/n.webp", save_all=True, append_images=frames[1:], lossless=True)
    (tmp_path / "in/notes.txt").write_text("no picture")
    done = pack("flat", tmp_path / "in", tmp_path / "out")
    assert "17 samples of 0 classes" in done.stdout and "1 file ignored" in done.stdout
    back = unpacked(tmp_path / "out", tmp_path / "back")
    for path in sorted((tmp_path / "in").rglob("*.*")):
        if path.suffix == ".txt":
            continue
        made = Image.open(back / path.relative_to(tmp_path / "in").with_suffix(path.suffix + ".png"))
        expected = Image.open(path)
        grey = expected.mode in ("L", "1") and path.suffix == ".tif"
        assert made.mode == ("L" if grey else "RGB"), path
        assert np.array_equal(made, expected.convert(made.mode)), path
    assert all(sample["label"] == -1 for sample in samples_of(tmp_path / "out/train").values())


@pytest.mark.parametrize("suffix", ["tif", "webp"])
def test_orientation_comes_along(tmp_path, suffix):
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[274] = orientation
        options = {"lossless": True} if suffix == "webp" else {}
        save(tmp_path / f"in/{orientation}.{suffix}", exif=exif, **options)
    pack("flat", tmp_path / "in", tmp_path / "out")
    assert "7 turned" in run("info", tmp_path / "out").stdout
    back = unpacked(tmp_path / "out", tmp_path / "back")
    for orientation in range(1, 9):
        made = ImageOps.exif_transpose(Image.open(back / f"{orientation}.{suffix}.png"))
        expected = ImageOps.exif_transpose(Image.open(tmp_path / f"in/{orientation}.{suffix}"))
        assert np.array_equal(made, expected), orientation


def test_sixteen_bits_are_a_choice(tmp_path):
    deep = RNG.integers(0, 65535, (9, 13), dtype=np.uint16)
    save(tmp_path / "in/a.png", Image.fromarray(deep))
    save(tmp_path / "in/b.tif", Image.fromarray(deep))
    refused = pack("flat", tmp_path / "in", tmp_path / "out", code=2)
    assert "16 bits per channel; expected 8, or shardprep pack --sixteen-bit drop" in refused.stderr
    assert not (tmp_path / "out/train").exists()
    pack("flat", tmp_path / "in", tmp_path / "drop", "--sixteen-bit", "drop")
    assert manifest_of(tmp_path / "drop/train")["storage"] == "encode=auto,sixteen-bit=drop"
    back = unpacked(tmp_path / "drop", tmp_path / "dropped")
    for name in ("a.png", "b.tif.png"):
        assert np.array_equal(Image.open(back / name), deep >> 8)
    pack("flat", tmp_path / "in", tmp_path / "keep", "--sixteen-bit", "keep")
    back = unpacked(tmp_path / "keep", tmp_path / "kept")
    for name in ("a.png", "b.tif.png"):
        assert np.array_equal(np.asarray(Image.open(back / name)).astype(np.uint16), deep)


@pytest.mark.parametrize("flags", [["--encode", "raw"], ["--encode", "jpeg"], ["--raw-share", "1"], ["--resize", "5"]])
def test_sixteen_bits_that_would_be_lost_are_refused(tmp_path, flags):
    save(tmp_path / "in/a.png", Image.fromarray(RNG.integers(0, 39900, (9, 13), dtype=np.uint16)))
    done = pack("flat", tmp_path / "in", tmp_path / "out", "--sixteen-bit", "keep", *flags, code=2)
    assert "in/a.png: picture of 16 bits per channel with sixteen-bit keep" in done.stderr and "--pixels u16" in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "out/train").exists()


def tiff_of_levels(height, width, samples, stated, after=b"metadata" * 10):
    """An uncompressed TIFF of one strip that says that the strip has `stated` bytes. The levels are 7."""
    entries = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, samples),
               (278, 4, height), (279, 4, stated)]
    whole = height * width * samples
    pixels = bytes([7]) * (stated if 0 < stated < whole else whole)
    pixels += after
    pixels += bytes(-len(pixels) % 2)
    # With several samples the bits of each would be a list; one value stands for all in libtiff.
    return (b"II*\0" + struct.pack("<I", 8 + len(pixels)) + pixels + struct.pack("<H", len(entries)) +
            b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries) + bytes(4))


def test_a_strip_of_too_few_bytes_is_cut(tmp_path):
    (tmp_path / "in").mkdir()
    for stated in (60, 0, 1000000):  # 0, and more than the file has: some programs write that, of a whole picture
        (tmp_path / "in/a.tif").write_bytes(tiff_of_levels(6, 10, 1, stated))
        pack("flat", tmp_path / "in", tmp_path / f"out{stated}")
        assert np.all(np.asarray(Image.open(unpacked(tmp_path / f"out{stated}", tmp_path / f"back{stated}") / "a.tif.png")) == 7)
    (tmp_path / "in/a.tif").write_bytes(tiff_of_levels(6, 10, 1, 20))
    done = pack("flat", tmp_path / "in", tmp_path / "cut", code=4)
    assert "a.tif: TIFF: cut short" in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("shards", [1, 2])
def test_a_picture_of_another_kind_is_named(tmp_path, shards):
    save(tmp_path / "in/b.png", picture(6, 10))
    (tmp_path / "in/a.tif").write_bytes(tiff_of_levels(6, 10, 7, 420))
    done = pack("flat", tmp_path / "in", tmp_path / "out", shards=shards, code=2)
    assert "in/b.png: pictures have 3 channels" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def tiff(width, height):
    """A little TIFF whose header says that it is large."""
    entries = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1),
               (278, 4, height), (279, 4, 16)]
    return (b"II*\0" + struct.pack("<I", 24) + bytes(16) + struct.pack("<H", len(entries)) +
            b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries) + bytes(4))


@pytest.mark.parametrize("name, data, message", [
    ("large.tif", tiff(40000, 25000), "picture of 25000 x 40000 pixels; expected sides"),
    ("lies.tif", tiff(4000, 4000), "TIFF: "),
    ("cut.bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 100, 0, 54, 40, 9, 9, 1, 24, 0, 0, 0, 0, 0, 0), "BMP: 54 bytes for a picture that needs"),
    ("large.bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 100, 0, 54, 40, 1 << 30, 9, 1, 24, 0, 0, 0, 0, 0, 0), "picture of 9 x 1073741824"),
    ("cut.gif", b"GIF89a\xff\xff\xff\xff\0\0\0,", "GIF: "),
    ("cut.webp", b"RIFF\x10\0\0\0WEBPVP8 \x04\0\0\0abcd", "WebP: "),
])
def test_broken_pictures_are_refused_in_one_line(tmp_path, name, data, message):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(data)
    done = pack("flat", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out/train").exists()


@pytest.mark.parametrize("suffix", ["tif", "gif", "bmp", "webp"])
def test_pictures_cut_short_are_refused(tmp_path, suffix):
    whole = save(tmp_path / f"whole.{suffix}").read_bytes()
    (tmp_path / "in").mkdir()
    (tmp_path / f"in/cut.{suffix}").write_bytes(whole[:len(whole) * 2 // 3])
    done = pack("flat", tmp_path / "in", tmp_path / "out", code=4)
    assert f"cut.{suffix}: " in done.stderr and done.stderr.count("\n") == 1, done.stderr
