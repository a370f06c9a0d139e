"""Whether batches of photographs look like random resized crops of these photographs, by comparison with Pillow's.

A loader could be fast by delivering whole pictures, blue for red, one crop again and again, or something blurred.
Four batches of 64 are compared with 1,990 crops by Pillow; the tolerances are several times what differs between draws.
"""

import json
import pathlib

import numpy as np

BATCHES = 4
REFERENCE = "photo-reference.json"
# Tolerances of level and tint are in levels, those of contrast and sharpness are shares of the reference. Between 11 loaders level
# differs by 4 levels, tint by 5, contrast by 6 % and sharpness by 16 % (25 % for raw pixels at 256, whose crops are enlarged).
LEVEL_TOLERANCE, TINT_TOLERANCE, SHARE_TOLERANCE = 15.0, 12.0, 0.35

# The same whole picture may come twice, because mlx-data takes it when ten draws did not fit.
DISTINCT_SHARE = 0.95


class Look:
    """What pictures look like on average: add() batches, then call summary()."""

    def __init__(self, workload):
        self.workload, self.rows, self.seen = workload, [], set()

    def add(self, images):
        for picture in np.asarray(images):
            self.seen.add(hash(picture.tobytes()))
            levels = (picture - self.workload.bias[:, None, None]) / self.workload.scale[:, None, None]
            red, green, blue = levels.mean((1, 2))
            step = np.abs(levels[1, :, 1:] - levels[1, :, :-1]).mean()
            self.rows.append(((red + green + blue) / 3, red - blue, levels[1].std(), step))

    def summary(self):
        level, tint, contrast, sharpness = np.mean(self.rows, 0).tolist()
        return {"level": level, "tint": tint, "contrast": contrast, "sharpness": sharpness}


def compare(found, reference):
    """Raises ValueError, which says what is too far from the reference. Both arguments are results of Look.summary()."""
    bounds = {
        "level": LEVEL_TOLERANCE,
        "tint": TINT_TOLERANCE,
        "contrast": SHARE_TOLERANCE * reference["contrast"],
        "sharpness": SHARE_TOLERANCE * reference["sharpness"],
    }
    for name, bound in bounds.items():
        if not abs(found[name] - reference[name]) <= bound:
            raise ValueError(f"{name} is {found[name]:.1f} levels; expected {reference[name]:.1f}, give or take {bound:.1f}")


def check(batches, workload, data, check_batch):
    """Looks at the next batches; returns their summary. Raises ValueError."""
    look = Look(workload)
    for _ in range(BATCHES):
        images, labels = next(batches)
        check_batch(images, labels, workload)
        look.add(images)
    if len(look.seen) < DISTINCT_SHARE * len(look.rows):
        raise ValueError(f"{len(look.rows)} crops, {len(look.seen)} of them different; expected each drawn anew")
    found = look.summary()
    compare(found, json.loads((pathlib.Path(data) / REFERENCE).read_text()))
    return found
