"""Views: several pictures of one sample in a batch."""
import numpy
import penstock
import pytest


def test_every_view_is_that_of_a_loader_with_its_transforms(digits):
    options = dict(batch_size=16, workers=1, shuffle="none", arrays="numpy")
    views = ["normalize", "resize(height=10,width=9),normalize", ["affine(degrees=30)", "normalize"]]
    batch = next(iter(penstock.Loader(digits, views=views, **options)))
    assert [view.shape for view in batch.views] == [(16, 1, 28, 28), (16, 1, 10, 9), (16, 1, 28, 28)]
    for view, augment in zip(batch.views[:2], views):
        alone = next(iter(penstock.Loader(digits, augment=augment, **options)))
        assert (view == alone.images).all()
    turned = next(iter(penstock.Loader(digits, augment=views[2], **options)))
    assert not (batch.views[2] == turned.images).all()  # its random numbers are its own


def test_two_equal_lists_are_two_views(digits):
    loader = penstock.Loader(digits, views=["affine(degrees=30),normalize"] * 2, batch_size=16, arrays="numpy")
    first, second = next(iter(loader)).views
    assert not numpy.array_equal(first, second)


@pytest.mark.parametrize("options, message", [
    (dict(views="flip"), "views is 'flip'; expected a list"),
    (dict(views=["flip"], augment="flip"), "both augment and views are given"),
    (dict(views=["mixup,normalize", "normalize"]), "has 2 views, and the transforms mixup,normalize mix rows"),
    (dict(views=["normalize", "cutmix"]), "mixes rows of a batch"),
])
def test_wrong_views_are_one_line(digits, options, message):
    with pytest.raises(penstock.ConfigError) as error:
        penstock.Loader(digits, **options)
    assert message in str(error.value) and "\n" not in str(error.value)
