"""The plan of a sample as numbers: it is what the loader renders, and another library makes the same picture by it."""
import math

import numpy
import penstock
import pytest
import torch
from PIL import Image, ImageFilter
from torchvision.transforms import InterpolationMode, functional

from test_errors import failure

EVERYTHING = "random-resized-crop(size=32),flip,affine(degrees=15,translate=0.1,filter=bilinear),trivial-augment,erase(p=1)"


def images_in_order(data, augment, epoch=0, **options):
    """Row i is sample i."""
    loader = penstock.Loader(data, augment=augment, shuffle=False, dct_scale="off", arrays="numpy", **options)
    loader.set_epoch(epoch)
    return loader, numpy.concatenate([batch.images for batch in loader])


@pytest.mark.parametrize("augment", [
    "affine(degrees=30,translate=0.2,scale=0.8:1.2,shear=10,fill=90)", "crop(size=28,pad=5,border=reflect),flip", EVERYTHING,
    "resize(size=40,filter=antialias),color-jitter(brightness=0.5,contrast=0.4,saturation=0.3,hue=0.2),grayscale",
    "crop(size=28,pad=5),aug-mix(severity=9),erase", "resize(size=40,filter=bilinear),rand-augment(ops=4,filter=bilinear)",
    "resize(size=40),choice(of={gaussian-blur(kernel=5)}|{three-augment}),timm-rand-augment,erase(value=random-color)"])
def test_it_is_what_the_loader_renders(digits, pictures, augment):
    for data in (digits, pictures) if "size" in augment and "crop" in augment else (digits,):
        loader, images = images_in_order(data, augment, epoch=3, seed=5)
        for index in range(0, len(loader.dataset), 7):
            made = penstock.render(loader.dataset[index].image, loader.plan(3, index))
            assert numpy.array_equal(made, images[index]), index


def test_the_plan_of_another_epoch_or_sample_is_another(digits):
    loader = penstock.Loader(digits, augment="affine(degrees=30)")
    plans = {loader.plan(epoch, index) for epoch in range(3) for index in range(3)}
    assert len(plans) == 9 and loader.plan(2, 1) in plans


def affine_parameters(plan):
    """Angle, translation and scale of torchvision's affine. Its map goes from the picture to the output."""
    xx, xy, x0, yx, yy, y0 = plan.map
    inverse = numpy.linalg.inv([[xx, xy], [yx, yy]])
    center = numpy.array([plan.input_width / 2, plan.input_height / 2])
    moved = inverse @ (center - [x0, y0]) - center
    return math.degrees(math.atan2(inverse[1, 0], inverse[0, 0])), list(moved), math.hypot(inverse[0, 0], inverse[1, 0])


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_torchvisions_affine_makes_the_same_picture_by_it(digits, mode):
    augment = f"affine(degrees=30,translate=0.1,scale=0.8:1.2,filter={mode})"
    loader, images = images_in_order(digits, augment)
    for index in range(0, 100, 9):
        plan, picture = loader.plan(0, index), Image.fromarray(loader.dataset[index].image[:, :, 0])
        angle, translate, scale = affine_parameters(plan)
        torchvisions = functional.affine(picture, angle, translate, scale, [0.0, 0.0], interpolation=InterpolationMode(mode))
        pillows = picture.transform(picture.size, Image.Transform.AFFINE, plan.map, Image.Resampling[mode.upper()])
        for other in (torchvisions, pillows):
            # Half a level of rounding; with "nearest", coordinates between two pixels may be rounded to either.
            is_equal = numpy.abs(255 * images[index, 0] - numpy.asarray(other)) < 1.01
            assert is_equal.mean() > (0.98 if mode == "nearest" else 0.9999), index


