"""Pieces of spec lists, for what translates transforms of other libraries (_torchvision.py, _timm.py)."""
from typing import Any, Dict, Optional, Sequence


class NoCounterpart(Exception):
    """What is different, and the spec that comes closest ("" leaves it out)."""

    def __init__(self, fact: str, closest: str) -> None:
        super().__init__(fact)
        self.closest = closest


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


def interpolation(transform: Any) -> str:
    mode: Any = getattr(transform, "interpolation", "bilinear")
    return {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(mode) or str(getattr(mode, "value", mode))


def with_filter(transform: Any, name: str, keys: Dict[str, Optional[str]], default: str, resizes: bool) -> str:
    """The spec with its filter. Antialiasing is bilinear's in torchvision, and on PIL pictures always on."""
    mode = interpolation(transform)
    wanted = "nearest" if mode.startswith("nearest") else "bilinear"
    if resizes and wanted == "bilinear" and getattr(transform, "antialias", True) is not False:
        wanted = "antialias"
    text = spec(name, {**keys, "filter": None if wanted == default else wanted})
    if mode not in ("nearest", "nearest-exact", "bilinear"):
        raise NoCounterpart(f"{type(transform).__name__} with interpolation {mode}", text)
    return text


def fill(transform: Any) -> Optional[str]:
    given = getattr(transform, "fill", 0)
    if isinstance(given, dict):
        given = next(iter(given.values()), 0)
    levels = [0] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    if len(set(levels)) != 1:
        raise NoCounterpart(f"{type(transform).__name__} with fill {levels}", "the same with one level")
    return number(levels[0], 0)
