"""Dataset: single samples of a packed data set."""
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple, Union, overload

from penstock import _native
from penstock._arguments import folders, open_data, shown, text, whole
from penstock._fields import value_of


class Sample(NamedTuple):
    """One sample, decoded.

    image: NumPy, H x W x C, upright: u8, or the dtype of the data set's pixels, uint16 or float32; of 1 and 3 channels of u8,
        C is 1 only where every picture of the data set is grey.
    label, class_name: its class; -1 and "" where the data set has no classes.
    id: its number in the source that was packed; packing again does not change it.
    path: its path in the source's folder, or "".
    fields: what else it has, by name: str, bytes, a number, or NumPy; a mask or a picture as the bytes that were packed (a PNG;
        a picture also a JPEG or .npy).
    """
    image: Any
    label: int
    id: int
    path: str
    class_name: str
    fields: Dict[str, Any] = {}


class Dataset:
    """The samples of a packed data set, each by its index: dataset[0], dataset[-1], dataset[3:7], `for sample in dataset`.

    data: the folder of a packed data set (penstock.pack, shardprep pack), or of one of its splits, or its address (https://, s3://, gs://:
        docs/FAR.md; PENSTOCK_CACHE_DIR and PENSTOCK_CACHE_LIMIT say where shards from there are kept); or a list of them, whose samples
        come one after the other.
    split: "train", "test" or "all".

    Samples are in the order in which they are stored. Decoding is done anew by every access, without the GIL.
    Raises IoError for a folder that is no data set; an access raises IndexError, CorruptError for a damaged sample, or
    IoError. Threads: may be used on any. Processes: may be forked and pickled.
    """

    def __init__(self, data: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]", split: str = "train") -> None:
        first, *others = folders(data, "dataset")
        self._native = open_data(_native.Dataset, data=first, also=others, split=text("split", split, "dataset"))
        self._others = others
        self.class_names: List[str] = self._native.class_names

    def __len__(self) -> int:
        return self._native.size

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> List[Sample]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Sample, List[Sample]]:
        if isinstance(index, slice):
            return [self._sample(i) for i in range(*index.indices(len(self)))]
        number = whole("index", index, where="dataset")
        if not -len(self) <= number < len(self):
            raise IndexError(f"{shown(self.folder)}: index is {number}; expected {-len(self)} to {len(self) - 1}")
        return self._sample(number % len(self))

    def _sample(self, index: int) -> Sample:
        image, label, number, path, _ = self._native.sample(index)
        fields = {kind[0]: value_of(kind, self._native.field(index, i)) for i, kind in enumerate(self._native.fields)}
        return Sample(image, label, number, os.fsdecode(path), self.class_names[label] if label >= 0 else "", fields)

    def __iter__(self) -> Iterator[Sample]:
        return (self._sample(index) for index in range(len(self)))

    @property
    def class_counts(self) -> List[int]:
        """Samples per class."""
        return self._native.class_counts

    @property
    def folder(self) -> str:
        """The folder of the split; of several data sets, that of the first."""
        return self._native.folder

    def __reduce__(self) -> Tuple[Any, ...]:
        return Dataset, ([self.folder, *self._others] if self._others else self.folder, self._native.split)

    def __repr__(self) -> str:
        return f"<penstock.Dataset {shown(self.folder)}: {len(self)} samples of {len(self.class_names)} classes>"
