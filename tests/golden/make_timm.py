"""Writes timm.json: what the operations of timm's RandAugment make of a small picture, for given magnitudes and signs.

Run by hand (`.venv/bin/python tests/golden/make_timm.py`) when a case is added; the output is committed.
"""

import json
import pathlib
from unittest import mock

import timm
from make_colors import SCENES
from make_golden import levels
from PIL import Image
from timm.data import auto_augment

FILL = (124, 116, 104)
FILTERS = {"nearest": Image.Resampling.NEAREST, "bilinear": Image.Resampling.BILINEAR}
MOVES = ("Rotate", "ShearX", "ShearY", "TranslateXRel", "TranslateYRel")
ALIKE = ("AutoContrast", "Equalize", "Invert")  # at every magnitude; Pillow 13 refuses Posterize to 0 bits


def made(name, magnitude, is_negative, filter):
    hparams = dict(img_mean=FILL, interpolation=FILTERS[filter])
    operation = auto_augment.AugmentOp(name, prob=1, magnitude=magnitude, hparams=hparams)
    with mock.patch.object(auto_augment.random, "random", return_value=0.9 if is_negative else 0.1):
        return levels(operation(Image.fromarray(SCENES["small"]))).ravel().tolist()


def cases():
    for increases, names in ((False, auto_augment._RAND_TRANSFORMS), (True, auto_augment._RAND_INCREASING_TRANSFORMS)):
        for index, name in enumerate(names):
            if increases and not name.endswith("Increasing"):
                continue
            magnitudes = (9,) if name in ALIKE else (4.6, 9) if name.startswith("Posterize") else (1, 4.6, 9, 10)
            has_sign = name in MOVES or (increases and name[:3] in ("Col", "Con", "Bri", "Sha"))
            for magnitude in magnitudes:
                for is_negative in (False, True) if has_sign else (False,):
                    for filter in FILTERS if name in MOVES else ("nearest",):
                        yield dict(op=index, name=name, magnitude=magnitude, negative=is_negative, increases=increases,
                                   filter=filter, u8=made(name, magnitude, is_negative, filter))


def main():
    small = SCENES["small"]
    pictures = dict(small=dict(height=small.shape[0], width=small.shape[1], pixels=small.ravel().tolist()))
    golden = dict(timm=timm.__version__, pictures=pictures, fill=FILL, operations=list(cases()))
    path = pathlib.Path(__file__).with_name("timm.json")
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
