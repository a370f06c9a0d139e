"""Limit and Watch: what limits a loop over a Loader, and how far an earlier promise was from what came."""
import contextlib
import json
import os
import pathlib
import sys
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple

from penstock import _native
from penstock._arguments import milliseconds, text
from penstock._ranks import ranks_of_machine
from penstock.errors import ConfigError, IoError, as_arguments

_KEPT = 100  # watches in a file
_watches: List[Dict[str, Any]] = []  # of this process, the newest last


class Limit:
    """What limits a loop. str() is the sentence, as `train` ends with it:

        load-bound: the trainer waited 71 % of the time; 2 more workers would give about 2.1x (14,300 images/s), the limit
        is 3.9x (compute)

    bound: "load", "storage", "link", "compute", "communication" or "cores"; "" for a watch of less than 100 ms, which says nothing.
    workers, best_workers: the loader's own, and those that are advised.
    speed_up, limit: how many times as fast it would be with best_workers, and if batches cost nothing.
    images_per_second, step_ms, wait_ms, steps: as measured, or as foreseen (then steps is 0). Of all ranks.
    link_predictions: where data are far away, dicts with images_per_second, and either link_factor (of the rate of the link) or
        cache_bytes (of the cache; in epochs after the first).
    link_bytes_per_second, cache_share: what the link gave while bytes came, and the share of the bytes of the images that
        it did not bring. is_emulated: with `sim_link`.
    predictions: one dict per number of workers, from 0: workers, images_per_second, low, high. Empty where bound is "".
    """
    sentence: str
    bound: str
    workers: int
    best_workers: int
    speed_up: float
    limit: float
    images_per_second: float
    step_ms: float
    wait_ms: float
    steps: int
    predictions: List[Dict[str, float]]
    link_predictions: List[Dict[str, float]]
    link_bytes_per_second: float
    cache_share: float
    is_emulated: bool

    def __init__(self, values: Dict[str, Any]) -> None:
        self.__dict__.update(values)
        self.sentence = as_arguments(self.sentence)

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<penstock.Limit {self.sentence}>"


class Watch:
    """Measures the loop inside of its `with`, and says at its end what limited it, and how wrong the last promise was.

    limit: the Limit, once the loop has ended; None before it, and after an exception.
    promise: the line about the last promise; None if there was none.

    Of several ranks the first one says it and keeps the promise; the others have their `limit` only.
    """

    def __init__(self, native: "_native.Loader", configuration: Dict[str, Any], name: str,
                 history: "Optional[str | os.PathLike[str]]", say: Optional[Callable[[str], Any]]) -> None:
        self._native = native
        self._say = say
        self._file = None if history is None else _path(history)
        if self._file is not None:
            _read(self._file)  # what is wrong with it shows before the loop and not after it
            _make_folder(self._file)
        self._configuration = {**configuration, "name": text("name", name, "watch")}
        self.limit: Optional[Limit] = None
        self.promise: Optional[str] = None

    def __enter__(self) -> "Watch":
        _native.begin_watch(self._native)
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        if kind is not None:  # the loop did not end as it should: nothing is promised
            with contextlib.suppress(ConfigError):  # of a loader that was closed
                _native.drop_watch(self._native)
            return
        threads, is_async = _loop_threads()
        self.limit = Limit(_native.end_watch(self._native, ranks_of_machine(), threads, is_async))
        if self._configuration["rank"] != 0:
            return
        self._configuration.update(threads=threads, is_async=is_async)
        if self.limit.predictions:
            self.promise = self._compare(self.limit)
        for line in filter(None, (self.limit.sentence, self.promise)):
            if self._say is not None:
                self._say(line)

    def _compare(self, limit: Limit) -> Optional[str]:
        """The line about the newest watch of the same loop with another number of workers, over another emulated link or with
        another cache. Keeps this watch."""
        watches = _watches if self._file is None else _read(self._file)
        line = None
        for past in reversed(watches):
            promise = _promise(past, self._configuration, limit.workers)
            if promise is not None:
                was, now, rate, low, high = promise
                line = _native.promise_text(f"the watch before ({was})", now, rate, low, high, limit.images_per_second,
                                            limit.is_emulated)
                break
        watches = [*watches, {"configuration": self._configuration, "workers": limit.workers,
                              "predictions": limit.predictions, "link_predictions": limit.link_predictions}][-_KEPT:]
        if self._file is None:
            _watches[:] = watches
        else:
            _write(self._file, watches)
        return line


