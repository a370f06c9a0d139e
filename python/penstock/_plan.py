"""Plan: what an augmentation has drawn for a sample. render(): a picture made by it."""
import importlib
from typing import Any, Dict, NamedTuple, Tuple, Union

from penstock import _native
from penstock.errors import ConfigError

_Four = Tuple[int, int, int, int]
_Levels = Tuple[float, float, float]


class Plan(NamedTuple):
    """All that Loader's transforms do to one sample in one epoch, as numbers, in the order in which it is done.

    input_height, input_width, output_height, output_width: pixels, of the upright picture and of what comes out.
    map: xx, xy, x0, yx, yy, y0. The output pixel in column c and row r takes the value of the picture at
        x = xx * (c + 0.5) + xy * (r + 0.5) + x0, y = yx * (c + 0.5) + yy * (r + 0.5) + y0, where the picture's pixel in column 0
        and row 0 covers 0 to 1. That is what PIL.Image.transform(size, Image.Transform.AFFINE, plan.map) takes.
    view: x, y, width, height of the part of the picture that may be read; outside of it there is `fill`, levels of 0 to 255.
    filter: "nearest", "bilinear", "bicubic" (4 x 4 pixels, as Pillow's Image.transform), or for maps along the axes "antialias"
        (Pillow's bilinear, which sums over all pixels that it covers), "antialias_bicubic", "antialias_lanczos", "antialias_box" and
        "antialias_hamming" (Pillow's Image.resize).
    border, inside: what lies outside of the rectangle `inside` (x, y, width, height) of the output: "fill", or copies of pixels in it,
        as torchvision's padding_mode "edge", "reflect" and "symmetric".
    color: a 3 x 4 matrix of RGB levels: `out[i] = color[i][0] * R + color[i][1] * G + color[i][2] * B + color[i][3]`.
    color_steps: (name, amount), where name is torchvision's adjust_NAME for brightness, contrast, saturation, hue and sharpness, else
        "posterize", "solarize", "autocontrast", "equalize" or timm's "solarize_add". A blur is ("gaussian_blur", sigma, kernel), where
        kernel is that of torchvision's gaussian_blur, or 0 for Pillow's GaussianBlur(sigma). A third value "pillow" or "tensor" means
        a step on whole levels, with the rounding of Pillow or of torchvision on uint8 tensors.
    erased: (top, left, bottom, right, levels) of rectangles of the output, with the key of the noise, a whole number, in place of levels
        where erase(value=random) has drawn it, or ("color", key) for value=random-color. Noise is not normalised: render() gives what
        the loader gives after normalize.

    share, chains: what aug-mix adds up, as whole levels: `share` of the picture so far, and of each (share, plans) in `chains` the picture
        that these plans make of it, one after the other. Rectangles are erased after it.

    normalize, mixup and cutmix are no part of it. Another plan: plan._replace(fill=(0, 0, 0)).
    """
    input_height: int
    input_width: int
    output_height: int
    output_width: int
    map: Tuple[float, float, float, float, float, float]
    view: _Four
    filter: str
    fill: _Levels
    border: str
    inside: _Four
    color: Tuple[Tuple[float, float, float, float], ...]
    color_steps: Tuple[Tuple[Any, ...], ...]
    erased: Tuple[Tuple[int, int, int, int, Union[_Levels, int, Tuple[str, int]]], ...]
    share: float = 1.0
    chains: Tuple[Tuple[float, Tuple[Any, ...]], ...] = ()


def made_plan(values: Dict[str, Any]) -> Plan:
    return Plan(**{name: _tuples(value) for name, value in values.items()})


def _as_dict(plan: Plan) -> Dict[str, Any]:
    return {**plan._asdict(), "chains": [(share, [_as_dict(one) for one in plans]) for share, plans in plan.chains]}


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return made_plan(value)
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def render(picture: Any, plan: Plan) -> Any:
    """What the loader makes of a picture by this plan, before it is normalised: NumPy f32, C x H x W, 0 to 1; values of float32
    stay as they are.

    picture: NumPy u8, uint16 or float32, H x W x C or H x W, upright, as Dataset[index].image. A loader that decodes photographs at a smaller size
    (dct_scale="auto") has slightly other pixels. Raises ConfigError. Threads: may be called on any.
    """
    numpy = importlib.import_module("numpy")
    levels = numpy.asarray(picture)
    if levels.dtype not in (numpy.uint8, numpy.uint16, numpy.float32) or levels.ndim not in (2, 3):
        raise ConfigError(f"render: the picture is {levels.dtype} {levels.shape}; expected uint8, uint16 or float32, H x W x C or H x W")
    levels = numpy.ascontiguousarray(levels if levels.ndim == 3 else levels[:, :, None])
    if not isinstance(plan, Plan):
        raise ConfigError(f"render: plan is {plan!r:.200}; expected what loader.plan() gave")
    return _native.render(levels, _as_dict(plan))
