"""What makes the spec of a transform of torchvision.transforms or torchvision.transforms.v2."""
from typing import Any, Callable, Dict, Optional

from penstock._spec_text import NoCounterpart, Values, fill, number, number_text, numbers, size, spec, with_filter

Maker = Callable[[Any, Values], str]

COMPOSED = ("Compose", "Sequential", "ModuleList")
FORM_ONLY = ("ToPureTensor", "Identity", "ObjectDetection", "ClampBoundingBoxes")
# What does not care whether the picture has been normalised: it moves pixels without a fill, or weighs them with weights of sum 1.
AFTER_NORMALIZE = ("RandomHorizontalFlip", "RandomVerticalFlip", "RandomResizedCrop", "Resize", "GaussianBlur", "RandomErasing",
                   "MixUp", "CutMix", "ToDtype", *FORM_ONLY)
# torchvision limits floating point to 1 in these, so that levels of 0 to 255 become white.
LIMITED_TO_ONE = ("ColorJitter", "RandomSolarize", "RandomAdjustSharpness", "RandomAutocontrast", "RandomInvert", "RandomGrayscale",
                  "TrivialAugmentWide", "RandAugment", "AutoAugment", "AugMix")
CLOSEST = {"RandomPerspective": "affine(degrees=10,shear=10)", "RandomPhotometricDistort":
           "color-jitter(brightness=0.125,contrast=0.5,saturation=0.5,hue=0.05)"}


def _random_resized_crop(transform: Any, values: Values) -> str:
    keys = {**size(transform.size), "scale": numbers(transform.scale, (0.08, 1)),
            "ratio": numbers(transform.ratio, (3 / 4, 4 / 3))}
    return with_filter(transform, "random-resized-crop", keys, "antialias", True)


def _resize(transform: Any, values: Values) -> str:
    sides = transform.size
    one = sides if isinstance(sides, int) else sides[0] if len(sides) == 1 else None
    keys: Dict[str, Optional[str]] = {"size": str(one)} if one is not None else {"height": str(sides[0]), "width": str(sides[1])}
    text = with_filter(transform, "resize", keys, "antialias", True)
    if getattr(transform, "max_size", None) is not None:
        raise NoCounterpart(f"Resize with max_size {transform.max_size}", text)
    return text


