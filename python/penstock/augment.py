"""from_torchvision(), from_timm(): the spec list of Loader's `augment` that does what transforms of other libraries do."""
from typing import Any, List, Optional, Tuple

from penstock import _timm, _torchvision
from penstock._arguments import text
from penstock._spec_text import NoCounterpart, number, numbers, spec
from penstock.errors import ConfigError

__all__ = ["from_timm", "from_torchvision"]

_MOST_DEEP = 100  # each Compose within a Compose is two


def from_torchvision(transforms: Any, closest: bool = False) -> str:
    """The spec list for a transform of torchvision.transforms or torchvision.transforms.v2, a Compose or a list of them.
    Parts of a list that are text already stay as they are.

    What only changes the form of a picture (ToTensor, ToImage, ToDtype and the like) has no place in the list: Loader's
    images are tensors of 0 to 1 before normalize. docs/TRANSFORMS.md says in what the results differ.

    Raises ConfigError, which names all transforms without a counterpart, and for each the closest one. With `closest`
    these are taken instead, and what has none is left out.
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
    kind = type(augment)
    names = (*_torchvision.COMPOSED, *_torchvision.FORM_ONLY, *_torchvision.CLOSEST, *_torchvision.MAKERS)
    is_transform = kind.__name__ in names or kind.__module__.startswith(("torchvision.", "timm."))
    if not isinstance(augment, (list, tuple)) and not is_transform:
        return text("augment", augment, where, expected)
    return text("augment", from_torchvision(augment), where, expected)


def _translated(transforms: Any, closest: bool, function: str) -> str:
    parts, missing = _parts_of(transforms)
    if missing and not closest:
        raise ConfigError(f"augment: no counterpart for {'; '.join(missing)}; expected others, or "
                          f"penstock.augment.{function}(transforms, closest=True), which takes the closest")
    return ",".join(parts)


def _parts_of(transforms: Any) -> Tuple[List[str], List[str]]:
    """The specs, with the closest ones for what has no counterpart, and what that is."""
    parts: List[str] = []
    missing: List[str] = []
    flat = _flattened(transforms)
    for transform in flat:
        try:
            part = _spec_of(transform, flat)
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
    if type(transforms).__name__ in _torchvision.COMPOSED:
        return _flattened(list(getattr(transforms, "transforms", transforms)), depth + 1)
    return [transforms]


def _spec_of(transform: Any, siblings: List[Any]) -> str:
    if isinstance(transform, str):
        return transform
    name = type(transform).__name__
    if type(transform).__module__.startswith("timm."):
        if name in _timm.MAKERS:
            return _timm.MAKERS[name](transform, _mean_of(siblings))
        form_only, closest = _timm.FORM_ONLY, {}
    else:
        if name in ("RandomApply", "RandomChoice"):
            return _nested(transform, name)
        if name in _torchvision.MAKERS:
            return _torchvision.MAKERS[name](transform)
        form_only, closest = _torchvision.FORM_ONLY, _torchvision.CLOSEST
    if name in form_only:
        return ""
    raise NoCounterpart(name, closest.get(name, ""))


def _mean_of(transforms: List[Any]) -> Optional[List[float]]:
    """The mean of the list's Normalize."""
    found = [transform.mean for transform in transforms if type(transform).__name__ == "Normalize"]
    return [float(f"{float(one):.7g}") for one in found[0]] if found else None


def _nested(transform: Any, name: str) -> str:
    """A list within the list. What has no counterpart in it is named with the whole."""
    if name == "RandomApply":
        parts, missing = _parts_of(transform.transforms)
        made = spec("apply", {"p": number(transform.p, 0.5), "list": f"{{{','.join(parts)}}}"}) if parts else ""
    else:
        found = [_parts_of(one) for one in transform.transforms]
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
