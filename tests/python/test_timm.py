"""augment.from_timm: what timm's create_transform gives as spec lists."""
import penstock
import pytest
from penstock.augment import from_timm

timm = pytest.importorskip("timm", reason="timm is not in .venv; script/setup installs it")
from timm.data import create_transform  # noqa: E402
from timm.data.random_erasing import RandomErasing  # noqa: E402

NORMALIZE = "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)"
CROP = "random-resized-crop(size=32),flip,"
FILL = "fill=124:116:104"


@pytest.mark.parametrize("arguments, expected", [
    (dict(input_size=(3, 224, 224)), f"resize(size=256),center-crop(size=224),{NORMALIZE}"),
    (dict(input_size=32, crop_pct=1.0), f"resize(size=32),center-crop(size=32),{NORMALIZE}"),
    (dict(input_size=32, crop_mode="squash"), f"resize(height=36,width=36),center-crop(size=32),{NORMALIZE}"),
    (dict(input_size=32, is_training=True, no_aug=True), f"resize(size=32),center-crop(size=32),{NORMALIZE}"),
    (dict(is_training=True, hflip=0, vflip=0.2, color_jitter=None), f"random-resized-crop(size=32),vflip(p=0.2),{NORMALIZE}"),
    (dict(is_training=True), f"{CROP}color-jitter(brightness=0.6:1.4,contrast=0.6:1.4,saturation=0.6:1.4),{NORMALIZE}"),
    (dict(is_training=True, scale=(0.5, 1), ratio=(1, 1), color_jitter=None, re_prob=0.25),
     f"random-resized-crop(size=32,scale=0.5:1,ratio=1:1),flip,{NORMALIZE},"
     "erase(p=0.25,scale=0.02:0.3333333333333333,ratio=0.3:3.3333333,value=0.485:0.456:0.406)"),
    (dict(is_training=True, auto_augment="rand-m9-mstd0.5-inc1"),
     f"{CROP}timm-rand-augment(config=rand-m9-n2-mstd0.5-inc1,{FILL}),{NORMALIZE}"),
    (dict(is_training=True, auto_augment="rand-n3-p1-mstd101-mmax12"),
     f"{CROP}timm-rand-augment(config=rand-m10-n3-p1-mstd101-mmax12,{FILL}),{NORMALIZE}"),
    (dict(is_training=True, auto_augment="rand-m7", interpolation="nearest", mean=(0.5,) * 3),
     "random-resized-crop(size=32,filter=nearest),flip,timm-rand-augment(config=rand-m7-n2,filter=nearest),"
     "normalize(mean=0.5:0.5:0.5,std=0.229:0.224:0.225)"),
    (dict(is_training=True, interpolation="random", color_jitter=None),
     f"random-resized-crop(size=32,interpolation=random),flip,{NORMALIZE}"),
    (dict(is_training=True, auto_augment="rand-m9", interpolation="bicubic"),
     f"random-resized-crop(size=32,interpolation=bicubic),flip,timm-rand-augment(config=rand-m9-n2,interpolation=bicubic,{FILL}),{NORMALIZE}"),
    (dict(is_training=True, auto_augment="rand-m9", interpolation="random"),
     f"random-resized-crop(size=32,interpolation=random),flip,timm-rand-augment(config=rand-m9-n2,interpolation=random,{FILL}),{NORMALIZE}"),
    (dict(input_size=224, interpolation="bicubic", crop_pct=0.95), f"resize(size=235,interpolation=bicubic),center-crop(size=224),{NORMALIZE}"),
    (dict(is_training=True, auto_augment="3a", color_jitter=0.3),
     f"{CROP}three-augment,color-jitter(brightness=0.7:1.3,contrast=0.7:1.3,saturation=0.7:1.3),{NORMALIZE}"),
    (dict(is_training=True, color_jitter=(0.4, 0.4, 0.2, 0.1), color_jitter_prob=0.8, grayscale_prob=0.2, gaussian_blur_prob=0.5),
     f"{CROP}apply(p=0.8,list={{color-jitter(brightness=0.6:1.4,contrast=0.6:1.4,saturation=0.8:1.2,hue=-0.1:0.1)}}),grayscale(p=0.2),"
     f"apply(list={{gaussian-blur(kernel=23)}}),{NORMALIZE}"),
    (dict(is_training=True, color_jitter=None, use_prefetcher=True, re_prob=0.5), CROP[:-1]),
])
def test_counterparts(pictures, arguments, expected):
    transform = create_transform(**{"input_size": 32, **arguments})
    assert from_timm(transform) == expected
    images = penstock.Loader(pictures, augment=transform, batch_size=4).batch(0).images
    assert images.shape[:2] == (4, 3)


