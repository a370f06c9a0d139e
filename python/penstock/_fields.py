"""Fields: what samples have besides picture and class, as values of Python and as the bytes of a shard."""
import os
import pathlib
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from penstock import _native
from penstock._instances import Size, instances_bytes
from penstock._item_picture import file_of, is_pil, levels_of, orientation_of, turned
from penstock.errors import ConfigError, IoError

_DTYPES = {"uint8": "U8", "float16": "F16", "float32": "F32", "int64": "I64", "uint64": "U64", "bool": "BOOL", "int8": "I8",
           "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32", "float64": "F64"}
_NUMPY = {name: dtype for dtype, name in _DTYPES.items()}
_BYTES = ("text", "bytes", "mask", "instances", "picture")  # kinds whose values are byte strings
_FIXED = {"labels": ("I64", (None,)), "boxes": ("F32", (None, 4))}  # kinds with one dtype and shape


class Field(NamedTuple):
    """How pack() stores a field.

    kind: "number", "text", "bytes", "labels" (int64, any number of them), "boxes" (x0, y0, x1, y1 in pixels, edges at 0 and
        the picture's size), "keypoints" (x, y, v each, N x K x 3), "mask" (a PNG, GIF, TIFF, BMP or PGM, PIL, or
        NumPy of whole numbers, H x W), "picture" (a PNG or JPEG, another file that becomes a PNG, PIL, or NumPy u8, uint16 or float32, H x W or H x W x C) or "instances" (a mask for each box: None, polygons [[x, y, x, y, ...], ...], COCO's {"counts": ...}, or NumPy, H x W).
    of: the field of boxes whose entries this one describes, one by one.
    fill: what a mask or a second picture has outside of the picture.
    swapped: pairs of key points that change places where a picture is mirrored; []: there are none. None: not said, and a loader
        that mirrors pictures warns.
    names: of labels: what 0, 1, ... mean. Other labels are refused.
    dtype, shape: of numbers, as NumPy has them; None: those of the first value. A first size of None is one that differs.
    """
    kind: str
    of: str = ""
    fill: float = 0
    swapped: Optional[Sequence[Tuple[int, int]]] = None
    dtype: Optional[str] = None
    shape: Optional[Sequence[Optional[int]]] = None
    names: Sequence[str] = ()


Fields = Union[Sequence[str], Mapping[str, Union[str, Field]]]


class FieldWriter:
    """Turns values into bytes. The first item says what `fields` leaves open."""

    def __init__(self, fields: Optional[Fields], exif: bool) -> None:
        self._exif = exif
        given = {} if fields is None else fields
        if isinstance(given, str) or not isinstance(given, (Mapping, Sequence)):
            raise ConfigError(f"pack: fields is {given!r:.200}; expected names, or a dict of a kind or a penstock.Field for each")
        self._fields: Dict[str, Any] = dict(given) if isinstance(given, Mapping) else {name: None for name in given}
        self._types: Optional[List[Any]] = None if self._fields else []

    @property
    def is_empty(self) -> bool:
        return not self._fields

    def types(self, item: Any, index: int) -> List[Any]:
        """(name, kind, dtype, shape, of, fill, swapped, names) of every field."""
        if self._types is None:
            self._types = [_type_of(name, field, _value(item, name, index), index) for name, field in self._fields.items()]
        return self._types

    def values(self, item: Any, index: int, size: Size) -> List[bytes]:
        """size: of the item's picture."""
        return [_bytes_of(type_, _value(item, type_[0], index), index, size, self._exif) for type_ in self.types(item, index)]


def _value(item: Any, name: str, index: int) -> Any:
    if not isinstance(item, dict) or name not in item:
        raise ConfigError(f"pack: item {index}: no {name!r:.100}; expected a dict with all of fields")
    return item[name]


def _type_of(name: str, given: Any, value: Any, index: int) -> Tuple[Any, ...]:
    if not (given is None or isinstance(given, (str, Field))):
        raise ConfigError(f"pack: fields has {given!r:.200} for {name!r}; expected a kind or a penstock.Field")
    field = Field(_kind_of(value)) if given is None else Field(given) if isinstance(given, str) else given
    swapped = None if field.swapped is None else [(int(a), int(b)) for a, b in field.swapped]
    dtype, shape = _FIXED.get(field.kind, (None, None))
    if field.kind in _BYTES:
        dtype, shape = "U8", (None,)
    elif dtype is None:
        array = _array(value, "float32" if field.kind == "keypoints" else field.dtype, name, index)
        dtype, shape = _DTYPES.get(str(array.dtype)), array.shape if field.shape is None else tuple(field.shape)
        if field.kind == "keypoints":
            shape = (None, *shape[1:])
        if dtype is None:
            raise ConfigError(f"pack: item {index}: {name!r} is of {array.dtype}; expected numbers of {', '.join(_DTYPES)}")
    sizes = [-1 if size is None else int(size) for size in shape or ()]
    return name, field.kind, dtype, sizes, field.of, float(field.fill), swapped, [str(label) for label in field.names]