def _promise(past: Dict[str, Any], configuration: Dict[str, Any], workers: int) -> Optional[Tuple[str, str, float, float, float]]:
    """What `past` promised for this configuration: its own setting, this one, the rate and its range. None where they
    differ in nothing, in several settings or in one that nothing was said of."""
    other, settings = past["configuration"], ("sim_link", "cache_limit")
    changed = [key for key in {*configuration, *other} if configuration.get(key) != other.get(key)]
    if not changed and past["workers"] != workers:
        for one in past["predictions"]:
            if one["workers"] == workers:
                return _workers(past["workers"]), _workers(workers), one["images_per_second"], one["low"], one["high"]
    if len(changed) != 1 or changed[0] not in settings or past["workers"] != workers:
        return None
    was, now = other.get(changed[0]), configuration.get(changed[0])
    found = past.get("link_predictions", [])
    rate = _over_link(found, was, now) if changed[0] == "sim_link" else _with_cache(found, now)
    words = "a link of {}" if changed[0] == "sim_link" else "a cache of {}"
    return None if rate is None else (words.format(was or "default"), words.format(now or "default"), rate, rate, rate)


def _over_link(found: List[Dict[str, float]], was: Any, now: Any) -> Optional[float]:
    (old_delay, old_rate), (delay, rate) = _native.link_speed(was or ""), _native.link_speed(now or "")
    if old_delay != delay or old_rate <= 0:
        return None
    return next((one["images_per_second"] for one in found if abs(one.get("link_factor", 0) * old_rate - rate) < 0.01 * rate), None)


def _with_cache(found: List[Dict[str, float]], limit: Any) -> Optional[float]:
    """Between two sizes the time of an image is taken to fall evenly."""
    size = _native.byte_limit(limit or "")
    sizes = [one for one in found if one.get("cache_bytes", 0) > 0 and one["images_per_second"] > 0]
    for low, high in zip(sizes, sizes[1:]):
        if low["cache_bytes"] <= size <= high["cache_bytes"]:
            share = (size - low["cache_bytes"]) / (high["cache_bytes"] - low["cache_bytes"])
            return 1 / ((1 - share) / low["images_per_second"] + share / high["images_per_second"])
    return sizes[-1]["images_per_second"] if sizes and size > sizes[-1]["cache_bytes"] else None


def foresee(native: "_native.Loader", step_ms: Any, step_cpu_ms: Any) -> Limit:
    step = milliseconds("step_ms", step_ms, "limit")
    cpu = step if step_cpu_ms is None else milliseconds("step_cpu_ms", step_cpu_ms, "limit")
    return Limit(_native.foresee(native, step, cpu, ranks_of_machine()))


def _loop_threads() -> Tuple[float, bool]:
    """The threads that compute a step on the CPU, and whether a device computes it instead."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_num_threads"):
        return 1, False
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return 1, True
    return torch.get_num_threads(), False


def _workers(count: int) -> str:
    return f"{count} worker" if count == 1 else f"{count} workers"


def _path(history: Any) -> pathlib.Path:
    try:
        return pathlib.Path(os.fsdecode(history))
    except TypeError:
        raise ConfigError(f"watch: history is {history!r:.200}; expected a file, or None") from None


def _read(file: pathlib.Path) -> List[Dict[str, Any]]:
    try:
        watches = json.loads(file.read_text(encoding="utf-8"))["watches"]
        for one in watches:
            one["configuration"], one["workers"], one["predictions"]  # a KeyError where one has none
        return watches
    except FileNotFoundError:
        return []
    except OSError as error:
        raise IoError(f"watch: history is {str(file)!r:.200}: {error.strerror}; expected a file of earlier watches") from None
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"watch: history is {str(file)!r:.200}, which no watch has written; expected another file, or "
                          "one that is not there yet") from None


def _make_folder(file: pathlib.Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise IoError(f"watch: history is {str(file)!r:.200}: {error.strerror}; expected a file that can be written") from None


def _write(file: pathlib.Path, watches: List[Dict[str, Any]]) -> None:
    """Never leaves half a file, and follows no link: what has the name aside is removed, and the file is a new one."""
    aside = file.with_name(f".{file.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        aside.unlink(missing_ok=True)
        with aside.open("x", encoding="utf-8") as out:
            out.write(json.dumps({"watches": watches}))
        os.replace(aside, file)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise IoError(f"watch: history is {str(file)!r:.200}: {error.strerror}; expected a file that can be written") from None
