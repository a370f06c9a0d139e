"""Pieces of spec lists, for what translates transforms of other libraries (_torchvision.py, _timm.py)."""
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence


class NoCounterpart(Exception):
    """What is different, and the spec that comes closest ("" leaves it out)."""

    def __init__(self, fact: str, closest: str) -> None:
        super().__init__(fact)
        self.closest = closest


@dataclass
class Values:
    """What the values of a picture mean at a place in a list of transforms. A fill, a threshold and an erased value are given in
    them, and ours in levels of 0 to 255 or parts of white.
    """
    white: float = 0  # the value of white; 0 where no transform has made a tensor yet
    is_float: bool = False
    is_normalized: bool = False
    mean: Sequence[float] = ()  # of the Normalize before this place, in parts of white; () where it was text
    std: Sequence[float] = ()
    will_normalize: bool = False  # whether the list has a Normalize at all
    differences: List[str] = field(default_factory=list)  # in what the spec of the transform at hand is not it

    def levels(self, value: float) -> float:
        return value * 255 if self.is_float and self.white == 1 else value

    def parts_of_white(self, values: Sequence[float], name: str, closest: str) -> List[float]:
        if not self.is_normalized:
            return [value / (self.white or 1) for value in values]
        if not self.mean:
            raise NoCounterpart(f"{name} after a normalize that is text", closest)
        count = max(len(values), len(self.mean))
        of_all = [list(one) * (count if len(one) == 1 else 1) for one in (values, self.std, self.mean)]
        return [float(f"{value * std + mean:.9g}") for value, std, mean in zip(*of_all)]


def number_text(value: Any) -> str:
    return repr(float(value)).removesuffix(".0")


def spec(name: str, keys: Dict[str, Optional[str]]) -> str:
    given = ",".join(f"{key}={value}" for key, value in keys.items() if value is not None)
    return f"{name}({given})" if given else name


def numbers(value: Any, default: Sequence[float] = ()) -> Optional[str]:
    """`a:b:c`, or None where it is the default."""
    found = [float(one) for one in value]
    return None if found == [float(one) for one in default] else ":".join(map(number_text, found))


def number(value: Any, default: float) -> Optional[str]:
    return None if float(value) == default else number_text(value)


def size(value: Any) -> Dict[str, Optional[str]]:
    """`size` or `height,width` of a transform whose single number means a square."""
    sides = [value, value] if isinstance(value, int) else list(value) * (2 if len(value) == 1 else 1)
    return {"size": str(sides[0])} if sides[0] == sides[1] else {"height": str(sides[0]), "width": str(sides[1])}


PILLOWS_NUMBERS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


def mode_name(mode: Any) -> str:
    return PILLOWS_NUMBERS.get(mode) or str(getattr(mode, "value", mode))


def with_filter(transform: Any, name: str, keys: Dict[str, Optional[str]], default: str, resizes: bool) -> str:
    """The spec with its filter. Antialiasing can be turned off in torchvision; on PIL pictures it is always on."""
    mode = mode_name(getattr(transform, "interpolation", "bilinear"))
    antialiases = resizes and getattr(transform, "antialias", True) is not False
    if mode in (("bicubic", "lanczos", "box", "hamming") if resizes else ("bicubic",)):
        text = spec(name, {**keys, "interpolation": mode})
        if resizes and not antialiases:
            raise NoCounterpart(f"{type(transform).__name__} with interpolation {mode} without antialiasing", text)
        return text
    wanted = "nearest" if mode.startswith("nearest") else "antialias" if antialiases else "bilinear"
    text = spec(name, {**keys, "filter": None if wanted == default else wanted})
    if mode not in ("nearest", "nearest-exact", "bilinear"):
        raise NoCounterpart(f"{type(transform).__name__} with interpolation {mode}", text)
    return text


def fill(transform: Any, values: Values) -> Optional[str]:
    """The fill of the picture, also from a dict by types, which v2 takes. Masks have that of their field."""
    given = getattr(transform, "fill", 0)
    if isinstance(given, dict):
        of_type = {getattr(kind, "__name__", kind): one for kind, one in given.items()}
        given = next((of_type[name] for name in ("Image", "Tensor", "others") if name in of_type), 0)
    levels = [0] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    if len(set(levels)) != 1:
        values.differences.append(f"fill {levels}")
    return number(values.levels(sum(levels) / len(levels)), 0)
