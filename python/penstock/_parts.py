"""merge() makes a data set of the parts that pack(part=...) left; pack_rows() and its like do so for rows of an engine."""
import contextlib
import itertools
import os
import pathlib
import shutil
import uuid
from typing import Any, Iterable, List, Optional, Sequence

from penstock import _native
from penstock._pack import OwnRows, _path, pack
from penstock.errors import ConfigError, IoError


def merge(out: "str | os.PathLike[str]", *, split: Optional[str] = None, force: bool = False) -> None:
    """Makes OUT/<split> of the parts in OUT/.<split>.parts, or all splits that have parts; what `shardprep merge` does.

    Raises ConfigError for parts that do not belong together, one that lacks and one that is there twice; IoError and
    CorruptError.
    """
    folder = _path("out", out)
    splits = _native.splits_with_parts(folder) if split is None else [_native.split_of_name(split)]
    if not splits:
        raise IoError(f"{folder}: no parts; expected what pack(part=...) has left there")
    for name in splits:
        _native.merge_parts(output=folder, split=name, force=bool(force), attempts=[])


def pack_rows(rows: Iterable[Any], out: "str | os.PathLike[str]", index: int, *, class_names: Sequence[str],
              split: str = "train", shards: int = 1, jobs: int = 1, **options: Any) -> Optional[str]:
    """Packs rows that no other task has, as part `index`. Returns the name of this attempt for merge_rows(), or None where
    there are no rows.

    Until then nothing of it is visible in OUT, so a task may be tried again, or twice at the same time. Rows, class_names
    and the other options are as in penstock.pack(); all parts need the same class_names ([]: no classes), because no task
    knows the labels of the others. Ids are index * 2**32 and on.
    """
    if class_names is None or isinstance(class_names, (str, bytes)):
        raise ConfigError(f"pack: class_names is {class_names!r:.200}; expected the names of all classes, since a task sees only "
                          "its rows, or [] for pictures without classes")
    begun = iter(rows)
    first = list(itertools.islice(begun, 1))
    if not first:
        return None
    attempt = uuid.uuid4().hex
    pack(itertools.chain(first, begun), out, split=split, class_names=class_names, shards=shards, jobs=jobs, progress=False,
         part=OwnRows(index, attempt), **options)  # type: ignore[arg-type]
    return f"part-{index}.{attempt}"


def merge_rows(out: "str | os.PathLike[str]", attempts: Iterable[Optional[str]], *, split: str = "train",
               force: bool = False) -> None:
    """Makes OUT/<split> of the attempts that count, in order of their indices. The others are removed."""
    names: List[str] = [name for name in attempts if name is not None]
    if not names:
        raise IoError(f"{_path('out', out)}: no rows were packed; expected one or more")
    _native.merge_parts(output=_path("out", out), split=_native.split_of_name(split), force=bool(force), attempts=names)


def discard_rows(out: "str | os.PathLike[str]", *, split: str = "train") -> None:
    """Removes what the tasks of a job that failed have left."""
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(pathlib.Path(_path("out", out)) / f".{_native.split_of_name(split)}.parts")
