"""augment.from_torchvision: transforms of torchvision, v1 and v2, as spec lists."""
import numpy
import penstock
import pytest
import torch
import torchvision.transforms as v1
from penstock.augment import from_torchvision
from torchvision.transforms import v2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NORMALIZE = "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)"


@pytest.mark.parametrize("of", [v1, v2])
@pytest.mark.parametrize("make, expected", [
    (lambda of: of.RandomResizedCrop(224), "random-resized-crop(size=224)"),
    (lambda of: of.RandomResizedCrop((200, 100), scale=(0.5, 1), ratio=(1, 2), interpolation=v2.InterpolationMode.NEAREST),
     "random-resized-crop(height=200,width=100,scale=0.5:1,ratio=1:2,filter=nearest)"),
    (lambda of: of.Resize(256), "resize(size=256)"),
    (lambda of: of.Resize((128, 64), antialias=False), "resize(height=128,width=64,filter=bilinear)"),
    (lambda of: of.CenterCrop(224), "center-crop(size=224)"),
    (lambda of: of.RandomCrop(32, padding=4), "crop(size=32,pad=4)"),
    (lambda of: of.RandomCrop(32, padding=4, padding_mode="reflect"), "crop(size=32,pad=4,border=reflect)"),
    (lambda of: of.RandomCrop((20, 30), pad_if_needed=True, padding_mode="edge"), "crop(height=20,width=30,border=edge)"),
    (lambda of: of.RandomCrop((20, 30), padding_mode="edge"), "crop(height=20,width=30)"),
    (lambda of: of.RandomHorizontalFlip(), "flip"),
    (lambda of: of.RandomVerticalFlip(0.3), "vflip(p=0.3)"),
    (lambda of: of.RandomRotation(15), "rotate(degrees=-15:15)"),
    (lambda of: of.RandomAffine(10, translate=(0.1, 0.2), scale=(0.9, 1.1), shear=5, interpolation=v2.InterpolationMode.BILINEAR),
     "affine(degrees=-10:10,translate=0.1:0.2,scale=0.9:1.1,shear=-5:5,filter=bilinear)"),
    (lambda of: of.ColorJitter(0.4, hue=0.1), "color-jitter(brightness=0.6:1.4,hue=-0.1:0.1)"),
    (lambda of: of.RandomGrayscale(), "grayscale"),
    (lambda of: of.Grayscale(3), "grayscale(p=1)"),
    (lambda of: of.TrivialAugmentWide(), "trivial-augment"),
    (lambda of: of.RandAugment(), "rand-augment"),
    (lambda of: of.RandAugment(3, 15, interpolation=v2.InterpolationMode.BILINEAR), "rand-augment(ops=3,magnitude=15,filter=bilinear)"),
    (lambda of: of.RandAugment(magnitude=5, num_magnitude_bins=11, fill=9), "rand-augment(magnitude=15,fill=9)"),
    (lambda of: of.AutoAugment(), "auto-augment"),
    (lambda of: of.AutoAugment(v1.AutoAugmentPolicy.SVHN), "auto-augment(policy=svhn)"),
    (lambda of: of.AugMix(), "aug-mix"),
    (lambda of: of.AugMix(5, 2, 3, 0.5, False, v2.InterpolationMode.NEAREST, 9),
     "aug-mix(severity=5,mixture-width=2,chain-depth=3,alpha=0.5,all-ops=false,fill=9,filter=nearest)"),
    (lambda of: of.RandomSolarize(90), "solarize(threshold=90)"),
    (lambda of: of.RandomPosterize(3, p=1), "posterize(bits=3,p=1)"),
    (lambda of: of.RandomAdjustSharpness(0, p=0.2), "sharpness(factor=0,p=0.2)"),
    (lambda of: of.RandomEqualize(), "equalize"),
    (lambda of: of.RandomAutocontrast(0.1), "auto-contrast(p=0.1)"),
    (lambda of: of.RandomInvert(), "invert"),
    (lambda of: of.GaussianBlur(23), "gaussian-blur(kernel=23)"),
    (lambda of: of.GaussianBlur((5, 5), sigma=(0.3, 3)), "gaussian-blur(kernel=5,sigma=0.3:3)"),
    (lambda of: of.GaussianBlur(7, sigma=2), "gaussian-blur(kernel=7,sigma=2:2)"),
    (lambda of: of.RandomApply([of.ColorJitter(0.4, hue=0.1), of.RandomGrayscale()], p=0.8),
     "apply(p=0.8,list={color-jitter(brightness=0.6:1.4,hue=-0.1:0.1),grayscale})"),
    (lambda of: of.RandomApply([of.RandomApply([of.GaussianBlur(23)])], p=0.3), "apply(p=0.3,list={apply(list={gaussian-blur(kernel=23)})})"),
    (lambda of: of.RandomChoice([of.RandomInvert(1), of.Compose([of.RandomEqualize(1), of.RandomGrayscale(1)])]),
     "choice(of={invert(p=1)}|{equalize(p=1),grayscale(p=1)})"),
    (lambda of: of.RandomChoice([of.RandomInvert(), of.RandomVerticalFlip(1)], p=[0.25, 0.75]), "choice(of={invert}|{vflip(p=1)},p=0.25:0.75)"),
    (lambda of: of.RandomChoice([of.RandomInvert(1)]), "invert(p=1)"),
    (lambda of: of.RandomErasing(value=0.5), "erase(value=0.5)"),
    (lambda of: of.RandomErasing(0.25, value="random"), "erase(p=0.25,value=random)"),
    (lambda of: of.Normalize(MEAN, STD), NORMALIZE),
    (lambda of: of.Compose([of.RandomResizedCrop(224), of.Compose([of.RandomHorizontalFlip()]), of.PILToTensor(),
                            of.ConvertImageDtype(torch.float32), of.Normalize(MEAN, STD)]), f"random-resized-crop(size=224),flip,{NORMALIZE}"),
])
def test_counterparts(pictures, of, make, expected):
    spec = from_torchvision(make(of))
    assert spec == expected
    images = penstock.Loader(pictures, augment="random-resized-crop(size=300)," + spec, batch_size=4).batch(0).images  # it is a spec that Loader takes
    assert images.shape[:2] == (4, 3)


