"""Dataset: single samples of a packed data set. show(): many of them on one sheet, as a model will see them."""
import os
import pathlib
from typing import Any, Iterator, List, NamedTuple, Optional, Tuple, Union

from penstock import _native
from penstock._arguments import folder, int32, open_data, text, whole
from penstock._loader import Loader
from penstock.errors import ConfigError, IoError


class Sample(NamedTuple):
    """One sample, decoded.

    image: NumPy u8, H x W x C, upright; C is 1 only where every picture of the data set is grey.
    label, class_name: its class.
    id: its number in the source that was packed; packing again does not change it.
    path: its path in the source's folder, or "".
    """
    image: Any
    label: int
    id: int
    path: str
    class_name: str


class Dataset:
    """The samples of a packed data set, each by its index: dataset[0], dataset[-1], dataset[3:7], `for sample in dataset`.

    data: the folder of a packed data set (penstock.pack, shardprep pack), or of one of its splits.
    split: "train", "test" or "all".

    Samples are in the order in which they are stored. Decoding is done anew by every access, without the GIL.
    Raises IoError for a folder that is no data set; an access raises IndexError, CorruptError for a damaged sample, or
    IoError. Threads: may be used on any. Processes: may be forked and pickled.
    """

    def __init__(self, data: "str | os.PathLike[str]", split: str = "train") -> None:
        self._native = open_data(_native.Dataset, data=folder(data, "dataset"), split=text("split", split, "dataset"))
        self.class_names: List[str] = self._native.class_names

    def __len__(self) -> int:
        return self._native.size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._sample(i) for i in range(*index.indices(len(self)))]
        number = whole("index", index, where="dataset")
        if not -len(self) <= number < len(self):
            raise IndexError(f"{self.folder}: index is {number}; expected {-len(self)} to {len(self) - 1}")
        return self._sample(number % len(self))

    def _sample(self, index: int) -> Sample:
        image, label, number, path, _ = self._native.sample(index)
        return Sample(image, label, number, os.fsdecode(path), self.class_names[label])

    def __iter__(self) -> Iterator[Sample]:
        return (self._sample(index) for index in range(len(self)))

    @property
    def class_counts(self) -> List[int]:
        """Samples per class."""
        return self._native.class_counts

    @property
    def folder(self) -> str:
        """The folder of the split."""
        return self._native.folder

    def __reduce__(self) -> Tuple[Any, ...]:
        return Dataset, (self.folder, self._native.split)

    def __repr__(self) -> str:
        return f"<penstock.Dataset {self.folder}: {len(self)} samples of {len(self.class_names)} classes>"


class Sheet:
    """Pictures side by side. A notebook shows it as a picture; print() gives the ids and class names, row by row.

    pixels: NumPy u8, H x W x C, with white between the cells. png: the bytes of a PNG file.
    labels, ids, class_names: one per cell that has a picture, row by row.
    """

    def __init__(self, made: Tuple[Any, bytes, List[int], List[int]], columns: int, class_names: List[str]) -> None:
        self.pixels, self.png, self.labels, self.ids = made
        self.class_names = [class_names[label] for label in self.labels]
        self._columns = columns

    def save(self, out: "str | os.PathLike[str]") -> None:
        """Writes the PNG file. Raises IoError."""
        try:
            pathlib.Path(out).write_bytes(self.png)
        except TypeError:
            raise ConfigError(f"show: out is {out!r:.200}; expected a file to write to") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise IoError(f"show: out is {os.fsdecode(out)!r:.200}: {reason}; expected a file to write to") from None

    def _repr_png_(self) -> bytes:
        return self.png

    def __str__(self) -> str:
        cells = [f"{number} {name}" for number, name in zip(self.ids, self.class_names)]
        rows = [cells[begin:begin + self._columns] for begin in range(0, len(cells), self._columns)]
        return "\n".join(f"row {number}: {', '.join(row)}" for number, row in enumerate(rows, 1))

    def __repr__(self) -> str:
        height, width, _ = self.pixels.shape
        return f"<penstock.Sheet {height} x {width} pixels, {len(self.ids)} pictures>"


def show(data: "str | os.PathLike[str] | Dataset | Loader", augment: Optional[str] = None, *,
         grid: Union[int, Tuple[int, int]] = 8, out: "Optional[str | os.PathLike[str]]" = None, split: str = "train",
         sample: Optional[int] = None, seed: Optional[int] = None, epoch: int = 0, shuffle: "str | bool" = "global") -> Sheet:
    """What a model will see: a sheet of pictures after their transforms and before normalisation, as `shardprep show`.

    data: the folder of a data set, a Dataset, or a Loader, whose transforms and seed then count unless others are given.
    augment: transforms, as for Loader. None: those of the Loader; without one, none.
    grid: pictures per side, or (rows, columns).
    out: a PNG file to write.
    sample: the index of one sample, which is then in every cell, as it is in `epoch` and the epochs after it: the same
        picture with other draws.
    epoch: whose first samples are shown. shuffle: "global" or "none"; True and False stand for these.

    Raises ConfigError, IoError or CorruptError.
    """
    loader = data if isinstance(data, Loader) else None
    dataset = data if isinstance(data, Dataset) else Dataset(data._native.folder if isinstance(data, Loader) else data, split)
    if augment is None:
        augment = loader._native.augment if loader else ""
    if seed is None:
        seed = loader._options["seed"] if loader else 0
    rows, columns = _grid(grid)
    if isinstance(shuffle, bool):
        shuffle = "global" if shuffle else "none"
    if sample is not None:
        sample = whole("sample", sample, -len(dataset), len(dataset) - 1, "show") % len(dataset)
    made = _native.sheet(dataset._native, text("augment", augment, "show"), rows, columns,
                         whole("seed", seed, 0, where="show"), whole("epoch", epoch, 0, where="show"),
                         text("shuffle", shuffle, "show"), sample)
    sheet = Sheet(made, columns, dataset.class_names)
    if out is not None:
        sheet.save(out)
    return sheet


def _grid(grid: Any) -> Tuple[int, int]:
    sides = tuple(grid) if isinstance(grid, (tuple, list)) else (grid, grid)
    if len(sides) != 2:
        raise ConfigError(f"show: grid is {grid!r:.200}; expected pictures per side, or (rows, columns)")
    return int32("grid", sides[0], "show"), int32("grid", sides[1], "show")
