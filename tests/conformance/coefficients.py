"""Encoding 3, read as docs/FORMAT.md says and by nothing of Penstock, and held against the coefficients of jpeglib."""
import dataclasses
import math

import numpy as np

ENTRIES, WIDTHS_BYTES = 254, 254 * 32
EXCEPTION_ENTRY = 255


def entry_widths(codebook):
    """u8 [2, 256, 64]: the widths of each class and entry; entry 254 has 12 for the DC and 7 for all others."""
    widths = np.zeros((2, 256, 64), np.uint8)
    for number in range(2):
        packed = codebook[number * WIDTHS_BYTES:(number + 1) * WIDTHS_BYTES].reshape(ENTRIES, 32)
        widths[number, :ENTRIES, 0::2], widths[number, :ENTRIES, 1::2] = packed & 15, packed >> 4
    widths[:, 254] = [12] + [7] * 63
    return widths


@dataclasses.dataclass
class Frame:
    """What the frame and scan of a JPEG's head say: its size in pixels, and of each component its sampling factors."""
    height: int
    width: int
    sampling: list  # (horizontal, vertical)

    def __post_init__(self):
        if len(self.sampling) == 1:
            self.sampling = [(1, 1)]  # an MCU of one component is one block
        across, down = (max(factors) for factors in zip(*self.sampling))
        self.mcu_columns = math.ceil(self.width / (8 * across))
        self.mcu_rows = math.ceil(self.height / (8 * down))


def frame_of(head):
    at = 2
    while at < len(head):
        marker, length = head[at + 1], int.from_bytes(head[at + 2:at + 4], "big")
        if marker in (0xC0, 0xC1):
            frame = head[at + 4:at + 2 + length]
            sampling = [(frame[7 + 3 * i] >> 4, frame[7 + 3 * i] & 15) for i in range(frame[5])]
            return Frame(int.from_bytes(frame[1:3], "big"), int.from_bytes(frame[3:5], "big"), sampling)
        at += 2 + length
    raise ValueError("no SOF0 or SOF1 in a head of encoding 3")


class Bits:
    """Fields that fill each byte from its lowest bit on."""

    def __init__(self, data):
        self.number, self.at = int.from_bytes(data, "little"), 0

    def take(self, width):
        value = self.number >> self.at & (1 << width) - 1
        self.at += width
        return value


def signed(value, width):
    return value - (1 << width) if value >> width - 1 else value


def read_group(data, components, widths):
    """i16 [B, 64]: the blocks of one group; `components` has the component of each block."""
    exception_count, component_count, block_count = data[0], max(components) + 1, len(components)
    before = [8 * signed(base, 8) for base in data[1:1 + component_count]]
    begin = 1 + component_count + block_count
    entries = data[1 + component_count:begin]
    whole = [block for block in range(block_count) if entries[block] == EXCEPTION_ENTRY]
    bits = Bits(data[begin:])
    used = [widths[min(components[block], 1), entries[block]].tolist() for block in range(block_count)]
    coded = [block for block in range(block_count) if entries[block] != EXCEPTION_ENTRY]
    blocks = np.zeros((block_count, 64), np.int16)
    for block in coded:
        if width := used[block][0]:
            before[components[block]] += bits.take(width) - (1 << width - 1)
        blocks[block, 0] = before[components[block]]
    masked = []
    for block in coded:
        masked += [(block, k, used[block][k]) for k in range(1, 64) if used[block][k] and bits.take(1)]
    for block, k, width in masked:
        value = bits.take(width) - (1 << width - 1)
        blocks[block, k] = value + (value >= 0)
    at = begin + (bits.at + 7) // 8
    for _ in range(exception_count):
        exception = int.from_bytes(data[at:at + 3], "little")
        blocks[exception & 127, exception >> 7 & 63] = signed(exception >> 13, 11)
        at += 3
    for block in whole:
        blocks[block] = np.frombuffer(data, "<i2", 64, at)
        at += 128
    if at != len(data):
        raise ValueError(f"a group of {len(data)} bytes has {at} that mean something")
    return blocks


def read_blocks(data, frame, widths):
    """i16 [block rows, block columns, 8, 8] of each component, from the bytes after head and tail."""
    data = bytes(data)
    in_mcu = [(c, x, y) for c, (across, down) in enumerate(frame.sampling) for y in range(down) for x in range(across)]
    group_count = math.ceil(frame.mcu_columns / 8)
    lengths = np.frombuffer(data, "<u2", frame.mcu_rows * group_count, 4 * frame.mcu_rows).astype(int)
    planes = [np.zeros((frame.mcu_rows * down, frame.mcu_columns * across, 64), np.int16) for across, down in frame.sampling]
    for row in range(frame.mcu_rows):
        at = int.from_bytes(data[4 * row:4 * row + 4], "little")
        for group in range(group_count):
            columns = range(8 * group, min(8 * group + 8, frame.mcu_columns))
            length = lengths[row * group_count + group]
            places = [(c, row * frame.sampling[c][1] + y, column * frame.sampling[c][0] + x)
                      for column in columns for c, x, y in in_mcu]
            blocks = read_group(data[at:at + length], [c for c, _, _ in places], widths)
            for (c, down, across), block in zip(places, blocks):
                planes[c][down, across] = block
            at += length
    return [plane.reshape(*plane.shape[:2], 8, 8) for plane in planes]


def read_sample(sample):
    """The coefficients of a stored sample of encoding 3, by component."""
    data = bytes(sample.data)
    head, tail = (int.from_bytes(data[at:at + 4], "little") for at in (0, 4))
    return read_blocks(data[8 + head + tail:], frame_of(data[8:8 + head]), entry_widths(sample.codebook))


def by_jpeglib(path):
    """The same of a JPEG file, by libjpeg, without the blocks that only fill up an MCU."""
    import jpeglib  # fetched by script/conformance
    with jpeglib.version("turbo210"):
        jpeg = jpeglib.read_dct(str(path))
    return [plane for plane in (jpeg.Y, jpeg.Cb, jpeg.Cr) if plane is not None]


def difference(ours, reference):
    """A text that says how coefficients differ; "" if all that the reference has are equal."""
    if len(ours) != len(reference):
        return f"{len(ours)} components here, {len(reference)} there"
    count = 0
    for mine, theirs in zip(ours, reference):
        rows, columns = theirs.shape[:2]
        if mine.shape[0] < rows or mine.shape[1] < columns:
            return f"{mine.shape[0]} x {mine.shape[1]} blocks here, {rows} x {columns} there"
        count += np.count_nonzero(mine[:rows, :columns] != theirs)
    return f"{count} coefficients differ" if count else ""
