"""Batch: what a step of a Loader gives."""
from typing import Any, Dict, List, Optional, Tuple

from penstock._device import Copy
from penstock._native import Arrays
from penstock._native import Batch as NativeBatch


class Batch(tuple):
    """(images, labels), and what else is known about the batch.

    The arrays are the loader's memory, without a copy. They are valid as long as anybody holds one of them, and may be
    written to. Rows without a sample, which fill up the last batch of a rank, are cut off: `count` is the length of
    every array, and may be 0 at a rank whose samples are used up.
    """
    _native: NativeBatch
    _arrays: Arrays
    _copy: Optional[Copy] = None  # of a batch on a device

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
        return self._column("ids")

    @property
    def weights(self) -> Any:
        """f32: 1, or 0 for a corrupt sample that on_corrupt="mask" has replaced by zeros."""
        return self._column("weights")

    @property
    def second_labels(self) -> Any:
        """int64: the label of the sample that mixup or cutmix has mixed in; None without them."""
        return self._column("second_labels")

    @property
    def mix_weights(self) -> Any:
        """f32: how much of the loss `labels` has; `second_labels` has the rest. None without mixup and cutmix."""
        return self._column("mix_weights")

    @property
    def columns(self) -> Dict[str, Any]:
        """All arrays by name: those of above, where the batch has them, and those of the loader's `columns`. Each has one entry
        per image; a corrupt sample that was masked has zeros in the loader's `columns`."""
        return {name: self._column(name) for name in self._native.column_names}

    @property
    def views(self) -> List[Any]:
        """`images` and the pictures of further views (`views` of the loader), in their order."""
        names = self._native.column_names
        return [self._column(name) for name in ["images", *(f"view{i}" for i in range(1, len(names)) if f"view{i}" in names)]]

    def _column(self, name: str) -> Any:
        if self._copy is not None and name in self._copy.columns:
            return self._copy.columns[name]
        names = self._native.column_names
        return self._native.column(names.index(name), self._arrays) if name in names else None

    @property
    def epoch(self) -> int:
        return self._native.epoch

    @property
    def index(self) -> int:  # type: ignore[override]
        """The number of the batch in its epoch."""
        return self._native.index

    @property
    def count(self) -> int:  # type: ignore[override]
        """The number of samples of this rank in the batch."""
        return self._native.count

    @property
    def global_count(self) -> int:
        """The number of samples of all ranks in the batch: what a sum of losses is to be divided by."""
        return self._native.global_count


def made_batch(made: Tuple[Any, Any, NativeBatch], arrays: Arrays) -> Batch:
    batch = Batch(made[:2])
    batch._native = made[2]
    batch._arrays = arrays
    return batch


def on_device(copy: Copy) -> Batch:
    batch = made_batch((copy.columns["images"], copy.columns["labels"], copy.source._native), copy.source._arrays)
    batch._copy = copy
    return batch
