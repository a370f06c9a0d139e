"""from_torchvision(): the spec list of Loader's `augment` that does what transforms of torchvision do."""
from typing import Any, Callable, Dict, List, Optional, Sequence

from penstock._arguments import text
from penstock.errors import ConfigError

__all__ = ["from_torchvision"]


class _NoCounterpart(Exception):
    """What is different, and the spec that comes closest ("" leaves it out)."""

    def __init__(self, fact: str, closest: str) -> None:
        super().__init__(fact)
        self.closest = closest


def from_torchvision(transforms: Any, closest: bool = False) -> str:
    """The spec list for a transform of torchvision.transforms or torchvision.transforms.v2, a Compose or a list of them.
    Parts of a list that are text already stay as they are.

    What only changes the form of a picture (ToTensor, ToImage, ToDtype and the like) has no place in the list: Loader's
    images are tensors of 0 to 1 before normalize. docs/TRANSFORMS.md says in what the results differ.

    Raises ConfigError, which names all transforms without a counterpart, and for each the closest one. With `closest`
    these are taken instead, and what has none is left out.
    """
    parts: List[str] = []
    missing: List[str] = []
    for transform in _flattened(transforms):
        try:
            part = _spec_of(transform)
        except _NoCounterpart as difference:
            part = difference.closest
            missing.append(f"{difference} (closest: {part or 'leave it out'})")
        if part:
            parts.append(part)
    if missing and not closest:
        raise ConfigError(f"augment: no counterpart for {'; '.join(missing)}; expected others, or "
                          "penstock.augment.from_torchvision(transforms, closest=True), which takes the closest")
    return ",".join(parts)


def spec_list(augment: Any, where: str = "loader") -> str:
    """The text of an argument `augment`."""
    expected = 'text such as "flip,normalize", or a list or Compose of transforms'
    kind = type(augment)
    is_transform = kind.__name__ in (*_COMPOSED, *_FORM_ONLY, *_CLOSEST, *_MAKERS) or kind.__module__.startswith("torchvision.")
    if not isinstance(augment, (list, tuple)) and not is_transform:
        return text("augment", augment, where, expected)
    return text("augment", from_torchvision(augment), where, expected)


def _flattened(transforms: Any) -> List[Any]:
    if isinstance(transforms, (list, tuple)):
        return [part for transform in transforms for part in _flattened(transform)]
    if type(transforms).__name__ in _COMPOSED:
        return _flattened(list(getattr(transforms, "transforms", transforms)))
    return [transforms]


def _spec_of(transform: Any) -> str:
    if isinstance(transform, str):
        return transform
    name = type(transform).__name__
    if name in _FORM_ONLY:
        return ""
    if name in _MAKERS:
        return _MAKERS[name](transform)
    raise _NoCounterpart(name, _CLOSEST.get(name, ""))


_COMPOSED = ("Compose", "Sequential")
_FORM_ONLY = ("ToTensor", "PILToTensor", "ToImage", "ToImageTensor", "ToDtype", "ConvertImageDtype", "ConvertDtype",
              "ToPureTensor", "ToPILImage", "Identity", "RGB")
_CLOSEST = {"AugMix": "trivial-augment", "RandomPerspective": "affine(degrees=10,shear=10)", "RandomPhotometricDistort":
            "color-jitter(brightness=0.125,contrast=0.5,saturation=0.5,hue=0.05)"}


def _text(value: Any) -> str:
    return repr(float(value)).removesuffix(".0")


def _spec(name: str, keys: Dict[str, Optional[str]]) -> str:
    given = ",".join(f"{key}={text}" for key, text in keys.items() if text is not None)
    return f"{name}({given})" if given else name


def _numbers(value: Any, default: Sequence[float] = ()) -> Optional[str]:
    """`a:b:c`, or None where it is the default."""
    numbers = [float(number) for number in value]
    return None if numbers == [float(number) for number in default] else ":".join(map(_text, numbers))


def _number(value: Any, default: float) -> Optional[str]:
    return None if float(value) == default else _text(value)


def _size(value: Any) -> Dict[str, Optional[str]]:
    """`size` or `height,width` of a transform whose single number means a square."""
    sides = [value, value] if isinstance(value, int) else list(value) * (2 if len(value) == 1 else 1)
    return {"size": str(sides[0])} if sides[0] == sides[1] else {"height": str(sides[0]), "width": str(sides[1])}


