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


@pytest.mark.parametrize("augment", ["rand-augment(ops=3,std=2),normalize", "auto-augment,normalize"])
def test_a_policy_draws_for_each_view_and_the_first_is_that_of_a_loader_with_it(digits, augment):
    options = dict(batch_size=16, arrays="numpy")
    expected = next(iter(penstock.Loader(digits, augment=augment, **options))).images
    for workers in (0, 1, 3):
        first, second = next(iter(penstock.Loader(digits, views=[augment] * 2, workers=workers, **options))).views
        assert numpy.array_equal(first, expected) and not numpy.array_equal(first, second)


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


def test_sizes_by_epoch(digits):
    options = dict(augment="random-resized-crop(size=20),normalize", batch_size=16, workers=1, arrays="numpy")
    loader = penstock.Loader(digits, size_schedule="0:12,1:20,3:16", **options)
    same = penstock.Loader(digits, size_schedule={0: 12, 1: 20, 3: 16}, **options)
    alone = {size: penstock.Loader(digits, **{**options, "augment": f"random-resized-crop(size={size}),normalize"}) for size in (12, 16, 20)}
    assert loader.image_shape == (1, 20, 20) and loader.digest(4) == same.digest(4)
    for epoch, size in enumerate([12, 20, 20, 16]):
        loader.set_epoch(epoch)
        alone[size].set_epoch(epoch)
        for batch, expected in zip(loader, alone[size]):
            assert batch.images.shape[2:] == (size, size) and (batch.images == expected.images).all()
        assert loader.plan(epoch, 3) == alone[size].plan(epoch, 3)


def test_a_state_goes_on_in_the_size_of_its_epoch(digits):
    options = dict(augment="random-resized-crop(size=20),normalize", batch_size=16, workers=1, arrays="numpy")
    loader = penstock.Loader(digits, size_schedule="0:12,1:20", **options)
    loader.set_epoch(1)
    steps = iter(loader)
    next(steps), next(steps)
    state = loader.state_dict()
    expected = next(steps).images
    other = penstock.Loader(digits, size_schedule={0: 12, 1: 20}, **options)
    other.load_state_dict(state)
    assert (next(iter(other)).images == expected).all() and expected.shape[2] == 20
    plain = penstock.Loader(digits, **options)
    assert "sizes" not in plain.state_dict()["augment"]
    with pytest.raises(penstock.ConfigError, match="augment is .* and was .* in sizes 0:12,1:20'"):
        plain.load_state_dict(state)


def test_views_of_the_same_size_follow_the_schedule(digits):
    loader = penstock.Loader(digits, views=["random-resized-crop(size=20)", "resize(size=20)", "resize(size=9)"], batch_size=8, workers=0,
                             arrays="numpy", size_schedule={0: 10, 1: 14})
    assert [[view.shape[-1] for view in loader.batch(0, epoch).views] for epoch in (0, 1)] == [[10, 10, 9], [14, 14, 9]]


@pytest.mark.parametrize("schedule, message", [
    ("6:160,0:128", 'loader: size_schedule is "6:160,0:128": it begins with epoch 6; expected EPOCH:SIZE,...'),
    ({6: 160, 0: 128}, "it begins with epoch 6"), ("0:8,0:9", "epoch 0 comes after epoch 0"), ({0: 0}, "size is 0, not 1 to 65535"),
    ({0: -4}, "size is -4, not 1 to 65535"), ("big", '"big" is not EPOCH:SIZE'), (12, "size_schedule is 12; expected"),
    ({0: "large"}, "size_schedule is 'large'; expected a whole number"), ({0: 8.5}, "size_schedule is 8.5; expected a whole number"),
])
def test_wrong_schedules_are_one_line(digits, schedule, message):
    with pytest.raises(penstock.ConfigError) as error:
        penstock.Loader(digits, augment="resize(size=8)", size_schedule=schedule)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_a_schedule_needs_a_size(digits):
    with pytest.raises(penstock.ConfigError, match='size schedule: the transforms "normalize" set no size'):
        penstock.Loader(digits, size_schedule="0:8")


def test_torch_views_are_channels_first_whatever_the_memory_is(digits):
    torch = pytest.importorskip("torch")
    lists = ["resize(height=10,width=9)", "resize(height=7,width=8)"]
    loader = penstock.Loader(digits, views=lists, batch_size=4, workers=0, arrays="torch", layout="u8")
    assert [tuple(view.shape) for view in loader.batch(0).views] == [(4, 1, 10, 9), (4, 1, 7, 8)]
    plain = penstock.Loader(digits, views=[f"{text},normalize" for text in lists], batch_size=4, workers=0, arrays="torch")
    last = penstock.Loader(digits, views=[f"{text},normalize" for text in lists], batch_size=4, workers=0, arrays="torch", channels_last=True)
    for one, other in zip(plain.batch(0).views, last.batch(0).views):
        assert torch.equal(one, other)


def test_a_normalize_in_any_view_is_refused_with_levels(digits):
    with pytest.raises(penstock.ConfigError, match="with normalize in augment"):
        penstock.Loader(digits, views=["flip", "normalize"], layout="u8")
