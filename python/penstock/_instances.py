"""Instance masks: COCO's segmentations, and masks of NumPy, as the bytes of a field of kind "instances"."""
import struct
from typing import Any, Callable, List, Optional, Sequence, Tuple

from penstock.errors import ConfigError


class Size:
    """Height and width of the masks of one item: those of its picture as its file stores it, or as its orientation turns it."""

    def __init__(self, stored: Callable[[], Optional[Tuple[int, int, bool]]]) -> None:
        """stored: height and width of the file's raster, and whether it is turned by a quarter; None where it is broken."""
        self._stored = stored
        self.stated: Optional[Tuple[int, int]] = None  # by the masks so far

    def check(self, found: Any, where: str) -> None:
        stored = self._stored()
        if stored is None:
            return
        height, width, is_turned = stored
        sizes = [(width, height), (height, width)] if is_turned else [(height, width)]
        texts = [f"{high} x {wide}" for high, wide in sizes]
        if tuple(found) not in sizes:
            raise ConfigError(f"{where} is {' x '.join(map(str, found))}; expected {texts[0]}, the height and width of the picture"
                              f"{f', or {texts[1]}, those before its orientation turns it' if is_turned else ''}")
        if self.stated not in (None, tuple(found)):
            raise ConfigError(f"{where} is {' x '.join(map(str, found))} after masks of {' x '.join(map(str, self.stated or ()))}; "
                              "expected masks of one size, as stored or as turned by the orientation of the picture")
        self.stated = (int(found[0]), int(found[1]))


def instances_bytes(masks: Any, where: str, size: Size) -> bytes:
    """docs/FORMAT.md, instance masks. masks: one per box, each None (empty), a list of polygons ([x, y, x, y, ...] or pairs),
    a dict with COCO's "counts" (a list, or compressed), or an array H x W of bool or u8. Of the last two the bytes do not say
    the height and width, so that they are compared with those of the picture here."""
    if isinstance(masks, (str, dict)) or not hasattr(masks, "__iter__"):
        raise ConfigError(f"{where} is {type(masks).__name__}; expected a mask for each box")
    blocks = [_mask_bytes(mask, f"{where}: mask {number}", size) for number, mask in enumerate(masks)]
    ends, end = [], 0
    for block in blocks:
        end += len(block)
        ends.append(end)
    return struct.pack(f"<{1 + len(ends)}I", len(ends), *ends) + b"".join(blocks)


def _mask_bytes(mask: Any, where: str, size: Size) -> bytes:
    if mask is None or (isinstance(mask, (list, tuple)) and not mask):
        return b""
    if isinstance(mask, dict):
        counts = mask.get("counts")
        if isinstance(counts, (str, bytes)):
            counts = _decompressed(counts if isinstance(counts, bytes) else counts.encode("utf-8"), where)
        if not isinstance(counts, (list, tuple)) or not all(isinstance(run, int) and 0 <= run < 2**32 for run in counts):
            raise ConfigError(f"{where}: counts is {counts!r:.100}; expected COCO's counts")
        if isinstance(mask.get("size"), (list, tuple)):
            size.check(mask["size"], where)
        return _runs_bytes(counts)
    if isinstance(mask, (list, tuple)):
        return b"\1" + b"".join(_polygon_bytes(polygon, where) for polygon in mask)
    import numpy
    array = numpy.asarray(mask)
    if array.ndim != 2:
        raise ConfigError(f"{where} has the shape {array.shape}; expected height x width")
    size.check(array.shape, where)
    return _runs_bytes(_runs_of(array))


def _polygon_bytes(polygon: Any, where: str) -> bytes:
    import numpy
    try:
        points = numpy.asarray(polygon, dtype="<f4").reshape(-1, 2)
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: a polygon is {polygon!r:.100}; expected [x, y, x, y, ...]") from None
    return struct.pack("<I", len(points)) + points.tobytes()


def _runs_of(array: Any) -> List[int]:
    import numpy
    columns = (array != 0).ravel(order="F")
    edges = numpy.flatnonzero(columns[1:] != columns[:-1]) + 1
    runs = [int(run) for run in numpy.diff(numpy.concatenate(([0], edges, [columns.size])))]
    return [0, *runs] if columns.size and columns[0] else runs


def _runs_bytes(runs: Sequence[int]) -> bytes:
    out = bytearray(b"\2")
    for run in runs:
        while run >= 0x80:
            out.append(run & 0x7F | 0x80)
            run >>= 7
        out.append(run)
    return bytes(out)


def _decompressed(text: bytes, where: str) -> List[int]:
    """pycocotools' rleFrString: 5 bits per character from "0" on, and differences to the run two before."""
    runs: List[int] = []
    value = bits = 0
    for byte in text:
        digit = byte - 48
        if not 0 <= digit < 64 or bits > 30:
            raise ConfigError(f"{where}: counts is {text!r:.100}; expected COCO's compressed counts")
        value |= (digit & 31) << bits
        bits += 5
        if digit & 32:
            continue
        if digit & 16:
            value -= 1 << bits
        if len(runs) > 2:
            value += runs[-2]
        runs.append(value)
        value = bits = 0
    if bits:
        raise ConfigError(f"{where}: counts ends in a number; expected COCO's compressed counts")
    return runs
