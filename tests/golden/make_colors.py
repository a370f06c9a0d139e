"""Writes colors.json: what torchvision makes of small pictures by colour steps, the operations of trivial-augment and
rand-augment, random-resized-crop's draws and cutmix's rectangles, for parameters that are given, and the policies of
auto-augment.

Run by hand (`.venv/bin/python tests/golden/make_colors.py`) when a case is added; the output is committed. No random
number of torchvision is compared one by one: its generator is not ours. Its draws of crops are compared as
distributions.
"""

import itertools
import json
import pathlib
from unittest import mock

import numpy as np
import torch
import torchvision
from make_golden import PICTURES, levels
from PIL import Image
from torchvision.transforms import RandomResizedCrop, autoaugment, v2
from torchvision.transforms import functional as F
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import _augment

SCENES = {"grey": PICTURES["grey"], "small": np.ascontiguousarray(PICTURES["color"][2:18, 3:17])}
STEPS = {"brightness": F.adjust_brightness, "contrast": F.adjust_contrast, "saturation": F.adjust_saturation,
         "hue": F.adjust_hue, "sharpness": F.adjust_sharpness, "posterize": lambda x, n: F.posterize(x, int(n)),
         "solarize": F.solarize, "auto-contrast": lambda x, _: F.autocontrast(x), "equalize": lambda x, _: F.equalize(x)}
WHOLE_LEVELS = ("posterize", "equalize", "solarize")  # torchvision's are for u8


def u8(name):
    """C x H x W."""
    return torch.from_numpy(np.atleast_3d(SCENES[name]).transpose(2, 0, 1).copy())


def interleaved(chw, digits):
    return np.round(chw.numpy().transpose(1, 2, 0).astype(np.float64), digits)


def through(steps, image):
    for op, amount in steps:
        image = STEPS[op](image, amount)
    return image


def step_lists():
    for op, amounts in {"brightness": (0.4, 1.7), "contrast": (0.3, 1.8), "saturation": (0, 0.35, 1.9),
                        "hue": (-0.5, -0.21, 0.05, 0.37), "sharpness": (0, 0.4, 1.9), "auto-contrast": (0,),
                        "posterize": (2, 5, 8), "solarize": (0, 127.5, 255), "equalize": (0,)}.items():
        for amount in amounts:
            yield [(op, amount)]
    draws = np.random.default_rng(11)
    for order in list(itertools.permutations(("brightness", "contrast", "saturation", "hue")))[::3]:
        yield [(op, round(draws.uniform(-0.1, 0.1) if op == "hue" else draws.uniform(0.6, 1.4), 3)) for op in order]


def step_cases():
    """From f32 on 0..1, as torchvision's steps are exact there, and from u8, which it rounds or cuts after each step."""
    for steps in step_lists():
        for picture in ("grey", "small"):
            whole = through(steps, u8(picture))
            exact = None
            if steps[0][0] not in WHOLE_LEVELS:
                exact = interleaved(through(steps, u8(picture).to(torch.float32) / 255) * 255, 2).ravel().tolist()
            yield dict(picture=picture, steps=steps, f32=exact, u8=interleaved(whole, 0).astype(int).ravel().tolist())


def operation_cases(space, bins):
    image = Image.fromarray(SCENES["small"])
    for index, (op, (magnitudes, signed)) in enumerate(space.items()):
        for bin in bins if magnitudes.ndim else (0,):
            for is_negative in (False, True) if signed else (False,):
                magnitude = float(magnitudes[bin]) if magnitudes.ndim else 0.0
                made = autoaugment._apply_op(image, op, -magnitude if is_negative else magnitude,
                                             InterpolationMode.NEAREST, None)
                yield dict(op=index, name=op, bin=bin, negative=is_negative, u8=levels(made).ravel().tolist())


def trivial_cases():
    return operation_cases(autoaugment.TrivialAugmentWide()._augmentation_space(31), (7, 13, 30))


def rand_cases():
    """AutoAugment's operation that RandAugment does not have, invert, comes last."""
    height, width = SCENES["small"].shape[:2]
    space = autoaugment.RandAugment()._augmentation_space(31, (height, width))
    invert = autoaugment.AutoAugment()._augmentation_space(10, (height, width))["Invert"]
    return operation_cases({**space, "Invert": invert}, (3, 9, 18, 30))


def policies():
    """For each policy 25 pairs of [operation as in rand_cases(), probability, magnitude of 0 to 9]."""
    names = [*autoaugment.RandAugment()._augmentation_space(31, (32, 32)), "Invert"]
    for policy in autoaugment.AutoAugmentPolicy:
        yield policy.value, [[[names.index(op), p, magnitude or 0] for op, p, magnitude in pair]
                             for pair in autoaugment.AutoAugment(policy).policies]


def crop_draws(count=40000):
    torch.manual_seed(5)
    for height, width, scale, ratio in ((375, 500, (0.08, 1), (3 / 4, 4 / 3)), (500, 334, (0.08, 1), (3 / 4, 4 / 3)),
                                        (64, 640, (0.05, 0.5), (3 / 4, 4 / 3)), (300, 301, (0.5, 0.9), (0.9, 1.1))):
        image = torch.empty(3, height, width)
        boxes = np.array([RandomResizedCrop.get_params(image, scale, ratio) for _ in range(count)], dtype=np.float64)
        top, left, rows, columns = boxes.T
        log_ratio = np.log(columns / rows)
        deciles = np.quantile(rows * columns / (height * width), np.arange(1, 10) / 10)
        yield dict(height=height, width=width, scale=scale, ratio=ratio, area_deciles=deciles.round(5).tolist(),
                   log_ratio_mean=log_ratio.mean().round(5), log_ratio_deviation=log_ratio.std().round(5),
                   x_mean=(left + columns / 2).mean().round(3), y_mean=(top + rows / 2).mean().round(3),
                   whole_height_share=(rows == height).mean().round(5))


def cutmix_cases():
    for height, width, weight, column, row in ((32, 32, 0.3, 16, 16), (20, 26, 0.5, 0, 0), (20, 26, 0.05, 25, 19),
                                               (224, 224, 0.7312, 200, 7), (28, 28, 0.999, 3, 3), (5, 9, 0.0, 4, 2)):
        cutmix = v2.CutMix(num_classes=10)
        with mock.patch.object(cutmix, "_dist", mock.Mock(sample=lambda _: torch.tensor(weight, dtype=torch.float64))), \
                mock.patch.object(_augment.torch, "randint", side_effect=[torch.tensor([column]), torch.tensor([row])]):
            made = cutmix.make_params([torch.empty(2, 3, height, width)])
        yield dict(height=height, width=width, weight=weight, column=column, row=row, box=made["box"],
                   own_weight=made["lam_adjusted"])


def main():
    pictures = {name: dict(height=p.shape[0], width=p.shape[1], pixels=p.ravel().tolist())
                for name, p in SCENES.items()}
    golden = dict(torchvision=torchvision.__version__, pictures=pictures, steps=list(step_cases()),
                  trivial=list(trivial_cases()), rand=list(rand_cases()), policies=dict(policies()),
                  crops=list(crop_draws()), cutmix=list(cutmix_cases()))
    path = pathlib.Path(__file__).with_name("colors.json")
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
