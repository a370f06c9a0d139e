"""Makes tests/golden/pictures.json: small PNG and JPEG files and the pixels that Pillow decodes them to.

    .venv/bin/python tests/golden/make_pictures.py > tests/golden/pictures.json
"""
import io
import json
import random
import struct
import sys
import zlib

from PIL import Image

WIDTH, HEIGHT = 13, 9


def smooth(mode):
    """A gradient with one coloured spot: something that a JPEG can hold."""
    picture = Image.new("RGB", (WIDTH, HEIGHT))
    picture.putdata([(x * 19, y * 28, 255 - x * y * 2) for y in range(HEIGHT) for x in range(WIDTH)])
    picture.paste((200, 30, 60), (4, 3, 8, 6))
    return picture.convert(mode)


def noise(mode):
    generator = random.Random(1)
    size = WIDTH * HEIGHT * len(Image.new(mode, (1, 1)).getbands())
    return Image.frombytes(mode, (WIDTH, HEIGHT), bytes(generator.randrange(256) for _ in range(size)))


def saved(picture, format, **options):
    out = io.BytesIO()
    picture.save(out, format, **options)
    return out.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(color_type, bit_depth, rows_of_passes, interlaced):
    """A PNG from unfiltered rows: for the kinds that Pillow does not write."""
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, bit_depth, color_type, 0, 0, int(interlaced))
    data = b"".join(b"\0" + row for row in rows_of_passes)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


def interlaced_png():
    pixels = noise("RGB").load()
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = [b"".join(bytes(pixels[x, y]) for x in range(x0, WIDTH, dx))
            for x0, y0, dx, dy in passes for y in range(y0, HEIGHT, dy)]
    return png(2, 8, rows, True)


def grey16_png():
    """16-bit grey, and the high bytes, which is what Penstock keeps (Pillow clips instead)."""
    high = noise("L").tobytes()
    rows = [b"".join(bytes([level, 255 - level]) for level in high[y * WIDTH:(y + 1) * WIDTH]) for y in range(HEIGHT)]
    return png(0, 16, rows, False), high


def entry(name, file, mode, pixels=None):
    pixels = pixels or Image.open(io.BytesIO(file)).convert(mode).tobytes()
    return {"name": name, "file": file.hex(), "height": HEIGHT, "width": WIDTH, "channels": len(mode), "pixels": pixels.hex()}


def main():
    palette = noise("RGB").quantize(16)
    grey_alpha, rgba = noise("LA"), noise("RGBA")
    grey16, high_bytes = grey16_png()
    pictures = [
        entry("png grey", saved(noise("L"), "PNG"), "L"),
        entry("png bits", saved(noise("L").convert("1"), "PNG"), "L"),
        entry("png grey alpha", saved(grey_alpha, "PNG"), "L", grey_alpha.getchannel(0).tobytes()),
        entry("png grey 16", grey16, "L", high_bytes),
        entry("png rgb", saved(noise("RGB"), "PNG"), "RGB"),
        entry("png rgba", saved(rgba, "PNG"), "RGB", Image.merge("RGB", rgba.split()[:3]).tobytes()),
        entry("png palette", saved(palette, "PNG"), "RGB"),
        entry("png interlaced", interlaced_png(), "RGB", noise("RGB").tobytes()),
        entry("jpeg grey", saved(smooth("L"), "JPEG", quality=90), "L"),
        entry("jpeg 444", saved(smooth("RGB"), "JPEG", quality=90, subsampling="4:4:4"), "RGB"),
        entry("jpeg 420", saved(smooth("RGB"), "JPEG", quality=90, subsampling="4:2:0"), "RGB"),
        entry("jpeg progressive", saved(smooth("RGB"), "JPEG", quality=90, progressive=True), "RGB"),
        entry("jpeg cmyk", saved(smooth("CMYK"), "JPEG", quality=95), "RGB"),
    ]
    json.dump(pictures, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