def test_numbers_that_no_plan_has_are_refused(digits):
    loader = penstock.Loader(digits, augment=EVERYTHING.replace("32", "28"))
    image, plan = loader.dataset[0].image, loader.plan(0, 0)

    def message(**changed):
        return failure(penstock.ConfigError, penstock.render, image, plan._replace(**changed))

    assert message(map=(1, 2)) == "plan: map is (1, 2); expected what loader.plan() gives there"
    assert "expected numbers of -16777216 to 16777216" in message(map=(math.nan,) * 6)
    assert "expected numbers of -16777216 to 16777216" in message(map=(math.inf,) * 6)
    assert message(view=(0, 0, 29, 28)) == "plan: view is (0, 0, 29, 28); expected a part of the picture"
    assert message(view=(0, 0, -1, 28)).endswith("expected (x, y, width, height)")
    assert message(output_height=0) == "plan: output_height is 0; expected 1 to 16777216 pixels"
    assert message(input_height=27, view=(0, 0, 1, 1)) == "render: the picture is 28 x 28; expected 27 x 28, as the plan has it"
    assert message(filter="lanczos").startswith('plan: filter: unknown value "lanczos"; known: antialias, antialias_bicubic, ')
    assert "expected every copied pixel in the output" in message(border="reflect", inside=(0, 0, 0, 0))
    assert message(color_steps=(("posterize", 9),)).endswith("for posterize 0 to 8 bits")
    assert message(color_steps=(("hue", 0.1),) * 9).endswith("expected at most 8")
    assert message(color_steps=(("blur", 1),)).startswith('plan: color_steps: unknown value "blur"')
    for step in (("gaussian_blur", 1.0), ("gaussian_blur", 0.0, 3), ("gaussian_blur", 1.0, 4), ("hue", 0.1, 3)):
        assert message(color_steps=(step,)).endswith('expected ("gaussian_blur", sigma, kernel) with sigma up to 60 and a kernel of 0 or '
                                                     "an odd number up to 127, and otherwise (name, amount) or (name, amount, "
                                                         '"pillow" or "tensor")')
    assert message(erased=((0, 0, 1, 1, ("noise", 5)),)).endswith('expected levels, a key of noise or ("color", key)')
    assert message(erased=((0, 0, 1, 1, (0, 0, 0)),) * 5).endswith("expected at most 4")
    assert message(fill=(math.nan, 0, 0)).startswith("plan: fill is (nan, 0, 0); ")
    assert failure(penstock.ConfigError, penstock.render, image.astype("f8"), plan).startswith("render: the picture is float64")
    assert failure(penstock.ConfigError, penstock.render, image, {}) == "render: plan is {}; expected what loader.plan() gave"
    assert failure(penstock.ConfigError, loader.plan, 0, 1000) == "loader: index is 1000; expected 0 to 999"
    assert failure(penstock.ConfigError, loader.plan, -1, 0).startswith("loader: epoch is -1; expected 0 to ")


def test_a_rank_with_shards_of_its_own_has_plans_of_these(digits):
    loader = penstock.Loader(digits, shuffle="rank-local", rank=1, world_size=2, augment="affine(degrees=30)")
    assert "which another rank has" in failure(penstock.ConfigError, loader.plan, 0, 0)
    whole = penstock.Loader(digits, augment="affine(degrees=30)")
    assert loader.plan(0, 300) == whole.plan(0, 300)


def torchvisions_step(step, amount, levels, kernel=0):
    """On floats of 0 to 1 where torchvision's step is exact there, and otherwise on bytes, as u8 or f32 levels. With "pillow" in place of
    a kernel on PIL pictures."""
    if kernel == "pillow" and step in ("brightness", "contrast", "saturation", "sharpness", "autocontrast"):
        name, amounts = (step, ()) if step == "autocontrast" else (f"adjust_{step}", (amount,))
        return functional.pil_to_tensor(getattr(functional, name)(functional.to_pil_image(levels), *amounts)).float()
    if step == "gaussian_blur" and kernel == 0:
        return functional.pil_to_tensor(functional.to_pil_image(levels).filter(ImageFilter.GaussianBlur(amount))).float()
    if step == "gaussian_blur":
        return functional.gaussian_blur(levels.float() / 255, kernel, amount) * 255
    whole = {"solarize": lambda x: functional.solarize(x, amount), "posterize": lambda x: functional.posterize(x, int(amount)),
             "equalize": functional.equalize, "solarize_add": lambda x: torch.where(x < 128, (x + int(amount)).clamp(max=255), x)}
    exact = {"brightness": functional.adjust_brightness, "contrast": functional.adjust_contrast,
             "saturation": functional.adjust_saturation, "sharpness": functional.adjust_sharpness,
             "autocontrast": lambda x, _: functional.autocontrast(x)}
    return whole[step](levels).float() if step in whole else exact[step](levels.float() / 255, amount) * 255


@pytest.mark.parametrize("augment", ["rand-augment(ops=1,std=2)", "auto-augment(policy=svhn)", "gaussian-blur(kernel=7,sigma=0.3:3)",
                                     "three-augment", "timm-rand-augment(config=rand-m9-n1-p1-mstd0.5-inc1,filter=nearest,fill=90)"])
def test_torchvisions_operations_make_the_same_1000_pictures_by_it(digits, augment):
    loader, images = images_in_order(digits, augment)
    seen, between = set(), 0
    for index in range(1000):
        plan, picture = loader.plan(0, index), Image.fromarray(loader.dataset[index].image[:, :, 0])
        moved = picture.transform(picture.size, Image.Transform.AFFINE, plan.map, Image.Resampling.NEAREST, fillcolor=int(plan.fill[0]))
        levels = functional.pil_to_tensor(moved)
        for step, *amounts in plan.color_steps:
            levels = torchvisions_step(step, amounts[0], levels.round().clamp(0, 255).to(torch.uint8), *amounts[1:])
            seen.add(step)
        differs = numpy.abs(255 * images[index, 0] - levels[0].numpy()) > 1.01
        between += differs.any()
        # Coordinates between two pixels may be rounded to either, which changes few pixels of a picture, and sums over it.
        assert not differs.any() or plan.map != (1, 0, 0, 0, 1, 0), (index, plan)
    assert len(seen) >= (1 if "blur" in augment else 3) and between < 100, (seen, between)
