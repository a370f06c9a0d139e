"""PenstockDataSource: the format "penstock" of Spark's DataFrame.write (Spark 4 or later).

    spark.dataSource.register(PenstockDataSource)
    frame.write.format("penstock").mode("append").option("class_names", '["cat", "dog"]').save("data/photos")
"""
import json
import os
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Optional

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

from penstock._parts import discard_rows, merge_rows, pack_rows
from penstock.errors import ConfigError


@dataclass
class PackedRows(WriterCommitMessage):  # type: ignore[misc]
    attempt: Optional[str]


class PenstockWriter(DataSourceWriter):  # type: ignore[misc]
    def __init__(self, out: str, split: str, force: bool, words: Dict[str, Any]) -> None:
        self._out, self._split, self._force, self._words = os.path.abspath(out), split, force, words

    def write(self, iterator: Iterator[Any]) -> PackedRows:
        context = TaskContext.get()
        assert context is not None  # a writer runs in a task
        rows = (row.asDict() for row in iterator)
        return PackedRows(pack_rows(rows, self._out, context.partitionId(), split=self._split, force=self._force, **self._words))

    def commit(self, messages: List[Optional[WriterCommitMessage]]) -> None:
        attempts = [message.attempt for message in messages if isinstance(message, PackedRows)]
        merge_rows(self._out, attempts, split=self._split, force=self._force)

    def abort(self, messages: List[Optional[WriterCommitMessage]]) -> None:
        discard_rows(self._out, split=self._split)


class PenstockDataSource(DataSource):  # type: ignore[misc]
    """Packs rows, whose columns are the keys that penstock.pack() knows (image, label), into PATH/<split>.

    Options are those of penstock.pack() as JSON, and names as they are: class_names (must be given), split, fields, encode,
    resize, shards (of each partition: 1). The mode overwrite is force=True.
    """

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def writer(self, schema: Any, overwrite: bool) -> PenstockWriter:
        words = {name: _value(text) for name, text in dict(self.options).items()}
        out = words.pop("path", None)
        if not isinstance(out, str) or not isinstance(words.get("class_names"), list):
            raise ConfigError(f"pack: path is {out!r:.200} and class_names is {words.get('class_names')!r:.200}; expected a folder "
                              'and the names of all classes as JSON, such as ["cat", "dog"]')
        return PenstockWriter(out, words.pop("split", "train"), overwrite, words)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