def _interpolation(transform: Any) -> str:
    mode: Any = getattr(transform, "interpolation", "bilinear")
    return {0: "nearest", 2: "bilinear", 3: "bicubic"}.get(mode) or str(getattr(mode, "value", mode))


def _filter(transform: Any, name: str, keys: Dict[str, Optional[str]], default: str, resizes: bool) -> str:
    """The spec with its filter. Antialiasing is bilinear's in torchvision, and on PIL pictures always on."""
    mode = _interpolation(transform)
    wanted = "nearest" if mode.startswith("nearest") else "bilinear"
    if resizes and wanted == "bilinear" and getattr(transform, "antialias", True) is not False:
        wanted = "antialias"
    spec = _spec(name, {**keys, "filter": None if wanted == default else wanted})
    if mode not in ("nearest", "nearest-exact", "bilinear"):
        raise _NoCounterpart(f"{type(transform).__name__} with interpolation {mode}", spec)
    return spec


def _fill(transform: Any) -> Optional[str]:
    fill = getattr(transform, "fill", 0)
    if isinstance(fill, dict):
        fill = next(iter(fill.values()), 0)
    levels = [0] if fill is None else list(fill) if isinstance(fill, (list, tuple)) else [fill]
    if len(set(levels)) != 1:
        raise _NoCounterpart(f"{type(transform).__name__} with fill {levels}", "the same with one level")
    return _number(levels[0], 0)


def _random_resized_crop(transform: Any) -> str:
    keys = {**_size(transform.size), "scale": _numbers(transform.scale, (0.08, 1)),
            "ratio": _numbers(transform.ratio, (3 / 4, 4 / 3))}
    return _filter(transform, "random-resized-crop", keys, "antialias", True)


def _resize(transform: Any) -> str:
    size = transform.size
    one = size if isinstance(size, int) else size[0] if len(size) == 1 else None
    keys: Dict[str, Optional[str]] = {"size": str(one)} if one is not None else {"height": str(size[0]), "width": str(size[1])}
    spec = _filter(transform, "resize", keys, "antialias", True)
    if getattr(transform, "max_size", None) is not None:
        raise _NoCounterpart(f"Resize with max_size {transform.max_size}", spec)
    return spec


