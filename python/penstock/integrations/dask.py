"""pack_collection(): packs a bag or a data frame of Dask."""
import os
from typing import Any, Iterable, Optional, Sequence

import dask

from penstock._parts import discard_rows, merge_rows, pack_rows


def pack_collection(collection: Any, out: str, *, class_names: Sequence[str], split: str = "train", force: bool = False,
                    **options: Any) -> None:
    """Packs the rows of a dask.bag, which are items of penstock.pack(), or of a dask.dataframe, whose rows become dicts, into
    OUT/<split>. Each partition becomes `shards` shards (1), in order of the partitions. `options` are those of penstock.pack().
    """
    out = os.path.abspath(out)
    words = {**options, "class_names": list(class_names), "split": split, "force": force}
    tasks = [dask.delayed(_pack_partition, pure=False)(partition, out, index, words)
             for index, partition in enumerate(collection.to_delayed())]
    try:
        attempts = dask.compute(*tasks)
    except BaseException:
        discard_rows(out, split=split)
        raise
    merge_rows(out, attempts, split=split, force=force)


def _pack_partition(partition: Any, out: str, index: int, words: Any) -> Optional[str]:
    rows: Iterable[Any] = partition.to_dict("records") if hasattr(partition, "to_dict") else partition
    return pack_rows(rows, out, index, **words)
