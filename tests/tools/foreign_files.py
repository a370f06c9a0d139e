"""Files of BMP, PNM and TIFF in the forms that Pillow reads but does not write."""
import struct

import numpy as np

RNG = np.random.default_rng(45)


def _header(size, width, height, bits, compression, pixel_bytes, colors, masks):
    if size == 12:
        return struct.pack("<IHHHH", 12, width, height, 1, bits)
    info = struct.pack("<IiiHHIIiiII", size, width, height, 1, bits, compression, pixel_bytes, 0, 0, colors, 0)
    return info + (struct.pack(f"<{len(masks)}I", *masks) if masks else b"").ljust(max(size - 40, 0), b"\0")


def bmp(pixels, width, height, bits, size=40, compression=0, palette=(), colors=0, masks=(), gap=0, begin=None):
    """`pixels` are the bytes as the file has them; a height below 0 means that the first row is at the top. `gap`: bytes before them."""
    entries = b"".join(bytes(color) if size == 12 else bytes((*color, 0)) for color in palette)
    head = _header(size, width, height, bits, compression, len(pixels), colors, masks) + entries + b"\xa5" * gap
    return b"BM" + struct.pack("<IHHI", 14 + len(head) + len(pixels), 0, 0, 14 + len(head) if begin is None else begin) + head + pixels