def test_mixes_of_batches():
    assert from_torchvision([v2.MixUp(num_classes=3), v2.RandomHorizontalFlip()]) == "mixup(alpha=1),flip"
    assert from_torchvision(v2.CutMix(num_classes=3)) == "cutmix"


def epoch_of(data, augment, epoch=0, **options):
    loader = penstock.Loader(data, augment=augment, arrays="numpy", batch_size=64, **options)
    loader.set_epoch(epoch)
    return list(loader)


@pytest.mark.parametrize("augment", ["normalize,erase(value=random)", "flip,normalize,mixup(off-epoch=3),cutmix(switch=0.4,off-epoch=3)"])
def test_any_number_of_workers_gives_the_same_bits(digits, augment):
    one, *others = [[batch.images.tobytes() for batch in epoch_of(digits, augment, workers=workers)] for workers in (0, 1, 3)]
    assert others == [one, one]


def test_noise_is_normal_after_normalize_and_stands_where_the_plan_says(digits):
    loader = penstock.Loader(digits, augment="normalize(mean=0.2,std=0.4),erase(p=1,value=random)", shuffle=False, arrays="numpy")
    images = numpy.concatenate([batch.images for batch in loader])
    plain = numpy.concatenate([batch.images for batch in epoch_of(digits, "normalize(mean=0.2,std=0.4)", shuffle=False)])
    noise = []
    for index, image in enumerate(images):
        (top, left, bottom, right, key), = loader.plan(0, index).erased
        assert isinstance(key, int)
        made = penstock.render(loader.dataset[index].image, loader.plan(0, index))
        assert numpy.array_equal(made[:, top:bottom, left:right], image[:, top:bottom, left:right])
        noise.append(image[:, top:bottom, left:right].ravel().copy())
        image[:, top:bottom, left:right] = plain[index][:, top:bottom, left:right]
    assert numpy.array_equal(images, plain)
    values = numpy.sort(numpy.concatenate(noise))
    cumulative = 0.5 * (1 + torch.erf(torch.from_numpy(values).double() / 2 ** 0.5).numpy())
    distance = numpy.abs(cumulative - (numpy.arange(len(values)) + 0.5) / len(values)).max()
    assert distance * len(values) ** 0.5 < 1.95, distance  # Kolmogorov's test at 0.001


def test_a_list_with_both_mixes_has_each_in_its_batches_until_off_epoch(digits):
    augment = "normalize,mixup(alpha=1,off-epoch=2),cutmix(switch=0.5,off-epoch=2)"
    pixels = numpy.array([784 * batch.mix_weights[0] for epoch in range(2) for batch in epoch_of(digits, augment, epoch)])
    are_cut = abs(pixels - pixels.round()) < 1e-3  # a weight of cutmix is a number of pixels
    assert 0 < are_cut.sum() < len(pixels)
    for epoch, others in ((2, "normalize"), (1, augment.replace(",off-epoch=2", ""))):
        ended, expected = epoch_of(digits, augment, epoch), epoch_of(digits, others, epoch)
        assert all(numpy.array_equal(a.images, b.images) for a, b in zip(ended, expected, strict=True))
    assert all((batch.mix_weights == 1).all() for batch in epoch_of(digits, augment, 2))


