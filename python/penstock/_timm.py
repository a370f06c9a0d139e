"""What makes the spec of a transform of timm.data, as timm.data.create_transform() composes them (timm 1.0)."""
import math
from typing import Any, Callable, Dict, Optional

from penstock._spec_text import NoCounterpart, Values, mode_name, number, number_text, numbers, size, spec, with_filter
from penstock._torchvision import to_tensor

_OPERATIONS = ("AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "Solarize", "SolarizeAdd", "Color", "Contrast", "Brightness",
               "Sharpness", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
_THAT_INCREASE = ("Posterize", "Solarize", "Color", "Contrast", "Brightness", "Sharpness")
_THREE = (("Solarize", 5), ("Desaturate", 10), ("GaussianBlurRand", 10))  # the policy 3a
_RANDOM = ["bicubic", "bilinear"]  # what timm's "random" draws from


def _random_resized_crop(transform: Any, values: Values) -> str:
    keys = {**size(transform.size), "scale": numbers(transform.scale, (0.08, 1)), "ratio": numbers(transform.ratio, (3 / 4, 4 / 3))}
    if not isinstance(transform.interpolation, (list, tuple)):
        return with_filter(transform, "random-resized-crop", keys, "antialias", True)
    modes = [mode_name(mode) for mode in transform.interpolation]
    text = spec("random-resized-crop", {**keys, "interpolation": "random"})
    if sorted(modes) != _RANDOM:
        raise NoCounterpart(f"RandomResizedCropAndInterpolation with interpolation {' or '.join(modes)}", text)
    return text


def _fill(operations: Any) -> Optional[str]:
    levels = list(operations[0].kwargs["fillcolor"])
    return numbers(levels[:1] if len(set(levels)) == 1 else levels, (128,))


def _rand_augment(transform: Any, values: Values) -> str:
    ops = transform.ops
    if not ops:
        raise NoCounterpart("RandAugment of 0 operations", "")
    first = ops[0]
    increasing = tuple(f"{name}Increasing" if name in _THAT_INCREASE else name for name in _OPERATIONS)
    names = tuple(op.name for op in ops)
    if transform.choice_weights is not None or names not in (_OPERATIONS, increasing):
        raise NoCounterpart(f"RandAugment of {len(names)} operations, which are not those of rand-m9 or rand-m9-inc1",
                            "timm-rand-augment")
    for key in ("prob", "magnitude", "magnitude_std", "magnitude_max", "hparams", "kwargs"):
        if any(getattr(op, key) != getattr(first, key) for op in ops):
            raise NoCounterpart(f"RandAugment whose operations have different {key}", "timm-rand-augment")
    if first.hparams.get("translate_pct", 0.45) != 0.45:
        raise NoCounterpart(f"RandAugment with translate_pct {first.hparams['translate_pct']}", "timm-rand-augment")
    parts = [f"m{number_text(first.magnitude)}", f"n{transform.num_layers}"]
    if first.prob != 0.5:
        parts.append(f"p{number_text(first.prob)}")
    if first.magnitude_std:
        parts.append("mstd101" if first.magnitude_std == float("inf") else f"mstd{number_text(first.magnitude_std)}")
    if first.magnitude_max:
        parts.append(f"mmax{number_text(first.magnitude_max)}")
    config = "-".join(["rand", *parts, *(["inc1"] if names == increasing else [])])
    mode = first.kwargs["resample"]
    modes = [mode_name(int(one)) for one in (mode if isinstance(mode, (list, tuple)) else [mode])]
    wanted = "random" if sorted(modes) == _RANDOM else modes[0]
    filters = {"nearest": {"filter": "nearest"}, "bicubic": {"interpolation": "bicubic"}, "random": {"interpolation": "random"}}
    text = spec("timm-rand-augment", {"config": config, **filters.get(wanted, {}), "fill": _fill(ops)})
    if wanted not in (*filters, "bilinear") or (len(modes) > 1 and wanted != "random"):
        raise NoCounterpart(f"RandAugment with interpolation {' or '.join(modes)}", text)
    return text


def _aug_mix(transform: Any, values: Values) -> str:
    """Its magnitudes are drawn evenly from 0 to m of 10, those of aug-mix from `severity` whole ones of 0 to 9."""
    severity = min(max(round(transform.ops[0].magnitude) + 1, 1), 10) if transform.ops else 3
    depth = transform.depth if transform.depth > 0 else -1
    text = spec("aug-mix", {"severity": number(severity, 3), "mixture-width": number(transform.width, 3),
                            "chain-depth": number(depth, -1), "alpha": number(transform.alpha, 1)})
    raise NoCounterpart("AugMixAugment, whose magnitudes and operations are timm's own", text)


def _auto_augment(transform: Any, values: Values) -> str:
    """The policy 3a alone: those of AutoAugment have other magnitudes in timm than in torchvision."""
    policy = transform.policy
    found = tuple((pair[0].name, pair[0].magnitude) for pair in policy if len(pair) == 1 and pair[0].prob == 1)
    if len(policy) != 3 or found != _THREE or any(pair[0].magnitude_std for pair in policy):
        raise NoCounterpart(f"AutoAugment with a policy of {len(policy)} of timm's own", "auto-augment")
    return "three-augment"


def _erasing(transform: Any, values: Values) -> str:
    """timm erases after Normalize, so that its 0 is the mean."""
    low, high = transform.log_aspect_ratio
    ratio = [round(math.exp(log), 7) for log in (low, high)]
    modes = {"pixel": "random", "rand": "random-color"}
    value = modes.get(transform.mode) or numbers(values.mean or [0], (0,))
    text = spec("erase", {"p": number(transform.probability, 0.5), "scale": numbers([transform.min_area, transform.max_area], (0.02, 0.33)),
                          "ratio": numbers(ratio, (0.3, 3.3)), "value": value})
    if transform.max_count != 1:
        raise NoCounterpart(f"RandomErasing with up to {transform.max_count} rectangles", text)
    return text


AFTER_NORMALIZE = ("ToNumpy", "MaybeToTensor", "MaybePILToTensor")

MAKERS: Dict[str, Callable[[Any, Values], str]] = {
    "RandomResizedCropAndInterpolation": _random_resized_crop,
    "RandAugment": _rand_augment,
    "AutoAugment": _auto_augment,
    "AugMixAugment": _aug_mix,
    "RandomErasing": _erasing,
    "ToTensor": to_tensor(255, True),
    "MaybeToTensor": to_tensor(1, True),
    "MaybePILToTensor": to_tensor(255, False),
    "ToNumpy": to_tensor(255, False),
}
