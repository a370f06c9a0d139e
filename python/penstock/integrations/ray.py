"""PenstockDatasink: `dataset.write_datasink(PenstockDatasink("data/photos", class_names=[...]))` of Ray Data."""
import os
from typing import Any, Iterable, Iterator, List, Optional, Sequence

from ray.data import Datasink
from ray.data.block import BlockAccessor

from penstock._parts import discard_rows, merge_rows, pack_rows


class PenstockDatasink(Datasink):  # type: ignore[misc]
    """Packs rows that are dicts, as penstock.pack() takes them, into OUT/<split>.

    A write task packs `shards` shards (1). The order of samples is that of the tasks' numbers and rows. `options` are those of
    penstock.pack(): class_names, which must be given, fields, encode, resize and so on.
    """

    def __init__(self, out: str, *, class_names: Sequence[str], split: str = "train", force: bool = False, **options: Any) -> None:
        self._out, self._split, self._force = os.path.abspath(out), split, force
        self._options = {**options, "class_names": list(class_names)}

    def write(self, blocks: Iterable[Any], ctx: Any) -> Optional[str]:
        def rows() -> Iterator[Any]:
            for block in blocks:
                yield from BlockAccessor.for_block(block).iter_rows(public_row_format=True)
        return pack_rows(rows(), self._out, ctx.task_idx, split=self._split, force=self._force, **self._options)

    def on_write_complete(self, write_result: Any) -> None:
        attempts: List[Optional[str]] = write_result.write_returns
        merge_rows(self._out, attempts, split=self._split, force=self._force)

    def on_write_failed(self, error: Exception) -> None:
        discard_rows(self._out, split=self._split)
