"""for_weights(): the evaluation list of a pretrained model."""
import math
import struct
from typing import Any, Dict, List, Optional

from penstock._spec_text import numbers, spec
from penstock.errors import ConfigError

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet's, timm's default
_MODES = ("nearest", "bilinear", "bicubic", "lanczos", "box", "hamming")
_EXPECTED = "expected a model of timm, its pretrained_cfg, or weights of torchvision such as ResNet50_Weights.DEFAULT"


def for_weights(weights: Any) -> str:
    """The spec list with which a pretrained model is evaluated: resize, center-crop and normalize, with the size, the interpolation,
    the part that is cut out, the mean and the standard deviation that belong to its weights.

    `weights` is a model of timm, or its pretrained_cfg (a dict or timm's PretrainedCfg), of which timm.data.create_transform() would
    make the same; or weights of torchvision, whose transforms() it is. Raises ConfigError for what has no counterpart.
    """
    if callable(getattr(weights, "transforms", None)) and hasattr(weights, "meta"):
        from penstock.augment import from_torchvision
        return from_torchvision(weights.transforms())
    return _of_timm(_configuration(weights))


def _configuration(weights: Any) -> Dict[str, Any]:
    for name in ("pretrained_cfg", "default_cfg"):
        weights = getattr(weights, name, None) or weights
    if hasattr(weights, "to_dict"):
        weights = weights.to_dict()
    if not isinstance(weights, dict) or not weights.get("input_size"):
        raise ConfigError(f"augment: for_weights({type(weights).__name__}); {_EXPECTED}")
    return weights


def _of_timm(given: Dict[str, Any]) -> str:
    """As transforms_imagenet_eval() of timm 1.0. Its defaults are those of resolve_data_config()."""
    height, width = (int(side) for side in given["input_size"][1:])
    part, mode = given.get("crop_pct") or 0.875, given.get("interpolation") or "bicubic"
    crop = given.get("crop_mode") or "center"
    if mode not in _MODES:
        raise ConfigError(f"augment: for_weights: interpolation is {mode!r}; expected {', '.join(_MODES)}")
    scaled = [math.floor(side / part) for side in (height, width)]
    if crop not in ("center", "squash") or (crop == "center" and scaled[0] != scaled[1]):
        raise ConfigError(f"augment: for_weights: crop_mode {crop} of {height}x{width} pixels keeps the aspect by rules of timm's own; "
                          "expected squash, or center with a square")
    sides: Dict[str, Optional[str]] = {"size": str(scaled[0])}
    if crop == "squash":
        sides = {"height": str(scaled[0]), "width": str(scaled[1])}
    middle = {"size": str(height)} if height == width else {"height": str(height), "width": str(width)}
    parts: List[str] = [spec("resize", {**sides, "interpolation": None if mode == "bilinear" else mode}), spec("center-crop", {**middle})]
    mean, std = given.get("mean") or _MEAN, given.get("std") or _STD
    return ",".join([*parts, spec("normalize", {"mean": _values(mean), "std": _values(std)})])


def _values(values: Any) -> Optional[str]:
    """As f32 with 7 digits, which is what timm's tensors keep."""
    given = [float(one) for one in values] if isinstance(values, (list, tuple)) else [float(values)]
    return numbers([float(f"{struct.unpack('f', struct.pack('f', one))[0]:.7g}") for one in given])
