"""What makes the spec of a transform of torchvision.transforms or torchvision.transforms.v2."""
from typing import Any, Callable, Dict, Optional

from penstock._spec_text import NoCounterpart, fill, number, numbers, size, spec, with_filter

COMPOSED = ("Compose", "Sequential", "ModuleList")
FORM_ONLY = ("ToTensor", "PILToTensor", "ToImage", "ToImageTensor", "ToDtype", "ConvertImageDtype", "ConvertDtype",
             "ToPureTensor", "ToPILImage", "Identity", "RGB")
CLOSEST = {"RandomPerspective": "affine(degrees=10,shear=10)", "RandomPhotometricDistort":
           "color-jitter(brightness=0.125,contrast=0.5,saturation=0.5,hue=0.05)"}


def _random_resized_crop(transform: Any) -> str:
    keys = {**size(transform.size), "scale": numbers(transform.scale, (0.08, 1)),
            "ratio": numbers(transform.ratio, (3 / 4, 4 / 3))}
    return with_filter(transform, "random-resized-crop", keys, "antialias", True)


def _resize(transform: Any) -> str:
    sides = transform.size
    one = sides if isinstance(sides, int) else sides[0] if len(sides) == 1 else None
    keys: Dict[str, Optional[str]] = {"size": str(one)} if one is not None else {"height": str(sides[0]), "width": str(sides[1])}
    text = with_filter(transform, "resize", keys, "antialias", True)
    if getattr(transform, "max_size", None) is not None:
        raise NoCounterpart(f"Resize with max_size {transform.max_size}", text)
    return text


