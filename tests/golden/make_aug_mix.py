"""Writes aug_mix.json: what torchvision's AugMix makes of small pictures of u8, for shares and operations that are given.

Run by hand (`.venv/bin/python tests/golden/make_aug_mix.py`) when a case is added; the output is committed.
"""

import json
import pathlib
from unittest import mock

import numpy as np
import torch
import torchvision
from make_colors import SCENES, u8
from torchvision.transforms import AugMix, InterpolationMode, autoaugment

SEVERITY = 10


class GivenShares(AugMix):
    """_sample_dirichlet is what torchvision has for tests to replace."""

    def _sample_dirichlet(self, params):
        return self.shares.pop(0).expand(params.shape)


def case(draws, picture, all_ops, depth):
    own = np.float32(draws.uniform(0, 0.4))
    parts = draws.dirichlet([1, 1, 1]).astype(np.float32)
    mixed = torch.tensor([[own, np.float32(1) - own]])
    transform = GivenShares(severity=SEVERITY, chain_depth=depth, all_ops=all_ops, interpolation=InterpolationMode.NEAREST)
    transform.shares = [mixed, torch.tensor(parts)[None]]
    space = transform._augmentation_space(10, SCENES[picture].shape[:2])
    numbers, chains = [], []
    for share in (torch.tensor(parts) * mixed[0, 1]).tolist():
        ops = []
        if depth < 0:
            numbers.append(int(draws.integers(1, 4)))
        for _ in range(depth if depth > 0 else numbers[-1]):
            index, bin, is_negative = int(draws.integers(len(space))), int(draws.integers(SEVERITY)), int(draws.integers(2))
            magnitudes, signed = list(space.values())[index]
            numbers += [index, *([bin] if magnitudes.ndim else []), *([is_negative] if signed else [])]
            ops.append([index, bin, bool(is_negative)])
        chains.append(dict(share=share, ops=ops))
    given = [torch.tensor([number]) for number in numbers]
    with mock.patch.object(autoaugment.torch, "randint", side_effect=given) as randint:
        made = transform(u8(picture))
    assert randint.call_count == len(given)
    return dict(picture=picture, own_share=mixed[0, 0].item(), chains=chains,
                u8=made.numpy().transpose(1, 2, 0).ravel().tolist())


def main():
    draws = np.random.default_rng(33)
    cases = [case(draws, "grey" if i % 8 == 7 else "small", i % 5 != 4, (-1, -1, 1, 4)[i % 4]) for i in range(96)]
    pictures = {name: dict(height=p.shape[0], width=p.shape[1], pixels=p.ravel().tolist()) for name, p in SCENES.items()}
    path = pathlib.Path(__file__).with_name("aug_mix.json")
    path.write_text(json.dumps(dict(torchvision=torchvision.__version__, pictures=pictures, cases=cases),
                               separators=(",", ":")) + "\n")
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
