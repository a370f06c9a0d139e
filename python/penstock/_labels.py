"""Labels: the labels of what pack() is given, as numbers of classes."""
import re
from typing import Any, Dict, List, Optional

from penstock import _native
from penstock._arguments import whole
from penstock.errors import ConfigError

_NUMBER = re.compile(r"\s*-?(0|[1-9][0-9]*)?(\.[0-9]*)?\s*").fullmatch
_MISSING = ("", "nan", "na", "n/a", "<na>", "none", "null")
_MOST_CLASSES = 100_000  # that numbers as labels may make of fewer pictures: 3 MB of names


def _label_of_bytes(label: bytes, index: int) -> "int | str":
    """A whole number as int() reads it, also after a byte order mark, or a name."""
    label = label.removeprefix(b"\xef\xbb\xbf").strip()
    try:
        return int(label)
    except ValueError:
        pass
    try:
        float(label)
    except ValueError:
        return label.decode("utf-8", "replace")
    raise ConfigError(f"pack: item {index}: the label is {label!r:.200}; expected a whole number, or a name")


class Labels:
    """Labels as numbers: given numbers, or the places of class names."""

    def __init__(self, names: Optional[List[str]]) -> None:
        self._names = names
        self._numbers = {name: number for number, name in enumerate(names or ())}
        self._is_open = names is None
        self._kind: Optional[type] = None
        self._first: Dict[str, int] = {}  # the first item that has the name
        self._most, self._most_index = -1, 0

    def number(self, label: Any, index: int) -> int:
        if isinstance(label, bytes):  # WebDataset's .cls and .txt, as they stand in the archive
            label = _label_of_bytes(label, index)
        if not isinstance(label, int) and hasattr(label, "is_integer") and label.is_integer():  # 2.0, as pandas has them
            label = int(label)
        kind = str if isinstance(label, str) else int
        if self._kind not in (None, kind):
            raise ConfigError(f"pack: item {index}: the label is {label!r:.200} after labels of another kind; expected all "
                              "numbers or all names")
        self._kind = kind
        if kind is str:
            if label not in self._numbers:
                if not self._is_open:
                    raise ConfigError(f"pack: item {index}: the label is {label!r:.200}; expected one of class_names")
                self._numbers[label] = len(self._numbers)
                self._first[label] = index
            return self._numbers[label]
        try:
            number = whole("label", label, 0, 2**31 - 1, where="pack")
        except ConfigError:
            raise ConfigError(f"pack: item {index}: the label is {label!r:.200}; expected a number, 0 or more, or a name") from None
        if self._names is not None and number >= len(self._names):
            raise ConfigError(f"pack: item {index}: the label is {number}; expected 0 to {len(self._names) - 1}, as there "
                              f"are {len(self._names)} class names")
        if number > self._most:
            self._most, self._most_index = number, index
        return number

    def finish(self, spool: "_native.Spool") -> None:
        """Classes that only labels have named are sorted, numbers by their value, so that two splits of one data set have the same numbers."""
        if self._names is not None:
            spool.set_classes(self._names, list(range(len(self._names))))
        elif self._kind is str:
            names = sorted(self._numbers, key=(lambda name: (float(name), name)) if self._are_numbers() else None)
            places = {name: place for place, name in enumerate(names)}
            spool.set_classes(names, [places[name] for name in self._numbers])
        else:
            count = self._most + 1
            if count > max(_MOST_CLASSES, len(spool)):
                raise ConfigError(f"pack: item {self._most_index}: the label is {self._most}, so that classes outnumber "
                                  f"pictures, {count:,} to {len(spool):,}; expected numbers from 0 on without large gaps, or text, of which "
                                  "each is a class")
            spool.set_classes([str(number) for number in range(count)], list(range(count)))

    def _are_numbers(self) -> bool:
        """Whether all names are numbers. One that is missing among numbers is refused."""
        numbers = [name for name in self._numbers if _NUMBER(name) and any(map(str.isdigit, name))]
        rest = [name for name in self._numbers if name not in numbers]
        if numbers and rest and all(name.strip().lower() in _MISSING for name in rest):
            raise ConfigError(f"pack: item {self._first[rest[0]]}: the label is {rest[0]!r}; expected a number, as the others are")
        return not rest
