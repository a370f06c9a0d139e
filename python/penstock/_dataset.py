"""Dataset: the samples of a packed data set."""
import functools
import importlib
import os
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union, overload

from penstock import _native
from penstock._arguments import absolute, folders, open_data, shown, text, whole
from penstock._fields import column_of, value_of
from penstock.errors import ConfigError, CorruptError

# Attributes of torchvision's data sets, and what stands here in their place.
_OF_TORCHVISION = {
    "root": "dataset.folder",
    "transform": "augment= of the Loader",
    "target_transform": "the labels of a batch, changed in the loop",
    "loader": "dataset[i].image, which is decoded",
}


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


class Statistics(NamedTuple):
    """What `normalize` takes where it states no mean and deviation: of all pixels of a split, 0 to 1, per channel.

    split: whose they are: "train" wherever the data set has a split of that name, as in a run of `train`.
    """
    split: str
    mean: List[float]
    deviation: List[float]


class Dataset:
    """The samples of a packed data set, each by its index: dataset[0], dataset[-1], dataset[3:7], `for sample in dataset`.

    data: the folder of a packed data set (penstock.pack, shardprep pack), or of one of its splits, or its address (https://, s3://, gs://:
        docs/FAR.md; PENSTOCK_CACHE_DIR and PENSTOCK_CACHE_LIMIT say where shards from there are kept); or a list of them, whose samples
        come one after the other.
    split: "train", "test" (also "val", "valid" or "validation") or "all".

    An index counts the samples in the order in which they are stored, in which they are dealt over shards by class; ids count
    them as the source had them. The dataset of a loader (`loader.dataset`) has those samples alone that `subset` and `exclude_ids`
    leave, and its order is that of `batch.indices`, `loader.plan()` and `weights`.

    Decoding is done anew by every access, without the GIL. Raises IoError for a folder that is no data set; an access raises
    IndexError, CorruptError for a damaged sample, or IoError. Threads: may be used on any. Processes: may be forked and pickled.
    """

    def __init__(self, data: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]", split: str = "train") -> None:
        first, *others = map(absolute, folders(data, "dataset"))
        self._native = open_data(_native.Dataset, data=first, also=others, split=text("split", split, "dataset"))
        self._others = others
        self._chosen: Optional[memoryview] = None  # indices in the split; None: all samples
        self.class_names: List[str] = self._native.class_names

    def __len__(self) -> int:
        return self._native.size if self._chosen is None else len(self._chosen)

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

    def _stored(self, index: int) -> int:
        return index if self._chosen is None else self._chosen[index]

    def _sample(self, index: int) -> Sample:
        stored = self._stored(index)
        image, label, number, path, _ = self._native.sample(stored)
        fields = {kind[0]: value_of(kind, self._native.field(stored, i)) for i, kind in enumerate(self._native.fields)}
        return Sample(image, label, number, os.fsdecode(path), self.class_names[label] if label >= 0 else "", fields)

    def __iter__(self) -> Iterator[Sample]:
        return (self._sample(index) for index in range(len(self)))

    def by_id(self, number: int) -> Sample:
        """The sample with this id. Raises KeyError where there is none, and ConfigError where several have it, as in several
        data sets."""
        number = whole("id", number, where="dataset")
        numpy = importlib.import_module("numpy")
        begin, end = (int(numpy.searchsorted(self.ids, number, side, self._by_id)) for side in ("left", "right"))
        if begin == end:
            raise KeyError(f"{shown(self.folder)}: no sample has id {number}; expected one of dataset.ids")
        if end - begin > 1:
            found = ", ".join(str(index) for index in self._by_id[begin:end][:5])
            raise ConfigError(f"{shown(self.folder)}: {end - begin} samples have id {number}, those of index {found}; expected "
                              "dataset[index] of one of them")
        return self._sample(int(self._by_id[begin]))

    @functools.cached_property
    def _by_id(self) -> Any:
        return importlib.import_module("numpy").argsort(self.ids, kind="stable")

    @functools.cached_property
    def _ids_and_labels(self) -> Tuple[Any, Any]:
        numpy = importlib.import_module("numpy")
        arrays = (numpy.frombuffer(stored, dtype="int64") for stored in self._native.ids_and_labels())
        chosen = slice(None) if self._chosen is None else numpy.asarray(self._chosen)
        ids, labels = (array[chosen].copy() for array in arrays)
        return ids, labels

    @property
    def ids(self) -> Any:
        """NumPy int64: the id of each sample. Far data are fetched for this, all shards of them."""
        return self._ids_and_labels[0]

    @property
    def labels(self) -> Any:
        """NumPy int64: the label of each sample, -1 without a class. Far data are fetched as for `ids`."""
        return self._ids_and_labels[1]

    targets = labels  # as torchvision names them

    @functools.cached_property
    def paths(self) -> List[str]:
        """The path of each sample in the source's folder, or "". Far data are fetched as for `ids`."""
        stored = self._native.paths().decode("utf-8", "surrogateescape").split("\0")[:-1]
        if len(stored) != self._native.size:
            raise CorruptError(f"{shown(self.folder)}: {len(stored)} paths of {self._native.size} samples; expected paths without NUL")
        return stored if self._chosen is None else [stored[index] for index in self._chosen]

    @property
    def samples(self) -> List[Tuple[str, int]]:
        """(path, label) of each sample, as torchvision has them, but for the folder before the path."""
        return list(zip(self.paths, self.labels.tolist()))

    imgs = samples  # as torchvision names them

    @property
    def fields(self) -> Mapping[str, Any]:
        """What else the samples have, by name: of numbers of one size NumPy, samples first; of others a list, as Sample.fields has
        its entries. A field is read when it is asked for. Far data are fetched as for `ids`."""
        return _FieldColumns(self)

    @property
    def classes(self) -> List[str]:
        """class_names, as torchvision names them."""
        return self.class_names

    @property
    def class_to_idx(self) -> Dict[str, int]:
        """The label of each class, as torchvision has it."""
        return {name: label for label, name in enumerate(self.class_names)}

    @property
    def class_counts(self) -> List[int]:
        """Samples per class."""
        if self._chosen is None:
            return self._native.class_counts
        numpy = importlib.import_module("numpy")
        return numpy.bincount(self.labels[self.labels >= 0], minlength=len(self.class_names)).tolist()

    @property
    def statistics(self) -> Statistics:
        """Mean and deviation that `normalize` takes where it states none, and of which split they are."""
        return Statistics(*self._native.statistics())

    def part_of(self, index: Any) -> Any:
        """The number, in the list `data`, of the data set that a sample is of; of an array such as `batch.indices`, an array."""
        numpy = importlib.import_module("numpy")
        stored = numpy.asarray(index) if self._chosen is None else numpy.asarray(self._chosen)[numpy.asarray(index)]
        found = numpy.searchsorted([end for _, _, end in self._native.parts], stored, "right")
        return found if found.ndim else int(found)

    @property
    def folder(self) -> str:
        """The folder of the split, absolute; of several data sets, that of the first."""
        return self._native.folder

    def _of(self, chosen: bytes) -> "Dataset":
        """This data set, of which only these samples count; b"": all."""
        self._chosen = memoryview(chosen).cast("Q") if chosen else None
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        chosen = b"" if self._chosen is None else self._chosen.tobytes()
        return _opened, ([self.folder, *self._others] if self._others else self.folder, self._native.split, chosen)

    def __repr__(self) -> str:
        return f"<penstock.Dataset {shown(self.folder)}: {len(self)} samples of {len(self.class_names)} classes>"

    if not TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            meant = _OF_TORCHVISION.get(name)
            hint = f"; expected {meant}" if meant else ""
            raise AttributeError(f"dataset: {name} is no attribute{hint}", name=name, obj=self)


class _FieldColumns(Mapping[str, Any]):
    """The fields of a data set, each read when it is asked for."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._kinds = {kind[0]: (number, kind) for number, kind in enumerate(dataset._native.fields)}

    def __getitem__(self, name: str) -> Any:
        if name not in self._kinds:
            raise KeyError(f"{shown(self._dataset.folder)}: no field {name}; expected one of {', '.join(self._kinds) or 'none'}")
        number, kind = self._kinds[name]
        chosen = range(self._dataset._native.size) if self._dataset._chosen is None else self._dataset._chosen
        values, begins = self._dataset._native.field_values(number, list(chosen))
        return column_of(kind, values, memoryview(begins).cast("q").tolist())

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __repr__(self) -> str:
        return f"<fields {', '.join(self._kinds)}>"


def _opened(data: Any, split: str, chosen: bytes) -> Dataset:
    return Dataset(data, split)._of(chosen)
