"""from_torchvision(), from_timm(), for_weights(): the spec list of Loader's `augment` that does what transforms of other libraries
do, and what a pretrained model wants.
"""
from copy import copy
from typing import Any, List, Tuple

from penstock import _timm, _torchvision
from penstock._pretrained import for_weights
from penstock._arguments import text
from penstock._spec_text import NoCounterpart, Values, number, numbers, spec
from penstock.errors import ConfigError

__all__ = ["for_weights", "from_timm", "from_torchvision"]

_MOST_DEEP = 100  # each Compose within a Compose is two
_MIXES = ("MixUp", "CutMix")


def from_torchvision(transforms: Any, closest: bool = False) -> str:
    """The spec list for a transform of torchvision.transforms or torchvision.transforms.v2, a Compose or a list of them.
    Parts of a list that are text already stay as they are.

    What only changes the form of a picture (ToTensor, ToImage and the like) has no place in the list: Loader's images are
    tensors of 0 to 1 before normalize. Values are followed through the list: levels that ToDtype leaves at 0 to 255 change the
    numbers of normalize, and what RandomErasing writes after Normalize is given in normalised values there and in parts of white
    here. docs/TRANSFORMS.md says in what the results differ.

    Raises ConfigError, which names all transforms without a counterpart, and for each the closest one. With `closest`
    these are taken instead, and what has none is left out. Classes of other modules than torchvision's, timm's and torch.nn have
    none, whatever their names.
    """
    return _translated(transforms, closest, "from_torchvision")


def from_timm(transforms: Any, closest: bool = False) -> str:
    """The spec list for what timm.data.create_transform() gives, for training or evaluation, with its rand-m9-mstd0.5-inc1, 3a and
    RandomErasing, and for lists of such transforms. One of separate=True is the three lists one after the other.

    With use_prefetcher=True timm normalises and erases in its loader, and the composition has neither: create it without, or add
    "normalize" and "erase" yourself. Otherwise as from_torchvision().
    """
    return _translated(transforms, closest, "from_timm")


def spec_list(augment: Any, where: str = "loader") -> str:
    """The text of an argument `augment`."""
    expected = 'text such as "flip,normalize", or a list or Compose of transforms'
    if not isinstance(augment, (list, tuple)) and not _library(augment):
        return text("augment", augment, where, expected)
    return text("augment", from_torchvision(augment), where, expected)


def _library(transform: Any) -> str:
    """Whose transform this is. A class that somebody has derived is theirs: what it does is not known."""
    kind = type(transform)
    known = kind.__module__.split(".")[0]
    is_container = known == "torch" and kind.__name__ in (*_torchvision.COMPOSED, "Identity")
    return known if known in ("torchvision", "timm") or is_container else ""


def _translated(transforms: Any, closest: bool, function: str) -> str:
    flat = _flattened(transforms)
    values = Values(will_normalize=any(type(one).__name__ == "Normalize" for one in flat))
    parts, missing = _parts_of(flat, values)
    if missing and not closest:
        raise ConfigError(f"augment: no counterpart for {'; '.join(missing)}; expected others, or "
                          f"penstock.augment.{function}(transforms, closest=True), which takes the closest")
    if values.is_float and values.white == 255 and not values.is_normalized:
        parts.append(spec("normalize", {"mean": "0", "std": repr(1 / 255)}))  # what leaves the levels as they are
    return ",".join(parts)


def _parts_of(transforms: Any, values: Values) -> Tuple[List[str], List[str]]:
    """The specs, with the closest ones for what has no counterpart, and what that is."""
    parts: List[str] = []
    missing: List[str] = []
    for transform in _flattened(transforms):
        try:
            part = _spec_of(transform, values)
        except NoCounterpart as difference:
            part = difference.closest
            missing.append(f"{difference} (closest: {part or 'leave it out'})")
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as failure:  # changed after it was made
            raise ConfigError(f"augment: {type(transform).__name__}: {failure}; expected a transform as its library makes it") from failure
        if part:
            parts.append(part)
    return parts, missing


