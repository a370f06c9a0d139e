"""Batch: what a step of a Loader gives."""
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

from penstock._device import Copy
from penstock._native import Arrays
from penstock._native import Batch as NativeBatch


class _Columns:
    """The arrays of a batch by name: in the loader's memory (`native`), or where they were copied to (`held`)."""

    def __init__(self, facts: Tuple[int, int, int, int], native: Optional[NativeBatch], arrays: Optional[Arrays],
                 held: Dict[str, Any], loader: Optional[Callable[[], Any]]) -> None:
        self.loader = loader  # a weak reference, since a batch may outlive its loader; None: a copy by pickle or deepcopy
        self.epoch, self.index, self.count, self.global_count = facts
        self._native, self._arrays, self.held = native, arrays, held

    def names(self) -> List[str]:
        return [name for name in self.held if name != "indices"] if self._native is None else self._native.column_names

    def array(self, name: str) -> Any:
        """None where the batch has no such column."""
        if name in self.held:
            return self.held[name]
        if self._native is None or self._arrays is None:
            return None
        if name == "indices":
            return self._native.indices(self._arrays)
        names = self._native.column_names
        return self._native.column(names.index(name), self._arrays) if name in names else None

    def facts(self) -> Tuple[int, int, int, int]:
        return self.epoch, self.index, self.count, self.global_count

    def on_device(self, held: Dict[str, Any]) -> "_Columns":
        return _Columns(self.facts(), self._native, self._arrays, held, self.loader)


class Batch(tuple):
    """(images, labels), and what else is known about the batch.

    The arrays are the loader's memory, without a copy. They are valid as long as anybody holds one of them, and may be
    written to. Rows without a sample, which fill up the last batch of a rank, are cut off: `count` is the length of
    every array, and may be 0 at a rank whose samples are used up.

    A batch can be pickled and deep-copied, and `to(device)` is one with all columns there, which is how Lightning and
    accelerate move it. A library that makes another tuple of it, image by label, keeps images and labels alone.
    """
    _source: Optional[_Columns] = None  # None: another library has made it of images and labels

    @property
    def images(self) -> Any:
        """count x C x H x W; with channels_last or layout u8, arrays other than torch's are count x H x W x C."""
        return self[0]

    @property
    def labels(self) -> Any:
        """int64, one per image."""
        return self[1]

    @property
    def ids(self) -> Any:
        """int64: the numbers that the samples have in the source that was packed. Always in the memory of the host."""
        return self._columns.array("ids")

    @property
    def indices(self) -> Any:
        """int64: where the samples are in the loader's data set: `loader.dataset[batch.indices[0]]` is that of the first row.
        Always in the memory of the host. Packing again with other shards changes indices, and no ids."""
        return self._columns.array("indices")

    @property
    def paths(self) -> List[str]:
        """The paths of the samples in the source's folder: `loader.dataset.paths` of `indices`. All shards of far data are fetched
        for it, once. AttributeError for a copy by pickle or deepcopy, and for a batch that has outlived its loader."""
        weak = self._columns.loader
        loader = None if weak is None else weak()
        if loader is None:
            raise AttributeError("batch: paths are those of the loader, which is gone, or unknown to a copy by pickle or deepcopy; "
                                 "expected loader.dataset.paths, by batch.indices")
        paths = loader.dataset.paths
        return [paths[index] for index in self.indices.tolist()]

    @property
    def weights(self) -> Any:
        """f32: 1, or 0 for a corrupt sample that on_corrupt="mask" has replaced by zeros."""
        return self._columns.array("weights")

    @property
    def second_labels(self) -> Any:
        """int64: the label of the sample that mixup or cutmix has mixed in; None without them."""
        return self._columns.array("second_labels")

    @property
    def mix_weights(self) -> Any:
        """f32: how much of the loss `labels` has; `second_labels` has the rest. None without mixup and cutmix."""
        return self._columns.array("mix_weights")

    @property
    def columns(self) -> Dict[str, Any]:
        """All arrays by name: those of above, where the batch has them, and those of the loader's `columns`. Each has one entry
        per image; a corrupt sample that was masked has zeros in the loader's `columns`."""
        return {name: self._columns.array(name) for name in self._columns.names()}

    @property
    def views(self) -> List[Any]:
        """`images` and the pictures of further views (`views` of the loader), in their order."""
        names = self._columns.names()
        views = (f"view{number}" for number in range(1, len(names)))
        return [self._columns.array(name) for name in ["images", *(view for view in views if view in names)]]

    @property
    def epoch(self) -> int:
        return self._columns.epoch

    @property
    def index(self) -> int:  # type: ignore[override]
        """The number of the batch in its epoch."""
        return self._columns.index

    @property
    def count(self) -> int:  # type: ignore[override]
        """The number of samples of this rank in the batch."""
        return self._columns.count

    @property
    def global_count(self) -> int:
        """The number of samples of all ranks in the batch: what a sum of losses is to be divided by."""
        return self._columns.global_count

    def to(self, device: Any, non_blocking: bool = False) -> "Batch":
        """The same batch with its tensors on that device; `ids` and `indices` stay in the memory of the host, and so do arrays
        that are not torch's."""
        def moved(array: Any) -> Any:
            return array.to(device, non_blocking=non_blocking) if hasattr(array, "to") else array

        if self._source is None:
            return Batch(map(moved, self))
        held = {name: array if name in ("ids", "indices") else moved(array) for name, array in self._held().items()}
        return _held_batch(held, self._source.facts(), self._source.loader)

    def __reduce__(self) -> Tuple[Any, ...]:
        if self._source is None:
            return Batch, (tuple(self),)
        return _held_batch, (self._held(), self._source.facts())

    def _held(self) -> Dict[str, Any]:
        return {**self.columns, "indices": self.indices}

    @property
    def _columns(self) -> _Columns:
        if self._source is None:
            raise AttributeError("batch: another library has made this one anew, of images and labels alone; expected batch.to(device), "
                                 "which keeps all columns, or what is needed to be taken from the loader's own batch")
        return self._source


def made_batch(made: Tuple[Any, Any, NativeBatch], arrays: Arrays, loader: Any) -> Batch:
    native = made[2]
    batch = Batch(made[:2])
    batch._source = _Columns((native.epoch, native.index, native.count, native.global_count), native, arrays, {}, weakref.ref(loader))
    return batch


def on_device(copy: Copy) -> Batch:
    batch = Batch((copy.columns["images"], copy.columns["labels"]))
    batch._source = copy.source._source.on_device(copy.columns)
    return batch


def _held_batch(columns: Dict[str, Any], facts: Tuple[int, int, int, int],
                loader: Optional[Callable[[], Any]] = None) -> Batch:
    batch = Batch((columns["images"], columns["labels"]))
    batch._source = _Columns(facts, None, None, columns, loader)
    return batch
