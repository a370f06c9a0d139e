"""augment.from_torchvision: every class that it translates, beside the class itself, with random parameters."""
import random

import numpy
import penstock
import pytest
import torch
import torchvision.transforms as v1
import torchvision.transforms.v2.functional as functional
from penstock import _torchvision
from penstock.augment import from_torchvision
from PIL import Image
from torchvision.transforms import InterpolationMode, v2

HEIGHT, WIDTH, COUNT = 30, 40, 4
MODES = (InterpolationMode.NEAREST, InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Smooth pictures with noise, packed, and the same as PIL pictures."""
    numbers = numpy.random.default_rng(5)
    coarse = numbers.integers(0, 256, (COUNT, 6, 8, 3), dtype=numpy.uint8)
    images = [Image.fromarray(one).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC) for one in coarse]
    levels = [numpy.clip(numpy.asarray(one, int) + numbers.integers(-9, 10, (HEIGHT, WIDTH, 3)), 0, 255).astype(numpy.uint8) for one in images]
    folder = tmp_path_factory.mktemp("scenes") / "packed"
    penstock.pack([(one, 0) for one in levels], folder, shards=1)
    return str(folder), [Image.fromarray(one) for one in levels]


def made_by_penstock(folder, transform, **options):
    loader = penstock.Loader(folder, augment=transform, shuffle=False, arrays="numpy", batch_size=COUNT, **options)
    return next(iter(loader)).images.astype(float)


def as_levels(made):
    return numpy.stack([255 * numpy.asarray(functional.to_dtype(functional.to_image(one), torch.float32, scale=True)) for one in made])


def as_floats(images):
    return [functional.to_dtype(functional.pil_to_tensor(one), torch.float32, scale=True) for one in images]


def interval(draw, low, high):
    at = draw.uniform(low, high)
    return (at, at)


# Transforms without chance in them: of every random range the ends are equal, and p is 1 or 0. `of` is v1 or v2.
WITHOUT_CHANCE = {
    "RandomResizedCrop": lambda draw, of: of.RandomResizedCrop(
        (draw.randint(8, 60), draw.randint(8, 60)), scale=(1, 1), ratio=(WIDTH / HEIGHT,) * 2, interpolation=draw.choice(MODES)),
    "Resize": lambda draw, of: of.Resize(
        draw.choice([draw.randint(8, 60), (draw.randint(8, 60), draw.randint(8, 60))]), interpolation=draw.choice(MODES)),
    "CenterCrop": lambda draw, of: of.CenterCrop((draw.randint(4, 50), draw.randint(4, 60))),
    "RandomCrop": lambda draw, of: (lambda pad: of.RandomCrop(
        (HEIGHT + 2 * pad, WIDTH + 2 * pad), padding=pad, **draw.choice([
            {"fill": draw.randint(0, 255)}, {"padding_mode": "edge"}, {"padding_mode": "reflect"}, {"padding_mode": "symmetric"}])))(draw.randint(0, 9)),
    "RandomHorizontalFlip": lambda draw, of: of.RandomHorizontalFlip(draw.randint(0, 1)),
    "RandomVerticalFlip": lambda draw, of: of.RandomVerticalFlip(draw.randint(0, 1)),
    "RandomRotation": lambda draw, of: of.RandomRotation(interval(draw, -180, 180), interpolation=draw.choice(MODES), fill=draw.randint(0, 255)),
    "RandomAffine": lambda draw, of: of.RandomAffine(
        interval(draw, -90, 90), scale=interval(draw, 0.5, 2), shear=(*interval(draw, -30, 30), *interval(draw, -30, 30)),
        interpolation=draw.choice(MODES), fill=draw.randint(0, 255)),
    "ColorJitter": lambda draw, of: of.ColorJitter(
        **{draw.choice(["brightness", "contrast", "saturation"]): interval(draw, 0.2, 2)}) if draw.random() < 0.8 else of.ColorJitter(
            hue=interval(draw, -0.5, 0.5)),
    "RandomGrayscale": lambda draw, of: of.RandomGrayscale(draw.randint(0, 1)),
    "Grayscale": lambda draw, of: of.Grayscale(3),
    "RGB": lambda draw, of: v2.RGB(),
    "RandomSolarize": lambda draw, of: of.RandomSolarize(draw.randint(0, 255), p=1),
    "RandomPosterize": lambda draw, of: of.RandomPosterize(draw.randint(1, 8), p=1),
    "RandomAdjustSharpness": lambda draw, of: of.RandomAdjustSharpness(draw.uniform(0, 3), p=1),
    "RandomEqualize": lambda draw, of: of.RandomEqualize(p=1),
    "RandomAutocontrast": lambda draw, of: of.RandomAutocontrast(p=1),
    "RandomInvert": lambda draw, of: of.RandomInvert(p=1),
    "GaussianBlur": lambda draw, of: of.GaussianBlur(draw.randrange(1, 13, 2), sigma=interval(draw, 0.3, 3)),
    "Normalize": lambda draw, of: of.Normalize(*([draw.uniform(0.1, 1) for _ in range(3)] for _ in range(2))),
    "ImageClassification": lambda draw, of: torch_preset(draw),
}
# Only on tensors of floating point is there one result: on PIL pictures levels are cut after each step.
ON_FLOATS = ("ColorJitter", "RandomGrayscale", "Grayscale", "RandomAdjustSharpness", "GaussianBlur", "RandomAutocontrast", "Normalize")
WITH_CHANCE = {
    "RandomErasing", "TrivialAugmentWide", "RandAugment", "AutoAugment", "MixUp", "CutMix",  # tests below
    "AugMix", "RandomIoUCrop",  # test_whole_levels.py, test_iou_crop.py
    "ToTensor", "PILToTensor", "ToImage", "ToDtype", "ConvertImageDtype", "ToPILImage",  # no pixels of their own: tests below
    "ScaleJitter", "SanitizeBoundingBoxes", "SemanticSegmentation"}  # refused, or parts of others


def torch_preset(draw):
    from torchvision.transforms._presets import ImageClassification
    return ImageClassification(crop_size=draw.randint(8, 20), resize_size=draw.randint(20, 50))


def test_every_class_is_compared():
    assert set(WITHOUT_CHANCE) | WITH_CHANCE == set(_torchvision.MAKERS)


@pytest.mark.parametrize("name", WITHOUT_CHANCE)
def test_pixels_are_those_of_the_original(scenes, name):
    folder, images = scenes
    draw = random.Random(name)
    for of in (v1, v2) * 4:
        transform = WITHOUT_CHANCE[name](draw, of)
        given = as_floats(images) if name in ON_FLOATS else images
        expected = numpy.stack([transform(one).numpy() for one in given]) * 255 if name in ON_FLOATS or "Image" in name else as_levels(
            [transform(one) for one in given])
        made = made_by_penstock(folder, [transform]) * 255
        difference = abs(made - expected)
        most = {"ImageClassification": 1.01 / 0.225, "Resize": 1.2, "RandomResizedCrop": 1.2, "RandomRotation": 1.01,
                "RandomAffine": 1.01, "Normalize": 0.05, "RandomEqualize": 0.01, "RandomAutocontrast": 0.05}.get(name, 0.05)
        if "nearest" in str(getattr(transform, "interpolation", "")).lower() and name in ("Resize", "RandomResizedCrop"):
            difference = difference[:, :, ~is_tie(HEIGHT, made.shape[2])][:, :, :, ~is_tie(WIDTH, made.shape[3])]
        # Pillow rounds twice; the half level of its first pass counts up to 1.25 times in the second one with bicubic.
        # A turned coordinate may lie between two pixels as well.
        most_wrong = 0.01 * difference.size if name in ("RandomRotation", "RandomAffine") else 0
        assert (difference > most).sum() <= most_wrong, (transform, difference.max())


def is_tie(pixels, outputs):
    """Which outputs have their middle between two pixels."""
    at = (numpy.arange(outputs) + 0.5) * pixels / outputs
    return abs(at - numpy.round(at)) < 1e-3


def operations(magnitude):
    """What one operation of RandAugment makes of a picture."""
    from torchvision.transforms.autoaugment import _apply_op
    space = v1.RandAugment()._augmentation_space(31, (HEIGHT, WIDTH))
    for op, (magnitudes, signed) in space.items():
        amount = float(magnitudes[magnitude]) if magnitudes.ndim else 0.0
        for sign in (1, -1) if signed else (1,):
            yield op, lambda image, op=op, amount=sign * amount: _apply_op(image, op, amount, InterpolationMode.NEAREST, None)


def trivial_operations():
    from torchvision.transforms.autoaugment import _apply_op
    for op, (magnitudes, signed) in v1.TrivialAugmentWide()._augmentation_space(31).items():
        for amount in magnitudes.tolist() if magnitudes.ndim else [0.0]:
            for sign in (1, -1) if signed else (1,):
                yield op, lambda image, op=op, amount=sign * amount: _apply_op(image, op, amount, InterpolationMode.NEAREST, None)


@pytest.mark.parametrize("transform, possible", [
    (v2.RandAugment(1, 17), lambda: operations(17)), (v1.RandAugment(1, 5), lambda: operations(5)), (v1.TrivialAugmentWide(), trivial_operations)])
def test_a_policy_makes_what_one_of_its_operations_makes(scenes, transform, possible):
    folder, images = scenes
    results = [(op, [numpy.asarray(make(image)) for image in images]) for op, make in possible()]
    loader = penstock.Loader(folder, augment=transform, shuffle=False, arrays="numpy", batch_size=COUNT, layout="u8")
    seen = set()
    for epoch in range(25):
        loader.set_epoch(epoch)
        for index, made in enumerate(next(iter(loader)).images):
            nearest = min(((made != result[index]).any(-1).mean(), op) for op, result in results)
            assert nearest[0] < 0.03, (epoch, index, nearest)  # coordinates between two pixels
            seen.add(nearest[1])
    assert len(seen) >= 12, seen


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("before, value", [
    ([], 0.5), ([v2.Normalize(MEAN, STD)], 0), ([v2.Normalize(MEAN, STD)], -1), ([v2.Normalize(MEAN, STD)], (0.1, 2, -3)),
    ([v2.Normalize([0.5], [0.25])], (0.1, 2, -3)), ([v2.ToImage(), v2.ToDtype(torch.float32)], 100),
    ([v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))], 1.5)])
def test_an_erased_rectangle_has_the_value_that_stands_in_the_original(scenes, before, value):
    folder, images = scenes
    given = images if any(isinstance(one, v2.ToImage) for one in before) else as_floats(images)
    plain = numpy.stack([(v2.Compose(before)(one) if before else one).numpy() for one in given])
    made = made_by_penstock(folder, [*before, v2.RandomErasing(1, value=value)])
    expected = numpy.broadcast_to(numpy.reshape(value, (-1, 1, 1)), made.shape)
    is_erased = (abs(made - plain) > 1e-4 * max(1, plain.max())).any(1, keepdims=True)
    assert 0.01 < is_erased.mean() < 0.4
    assert numpy.where(is_erased, abs(made - expected), 0).max() < 1e-4 * max(1, plain.max())


@pytest.mark.parametrize("transforms", [
    [v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))],
    [v2.ToImage(), v2.ToDtype(torch.float32)], [v2.PILToTensor(), v2.ToDtype({torch.Tensor: torch.float32, "others": None}), v2.Normalize([9], [3])],
    [v1.ToTensor(), v2.ToDtype(torch.float32), v1.Normalize(MEAN, STD)], [v2.ToImage(), v2.ConvertImageDtype(), v2.RandomSolarize(0.25, p=1)],
    [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.CenterCrop(50)], [v1.ToTensor(), v1.RandomCrop((50, 60), padding=10, fill=1)],
    [v2.RandomCrop((50, 60), padding=10, fill={torch.Tensor: 3, Image.Image: 90, "others": 255})],
    [v2.RandomCrop((50, 60), padding=10, fill={v1.Compose: 255})]])
def test_values_mean_the_same(scenes, transforms):
    folder, images = scenes
    made = [v2.Compose(transforms)(one) for one in images]
    expected = numpy.stack([one.numpy() for one in made]) if torch.is_tensor(made[0]) else as_levels(made) / 255
    assert abs(made_by_penstock(folder, transforms) - expected).max() <= 1e-4 * abs(expected).max()


class Grayscale(torch.nn.Module):
    """Somebody's own."""


class RGB(v2.RGB):
    """Derived from torchvision's, to exchange channels."""


@pytest.mark.parametrize("transform, fact", [
    (Grayscale(), f"{__name__}.Grayscale, which is neither torchvision's nor timm's"), (RGB(), f"{__name__}.RGB, which is neither"),
    (v2.Grayscale(), r"Grayscale with 1 channel .closest: grayscale.p=1"),
    ([v2.Normalize(MEAN, STD), v2.ColorJitter(0.2)], "ColorJitter after Normalize"),
    ([v2.Normalize(MEAN, STD), v2.RandomRotation(9)], "RandomRotation after Normalize .closest: rotate"),
    ([v2.Normalize(MEAN, STD), v2.RandomApply([v2.CenterCrop(9)])], "RandomApply of CenterCrop after Normalize"),
    (["normalize", v2.RandomErasing()], "RandomErasing after a normalize that is text"),
    ([v2.RandomErasing(value="random"), v2.Normalize(MEAN, STD)], "RandomErasing with noise before Normalize"),
    ([v2.ToImage(), v2.ToDtype(torch.float32), v2.ColorJitter(0.2)], "ColorJitter with levels of 0 to 255 in floating point"),
    ([v2.ToImage(), v2.ToDtype(torch.int32)], "ToDtype with torch.int32"),
    (v2.RandomAffine(9, fill=(1, 2, 6)), r"RandomAffine with fill \[1, 2, 6\] .closest: affine.degrees=-9:9,fill=3"),
    (v2.ScaleJitter((64, 64)), "ScaleJitter with pictures of several sizes .closest: scale-jitter.size=64"),
    (v2.SanitizeBoundingBoxes(3), 'SanitizeBoundingBoxes with rules that are those of columns="boxes.min-size=3,min-area=1'),
])
def test_what_would_change_its_meaning_is_refused(transform, fact):
    with pytest.raises(penstock.ConfigError, match=f"no counterpart for {fact}"):
        from_torchvision(transform)


def test_presets_and_recipes():
    from torchvision.models import ResNet18_Weights, ViT_B_16_Weights
    normalize = "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)"
    assert from_torchvision(ResNet18_Weights.IMAGENET1K_V1.transforms()) == f"resize(size=256),center-crop(size=224),{normalize}"
    bicubic = from_torchvision(ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1.transforms())
    assert bicubic == f"resize(size=384,interpolation=bicubic),center-crop(size=384),{normalize}"
    either = v2.RandomChoice([v2.MixUp(alpha=0.2, num_classes=9), v2.CutMix(alpha=0.5, num_classes=9)], p=[0.25, 0.75])
    assert from_torchvision([v2.RandomHorizontalFlip(), either]) == "flip,mixup,cutmix(alpha=0.5,switch=0.75)"
    assert from_torchvision(v2.RandomChoice([v2.CutMix(num_classes=9), v2.MixUp(num_classes=9)])) == "mixup(alpha=1),cutmix(switch=0.5)"
    assert from_torchvision([v2.RandomIoUCrop(min_scale=0.2), v2.ClampBoundingBoxes()]) == "random-iou-crop(scale=0.2:1)"
