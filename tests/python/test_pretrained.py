"""for_weights(): the evaluation of pretrained models."""
import penstock
import pytest
import timm
import torchvision
from penstock.augment import for_weights, from_timm
from timm.data import create_transform, resolve_data_config
from timm.models import get_pretrained_cfg

from test_errors import failure

MODELS = ["resnet50.a1_in1k", "vit_base_patch16_224.augreg2_in21k_ft_in1k", "convnext_tiny.fb_in22k", "mobilenetv3_large_100.ra_in1k",
          "deit_small_patch16_224.fb_in1k", "vit_base_patch16_clip_224.openai", "swin_tiny_patch4_window7_224.ms_in1k", "tf_efficientnet_b0.ap_in1k"]


@pytest.mark.parametrize("name", MODELS)
def test_it_is_timms_evaluation(name):
    given = get_pretrained_cfg(name)
    timms = from_timm(create_transform(**resolve_data_config(pretrained_cfg=given.to_dict())))
    assert for_weights(given) == for_weights(given.to_dict()) == timms
    assert f"interpolation={given.interpolation}" in timms or given.interpolation == "bilinear"


def test_it_takes_a_model_and_makes_its_pictures(pictures):
    model = timm.create_model("vit_tiny_patch16_224", pretrained=False)
    text = for_weights(model)
    assert text == "resize(size=248,interpolation=bicubic),center-crop(size=224),normalize(mean=0.5:0.5:0.5,std=0.5:0.5:0.5)"
    loader = penstock.Loader(pictures, augment=text, batch_size=4)
    assert loader.batch(0).images.shape == (4, 3, 224, 224)


def test_it_takes_weights_of_torchvision():
    normalize = "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)"
    weights = torchvision.models.ResNet50_Weights
    assert for_weights(weights.DEFAULT) == f"resize(size=232),center-crop(size=224),{normalize}"
    assert for_weights(torchvision.models.ViT_H_14_Weights.IMAGENET1K_SWAG_E2E_V1) == (
        f"resize(size=518,interpolation=bicubic),center-crop(size=518),{normalize}")


def test_squash_gives_both_sides():
    given = {"input_size": (3, 100, 60), "crop_mode": "squash", "crop_pct": 0.5, "interpolation": "bilinear", "mean": 0.5, "std": 0.25}
    assert for_weights(given) == "resize(height=200,width=120),center-crop(height=100,width=60),normalize(mean=0.5,std=0.25)"


@pytest.mark.parametrize("given, fact", [
    (7, "for_weights(int); expected a model of timm, its pretrained_cfg, or weights of torchvision such as"),
    ({}, "for_weights(dict); expected a model"),
    ({"input_size": (3, 8, 8), "interpolation": "cubic"}, "interpolation is 'cubic'; expected nearest, bilinear, bicubic, lanczos, box, hamming"),
    ({"input_size": (3, 8, 8), "crop_mode": "border"}, "crop_mode border of 8x8 pixels keeps the aspect by rules of timm's own"),
    ({"input_size": (3, 8, 9)}, "crop_mode center of 8x9 pixels"),
])
def test_what_has_no_counterpart_is_refused(given, fact):
    assert fact in failure(penstock.ConfigError, for_weights, given)
