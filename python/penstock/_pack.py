"""pack(): turns a folder of pictures, or anything that can be iterated, into a data set that Loader reads."""
import functools
import os
import pathlib
import re
import sys
import time
import warnings
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from penstock import _native
from penstock._arguments import int32, text, whole
from penstock._fields import Fields, FieldWriter
from penstock._instances import Size
from penstock._item_picture import loaded, orientation_of, pixels_of, size_of, turned
from penstock._labels import Labels
from penstock.errors import ConfigError, CorruptError, IoError

_PICTURE_KEYS = ("image", "img", "picture", "jpg", "jpeg", "png")
_LABEL_KEYS = ("label", "labels", "cls", "class", "fine_label", "target")


class Packed(NamedTuple):
    """What pack() did. `skipped` has a message per broken picture that was left out; OUT/<split>/skipped.jsonl has them, too."""
    folder: "pathlib.Path | str"  # text where it is an address
    samples: int
    seconds: float
    skipped: List[str]


def pack(source: "str | os.PathLike[str] | Iterable[Any]", out: "str | os.PathLike[str]", *,
         split: Union[str, Sequence[str]] = "train", class_names: Optional[Sequence[str]] = None,
         fields: Optional[Fields] = None, shards: int = 8,
         shuffle_seed: Optional[int] = None, jobs: int = 0, force: bool = False, on_corrupt: str = "fail",
         encode: str = "auto", resize: Optional[int] = None, quality: int = 90, raw_share: float = 0.0,
         max_pixels: int = 2**28, transcode: bool = True, exif: bool = True, sixteen_bit: str = "refuse",
         pixels: Optional[str] = None, annotations: Optional[str] = None,
         more_inputs: "Sequence[str | os.PathLike[str]]" = (), part: Optional[Tuple[int, int]] = None,
         codebook: "str | os.PathLike[str] | None" = None, progress: Optional[bool] = None) -> Packed:
    """Packs pictures into OUT/<split>, which is there when all is well, and otherwise not at all. OUT: a folder; or, with a source by name, s3://...

    source: "image-folder:photos", "csv(label=class):DIR", "coco:DIR" or "digits", as `shardprep pack --source --input` has them; a
        pathlib.Path of a folder, which is that of image-folder; or an iterable of (picture, label) or of dicts with such
        keys as image and label. A picture is the bytes of a JPEG or PNG file, which are kept as they are, or of a WebP, TIFF,
        GIF, BMP or PNM file, which becomes a PNG; a path of one;
        a PIL image; NumPy u8, H x W or H x W x C; or a tensor of torch, u8, H x W or C x H x W. C is 1, 3 or 4, and the
        fourth channel, alpha, is dropped, as convert("RGB") of PIL does. Where only the first of an array's dimensions
        can be C, it is C x H x W, and where only the last of a tensor's can, it is H x W x C. Arrays and tensors of uint16 and
        float32, and of u8 with other numbers of channels up to 32, are stored with their dtype and all channels: NumPy is
        H x W x C, and a tensor C x H x W. All pictures of a data set then have one dtype and number of channels. A label is a number, or a
        string, of which each is a class; they are sorted, numbers by their value. Data sets of Hugging Face and torchvision and pipelines of WebDataset are such
        iterables; of the first, cast_column("image", datasets.Image(decode=False)) gives the bytes of the files.
    split: "train", "test" (also as "val", "valid" or "validation") or "all"; of a source by name several. All splits in
        OUT have the same classes. Those of the split that was packed first count, and names are found among them; a later
        one may not have others. So train, or what has all classes, comes first.
    class_names: of labels that are numbers. None: those of the iterable where it has some (`features["label"].names`,
        `classes`, also of what a Subset is one of), otherwise the numbers. Numbers without names may be up to the number
        of pictures or 99,999. []: samples have no class, and a label is not looked for. Dicts with `fields` of which the first has no
        label have no class, either.
    fields: what else is stored of items that are dicts: names, whose kinds the first item shows (text, bytes, numbers of one
        shape, or a list of whole numbers, which are labels), or a dict of a kind or a penstock.Field for each name. None: a warning
        names the keys of the first item that are left out; [] leaves them out without one.
    part: (index, count): only this part, for merge(); every part is given the same source, here or on other machines.
    pixels: "u8"; "u16": files become uint16 with all of their 16 bits, and levels of 8 bits 257 times as large; "f32": TIFFs of
        float32. None: "u8", or what the arrays of an iterable have. PIL images of the modes I;16 and I count as arrays of uint16,
        those of mode F as float32.
    annotations: "raw" or "upright": where boxes, key points and masks of dicts were made, before or after the orientation in EXIF
        turns their picture. It counts where no size tells: neither that of masks or runs, nor item["height"] and ["width"].
    more_inputs: folders, or lists, whose samples come after those of a source by name: what further `--input` are.
    The other arguments are the flags of `shardprep pack`. progress: None shows a line on a terminal.

    Raises ConfigError, IoError, CorruptError or DeviceError. What an iterable raises comes through; nothing is left then.
    Disk: an iterable's pictures are on it twice until all are packed.
    """
    splits = [_native.split_of_name(text("split", name, "pack")) for name in ([split] if isinstance(split, str) else split)]
    if len(set(splits)) < len(splits):
        raise ConfigError(f"pack: split is {split!r:.200}; expected each split only once")
    common: Dict[str, Any] = {
        "output": _path("out", out), "shards": int32("shards", shards, "pack"), "jobs": int32("jobs", jobs, "pack"),
        "force": bool(force), "shuffle_seed": -1 if shuffle_seed is None else whole("shuffle_seed", shuffle_seed, 0, where="pack"),
        "on_corrupt": text("on_corrupt", on_corrupt, "pack"), "encode": text("encode", encode, "pack"),
        "resize": 0 if resize is None else _positive("resize", resize), "quality": int32("quality", quality, "pack"),
        "raw_share": _share(raw_share), "max_pixels": whole("max_pixels", max_pixels, where="pack"), "transcode": bool(transcode),
        "exif": bool(exif), "sixteen_bit": text("sixteen_bit", sixteen_bit, "pack"),
        "pixels": "u8" if pixels is None else text("pixels", pixels, "pack"),
        "more_inputs": [_path("more_inputs", folder) for folder in more_inputs]}
    line = _Progress(progress)
    chosen = None if part is None else _part(part)

    def options(**words: Any) -> Any:
        made = _native.pack_options(**words, **common)
        if chosen is not None:
            made.set_part(*chosen)
        if codebook is not None:
            made.set_codebook(_path("codebook", codebook))
        return made

    if isinstance(source, str) or (isinstance(source, os.PathLike) and os.path.isdir(source)):
        if class_names is not None:
            raise ConfigError("pack: class_names are given with a source by name, which has its own; expected one of the two")
        if fields is not None:
            raise ConfigError("pack: fields are given with a source by name, which has its own; expected an iterable of dicts")
        if annotations is not None:
            raise ConfigError(f"pack: annotations is {annotations!r:.200} with a source by name; expected it in the source, as in "
                              "'voc(annotations=raw):DIR'")
        common["source"], common["input"] = _source_and_folder(source)
        if len(splits) > 1:  # what is wrong with the second split must not show only after the first is packed
            for name in splits:
                _native.check_packing(options(split=name, packed_next=splits))
        for number, name in enumerate(splits, 1):
            option = options(split=name, packed_next=splits[number:])
            _native.pack(option, None, "", line)
            line.end_split()
    else:
        if len(splits) != 1:
            raise ConfigError(f"pack: split is {splits!r:.200} with an iterable; expected one split, and a call for each")
        if "://" in common["output"]:
            raise ConfigError(f"pack: out is {common['output']!r:.200} with an iterable; expected a local folder, or a source by name")
        option = options(source="digits", input="", split=splits[0], packed_next=[])
        _native.check_pack_options(option)  # before the iterable is asked for anything
        spool = _native.Spool(common["output"], on_corrupt == "skip", "" if annotations is None else text("annotations", annotations, "pack"))
        _fill(spool, source, class_names, FieldWriter(fields, exif), pixels, exif, line, fields is None)
        if pixels is None and spool.pixels is not None:
            option.set_pixels(spool.pixels)
        _pack_spooled(option, spool, line)
        line.end_split()
    line.warn()
    return line.result(common["output"])


