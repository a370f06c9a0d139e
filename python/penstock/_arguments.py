"""Arguments of Python as values that C++ can take. What is wrong with them is a ConfigError of one line."""
import operator
import os
import re
from typing import Any

from penstock.errors import ConfigError, IoError


def whole(name: str, value: Any, least: int = -2**63, most: int = 2**63 - 1, where: str = "loader") -> int:
    """The value as an int. Whether it makes sense is for C++ to say."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{where}: {name} is {value!r:.200}; expected a whole number") from None
    if not least <= number <= most:
        raise ConfigError(f"{where}: {name} is {number}; expected {least} to {most}")
    return number


def int32(name: str, value: Any, where: str = "loader") -> int:
    return whole(name, value, -2**31, 2**31 - 1, where)


def text(name: str, value: Any, where: str = "loader", expected: str = "a name") -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {name} is {value!r:.200}; expected {expected}")
    return value


def milliseconds(name: str, value: Any, where: str = "loader") -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < 1e12:
        raise ConfigError(f"{where}: {name} is {value!r:.200}; expected milliseconds, 0 or more")
    return number


def folder(data: Any, where: str = "loader") -> str:
    try:
        place = os.fsdecode(data)
    except TypeError:
        place = ""
    if not place:
        raise ConfigError(f"{where}: data is {data!r:.200}; expected the folder of a packed data set")
    return place


def open_data(kind: Any, **options: Any) -> Any:
    """kind(**options), and the call of pack() that would help where the folder is none of a data set."""
    try:
        return kind(**options)
    except IoError as error:
        place = options["data"]
        has_folders = os.path.isdir(place) and any(entry.is_dir() for entry in os.scandir(place))
        is_source = re.match(r"(image-folder|mnist|cifar10)(\([^)]*\))?:(.+)", place, re.DOTALL)
        if "as shardprep writes them" not in str(error) or not (has_folders or is_source):  # otherwise some split is there
            raise
        source = place if is_source else f"image-folder:{place}"
        out = f"{(is_source[3] if is_source else place).rstrip('/')}.packed"
        what = "that source" if is_source else "a folder of class folders"
        raise IoError(f"{error}; penstock.pack({source!r}, {out!r}) makes one of {what}") from None
