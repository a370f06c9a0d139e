"""Pictures are packed as Pillow's exif_transpose() turns them, wherever EXIF and XMP say how."""
import io

import numpy as np
from PIL import Image, ImageOps, PngImagePlugin

from shardprep_tool import pack, shards_of

XMP = '<x:xmpmeta><rdf:Description tiff:Orientation="{}"/></x:xmpmeta>'


def _pixels():
    return Image.fromarray(np.random.default_rng(7).integers(0, 256, (12, 20, 3), np.uint8))


def _exif(orientation=None, count=1):
    exif = Image.Exif()
    exif[0x010F] = "maker"
    if orientation is not None:
        exif[0x0112] = orientation
    data = bytearray(exif.tobytes())
    place = data.find(b"\x01\x12\x00\x03")  # Pillow writes the numbers of a JPEG's EXIF with the highest byte first
    if orientation is not None:
        data[place + 4:place + 8] = count.to_bytes(4, "big")
    return bytes(data)


def _jpeg(**options):
    file = io.BytesIO()
    _pixels().save(file, "JPEG", **options)
    return file.getvalue()


def _png(texts=(), exif=None):
    info = PngImagePlugin.PngInfo()
    for add, key, value in texts:
        getattr(info, add)(key, value, **({"zip": True} if add == "add_text" else {}))
    file = io.BytesIO()
    _pixels().save(file, "PNG", pnginfo=info, **({} if exif is None else {"exif": exif}))
    return file.getvalue()


def _late(png):
    """The same PNG with the chunks between IHDR and IDAT after the pixels, as exiftool writes XMP."""
    begin, pixels, end = 33, png.index(b"IDAT") - 4, png.index(b"IEND") - 4
    return png[:begin] + png[pixels:end] + png[begin:pixels] + png[end:]


def _profile(exif):
    return f"\nexif\n{len(exif):8}\n{exif.hex()}\n"


def _files():
    files = {}
    for orientation in (1, 3, 6, 8):
        xmp, exif = XMP.format(orientation), _exif(orientation)
        files |= {f"exif{orientation}.jpg": _jpeg(exif=exif), f"xmp{orientation}.jpg": _jpeg(xmp=xmp.encode()),
                  f"xmp{orientation}.png": _png([("add_itxt", "XML:com.adobe.xmp", xmp)]),
                  f"late{orientation}.png": _late(_png([("add_itxt", "XML:com.adobe.xmp", xmp)])),
                  f"profile{orientation}.png": _png([("add_text", "Raw profile type exif", _profile(exif))]),
                  f"chunk{orientation}.png": _png(exif=exif)}
    xmp = XMP.format(5).encode()
    files |= {"exif-first.jpg": _jpeg(exif=_exif(8), xmp=xmp), "exif-mute.jpg": _jpeg(exif=_exif(), xmp=xmp),
              "count0.jpg": _jpeg(exif=_exif(8, count=0), xmp=xmp), "value9.jpg": _jpeg(exif=_exif(9), xmp=xmp),
              "chunk-first.png": _png([("add_text", "Raw profile type exif", _profile(_exif(6)))], exif=_exif(8)),
              "chunk-mute.png": _png([("add_text", "Raw profile type exif", _profile(_exif(6)))], exif=_exif())}
    return files


def test_every_orientation_turns_as_in_pillow(tmp_path):
    files = _files()
    (tmp_path / "in/c").mkdir(parents=True)
    for name, data in files.items():
        (tmp_path / "in/c" / name).write_bytes(data)
    turned = {name: np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))) for name, data in files.items()}
    assert len({pixels.tobytes() for pixels in turned.values()}) > 6  # Pillow turns, too
    pack(tmp_path / "out", "--input", tmp_path / "in", "--encode", "raw", source="image-folder")
    found = {}
    for shard in shards_of(tmp_path / "out/train"):
        paths = [shard["path"][b:e].tobytes().decode() for b, e in zip(shard["path_offset"], shard["path_offset"][1:])]
        for row, (begin, end) in enumerate(zip(shard["offset"], shard["offset"][1:])):
            name = paths[row].removeprefix("c/")
            name = name if name in files else name.removesuffix(".png")
            found[name] = shard["bytes"][begin:end].reshape(shard["extent"][row])
    assert found.keys() == files.keys()
    for name, pixels in turned.items():
        np.testing.assert_array_equal(found[name], pixels, err_msg=name)