def _pack_spooled(option: Any, spool: Any, line: Any) -> None:
    """An error about classes says how an iterable can have all of them."""
    try:
        _native.pack(option, spool, "iterable", line)
    except ConfigError as error:
        raise ConfigError(str(error).replace("with every class,", "with every class (class_names may list them),")) from None


def _source_and_folder(source: "str | os.PathLike[str]") -> Tuple[str, str]:
    """The two parts of "image-folder(test=val):photos"."""
    text = os.fsdecode(source)
    if not isinstance(source, str):
        return "image-folder", text
    match = re.fullmatch(r"([^(:]*(?:\([^)]*\))?)(?::(.*))?", text, re.DOTALL)
    if (match is None or match[2] is None) and os.path.isdir(text):
        raise ConfigError(f"pack: source is the folder {text!r:.200}; expected NAME:FOLDER, such as 'image-folder:{text:.200}'")
    if match is None:
        raise ConfigError(f"pack: source is {text!r:.200}; expected NAME:FOLDER, such as image-folder:photos")
    return match[1], match[2] or ""


def _path(name: str, value: Any) -> str:
    try:
        path = os.fsdecode(value)
    except TypeError:
        path = "\0"
    if "\0" in path:
        raise ConfigError(f"pack: {name} is {value!r:.200}; expected a folder")
    return path