def _kind_of(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "bytes"
    is_labels = isinstance(value, (list, tuple)) and all(isinstance(one, int) for one in value)
    return "labels" if is_labels else "number"


def _array(value: Any, dtype: Optional[str], name: str, index: int) -> Any:
    """NumPy, of `dtype` if given: integers as they are, floats rounded to it. Otherwise a float of Python is f32."""
    import numpy
    wrong = ConfigError(f"pack: item {index}: {name!r} is {value!r:.200}; expected numbers{' of ' + dtype if dtype else ''}")
    try:
        if hasattr(value, "detach"):  # a tensor of torch
            value = value.detach().cpu().numpy()
        array = numpy.asarray(value)
        if dtype is None:
            is_default = not hasattr(value, "dtype") and array.dtype == numpy.float64
            return array.astype("float32") if is_default else array
        with numpy.errstate(all="ignore"):
            cast = array.astype(dtype)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    is_float = cast.dtype.kind == "f"
    is_kept = array.dtype.kind in "biuf" and (numpy.isfinite(cast) | ~numpy.isfinite(array) if is_float else cast == array).all()
    if not is_kept:
        raise wrong
    return cast


def _bytes_of(type_: Tuple[Any, ...], value: Any, index: int, size: Size, exif: bool) -> bytes:
    name, kind, dtype, shape = type_[:4]
    if kind == "text" and isinstance(value, str):
        return value.encode("utf-8", "replace")
    if kind in ("mask", "picture") and not isinstance(value, (bytes, bytearray, memoryview)):
        return _png_of(value, kind, name, index, exif)
    if kind == "instances" and not isinstance(value, (bytes, bytearray, memoryview)):
        return instances_bytes(value, f"pack: item {index}: {name!r}", size)
    if kind in _BYTES:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise ConfigError(f"pack: item {index}: {name!r} is {type(value).__name__}; expected {kind}")
        return bytes(value)
    array = _array(value, _NUMPY[dtype], name, index)
    if array.size == 0 and shape and shape[0] == -1:
        return b""
    if array.ndim != len(shape) or any(size not in (-1, found) for size, found in zip(shape, array.shape)):
        raise ConfigError(f"pack: item {index}: {name!r} has the shape {list(array.shape)}; expected {shape}")
    return bytes(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())


def _npy_of(pixels: Any) -> bytes:
    """A file of NumPy, in which shards hold pictures that no PNG of 8 bits does."""
    import io

    import numpy
    file = io.BytesIO()
    numpy.lib.format.write_array(file, numpy.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder("<"), copy=False)),
                                 version=(1, 0), allow_pickle=False)
    return file.getvalue()


def _png_of(value: Any, kind: str, name: str, index: int, exif: bool) -> bytes:
    import numpy
    if isinstance(value, (str, os.PathLike)):
        try:
            return pathlib.Path(value).read_bytes()
        except OSError as error:
            raise IoError(f"pack: item {index}, {os.fsdecode(value)}: {error.strerror}; expected a file that can be read") from None
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    # A mask of PIL's palette pictures is their numbers.
    pixels = levels_of(value, f"pack: item {index}: {name!r}") if kind == "picture" and is_pil(value) else numpy.asarray(value)
    orientation = orientation_of(value, exif) if kind == "picture" else 1
    if orientation > 1 and value.mode != "F":
        return file_of(value, orientation)
    pixels = turned(pixels, orientation)
    if pixels.dtype == numpy.bool_:
        pixels = pixels.astype(numpy.uint8)
    if kind == "mask" and pixels.dtype.kind in "iu" and pixels.dtype != numpy.uint8 and pixels.shape[2:] in ((), (1,)):
        if pixels.min(initial=0) < 0 or pixels.max(initial=0) > 65535:
            raise ConfigError(f"pack: item {index}: {name!r} has numbers of {pixels.min()} to {pixels.max()}; expected 0 to 65535 in a mask")
        return bytes(_native.write_png(numpy.ascontiguousarray(pixels, numpy.uint16)))
    if kind == "picture" and pixels.ndim in (2, 3) and (
            pixels.dtype in (numpy.uint16, numpy.float32) or (pixels.dtype == numpy.uint8 and pixels.shape[2:] not in ((), (1,), (3,)))):
        return _npy_of(pixels)
    if pixels.dtype != numpy.uint8 or pixels.ndim not in (2, 3):
        raise ConfigError(f"pack: item {index}: {name!r} is {pixels.dtype} of shape {list(pixels.shape)}; expected a PNG, or "
                          f"{'u8, uint16 or float32, H x W x C' if kind == 'picture' else 'whole numbers, H x W'}")
    return _native.write_png(numpy.ascontiguousarray(pixels))


def value_of(type_: Tuple[Any, ...], stored: bytes) -> Any:
    """A value as Dataset gives it: str, bytes, a number, or NumPy."""
    _, kind, dtype, shape = type_[:4]
    if kind == "text":
        return stored.decode("utf-8", "replace")
    if kind in _BYTES:
        return stored
    import numpy
    if dtype not in _NUMPY:
        raise ConfigError(f"dataset: a field is of {dtype}, which NumPy does not have")
    array = numpy.frombuffer(stored, _NUMPY[dtype]).reshape(shape)
    return array[()] if not shape else array


def column_of(type_: Tuple[Any, ...], values: bytes, begins: List[int]) -> Any:
    """The values of all samples, of which number i lies from begins[i] to begins[i + 1]: of numbers of one size NumPy, samples
    first, otherwise a list of value_of()."""
    kind, dtype, shape = type_[1:4]
    if kind == "number" and None not in shape and dtype in _NUMPY:
        import numpy
        return numpy.frombuffer(values, _NUMPY[dtype]).reshape([len(begins) - 1, *shape]).copy()
    return [value_of(type_, values[begin:end]) for begin, end in zip(begins, begins[1:])]