def _rows(width, height, bits, most=None):
    """Random rows with their padding."""
    numbers = RNG.integers(0, most or 1 << min(bits, 8), (height, width if bits <= 8 else width * bits // 8), dtype=np.uint8)
    if bits < 8:
        planes = (numbers[:, :, None] >> np.arange(bits - 1, -1, -1, dtype=np.uint8)) & 1
        numbers = np.packbits(planes.reshape(height, -1), axis=1)
    return b"".join(row.tobytes() + bytes(-len(row.tobytes()) % 4) for row in numbers)


def _palette(count):
    return [tuple(int(level) for level in color) for color in RNG.integers(0, 256, (count, 3))]


def _runs(width, height, bits):
    """Random rows in run lengths of all kinds, which fill each row."""
    coded = b""
    for _ in range(height):
        x = 0
        while x < width:
            count = min(int(RNG.integers(1, 12)), width - x)
            if count >= 3 and RNG.integers(2):
                numbers = RNG.integers(0, 256, count if bits == 8 else (count + 1) // 2, dtype=np.uint8).tobytes()
                coded += bytes((0, count)) + numbers + bytes(len(numbers) % 2)
            elif RNG.integers(6) == 0:
                coded += bytes((0, 2, count, 0))
            else:
                coded += bytes((count, int(RNG.integers(0, 256))))
            x += count
        coded += b"\0\0"
    return coded + b"\0\1"


def bmps():
    """name -> file: every one is read by Pillow."""
    files = {}
    for bits in (1, 4, 8):
        for width in (1, 7, 8, 13):
            all_colors = _palette(1 << bits)
            rows = _rows(width, 5, bits)
            files[f"core-{bits}-{width}"] = bmp(rows, width, 5, bits, size=12, palette=all_colors)
            for size in (40, 52, 56, 64, 108, 124):
                files[f"v{size}-{bits}-{width}"] = bmp(rows, width, 5, bits, size=size, palette=all_colors)
            files[f"down-{bits}-{width}"] = bmp(rows, width, -5, bits, palette=all_colors)
            files[f"gap-{bits}-{width}"] = bmp(rows, width, 5, bits, palette=all_colors, gap=width)
            files[f"begin0-{bits}-{width}"] = bmp(rows, width, 5, bits, palette=all_colors, begin=0)
            files[f"at-palette-{bits}-{width}"] = bmp(rows, width, 5, bits, palette=all_colors, begin=54)
            padding = -(-width * bits // 8) % -4
            files[f"unpadded-{bits}-{width}"] = bmp(rows, width, 5, bits, palette=all_colors)[:padding or None]
        few = _palette((1 << bits) // 2 + 1)
        files[f"few-{bits}"] = bmp(_rows(9, 4, bits, len(few)), 9, 4, bits, palette=few, colors=len(few))
        many = _palette(min((1 << bits) + 40, 256))
        files[f"many-{bits}"] = bmp(_rows(9, 4, bits), 9, 4, bits, palette=many, colors=len(many))
    for bits in (16, 24, 32):
        for width in (1, 5, 6):
            rows = _rows(width, 4, bits)
            files[f"core-{bits}-{width}"] = bmp(rows, width, 4, bits, size=12)
            for size in (40, 56, 64, 108, 124):
                files[f"v{size}-{bits}-{width}"] = bmp(rows, width, 4, bits, size=size)
            files[f"down-{bits}-{width}"] = bmp(rows, width, -4, bits, gap=3)
            files[f"palette-{bits}-{width}"] = bmp(rows, width, 4, bits, palette=_palette(4), colors=4)
    fields = {16: [(0xF800, 0x7E0, 0x1F), (0x7C00, 0x3E0, 0x1F)], 24: [(0xFF0000, 0xFF00, 0xFF)],
              32: [(0xFF0000, 0xFF00, 0xFF, 0), (0xFF000000, 0xFF0000, 0xFF00, 0), (0xFF000000, 0xFF00, 0xFF, 0),
                   (0xFF000000, 0xFF0000, 0xFF00, 0xFF), (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
                   (0xFF0000, 0xFF00, 0xFF, 0xFF000000), (0xFF000000, 0xFF00, 0xFF, 0xFF0000), (0, 0, 0, 0)]}
    for bits, choices in fields.items():
        for number, masks in enumerate(choices):
            rows = _rows(7, 4, bits)
            for size in (52, 56, 108, 124):
                if size != 52 or len(masks) == 3 or masks[3] == 0:
                    files[f"fields-{bits}-{number}-{size}"] = bmp(rows, 7, 4, bits, size=size, compression=3, masks=masks[:(size - 40) // 4])
            if len(masks) == 3 or masks[3] == 0:
                files[f"fields-{bits}-{number}-40"] = bmp(rows, 7, -4, bits, compression=3, masks=masks[:3])
    for bits, compression in ((8, 1), (4, 2)):
        for width in (1, 2, 9, 300):
            palette = _palette(1 << bits)
            files[f"runs-{bits}-{width}"] = bmp(_runs(width, 6, bits), width, 6, bits, compression=compression, palette=palette)
            files[f"runs-down-{bits}-{width}"] = bmp(_runs(width, 6, bits), width, -6, bits, compression=compression, palette=palette)
        files[f"runs-long-{bits}"] = bmp(b"\x0c\x12\0\0\x0c\x21\0\1", 9, 2, bits, compression=compression, palette=_palette(1 << bits))
    return {f"{name}.bmp": data for name, data in files.items()}


def pnms():
    """name -> file: bits, grey levels and colours of 8 bits, plain and as bytes."""
    grey, colors = (RNG.integers(0, 256, shape, dtype=np.uint8) for shape in ((4, 7), (4, 7, 3)))
    bits = grey & 1

    def plain(levels, separator=" "):
        return "\n".join(separator.join(map(str, row)) for row in levels.reshape(len(levels), -1).tolist()).encode()

    return {
        "1.pbm": b"P1 7 4\n" + plain(bits, ""), "1-spaces.pbm": b"P1\n# a comment\n7\t4 # another\n" + plain(bits) + b"\n",
        "4.pbm": b"P4\n7 4\n" + np.packbits(bits, axis=1).tobytes(), "4-wide.pbm": b"P4 13 2 \xff\x80\x12\x38",
        "2.pgm": b"P2\n7 4\n255\n" + plain(grey), "5.pgm": b"P5 7 4 255\n" + grey.tobytes(), "5-three.pgm": b"P5 #c\n7 4 3\n" + (grey % 4).tobytes(),
        "2-comment.pnm": b"P2 7 4 100\n" + plain(grey % 101).replace(b"\n", b" # row\n"),
        "5-above.pgm": b"P5 7 4 199\n" + grey.tobytes(), "2-ties.pgm": b"P2 11 1 10 " + b" ".join(b"%d" % i for i in range(11)),
        "3.ppm": b"P3\r\n7 4 255\r\n" + plain(colors), "6.ppm": b"P6\n7 4\n255\n" + colors.tobytes(), "6-ten.ppm": b"P6 7 4 10 " + (colors % 11).tobytes(),
        "6-two.ppm": b"P6 7 4 255 " + colors.tobytes() + b"P6 7 4 255 " + colors.tobytes(),
    }


def deep_pnms():
    """name -> file of 16 bits per level, grey."""
    levels = RNG.integers(0, 65536, (3, 5), dtype=np.uint16)
    return {"5.pgm": b"P5 5 3 65535\n" + levels.astype(">u2").tobytes(), "5-few.pgm": b"P5 5 3 4095\n" + (levels % 4096).astype(">u2").tobytes(),
            "2.pgm": b"P2 5 3 1000 " + b" ".join(b"%d" % level for level in (levels % 1001).ravel())}


def tiff(levels, bits, photometric, planar=1):
    """An uncompressed TIFF; `levels` are H x W, or H x W x C."""
    height, width = levels.shape[:2]
    samples = levels.shape[2] if levels.ndim == 3 else 1
    planes = [levels[:, :, plane] for plane in range(samples)] if planar == 2 else [levels.reshape(height, -1)]
    strips = [_packed(plane, bits) for plane in planes]
    entries = [(256, [width]), (257, [height]), (258, [bits] * samples), (259, [1]), (262, [photometric]), (273, None), (277, [samples]),
               (278, [height]), (279, [len(strip) for strip in strips]), (284, [planar])]
    at = 8 + 2 + 12 * len(entries) + 4
    places = 2 * sum(len(values) for values in ([bits] * samples, strips, strips) if len(values) > 2)
    offsets = [at + places + sum(map(len, strips[:i])) for i in range(len(strips))]
    head, extra = struct.pack("<H", len(entries)), b""
    for tag, values in entries:
        data = struct.pack(f"<{len(values or offsets)}H", *(values or offsets))
        if len(data) > 4:
            head += struct.pack("<HHII", tag, 3, len(data) // 2, at + len(extra))
            extra += data
        else:
            head += struct.pack("<HHI", tag, 3, len(data) // 2) + data.ljust(4, b"\0")
    return b"II*\0\x08\0\0\0" + head + bytes(4) + extra + b"".join(strips)


def _packed(levels, bits):
    if bits in (8, 16):
        return levels.astype("<u2" if bits == 16 else "u1").tobytes()
    planes = (levels[:, :, None].astype(np.uint16) >> np.arange(bits - 1, -1, -1, dtype=np.uint16)) & 1
    return np.packbits(planes.reshape(len(levels), -1).astype(np.uint8), axis=1).tobytes()