class OwnRows(NamedTuple):
    """A part with rows that no other part sees."""
    number: int
    attempt: str


def _part(part: Any) -> Tuple[int, int, str]:
    if isinstance(part, OwnRows):
        return int32("part", part.number, "pack"), 0, part.attempt
    if not isinstance(part, (tuple, list)) or len(part) != 2:
        raise ConfigError(f"pack: part is {part!r:.200}; expected (index, count), such as (0, 8)")
    index, count = int32("part", part[0], "pack"), int32("part", part[1], "pack")
    if count < 1:  # 0 means rows of its own
        raise ConfigError(f"pack: part is {index}/{count}; expected 0/N to N-1/N")
    return index, count, ""


def _positive(name: str, value: Any) -> int:
    number = int32(name, value, "pack")
    if number < 1:
        raise ConfigError(f"pack: {name} is {number}; expected 1 or more, or None")
    return number


def _share(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"pack: raw_share is {value!r:.200}; expected 0 to 1") from None


def _given_names(names: Any) -> List[str]:
    try:
        found = [] if isinstance(names, (str, bytes)) else list(names)
    except TypeError:
        found = []
    wrong = [name for name in found if not isinstance(name, str)] or ([] if found else [names])
    if wrong:
        raise ConfigError(f"pack: class_names has {wrong[0]!r:.200}; expected a list of names, one per class")
    return found


def _names_of(items: Any) -> Optional[List[str]]:
    """The class names that a data set of Hugging Face or torchvision has, or the one that a Subset is part of."""
    features = getattr(items, "features", None)
    if isinstance(features, dict):
        for key in _LABEL_KEYS:
            if getattr(features.get(key), "names", None):
                return list(features[key].names)
    classes = getattr(items, "classes", None)
    if isinstance(classes, (list, tuple)):
        return [str(name) for name in classes]
    whole_set = getattr(items, "dataset", None) if hasattr(items, "indices") else None
    return None if whole_set is None else _names_of(whole_set)


