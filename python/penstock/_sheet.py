"""show(): many samples on one sheet, as a model will see them."""
import os
import pathlib
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from penstock import _native
from penstock._arguments import int32, seed64, text, whole
from penstock._dataset import Dataset
from penstock._loader import Loader
from penstock.augment import spec_list
from penstock.errors import ConfigError, IoError


class Sheet:
    """Pictures side by side. A notebook shows it as a picture; print() gives the ids and class names, row by row.

    pixels: NumPy u8, H x W x C, with white between the cells. png: the bytes of a PNG file.
    labels, ids, class_names: one per cell that has a picture, row by row.
    """

    def __init__(self, made: Tuple[Any, bytes, List[int], List[int]], columns: int, class_names: List[str]) -> None:
        self.pixels, self.png, self.labels, self.ids = made
        self.class_names = [class_names[label] if label >= 0 else "" for label in self.labels]
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


def show(data: "str | os.PathLike[str] | Dataset | Loader", augment: "str | Sequence[Any] | Callable[..., Any] | None" = None, *,
         grid: Union[int, Tuple[int, int]] = 8, out: "Optional[str | os.PathLike[str]]" = None, split: str = "train",
         sample: Optional[int] = None, seed: Optional[int] = None, epoch: int = 0, shuffle: "str | bool" = "global") -> Sheet:
    """What a model will see: a sheet of pictures after their transforms and before normalisation, as `shardprep show`.

    data: the folder of a data set, a Dataset, or a Loader, whose transforms and seed then count unless others are given.
    augment: transforms, as for Loader. None: those of the Loader; without one, none.
    grid: pictures per side, or (rows, columns).
    out: a PNG file to write.
    sample: the index of one sample, as in dataset[sample], which is then in every cell, as it is in `epoch` and the epochs after it: the same
        picture with other draws.
    epoch: whose first samples are shown. shuffle: "global" or "none"; True and False stand for these.

    Raises ConfigError, IoError or CorruptError.
    """
    loader = data if isinstance(data, Loader) else None
    dataset = data if isinstance(data, Dataset) else data.dataset if isinstance(data, Loader) else Dataset(data, split)
    if augment is None:
        augment = loader._native.augment if loader else ""
    if seed is None:
        seed = loader._configuration["seed"] if loader else 0
    rows, columns = _grid(grid)
    if isinstance(shuffle, bool):
        shuffle = "global" if shuffle else "none"
    if sample is not None:
        sample = dataset._stored(whole("sample", sample, -len(dataset), len(dataset) - 1, "show") % len(dataset))
    made = _native.sheet(dataset._native, spec_list(augment, "show"), rows, columns, seed64(seed, "show"),
                         whole("epoch", epoch, 0, where="show"), text("shuffle", shuffle, "show"), sample)
    sheet = Sheet(made, columns, dataset.class_names)
    if out is not None:
        sheet.save(out)
    return sheet


def _grid(grid: Any) -> Tuple[int, int]:
    sides = tuple(grid) if isinstance(grid, (tuple, list)) else (grid, grid)
    if len(sides) != 2:
        raise ConfigError(f"show: grid is {grid!r:.200}; expected pictures per side, or (rows, columns)")
    return int32("grid", sides[0], "show"), int32("grid", sides[1], "show")