def _random_crop(transform: Any, values: Values) -> str:
    padding = getattr(transform, "padding", None)
    sides = [0] if padding is None else list(padding) if isinstance(padding, (list, tuple)) else [padding]
    pads = max(sides) > 0 or transform.pad_if_needed
    mode = transform.padding_mode if pads else "constant"
    around = {"fill": fill(transform, values)} if mode == "constant" else {"border": mode}
    window = size(transform.size)
    side = min(int(value) for value in window.values() if value is not None)
    most = {"edge": side - 1, "reflect": (side - 1) // 2, "symmetric": side // 2}.get(mode, max(sides))
    text = spec("crop", {**window, "pad": number(min(max(sides), most), 0), **around})
    if len(set(sides)) != 1:
        raise NoCounterpart(f"RandomCrop with padding {tuple(sides)}", text)
    if sides[0] > most:
        raise NoCounterpart(f"RandomCrop of {side} pixels with padding {sides[0]} and padding_mode {mode}", text)
    return text


def _rotation(transform: Any, values: Values) -> str:
    keys = {"degrees": numbers(transform.degrees), "fill": fill(transform, values)}
    text = with_filter(transform, "rotate", keys, "nearest", False)
    for key in ("expand", "center"):
        if getattr(transform, key, None):
            raise NoCounterpart(f"RandomRotation with {key} {getattr(transform, key)}", text)
    return text


def _affine(transform: Any, values: Values) -> str:
    keys: Dict[str, Optional[str]] = {"degrees": numbers(transform.degrees, (0, 0))}
    if transform.translate is not None:
        keys["translate"] = numbers(transform.translate, (0, 0))
    if transform.scale is not None:
        keys["scale"] = numbers(transform.scale, (1, 1))
    if transform.shear is not None:
        keys["shear"] = numbers(transform.shear, (0, 0))
    text = with_filter(transform, "affine", {**keys, "fill": fill(transform, values)}, "nearest", False)
    if getattr(transform, "center", None):
        raise NoCounterpart(f"RandomAffine with center {transform.center}", text)
    return text


def _color_jitter(transform: Any, values: Values) -> str:
    keys = ("brightness", "contrast", "saturation", "hue")
    given = {key: getattr(transform, key) for key in keys}
    return spec("color-jitter", {key: None if value is None else numbers(value) for key, value in given.items()})


def _erasing(transform: Any, values: Values) -> str:
    """Its values are those of the picture at this place, and ours parts of white before normalize. Noise comes after normalize."""
    keys = {"p": number(transform.p, 0.5), "scale": numbers(transform.scale, (0.02, 0.33)),
            "ratio": numbers(transform.ratio, (0.3, 3.3))}
    value = transform.value if isinstance(transform.value, (list, tuple)) else [transform.value]
    if value == ["random"] or value == [None]:  # what transforms of v2 keep of "random"
        if values.will_normalize and not values.is_normalized:
            values.differences.append("noise before Normalize")
        return spec("erase", {**keys, "value": "random"})
    level = values.parts_of_white(value, "RandomErasing", spec("erase", keys))
    return spec("erase", {**keys, "value": numbers(level[:1] if len(set(level)) == 1 else level, (0,))})


def _trivial_augment(transform: Any, values: Values) -> str:
    text = with_filter(transform, "trivial-augment", {"fill": fill(transform, values)}, "nearest", False)
    if transform.num_magnitude_bins != 31:
        raise NoCounterpart(f"TrivialAugmentWide with {transform.num_magnitude_bins} bins", text)
    return text


def _rand_augment(transform: Any, values: Values) -> str:
    """Bins of another number are scaled to ours, of which 30 is the full magnitude."""
    most = transform.num_magnitude_bins - 1
    keys = {"ops": number(transform.num_ops, 2), "magnitude": number(30 * transform.magnitude / most, 9), "fill": fill(transform, values)}
    text = with_filter(transform, "rand-augment", keys, "nearest", False)
    if most < 1 or not 0 <= transform.magnitude <= most:
        raise NoCounterpart(f"RandAugment with magnitude {transform.magnitude} of {most + 1} bins", "rand-augment")
    return text


def _auto_augment(transform: Any, values: Values) -> str:
    policy = str(getattr(transform.policy, "value", transform.policy))
    keys = {"policy": None if policy == "imagenet" else policy, "fill": fill(transform, values)}
    return with_filter(transform, "auto-augment", keys, "nearest", False)


def _aug_mix(transform: Any, values: Values) -> str:
    depth = transform.chain_depth if transform.chain_depth > 0 else -1
    keys = {"severity": number(transform.severity, 3), "mixture-width": number(transform.mixture_width, 3),
            "chain-depth": number(depth, -1), "alpha": number(transform.alpha, 1),
            "all-ops": None if transform.all_ops else "false", "fill": fill(transform, values)}
    return with_filter(transform, "aug-mix", keys, "bilinear", False)


def _step(name: str, key: str, attribute: str, default: float) -> Maker:
    return lambda transform, values: spec(name, {key: number(getattr(transform, attribute), default), "p": number(transform.p, 0.5)})


def _with_p(name: str, default: float) -> Maker:
    return lambda transform, values: spec(name, {"p": number(transform.p, default)})


def _gaussian_blur(transform: Any, values: Values) -> str:
    kernels = transform.kernel_size if isinstance(transform.kernel_size, (list, tuple)) else [transform.kernel_size]
    text = spec("gaussian-blur", {"kernel": number(max(kernels), 0), "sigma": numbers(transform.sigma, (0.1, 2))})
    if len(set(kernels)) != 1:
        raise NoCounterpart(f"GaussianBlur with kernel_size {tuple(kernels)}", text)
    return text


def _normalize(transform: Any, values: Values) -> str:
    """timm's are tensors of f32, whose numbers have 7 digits."""
    mean, std = ([float(f"{float(one):.7g}") for one in given] if hasattr(given, "tolist") else list(given)
                 for given in (transform.mean, transform.std))
    if values.is_float and values.white == 255:
        mean, std = ([one / 255 for one in given] for given in (mean, std))
    values.is_normalized, values.mean, values.std = True, mean, std
    return spec("normalize", {"mean": numbers(mean), "std": numbers(std)})


def _to_dtype(transform: Any, values: Values) -> str:
    """Without scale=True the levels of a u8 picture stay as they are: 0 to 255."""
    given = transform.dtype
    if isinstance(given, dict):
        of_type = {getattr(kind, "__name__", kind): one for kind, one in given.items()}
        given = next((of_type[name] for name in ("Image", "Tensor", "others") if name in of_type), None)
    scales = getattr(transform, "scale", True)  # ConvertImageDtype always does
    if given is None or (given.is_floating_point and values.is_float):
        return ""
    if given.is_floating_point:
        values.white, values.is_float = (1 if scales else 255), True
    elif values.is_float and not (scales and values.white == 1 and not values.is_normalized):
        values.differences.append(f"a picture of floating point made {given}")
    else:
        values.white, values.is_float = 255, False
        if str(given) != "torch.uint8":
            values.differences.append(f"{given}")
    return ""


def to_tensor(white: float, is_float: bool) -> Maker:
    def make(transform: Any, values: Values) -> str:
        if not values.is_float:
            values.white, values.is_float = white, is_float
        return ""
    return make


def _to_pil(transform: Any, values: Values) -> str:
    if values.is_normalized:
        values.differences.append("a normalised picture")
    values.white, values.is_float = 255, False
    return ""


def _grayscale(transform: Any, values: Values) -> str:
    if transform.num_output_channels != 3:
        values.differences.append(f"{transform.num_output_channels} channel")
    return "grayscale(p=1)"


def _solarize(transform: Any, values: Values) -> str:
    return spec("solarize", {"threshold": number(values.levels(transform.threshold), 128), "p": number(transform.p, 0.5)})


def _iou_crop(transform: Any, values: Values) -> str:
    keys = {"scale": numbers((transform.min_scale, transform.max_scale), (0.3, 1)),
            "ratio": numbers((transform.min_aspect_ratio, transform.max_aspect_ratio), (0.5, 2)),
            "iou": numbers(transform.options, (0, 0.1, 0.3, 0.5, 0.7, 0.9, 1)), "trials": number(transform.trials, 40)}
    return spec("random-iou-crop", keys)


def _scale_jitter(transform: Any, values: Values) -> str:
    """The detection recipes cut its pictures to one size afterwards, with a class of their own."""
    values.differences.append("pictures of several sizes")
    keys = {**size(transform.target_size), "scale": numbers(transform.scale_range, (0.1, 2))}
    return with_filter(transform, "scale-jitter", keys, "antialias", True)


def _sanitize(transform: Any, values: Values) -> str:
    rules = ",".join(f"{key}={number_text(value)}" for key, value in
                     (("min-size", transform.min_size), ("min-area", transform.min_area)))
    values.differences.append(f'rules that are those of columns="boxes({rules})"')
    return ""


def _preset(transform: Any, values: Values) -> str:
    """Weights.transforms() of a classification or a segmentation."""
    parts = []
    if transform.resize_size is not None:
        sides = transform.resize_size
        keys: Dict[str, Optional[str]] = {"size": str(sides[0])} if len(sides) == 1 else {"height": str(sides[0]), "width": str(sides[1])}
        try:
            parts.append(with_filter(transform, "resize", keys, "antialias", True))
        except NoCounterpart as difference:
            values.differences.append(str(difference).split(" with ", 1)[-1])
            parts.append(difference.closest)
    if hasattr(transform, "crop_size"):
        parts.append(spec("center-crop", size(transform.crop_size)))
    values.white, values.is_float = 1, True
    return ",".join([*parts, _normalize(transform, values)])


def _mix(name: str, default: float) -> Maker:
    def make(transform: Any, values: Values) -> str:
        alpha = getattr(transform, "alpha", default)
        return spec(name, {"alpha": number(alpha, default)})
    return make


MAKERS: Dict[str, Maker] = {
    "RandomResizedCrop": _random_resized_crop,
    "Resize": _resize,
    "CenterCrop": lambda transform, values: spec("center-crop", size(transform.size)),
    "RandomCrop": _random_crop,
    "RandomHorizontalFlip": _with_p("flip", 0.5),
    "RandomVerticalFlip": _with_p("vflip", 0.5),
    "RandomRotation": _rotation,
    "RandomAffine": _affine,
    "ColorJitter": _color_jitter,
    "RandomGrayscale": _with_p("grayscale", 0.1),
    "Grayscale": _grayscale,
    "RGB": lambda transform, values: "rgb",
    "TrivialAugmentWide": _trivial_augment,
    "RandAugment": _rand_augment,
    "AutoAugment": _auto_augment,
    "AugMix": _aug_mix,
    "RandomSolarize": _solarize,
    "RandomPosterize": _step("posterize", "bits", "bits", 4),
    "RandomAdjustSharpness": _step("sharpness", "factor", "sharpness_factor", 2),
    "RandomEqualize": _with_p("equalize", 0.5),
    "RandomAutocontrast": _with_p("auto-contrast", 0.5),
    "RandomInvert": _with_p("invert", 0.5),
    "RandomErasing": _erasing,
    "GaussianBlur": _gaussian_blur,
    "Normalize": _normalize,
    "ToTensor": to_tensor(1, True),
    "PILToTensor": to_tensor(255, False),
    "ToImage": to_tensor(255, False),
    "ToDtype": _to_dtype,
    "ConvertImageDtype": _to_dtype,
    "ToPILImage": _to_pil,
    "RandomIoUCrop": _iou_crop,
    "ScaleJitter": _scale_jitter,
    "SanitizeBoundingBoxes": _sanitize,
    "ImageClassification": _preset,
    "SemanticSegmentation": _preset,
    "MixUp": _mix("mixup", 0.2),
    "CutMix": _mix("cutmix", 1),
}