@pytest.mark.parametrize("augment", [
    ["flip", "shift(pad=4)", "normalize"], ("flip,shift(pad=4)", "normalize"), ["flip", "shift(pad=4)", v2.ToImage(), "normalize"],
    v2.Compose([v2.RandomHorizontalFlip(), v2.RandomCrop(28, padding=4), v2.Normalize([0.5], [0.25])]),
    [v2.RandomHorizontalFlip(), "crop(size=28,pad=4)", v2.Normalize([0.5], [0.25])]])
def test_a_loader_takes_lists_and_compositions(digits, augment):
    text = "flip,crop(size=28,pad=4),normalize(mean=0.5,std=0.25)" if "Normalize" in str(augment) else "flip,shift(pad=4),normalize"
    assert penstock.Loader(digits, augment=augment).state_dict()["augment"] == text
    assert penstock.Loader(digits, augment=v2.RandomHorizontalFlip()).state_dict()["augment"] == "flip"
    assert penstock.show(digits, augment, grid=2).ids == penstock.show(digits, text, grid=2).ids


def test_what_has_no_counterpart_is_named_with_the_closest():
    bicubic = v2.InterpolationMode.BICUBIC
    transforms = v2.Compose([v2.RandomResizedCrop(224, interpolation=bicubic, antialias=False), v2.ElasticTransform(),
                             v2.RandomPerspective(), v2.RandomHorizontalFlip()])
    with pytest.raises(penstock.ConfigError) as caught:
        from_torchvision(transforms)
    assert str(caught.value) == (
        "augment: no counterpart for RandomResizedCrop with interpolation bicubic without antialiasing (closest: "
        "random-resized-crop(size=224,interpolation=bicubic)); "
        "ElasticTransform (closest: leave it out); RandomPerspective (closest: affine(degrees=10,shear=10)); expected others, or "
        "penstock.augment.from_torchvision(transforms, closest=True), which takes the closest")
    assert from_torchvision(transforms, closest=True) == "random-resized-crop(size=224,interpolation=bicubic),affine(degrees=10,shear=10),flip"


def test_what_has_no_counterpart_within_a_list_is_named_with_it():
    apply = v2.RandomApply([v2.RandomInvert(), v2.ElasticTransform()], p=0.3)
    with pytest.raises(penstock.ConfigError, match=r"RandomApply of ElasticTransform .closest: leave it out. .closest: apply.p=0.3,list={invert}"):
        from_torchvision(apply)
    assert from_torchvision(apply, closest=True) == "apply(p=0.3,list={invert})"
    with pytest.raises(penstock.ConfigError, match=r"GaussianBlur with kernel_size .3, 5. .closest: gaussian-blur.kernel=5"):
        from_torchvision(v2.GaussianBlur((3, 5)))


def test_a_pad_that_is_too_wide_for_its_window_is_named(pictures):
    wide = v2.RandomCrop(8, padding=4, padding_mode="reflect")
    with pytest.raises(penstock.ConfigError, match="RandomCrop of 8 pixels with padding 4 and padding_mode reflect .closest: crop"):
        from_torchvision(wide)
    closest = from_torchvision([wide], closest=True)
    assert closest == "crop(size=8,pad=3,border=reflect)"
    assert penstock.Loader(pictures, augment=closest, batch_size=4).batch(0).images.shape[2:] == (8, 8)


def test_a_magnitude_beyond_its_bins_is_named():
    with pytest.raises(penstock.ConfigError, match="RandAugment with magnitude 40 of 31 bins .closest: rand-augment"):
        from_torchvision(v2.RandAugment(magnitude=40))


def test_grey_pictures_become_rgb(tmp_path):
    assert from_torchvision(v2.Compose([v2.RandomHorizontalFlip(), v2.RGB(), v2.ToImage()])) == "flip,rgb"
    levels = numpy.arange(48, dtype=numpy.uint8).reshape(6, 8)
    penstock.pack([(levels, 0)], str(tmp_path))
    grey, rgb = (next(iter(penstock.Loader(str(tmp_path), batch_size=1, workers=0, augment=augment))).images
                 for augment in ("resize(height=4,width=4),normalize", "resize(height=4,width=4),rgb,normalize"))
    assert tuple(grey.shape) == (1, 1, 4, 4) and tuple(rgb.shape) == (1, 3, 4, 4)
    for channel in range(3):
        assert (numpy.asarray(rgb)[:, channel] == numpy.asarray(grey)[:, 0]).all()