def _random_crop(transform: Any) -> str:
    padding = getattr(transform, "padding", None)
    sides = [0] if padding is None else list(padding) if isinstance(padding, (list, tuple)) else [padding]
    pads = max(sides) > 0 or transform.pad_if_needed
    mode = transform.padding_mode if pads else "constant"
    around = {"fill": fill(transform)} if mode == "constant" else {"border": mode}
    window = size(transform.size)
    side = min(int(value) for value in window.values() if value is not None)
    most = {"edge": side - 1, "reflect": (side - 1) // 2, "symmetric": side // 2}.get(mode, max(sides))
    text = spec("crop", {**window, "pad": number(min(max(sides), most), 0), **around})
    if len(set(sides)) != 1:
        raise NoCounterpart(f"RandomCrop with padding {tuple(sides)}", text)
    if sides[0] > most:
        raise NoCounterpart(f"RandomCrop of {side} pixels with padding {sides[0]} and padding_mode {mode}", text)
    return text


def _rotation(transform: Any) -> str:
    keys = {"degrees": numbers(transform.degrees), "fill": fill(transform)}
    text = with_filter(transform, "rotate", keys, "nearest", False)
    for key in ("expand", "center"):
        if getattr(transform, key, None):
            raise NoCounterpart(f"RandomRotation with {key} {getattr(transform, key)}", text)
    return text


def _affine(transform: Any) -> str:
    keys: Dict[str, Optional[str]] = {"degrees": numbers(transform.degrees, (0, 0))}
    if transform.translate is not None:
        keys["translate"] = numbers(transform.translate, (0, 0))
    if transform.scale is not None:
        keys["scale"] = numbers(transform.scale, (1, 1))
    if transform.shear is not None:
        keys["shear"] = numbers(transform.shear, (0, 0))
    text = with_filter(transform, "affine", {**keys, "fill": fill(transform)}, "nearest", False)
    if getattr(transform, "center", None):
        raise NoCounterpart(f"RandomAffine with center {transform.center}", text)
    return text


def _color_jitter(transform: Any) -> str:
    keys = ("brightness", "contrast", "saturation", "hue")
    given = {key: getattr(transform, key) for key in keys}
    return spec("color-jitter", {key: None if value is None else numbers(value) for key, value in given.items()})


def _erasing(transform: Any) -> str:
    value = transform.value if isinstance(transform.value, (list, tuple)) else [transform.value]
    keys = {"p": number(transform.p, 0.5), "scale": numbers(transform.scale, (0.02, 0.33)),
            "ratio": numbers(transform.ratio, (0.3, 3.3))}
    if value == ["random"] or value == [None]:  # what transforms of v2 keep of "random"
        return spec("erase", {**keys, "value": "random"})
    return spec("erase", {**keys, "value": numbers(value, (0,))})


def _trivial_augment(transform: Any) -> str:
    text = with_filter(transform, "trivial-augment", {"fill": fill(transform)}, "nearest", False)
    if transform.num_magnitude_bins != 31:
        raise NoCounterpart(f"TrivialAugmentWide with {transform.num_magnitude_bins} bins", text)
    return text


def _rand_augment(transform: Any) -> str:
    """Bins of another number are scaled to ours, of which 30 is the full magnitude."""
    most = transform.num_magnitude_bins - 1
    keys = {"ops": number(transform.num_ops, 2), "magnitude": number(30 * transform.magnitude / most, 9), "fill": fill(transform)}
    text = with_filter(transform, "rand-augment", keys, "nearest", False)
    if most < 1 or not 0 <= transform.magnitude <= most:
        raise NoCounterpart(f"RandAugment with magnitude {transform.magnitude} of {most + 1} bins", "rand-augment")
    return text


def _auto_augment(transform: Any) -> str:
    policy = str(getattr(transform.policy, "value", transform.policy))
    keys = {"policy": None if policy == "imagenet" else policy, "fill": fill(transform)}
    return with_filter(transform, "auto-augment", keys, "nearest", False)


def _aug_mix(transform: Any) -> str:
    depth = transform.chain_depth if transform.chain_depth > 0 else -1
    keys = {"severity": number(transform.severity, 3), "mixture-width": number(transform.mixture_width, 3),
            "chain-depth": number(depth, -1), "alpha": number(transform.alpha, 1),
            "all-ops": None if transform.all_ops else "false", "fill": fill(transform)}
    return with_filter(transform, "aug-mix", keys, "bilinear", False)


def _step(name: str, key: str, attribute: str, default: float) -> Callable[[Any], str]:
    return lambda transform: spec(name, {key: number(getattr(transform, attribute), default), "p": number(transform.p, 0.5)})


def _with_p(name: str, default: float) -> Callable[[Any], str]:
    return lambda transform: spec(name, {"p": number(transform.p, default)})


def _gaussian_blur(transform: Any) -> str:
    kernels = transform.kernel_size if isinstance(transform.kernel_size, (list, tuple)) else [transform.kernel_size]
    text = spec("gaussian-blur", {"kernel": number(max(kernels), 0), "sigma": numbers(transform.sigma, (0.1, 2))})
    if len(set(kernels)) != 1:
        raise NoCounterpart(f"GaussianBlur with kernel_size {tuple(kernels)}", text)
    return text


def _normalize(transform: Any) -> str:
    """timm's are tensors of f32, whose numbers have 7 digits."""
    keys = {"mean": transform.mean, "std": transform.std}
    return spec("normalize", {key: numbers([float(f"{float(one):.7g}") for one in value] if hasattr(value, "tolist") else value)
                              for key, value in keys.items()})


def _mix(name: str, default: float) -> Callable[[Any], str]:
    def make(transform: Any) -> str:
        alpha = getattr(transform, "alpha", default)
        return spec(name, {"alpha": number(alpha, default)})
    return make


MAKERS: Dict[str, Callable[[Any], str]] = {
    "RandomResizedCrop": _random_resized_crop,
    "Resize": _resize,
    "CenterCrop": lambda transform: spec("center-crop", size(transform.size)),
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
    "AugMix": _aug_mix,
    "RandomSolarize": _step("solarize", "threshold", "threshold", 128),
    "RandomPosterize": _step("posterize", "bits", "bits", 4),
    "RandomAdjustSharpness": _step("sharpness", "factor", "sharpness_factor", 2),
    "RandomEqualize": _with_p("equalize", 0.5),
    "RandomAutocontrast": _with_p("auto-contrast", 0.5),
    "RandomInvert": _with_p("invert", 0.5),
    "RandomErasing": _erasing,
    "GaussianBlur": _gaussian_blur,
    "Normalize": _normalize,
    "MixUp": _mix("mixup", 0.2),
    "CutMix": _mix("cutmix", 1),
}
