"""Epoch: one iteration over a loader, and the copies to its device that run ahead of it."""
import collections
from typing import TYPE_CHECKING, Any, Deque, Optional

from penstock._batch import Batch, made_batch
from penstock._device import Copy, Feed, current
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock._loader import Loader


class Epoch:
    """One iteration. It is over once another one has begun, because both would take the same batches."""

    def __init__(self, loader: "Loader", turn: int, epoch: int) -> None:
        self._loader, self._turn, self._epoch = loader, turn, epoch
        self._arrays = loader._arrays()
        self._is_over = False
        self._copies: Deque[Any] = collections.deque()  # what comes next: a Copy, an exception, or None at the end

    def __iter__(self) -> "Epoch":
        return self

    def __len__(self) -> int:
        return len(self._loader) - self._loader._next_batch

    def __next__(self) -> Batch:
        loader = self._loader
        if self._is_over:
            raise StopIteration
        if loader._turn != self._turn:
            raise ConfigError(f"loader: a later iteration has begun while this one of epoch {self._epoch} was under way; "
                              "expected one at a time, or a loader for each")
        loader._is_asked = True
        try:
            batch = self._taken() if loader._feed is None else self._copied(loader._feed)
        except Exception:
            self._move_to(loader._next_batch + 1)
            raise
        if batch is None:
            self._is_over = True
            self._finish()
            raise StopIteration
        loader._has_given = True
        self._move_to(batch.index + 1)
        return batch

    def _taken(self) -> Optional[Batch]:
        made = self._loader._native.next(self._arrays)
        return None if made is None else made_batch(made, self._arrays, self._loader)

    def _copied(self, feed: Feed) -> Optional[Batch]:
        """The copy of the next batch begins before this one is given, so that a step hides it. What a signal interrupts
        here is done by the next call."""
        while len(self._copies) < 2 and not (self._copies and not isinstance(self._copies[0], Copy)):
            try:
                with current(self._loader._device):
                    batch = self._taken()
                self._copies.append(None if batch is None else feed.begin(batch))
            except Exception as error:
                self._copies.append(error)
        found = self._copies.popleft()
        if isinstance(found, Exception):
            raise found
        return None if found is None else self._loader._delivered(found)

    def _move_to(self, next_batch: int) -> None:
        loader = self._loader
        with loader._lock:
            if loader._turn == self._turn and not loader._is_placed:
                loader._next_batch = min(next_batch, len(loader))

    def _finish(self) -> None:
        loader = self._loader
        with loader._lock:
            if loader._turn == self._turn and not loader._is_placed:
                loader._epoch, loader._next_batch, loader._is_placed = self._epoch + 1, 0, True