def _flattened(transforms: Any, depth: int = 0) -> List[Any]:
    if depth > _MOST_DEEP:
        raise ConfigError(f"augment: lists of transforms are more than {_MOST_DEEP} deep; expected none that contains itself")
    if isinstance(transforms, (list, tuple)):
        return [part for transform in transforms for part in _flattened(transform, depth + 1)]
    if type(transforms).__name__ in _torchvision.COMPOSED and _library(transforms):
        return _flattened(list(getattr(transforms, "transforms", transforms)), depth + 1)
    return [transforms]


def _spec_of(transform: Any, values: Values) -> str:
    if isinstance(transform, str):
        if any(part.strip().startswith("normalize") for part in transform.split(",")):
            values.is_normalized, values.mean = True, ()
        return transform
    name, library, was_normalized = type(transform).__name__, _library(transform), values.is_normalized
    if not library:
        place = type(transform).__module__
        whole = name if place == "builtins" else f"{place}.{name}"
        raise NoCounterpart(f"{whole}, which is neither torchvision's nor timm's", "")
    is_timm = library == "timm"
    makers = _timm.MAKERS if is_timm else _torchvision.MAKERS
    form_only = () if is_timm else _torchvision.FORM_ONLY
    closest = {} if is_timm else _torchvision.CLOSEST
    if not is_timm and name in ("RandomApply", "RandomChoice"):
        return _nested(transform, name, values)
    if name not in makers and name not in form_only:
        raise NoCounterpart(name, closest.get(name, ""))
    values.differences.clear()
    part = makers[name](transform, values) if name in makers else ""
    if values.is_float and values.white == 255 and name in _torchvision.LIMITED_TO_ONE:
        values.differences.append("levels of 0 to 255 in floating point")
    if was_normalized and name not in _torchvision.AFTER_NORMALIZE and name not in _timm.AFTER_NORMALIZE:
        raise NoCounterpart(f"{name} after Normalize", part)
    if values.differences:
        raise NoCounterpart(f"{name} with {' and '.join(values.differences)}", part)
    return part


def _nested(transform: Any, name: str, values: Values) -> str:
    """A list within the list. What has no counterpart in it is named with the whole."""
    if name == "RandomApply":
        parts, missing = _parts_of(transform.transforms, copy(values))
        made = spec("apply", {"p": number(transform.p, 0.5), "list": f"{{{','.join(parts)}}}"}) if parts else ""
    elif sorted(type(one).__name__ for one in transform.transforms) == sorted(_MIXES):
        return _either_mix(transform, values)
    else:
        found = [_parts_of(one, copy(values)) for one in transform.transforms]
        missing = [fact for _, facts in found for fact in facts]
        lists = [f"{{{','.join(parts)}}}" for parts, _ in found]
        weights = transform.p
        alike = weights is None or len(set(weights)) == 1
        made = spec("choice", {"of": "|".join(lists), "p": None if alike else numbers(weights)})
        if len(lists) == 1:
            made = ",".join(found[0][0])
    if missing:
        raise NoCounterpart(f"{name} of {', '.join(missing)}", made)
    return made


def _either_mix(transform: Any, values: Values) -> str:
    """RandomChoice([MixUp, CutMix]) of the classification recipes: each batch has one of the two."""
    weights = transform.p or [1, 1]
    of = {type(one).__name__: (one, weight) for one, weight in zip(transform.transforms, weights)}
    switch = of["CutMix"][1] / sum(weights)
    mixup, cutmix = (_torchvision.MAKERS[name](of[name][0], values) for name in _MIXES)
    keys = f"switch={switch:.9g}"
    return f"{mixup},{cutmix[:-1]},{keys})" if cutmix.endswith(")") else f"{mixup},{cutmix}({keys})"