@pytest.mark.parametrize("mode, value", [("pixel", "random"), ("rand", "random-color"), ("const", "0.5")])
def test_random_erasing(mode, value):
    erasing = RandomErasing(0.3, min_area=0.1, max_area=0.2, min_aspect=0.5, mode=mode, device="cpu")
    transform = [*create_transform(32, mean=(0.5,) * 3).transforms, erasing]
    value = "0.5:0.5:0.5" if mode == "const" else value
    assert from_timm(transform).endswith(f",erase(p=0.3,scale=0.1:0.2,ratio=0.5:2,value={value})")


def test_separate_transforms_are_one_list():
    arguments = dict(is_training=True, auto_augment="3a", color_jitter=None)
    assert from_timm(create_transform(32, separate=True, **arguments)) == from_timm(create_transform(32, **arguments))


@pytest.mark.parametrize("arguments, fact, closest", [
    (dict(auto_augment="rand-m9-t3a", color_jitter=None),
     "RandAugment of 3 operations, which are not those of rand-m9 or rand-m9-inc1 (closest: timm-rand-augment)",
     f"{CROP}timm-rand-augment,{NORMALIZE}"),
    (dict(auto_augment="original-mstd0.5"), "AutoAugment with a policy of 25 of timm's own (closest: auto-augment)",
     f"{CROP}auto-augment,{NORMALIZE}"),
    (dict(auto_augment="augmix-m5"), "AugMixAugment, whose magnitudes and operations are timm's own "
     "(closest: aug-mix(severity=6))", f"{CROP}aug-mix(severity=6),{NORMALIZE}"),
    (dict(train_crop_mode="rkrc", color_jitter=None),
     "ResizeKeepRatio (closest: leave it out); CenterCropOrPad (closest: leave it out)", f"flip,{NORMALIZE}"),
    (dict(re_prob=0.25, re_count=3, re_mode="pixel", color_jitter=None),
     "RandomErasing with up to 3 rectangles (closest: erase(p=0.25,scale=0.02:0.3333333333333333,ratio=0.3:3.3333333,value=random))",
     f"{CROP}{NORMALIZE},erase(p=0.25,scale=0.02:0.3333333333333333,ratio=0.3:3.3333333,value=random)"),
])
def test_what_has_no_counterpart_is_named_with_the_closest(arguments, fact, closest):
    transform = create_transform(32, is_training=True, **arguments)
    with pytest.raises(penstock.ConfigError) as caught:
        from_timm(transform)
    assert str(caught.value) == (f"augment: no counterpart for {fact}; expected others, or penstock.augment.from_timm(transforms, "
                                 "closest=True), which takes the closest")
    assert from_timm(transform, closest=True) == closest


def test_what_was_changed_after_it_was_made_is_refused():
    differing, empty = (create_transform(32, is_training=True, auto_augment="rand-m9", color_jitter=None) for _ in range(2))
    differing.transforms[2].ops[3].magnitude = 4
    with pytest.raises(penstock.ConfigError, match="RandAugment whose operations have different magnitude"):
        from_timm(differing)
    empty.transforms[2].ops = []
    with pytest.raises(penstock.ConfigError, match="RandAugment of 0 operations"):
        from_timm(empty)
    empty.transforms[1].p = "x"
    with pytest.raises(penstock.ConfigError, match="augment: RandomHorizontalFlip: .* expected a transform as its library makes it"):
        from_timm(empty)
    empty.transforms.append(empty)
    with pytest.raises(penstock.ConfigError, match="more than 100 deep; expected none that contains itself"):
        from_timm(empty)
