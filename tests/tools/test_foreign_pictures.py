"""shardprep pack from BMP, PNM, TIFF, WebP and JPEG files in forms that programs seldom write, against Pillow."""
import io

import numpy as np
import pytest
from PIL import Image

from foreign_files import RNG, bmp, bmps, deep_pnms, pnms, tiff
from shardprep_tool import manifest_of, run
from source_tool import pack, picture, samples_of, save, unpacked, write_csv


def put_all(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def pillow(data, mode):
    return np.asarray(Image.open(io.BytesIO(data)).convert(mode))


@pytest.mark.parametrize("make, mode", [(bmps, "RGB"), (pnms, None)])
def test_pixels_are_those_of_pillow(tmp_path, make, mode):
    files = make()
    pack("flat", put_all(tmp_path / "in", files), tmp_path / "out")
    back = unpacked(tmp_path / "out", tmp_path / "back")
    for name, data in files.items():
        made = Image.open(back / f"{name}.png")
        expected = mode or ("RGB" if name.endswith("ppm") else "L")
        assert made.mode == expected and np.array_equal(made, pillow(data, expected)), name


def test_levels_of_nine_to_sixteen_bits_are_those_of_the_file(tmp_path):
    """Pillow reads grey of 12 and 16 bits; its 16 bits in planes are wrong where they are not compressed."""
    levels = {f"{bits}.tif": (RNG.integers(0, 1 << bits, (5, 7), dtype=np.uint16), bits, 1, 1) for bits in (9, 10, 12, 14, 15)}
    levels["white.tif"] = (levels["12.tif"][0], 12, 0, 1)
    levels |= {f"planes-{samples}.tif": (RNG.integers(0, 65536, (5, 7, samples), dtype=np.uint16), 16, 2, 2) for samples in (3, 4)}
    files = {name: tiff(*entry) for name, entry in levels.items()} | deep_pnms()
    put_all(tmp_path / "in", files)
    refused = pack("flat", tmp_path / "in", tmp_path / "none", code=2)
    assert "16 bits per channel; expected 8" in refused.stderr
    for name, data in files.items():
        put_all(tmp_path / name, {name: data})
        pack("flat", tmp_path / name, tmp_path / f"{name}-out", "--pixels", "u16")
        made = np.load(unpacked(tmp_path / f"{name}-out", tmp_path / f"{name}-back") / f"{name}.npy").squeeze()
        if name in deep_pnms() or name == "12.tif":
            assert np.array_equal(made, np.asarray(Image.open(io.BytesIO(data)))), name
        if name in levels:
            expected = levels[name][0] if levels[name][0].ndim == 2 else levels[name][0][:, :, :3]
            assert np.array_equal(made, 4095 - expected if name == "white.tif" else expected), name


@pytest.mark.parametrize("channels", [3, 4])
def test_planes_of_eight_bits_are_those_of_pillow(tmp_path, channels):
    data = tiff(RNG.integers(0, 256, (5, 7, channels), dtype=np.uint8), 8, 2, 2)
    pack("flat", put_all(tmp_path / "in", {"a.tif": data}), tmp_path / "out")
    made = Image.open(unpacked(tmp_path / "out", tmp_path / "back") / "a.tif.png")
    assert np.array_equal(made, pillow(data, "RGB"))


def test_the_first_frame_of_webp_lies_on_its_canvas(tmp_path):
    """A file with one frame of 8 x 6 pixels at 10, 4 of a canvas of 32 x 20."""
    file = io.BytesIO()
    picture(6, 8).save(file, "WEBP", lossless=True)
    image = file.getvalue()[12:]

    def chunk(name, data):
        return name + len(data).to_bytes(4, "little") + data + bytes(len(data) % 2)

    def three(number):
        return number.to_bytes(3, "little")

    body = (b"WEBP" + chunk(b"VP8X", b"\x02\0\0\0" + three(31) + three(19)) + chunk(b"ANIM", bytes(6)) +
            chunk(b"ANMF", three(10 // 2) + three(4 // 2) + three(7) + three(5) + three(100) + b"\0" + image))
    data = b"RIFF" + len(body).to_bytes(4, "little") + body
    pack("flat", put_all(tmp_path / "in", {"a.webp": data}), tmp_path / "out")
    made = np.asarray(Image.open(unpacked(tmp_path / "out", tmp_path / "back") / "a.webp.png"))
    assert made.shape == (20, 32, 3) and made.any() and np.array_equal(made, pillow(data, "RGB"))


def jpeg_ends(data):
    """name -> file, of a JPEG whose pixels are whole: no end marker, half of one, and a byte 0 before it."""
    return {"without": data[:-2], "half": data[:-1], "zero": data[:-2] + b"\0" + data[-2:]}


@pytest.mark.parametrize("mode, options", [("RGB", {}), ("RGB", {"progressive": True}), ("L", {"restart_marker_rows": 1}), ("CMYK", {})],
                         ids=["plain", "progressive", "restarts", "cmyk"])
def test_a_jpeg_with_whole_pixels_has_its_end_mended(tmp_path, mode, options):
    file = io.BytesIO()
    picture(40, 56).resize((112, 80)).convert(mode).save(file, "JPEG", quality=90, **options)
    ends = jpeg_ends(file.getvalue())
    put_all(tmp_path / "in", {f"{name}.jpg": data for name, data in ends.items()})
    for encode in ("auto", "keep", "raw"):
        pack("flat", tmp_path / "in", tmp_path / encode, "--encode", encode)
        mended = manifest_of(tmp_path / encode / "train")["transcoded_count"]
        # libjpeg, which alone decodes CMYK, may have taken the byte 0 for bits of the scan, and says nothing of it.
        assert mended in ({0} if encode == "raw" else {2, 3} if mode == "CMYK" else {3})
        back = unpacked(tmp_path / encode, tmp_path / f"{encode}-back")
        for name in ends:
            made = next(back.glob(f"{name}.*"))
            assert np.array_equal(Image.open(made).convert("RGB"), pillow(file.getvalue(), "RGB")), (encode, name)
            assert encode == "raw" or made.read_bytes().endswith(b"\xff\xd9")
    run("verify", tmp_path / "auto")
    refused = pack("flat", tmp_path / "in", tmp_path / "off", "--transcode", "off", code=4)
    assert refused.stderr.count("\n") == 1 and "half.jpg: JPEG: " in refused.stderr


@pytest.mark.parametrize("damage", [lambda data: data[:-12], lambda data: data[:-2] + b"\0\0" + data[-2:],
                                    lambda data: data[:-2] + b"\x55" + data[-2:], lambda data: data[:-12] + b"\xff\xd9"])
def test_a_jpeg_whose_pixels_may_be_damaged_is_refused(tmp_path, damage):
    whole = save(tmp_path / "whole.jpg", picture(40, 56), quality=90).read_bytes()
    done = pack("flat", put_all(tmp_path / "in", {"a.jpg": damage(whole)}), tmp_path / "out", code=4)
    assert "in/a.jpg: JPEG: " in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("name, data, format", [
    ("a.jpg", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(50), "HEIC"), ("a.heic.png", b"\0\0\0\x1cftypmif1" + bytes(9), "HEIC"),
    ("a.jpeg", b"\0\0\0\x20ftypavif" + bytes(50), "AVIF"), ("a.png", b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
    ("a.tif", b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"), ("b.jpg", b"8BPS\0\1", "PSD")])
def test_a_format_that_is_not_read_is_named(tmp_path, name, data, format):
    done = pack("flat", put_all(tmp_path / "in", {name: data}), tmp_path / "out", code=4)
    assert f"in/{name}: is {format}, which is not read; expected a JPEG or a PNG" in done.stderr


def test_masks_of_other_formats_keep_their_numbers(tmp_path):
    numbers = RNG.integers(0, 7, (20, 31), dtype=np.uint8)
    palette = Image.fromarray(numbers, "P")
    palette.putpalette(RNG.integers(0, 256, 768, dtype=np.uint8).tobytes())
    rows = np.pad(numbers, ((0, 0), (0, 1)))
    masks = {"a.gif": (palette, None), "b.bmp": (palette, None), "c.tif": (palette, None), "d.tif": (Image.fromarray(numbers), None),
             "e.pgm": (Image.fromarray(numbers), None), "f.png": (palette, None), "g.tif": (Image.fromarray(numbers * np.uint16(999)), None),
             "h.bmp": None, "i.pgm": None}
    by_hand = {"h.bmp": bmp(rows[::-1].tobytes(), 31, 20, 8, palette=[(0, 0, 0)] * 7, colors=7), "i.pgm": b"P5 31 20 6\n" + numbers.tobytes()}
    for name, mask in masks.items():
        save(tmp_path / "in" / f"{name[0]}.png")
        if mask:
            save(tmp_path / "in/masks" / name, mask[0])
        else:
            put_all(tmp_path / "in/masks", {name: by_hand[name]})
    write_csv(tmp_path / "in/train.csv", [["path", "mask"], *([f"{name[0]}.png", f"masks/{name}"] for name in masks)])
    pack("csv(mask=mask)", tmp_path / "in", tmp_path / "out")
    for (name, _), sample in zip(masks.items(), samples_of(tmp_path / "out/train").values()):
        made = np.asarray(Image.open(io.BytesIO(sample["mask"])))
        assert np.array_equal(made, numbers * np.uint16(999) if name == "g.tif" else numbers), name


@pytest.mark.parametrize("name", ["a.bmp", "a.tif", "a.ppm", "a.webp"])
def test_masks_of_colours_are_refused(tmp_path, name):
    save(tmp_path / "in/p.png")
    save(tmp_path / "in/masks" / name)
    write_csv(tmp_path / "in/train.csv", [["path", "mask"], ["p.png", f"masks/{name}"]])
    done = pack("csv(mask=mask)", tmp_path / "in", tmp_path / "out", code=4)
    assert done.stderr.count("\n") == 1 and f"masks/{name}: " in done.stderr