def _fill(spool: "_native.Spool", items: Any, class_names: Optional[Sequence[str]], fields: FieldWriter,
          pixels: Optional[str], exif: bool, line: "_Progress", names_left_out: bool) -> None:
    if isinstance(items, os.PathLike):
        raise ConfigError(f"pack: source is {items!r:.200}; expected NAME:FOLDER, such as image-folder:photos, a folder that "
                          "is there, or an iterable")
    has_classes = class_names is None or class_names != []
    labels = Labels(_names_of(items) if class_names is None else _given_names(class_names)) if has_classes else None
    is_unlabelled = False  # the first item is a dict with fields and without a label
    try:
        steps = iter(items)
    except TypeError:
        raise ConfigError(f"pack: source is {items!r:.200}; expected a name or an iterable of (picture, label)") from None
    for index, item in enumerate(steps):
        key = _label_key(item)
        if index == 0 and class_names is None and isinstance(item, dict) and not fields.is_empty:
            is_unlabelled = all(str(name).lower() not in _LABEL_KEYS for name in item)
            labels = None if is_unlabelled else labels
        if is_unlabelled and key is not None:
            raise ConfigError(f"pack: item {index} has {key!r:.100}, and item 0 has no label; expected one in every item, or class_names=[] for none")
        picture, label = _picture_and_label(item, index, labels is not None)
        if index == 0 and names_left_out:
            _warn_of_keys(item, labels is not None)
        if index == 0:
            spool.set_fields(fields.types(item, index))
            _warn_of_decoded(items, picture)
        path, picture = loaded(picture, index)
        size = Size(functools.partial(size_of, picture, pixels, exif, index))
        values = [] if fields.is_empty else fields.values(item, index, size)
        stated = (size.stated or _stated_size(item)) if values else (0, 0)
        _add(spool, path, picture, -1 if labels is None else labels.number(label, index), values, stated, pixels, exif, index)
        line.collected(index + 1)
    if labels is not None:
        labels.finish(spool)


def _stated_size(item: Any) -> Tuple[int, int]:
    """Height and width that an item says of its picture; (0, 0): none."""
    sides = [item.get(key) if isinstance(item, dict) else None for key in ("height", "width")]
    height, width = (side if isinstance(side, int) and 0 < side < 2**16 else 0 for side in sides)
    return (height, width) if height and width else (0, 0)


def _warn_of_keys(item: Any, has_classes: bool) -> None:
    """Keys that begin with two underscores, as WebDataset's __key__, are no values of a sample."""
    if not isinstance(item, dict):
        return
    used = [next((key for key in keys if key in item), None) for keys in (_PICTURE_KEYS, _LABEL_KEYS if has_classes else ())]
    left_out = [str(key) for key in item if key not in used and not str(key).startswith("__")]
    if left_out:
        warnings.warn(f"pack: item 0 has {', '.join(left_out):.200}, which are not stored; expected fields={left_out!r:.200}, or fields=[] "
                      "to leave them out", stacklevel=4)


def _warn_of_decoded(items: Any, picture: Any) -> None:
    """Pixels of a JPEG are stored as a PNG, several times as large as the file, which is kept as it is."""
    files: Any = getattr(items, "samples", None)
    is_of_files = isinstance(files, list) and files and isinstance(files[0], tuple) and isinstance(files[0][0], str) and hasattr(items, "loader")
    if is_of_files and not isinstance(picture, (bytes, str, os.PathLike)) and files[0][0].lower().endswith((".jpg", ".jpeg")):
        way = "pack(dataset.samples, class_names=dataset.classes), or \"image-folder:DIR\""
    elif getattr(picture, "format", None) == "JPEG" and hasattr(picture, "convert"):
        way = ("pictures as PIL's .filename" if getattr(picture, "filename", "") else
               'cast_column("image", datasets.Image(decode=False)) of Hugging Face, or the bytes of the files')
    else:
        return
    warnings.warn(f"pack: item 0 is a decoded JPEG, whose pixels take several times the space of the file; expected {way}, to keep "
                  "the files as they are", stacklevel=4)


