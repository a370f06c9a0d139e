"""Arguments of Python as values that C++ can take. What is wrong with them is a ConfigError of one line."""
import collections.abc
import functools
import importlib
import operator
import os
import re
from typing import Any, Callable, TypeVar, cast

from penstock import _native
from penstock.errors import ConfigError, IoError

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Arguments of torch.utils.data.DataLoader, and what stands here in their place.
_OF_PYTORCH = {
    "num_workers": "workers={value}, which are threads",
    "drop_last": 'tail="drop", or tail="pad" to keep the last batch',
    "pin_memory": 'device="cuda", which copies batches from page-locked memory to that device ahead of time',
    "transform": 'augment="random-resized-crop(size=224),flip,normalize", or a Compose of torchvision\'s',
    "batch_sampler": 'batch_size=256 and shuffle="global", "rank-local" or "none"',
    "collate_fn": "nothing in its place: a batch is made as one array; what is to be done to it can be done in the loop",
    "prefetch_factor": "prefetch=4, batches of all workers together",
    "persistent_workers": "nothing in its place: threads live as long as the loader",
    "worker_init_fn": "nothing in its place: random numbers follow from seed, epoch and sample",
    "generator": "seed=torch.initial_seed()",
    "multiprocessing_context": "nothing in its place: workers are threads",
    "timeout": "nothing in its place: an error of a worker comes from the step that would have given its batch",
    "num_replicas": "world_size=2, with rank",
    "dataset": "data, the folder of a packed data set",
}


def known_names(function: _Function) -> _Function:
    """A loader's function, with a TypeError for an unknown argument that says which one is meant."""
    code = function.__code__
    known = code.co_varnames[1:code.co_argcount + code.co_kwonlyargcount]

    @functools.wraps(function)
    def checked(*values: Any, **options: Any) -> Any:
        for name in options:
            if name not in known:
                raise TypeError(f"loader: {name} is no argument; {_meant(name, known, options[name])}")
        return function(*values, **options)

    return cast(_Function, checked)


def _meant(name: str, known: "tuple[str, ...]", value: Any) -> str:
    if name in _OF_PYTORCH:
        return "expected " + _OF_PYTORCH[name].replace("{value}", f"{value!r:.20}")
    difflib = importlib.import_module("difflib")  # here, because an import of the package takes 2 ms less without it
    close = difflib.get_close_matches(name, known, 1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}known: {', '.join(known)}"


def whole(name: str, value: Any, least: int = -2**63, most: int = 2**63 - 1, where: str = "loader") -> int:
    """The value as an int. Whether it makes sense is for C++ to say."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{where}: {name} is {value!r:.200}; expected a whole number") from None
    if not least <= number <= most:
        raise ConfigError(f"{where}: {name} is {number}; expected {least} to {most}")
    return number


def seed64(value: Any, where: str = "loader") -> int:
    """64 bits, as torch.initial_seed() gives them."""
    return whole("seed", value, 0, 2**64 - 1, where)


def int32(name: str, value: Any, where: str = "loader") -> int:
    return whole(name, value, -2**31, 2**31 - 1, where)


def text(name: str, value: Any, where: str = "loader", expected: str = "a name") -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: {name} is {value!r:.200}; expected {expected}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: {name} is {value!r:.200}, which UTF-8 has no bytes for; expected {expected}") from None
    return value


def word(name: str, value: Any, where: str = "loader", others: str = "") -> str:
    """One of the words of _native.choices. A word that is none of them is for C++ to refuse, which says what comes close."""
    return text(name, value, where, f"one of {', '.join(_native.choices[name])}{others}")


def sizes(value: Any) -> str:
    """A size schedule as a text: what it is, or a dict of epochs and sizes."""
    if not isinstance(value, collections.abc.Mapping):
        return text("size_schedule", value, expected='"0:128,6:160", or {0: 128, 6: 160}')
    return ",".join(f"{whole('size_schedule', epoch)}:{whole('size_schedule', size)}" for epoch, size in value.items())


def numbers(name: str, values: Any, where: str = "loader") -> Any:
    """The values as an array of doubles that C++ can take; None for None."""
    if values is None:
        return None
    try:
        if hasattr(values, "__array__"):
            return importlib.import_module("numpy").ascontiguousarray(values, dtype="float64").reshape(-1)
        return importlib.import_module("array").array("d", values)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"{where}: {name} is {values!r:.200}; expected a number for every sample of the data set") from None


def _path_text(name: str, value: Any, where: str, expected: str) -> str:
    try:
        place = os.fsdecode(value)
        os.fsencode(place)
    except (TypeError, UnicodeEncodeError):
        place = ""
    if not place:
        raise ConfigError(f"{where}: {name} is {value!r:.200}; expected {expected}")
    return place


def file_name(name: str, value: Any, where: str = "loader") -> str:
    """A path as a text; "" for None."""
    return "" if value is None else _path_text(name, value, where, "the name of a file")


def milliseconds(name: str, value: Any, where: str = "loader") -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < 1e12:
        raise ConfigError(f"{where}: {name} is {value!r:.200}; expected milliseconds, 0 or more")
    return number


def shown(place: str) -> str:
    """A path that can be printed, whatever its bytes are."""
    return place.encode(errors="backslashreplace").decode()


def folder(data: Any, where: str = "loader") -> str:
    return _path_text("data", data, where, "the folder of a packed data set")


def folders(data: Any, where: str = "loader") -> "list[str]":
    """One folder, or those of a list."""
    return [folder(one, where) for one in data] if isinstance(data, (list, tuple)) and data else [folder(data, where)]


def absolute(place: str) -> str:
    """A folder that is there as a path that a later os.chdir() does not change; addresses, and what is not there, as they are."""
    return os.path.join(os.getcwd(), place) if not os.path.isabs(place) and os.path.isdir(place) else place


def _has_folders(place: str) -> bool:
    if not os.path.isdir(place):
        return False
    with os.scandir(place) as entries:
        return any(entry.is_dir() for entry in entries)


def open_data(kind: Any, **options: Any) -> Any:
    """kind(**options), and the call of pack() that would help where the folder is none of a data set."""
    try:
        return kind(**options)
    except IoError as error:
        place = options["data"]
        has_folders = _has_folders(place)
        is_source = re.match(r"(image-folder|mnist|cifar10)(\([^)]*\))?:(.+)", place, re.DOTALL)
        if "as shardprep writes them" not in str(error) or not (has_folders or is_source):  # otherwise some split is there
            raise
        source = place if is_source else f"image-folder:{place}"
        out = f"{(is_source[3] if is_source else place).rstrip('/')}.packed"
        what = "that source" if is_source else "a folder of class folders"
        raise IoError(f"{error}; penstock.pack({source!r}, {out!r}) makes one of {what}") from None