def _random_crop(transform: Any) -> str:
    padding = getattr(transform, "padding", None)
    sides = [0] if padding is None else list(padding) if isinstance(padding, (list, tuple)) else [padding]
    pads = max(sides) > 0 or transform.pad_if_needed
    mode = transform.padding_mode if pads else "constant"
    around = {"fill": _fill(transform)} if mode == "constant" else {"border": mode}
    size = _size(transform.size)
    side = min(int(value) for value in size.values() if value is not None)
    most = {"edge": side - 1, "reflect": (side - 1) // 2, "symmetric": side // 2}.get(mode, max(sides))
    spec = _spec("crop", {**size, "pad": _number(min(max(sides), most), 0), **around})
    if len(set(sides)) != 1:
        raise _NoCounterpart(f"RandomCrop with padding {tuple(sides)}", spec)
    if sides[0] > most:
        raise _NoCounterpart(f"RandomCrop of {side} pixels with padding {sides[0]} and padding_mode {mode}", spec)
    return spec


def _rotation(transform: Any) -> str:
    keys = {"degrees": _numbers(transform.degrees), "fill": _fill(transform)}
    spec = _filter(transform, "rotate", keys, "nearest", False)
    for key in ("expand", "center"):
        if getattr(transform, key, None):
            raise _NoCounterpart(f"RandomRotation with {key} {getattr(transform, key)}", spec)
    return spec


def _affine(transform: Any) -> str:
    keys: Dict[str, Optional[str]] = {"degrees": _numbers(transform.degrees, (0, 0))}
    if transform.translate is not None:
        keys["translate"] = _numbers(transform.translate, (0, 0))
    if transform.scale is not None:
        keys["scale"] = _numbers(transform.scale, (1, 1))
    if transform.shear is not None:
        keys["shear"] = _numbers(transform.shear, (0, 0))
    spec = _filter(transform, "affine", {**keys, "fill": _fill(transform)}, "nearest", False)
    if getattr(transform, "center", None):
        raise _NoCounterpart(f"RandomAffine with center {transform.center}", spec)
    return spec


def _color_jitter(transform: Any) -> str:
    keys = ("brightness", "contrast", "saturation", "hue")
    given = {key: getattr(transform, key) for key in keys}
    return _spec("color-jitter", {key: None if value is None else _numbers(value) for key, value in given.items()})


def _erasing(transform: Any) -> str:
    value = transform.value if isinstance(transform.value, (list, tuple)) else [transform.value]
    keys = {"p": _number(transform.p, 0.5), "scale": _numbers(transform.scale, (0.02, 0.33)),
            "ratio": _numbers(transform.ratio, (0.3, 3.3))}
    if value == ["random"] or value == [None]:  # what transforms of v2 keep of "random"
        return _spec("erase", {**keys, "value": "random"})
    return _spec("erase", {**keys, "value": _numbers(value, (0,))})


def _trivial_augment(transform: Any) -> str:
    spec = _filter(transform, "trivial-augment", {"fill": _fill(transform)}, "nearest", False)
    if transform.num_magnitude_bins != 31:
        raise _NoCounterpart(f"TrivialAugmentWide with {transform.num_magnitude_bins} bins", spec)
    return spec


def _rand_augment(transform: Any) -> str:
    """Bins of another number are scaled to ours, of which 30 is the full magnitude."""
    most = transform.num_magnitude_bins - 1
    keys = {"ops": _number(transform.num_ops, 2), "magnitude": _number(30 * transform.magnitude / most, 9), "fill": _fill(transform)}
    spec = _filter(transform, "rand-augment", keys, "nearest", False)
    if most < 1 or not 0 <= transform.magnitude <= most:
        raise _NoCounterpart(f"RandAugment with magnitude {transform.magnitude} of {most + 1} bins", "rand-augment")
    return spec


def _auto_augment(transform: Any) -> str:
    policy = str(getattr(transform.policy, "value", transform.policy))
    keys = {"policy": None if policy == "imagenet" else policy, "fill": _fill(transform)}
    return _filter(transform, "auto-augment", keys, "nearest", False)


def _step(name: str, key: str, attribute: str, default: float) -> Callable[[Any], str]:
    return lambda transform: _spec(name, {key: _number(getattr(transform, attribute), default), "p": _number(transform.p, 0.5)})


def _with_p(name: str, default: float) -> Callable[[Any], str]:
    return lambda transform: _spec(name, {"p": _number(transform.p, default)})


def _mix(name: str, default: float) -> Callable[[Any], str]:
    def make(transform: Any) -> str:
        alpha = getattr(transform, "alpha", default)
        return _spec(name, {"alpha": _number(alpha, default)})
    return make


_MAKERS: Dict[str, Callable[[Any], str]] = {
    "RandomResizedCrop": _random_resized_crop,
    "Resize": _resize,
    "CenterCrop": lambda transform: _spec("center-crop", _size(transform.size)),
    "RandomCrop": _random_crop,
    "RandomHorizontalFlip": _with_p("flip", 0.5),
    "RandomVerticalFlip": _with_p("vflip", 0.5),
    "RandomRotation": _rotation,
    "RandomAffine": _affine,
    "ColorJitter": _color_jitter,
    "RandomGrayscale": _with_p("grayscale", 0.1),
    "Grayscale": lambda transform: "grayscale(p=1)",
    "TrivialAugmentWide": _trivial_augment,
    "RandAugment": _rand_augment,
    "AutoAugment": _auto_augment,
    "RandomSolarize": _step("solarize", "threshold", "threshold", 128),
    "RandomPosterize": _step("posterize", "bits", "bits", 4),
    "RandomAdjustSharpness": _step("sharpness", "factor", "sharpness_factor", 2),
    "RandomEqualize": _with_p("equalize", 0.5),
    "RandomAutocontrast": _with_p("auto-contrast", 0.5),
    "RandomInvert": _with_p("invert", 0.5),
    "RandomErasing": _erasing,
    "Normalize": lambda transform: _spec("normalize", {"mean": _numbers(transform.mean), "std": _numbers(transform.std)}),
    "MixUp": _mix("mixup", 0.2),
    "CutMix": _mix("cutmix", 1),
}