def _label_key(item: Any) -> Optional[str]:
    return next((key for key in _LABEL_KEYS if key in item), None) if isinstance(item, dict) else None


def _picture_and_label(item: Any, index: int, has_classes: bool) -> Tuple[Any, Any]:
    if isinstance(item, dict):
        picture = next((key for key in _PICTURE_KEYS if key in item), None)
        label = _label_key(item)
        if picture is not None and not has_classes:
            return item[picture], None
        if picture is None or label is None:
            raise ConfigError(f"pack: item {index} is a dict of {', '.join(map(str, item))!s:.200}; expected a picture "
                              f"({', '.join(_PICTURE_KEYS)}) and a label ({', '.join(_LABEL_KEYS)}), or class_names=[] for none")
        return item[picture], item[label]
    if not has_classes and not isinstance(item, (tuple, list)):
        return item, None
    if not isinstance(item, (tuple, list)):
        raise ConfigError(f"pack: item {index} is {type(item).__name__}; expected (picture, label) or a dict")
    if len(item) != 2:
        raise ConfigError(f"pack: item {index} has {len(item)} values; expected (picture, label)")
    return item[0], item[1]


def _add(spool: "_native.Spool", path: str, picture: Any, label: int, fields: List[bytes], stated: Tuple[int, int],
         pixels: Optional[str], exif: bool, index: int) -> None:
    try:
        if isinstance(picture, bytes):
            name = os.path.basename(path).encode("utf-8", "replace").decode()  # names of files may be any bytes
            spool.add_file(picture, label, name and f"{index:08}-{name}", fields, stated)
        else:
            orientation = orientation_of(picture, exif)
            spool.add_pixels(turned(pixels_of(picture, pixels, index), orientation), label, fields, stated, orientation)
    except (ConfigError, CorruptError, IoError) as error:
        message = str(error) + (', or penstock.pack(on_corrupt="skip")' if isinstance(error, CorruptError) else "")
        raise type(error)(message if message.startswith("pack: ") else f"pack: item {index}: {message}") from None


class _Progress:
    """A line on the terminal, and what was packed so far."""

    def __init__(self, is_shown: Optional[bool]) -> None:
        self._is_shown = sys.stderr is not None and sys.stderr.isatty() if is_shown is None else is_shown
        self._begin = time.monotonic()
        self._samples, self._done = 0, 0
        self._skipped: List[str] = []
        self._notes: List[str] = []  # of the split that is packed, and of those before
        self._split_notes: List[str] = []

    def collected(self, count: int) -> None:
        if count % 256 == 0:
            self._show(f"{count:,} pictures read")

    def __call__(self, done: int, total: int, reused: int, seconds: float, skipped: List[str], notes: List[str]) -> None:
        """pack() of C++ calls this about ten times per second, and at its end."""
        self._split_notes = notes
        self._done = done
        self._skipped += skipped
        rate = (done - reused) / seconds if seconds > 0 else 0
        left = f", {(total - done) / rate:.0f} s left" if rate > 0 else ""
        self._show(f"{done:,} of {total:,} samples, {rate:,.0f}/s{left}")

    def end_split(self) -> None:
        self._samples += self._done
        self._notes += self._split_notes

    def warn(self) -> None:
        """What was left out, or read in another way than one may expect."""
        for note in self._notes:
            warnings.warn(f"pack: {note}", stacklevel=3)

    def result(self, folder: str) -> Packed:
        if self._is_shown:
            sys.stderr.write("\r\033[K")
        return Packed(folder if "://" in folder else pathlib.Path(folder), self._samples - len(self._skipped), time.monotonic() - self._begin,
                      self._skipped)

    def _show(self, text: str) -> None:
        if self._is_shown:
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()
