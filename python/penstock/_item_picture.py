"""The picture of an item that pack() gets: bytes of a file, or pixels as NumPy, whatever library made them."""
import os
import pathlib
import struct
from typing import Any, Optional, Tuple

from penstock import _native
from penstock.errors import ConfigError, IoError

_CHANNELS = (1, 3, 4)  # of pixels: grey, RGB, and RGB with alpha


def loaded(picture: Any, index: int) -> Tuple[str, Any]:
    """The path, "" where there is none, and the bytes of a file, or what else the picture is."""
    path = ""
    if isinstance(picture, dict) and "bytes" in picture:  # Hugging Face's Image(decode=False)
        path, picture = str(picture.get("path") or ""), picture["bytes"] or picture.get("path")
    if isinstance(picture, (str, os.PathLike)):
        path = os.fsdecode(picture)
        try:
            picture = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise IoError(f"pack: item {index}, {path}: {error.strerror}; expected a file that can be read") from None
    return path, bytes(picture) if isinstance(picture, (bytes, bytearray, memoryview)) else picture


def size_of(picture: Any, pixels: Optional[str], exif: bool, index: int) -> Optional[Tuple[int, int, bool]]:
    """Height and width of what loaded() gave, as it is stored, and whether its orientation turns it by a quarter; None for a
    file that is none of a picture."""
    if isinstance(picture, bytes):
        return _native.picture_size(picture, exif)
    height, width = pixels_of(picture, pixels, index).shape[:2]
    return height, width, orientation_of(picture, exif) > 4


def orientation_of(picture: Any, exif: bool) -> int:
    """1 to 8: how EXIF or XMP of a PIL image from a file say that it is to be turned. 1: not at all, as all other pictures."""
    if not exif or not hasattr(picture, "getexif"):
        return 1
    try:
        found = picture.getexif().get(0x0112, 1)
    except (OSError, SyntaxError, ValueError, KeyError, struct.error):  # a broken block is no reason to refuse a picture
        return 1
    return int(found) if found in range(1, 9) else 1


def turned(pixels: Any, orientation: int) -> Any:
    """NumPy, H x W or H x W x C, as exif_transpose() of PIL turns it."""
    import numpy
    if orientation > 4:
        pixels = pixels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    return numpy.ascontiguousarray(pixels)


def pixels_of(picture: Any, pixels: Optional[str], index: int) -> Any:
    """Pixels as NumPy, H x W or H x W x C."""
    import numpy
    if is_pil(picture):
        return levels_of(picture, f"pack: item {index}: the picture")
    if str(getattr(picture, "dtype", "")).replace("torch.", "") in ("uint16", "float32"):
        return _raster(picture)
    is_tensor = str(getattr(picture, "dtype", "")) == "torch.uint8"
    if is_tensor:
        picture = picture.detach().cpu().numpy()
        if picture.ndim == 3 and not _has_colors(picture.shape):
            return _raster(picture.transpose(1, 2, 0))
    if isinstance(picture, numpy.ndarray) and picture.dtype == numpy.uint8 and picture.ndim == 3 and not _has_colors(picture.shape):
        return _raster(picture)
    if not isinstance(picture, numpy.ndarray) or picture.dtype != numpy.uint8:
        what = f"an array of {picture.dtype}" if hasattr(picture, "dtype") else type(picture).__name__
        raise ConfigError(f"pack: item {index}: the picture is {what}; expected bytes of a JPEG or PNG, a path, PIL, "
                          "NumPy u8, uint16 or float32, H x W x C, or such a tensor, C x H x W")
    return numpy.ascontiguousarray(_channels_last(picture, is_tensor) if picture.ndim == 3 else picture)


def is_pil(picture: Any) -> bool:
    """Without an import of PIL."""
    return hasattr(picture, "convert") and hasattr(picture, "mode")


def levels_of(picture: Any, where: str) -> Any:
    """A PIL image as NumPy: modes of 16 bits and of floats with all of their levels, others as grey or RGB of u8. Mode I is
    taken for 16 bits, because older versions of PIL open such PNGs in it. Its conversions would clip all of these to 255."""
    import numpy
    mode = str(picture.mode)
    if mode.startswith("I") or mode == "F":
        levels = numpy.asarray(picture)
        if mode == "I" and (levels.min(initial=0) < 0 or levels.max(initial=0) > 65535):
            raise ConfigError(f"{where} is a PIL image of mode I with levels of {levels.min()} to {levels.max()}; expected 0 to 65535, or "
                              "NumPy uint16 or float32")
        return numpy.ascontiguousarray(levels, "float32" if mode == "F" else "uint16")
    return numpy.asarray(picture if mode in ("L", "RGB") else picture.convert("L" if mode == "1" else "RGB"))


def file_of(picture: Any, orientation: int) -> bytes:
    """A PIL image as a PNG that says the orientation, by which packing turns it: pixels alone would not say that they are turned."""
    import io
    file = io.BytesIO()
    mode = str(picture.mode)
    kept = mode in ("L", "RGB") or mode.startswith("I")
    (picture if kept else picture.convert("L" if mode == "1" else "RGB")).save(
        file, "PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01" + struct.pack(">HHI", orientation, 0, 0))
    return file.getvalue()


def _has_colors(shape: Any) -> bool:
    """Whether the first or the last dimension can be grey, RGB or RGB with alpha."""
    return shape[0] in _CHANNELS or shape[2] in _CHANNELS


def _raster(picture: Any) -> Any:
    """An array as it is, a tensor with its channels last."""
    import numpy
    if hasattr(picture, "detach"):
        picture = picture.detach().cpu().numpy()
        picture = picture.transpose(1, 2, 0) if picture.ndim == 3 else picture
    return numpy.ascontiguousarray(picture)


def _channels_last(pixels: Any, is_tensor: bool) -> Any:
    """H x W x C without alpha. An array is H x W x C and a tensor C x H x W, unless only the other is possible."""
    first, last = pixels.shape[0] in _CHANNELS, pixels.shape[2] in _CHANNELS
    if first and (is_tensor or not last):
        pixels = pixels.transpose(1, 2, 0)
    return pixels[:, :, :3] if pixels.shape[2] == 4 else pixels
