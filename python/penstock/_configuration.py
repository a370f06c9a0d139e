"""The arguments of a Loader: as plain values from which it can be made again, and as what C++ takes."""
import os
from typing import Any, Dict, List

from penstock import _native
from penstock._arguments import absolute, file_name, folders, int32, numbers, seed64, sizes, text, whole, word
from penstock.augment import spec_list
from penstock.errors import ConfigError

LEVELS = ("u8", "u16")  # layouts without normalize, always channels last
_LAYOUTS = ("f32", "f16", "bf16", "u8", "u16")
_ARRAYS = ("torch", "numpy", "dlpack")


def _view_lists(views: Any, augment: Any) -> List[Any]:
    """The lists of transforms of all views, of which `augment` is the only one without `views`."""
    if isinstance(views, str) or not isinstance(views, (list, tuple)):
        raise ConfigError(f"loader: views is {views!r:.200}; expected a list of what augment takes, one for each view")
    if views and augment is not None:
        raise ConfigError("loader: both augment and views are given; expected one of the two: the first view is that of images")
    return list(views) or [augment]


def _column_list(columns: Any) -> str:
    if isinstance(columns, str):
        columns = (columns,)
    return ",".join(text("columns", part, expected="the specs of columns") for part in columns)


def plain(given: Dict[str, Any]) -> Dict[str, Any]:
    """The arguments of a Loader in which transforms are texts, and paths of data absolute: what can be pickled."""
    arrays, layout, shuffle = given["arrays"], given["layout"], given["shuffle"]
    if arrays is not None and arrays not in _ARRAYS:
        raise ConfigError(f"loader: arrays is {arrays!r:.200}; expected one of {', '.join(_ARRAYS)}, or None")
    if layout not in _LAYOUTS:
        raise ConfigError(f"loader: layout is {layout!r:.200}; expected one of {', '.join(_LAYOUTS)}")
    if isinstance(shuffle, bool):
        shuffle = "global" if shuffle else "none"
    first, *others = _view_lists(given["views"], given["augment"])
    if first is None:
        first = "" if layout in LEVELS else "normalize"
    lists = [spec_list(one) for one in (first, *others)]
    return {**given, "data": [absolute(one) for one in folders(given["data"])], "augment": None if others else lists[0],
            "views": lists if others else (), "shuffle": _native.shuffle_text(word("shuffle", shuffle, others=", True or False")),
            "columns": _column_list(given["columns"]), "size_schedule": sizes(given["size_schedule"]),
            "weights": numbers("weights", given["weights"])}


def _batch_size(given: Dict[str, Any], world_size: int) -> int:
    """Over all ranks."""
    whole_size, of_rank = given["batch_size"], given["batch_size_per_rank"]
    if of_rank is None:
        return 64 if whole_size is None else whole("batch_size", whole_size)
    if whole_size is not None:
        raise ConfigError("loader: both batch_size and batch_size_per_rank are given; expected one of the two")
    return whole("batch_size_per_rank", of_rank, 1, 2**31 - 1) * max(world_size, 1)


def configuration_of(given: Dict[str, Any], rank: int, world_size: int) -> Dict[str, Any]:
    """What decides over the batches of a loader, its workers and its rank, as C++ takes it. `given`: what plain() gave."""
    layout = given["layout"]
    if given["device"] is not None:
        layout = "u8"
    elif given["channels_last"] and layout not in LEVELS:
        layout = f"{layout}-nhwc"
    data = given["data"]
    if given["sim_link"] is not None:
        speed = text("sim_link", given["sim_link"], expected='a delay and a rate, such as "20ms,100MB/s"')
        data = [_native.behind_sim_link(speed, one) for one in data]
        os.environ["PENSTOCK_SIM_LINK"] = speed  # which native code has set where Python does not see it
    workers, epochs = given["workers"], given["epochs"]
    first, *views = given["views"] or [given["augment"]]
    return dict(
        data=data[0], also=data[1:], split=text("split", given["split"]), augment=first, views=views,
        size_schedule=given["size_schedule"], workers=int32("workers", len(os.sched_getaffinity(0)) if workers is None else workers),
        prefetch=int32("prefetch", given["prefetch"]), rank=int32("rank", rank), world_size=int32("world_size", world_size),
        epoch_count=-1 if epochs is None else whole("epochs", epochs, 0), layout=layout,
        **{name: word(name, given[name]) for name in ("on_corrupt", "decode", "dct_scale", "read_ahead", "tail")},
        columns=given["columns"],
        subset=text("subset", given["subset"], expected='the spec of a subset, such as "percent(0-10)"'),
        exclude_ids=file_name("exclude_ids", given["exclude_ids"]),
        sampler=text("sampler", given["sampler"], expected='the spec of a sampler, such as "class-balanced", or "weighted" with '
                     'weights=[...]; ranks share every batch by themselves'),
        batch_size=_batch_size(given, world_size), seed=seed64(given["seed"]), shuffle=given["shuffle"])
