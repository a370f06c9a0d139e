"""random-iou-crop: the windows that torchvision's RandomIoUCrop takes, as often as it takes them, and the boxes that it keeps."""
import math

import numpy
import penstock
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torchvision")
from torchvision import tv_tensors  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

HEIGHT, WIDTH, COUNT, EPOCHS = 40, 56, 500, 4
DRAWS = COUNT * EPOCHS
BOXES = numpy.array([[3, 5, 20, 30], [25, 2, 50, 18], [30, 22, 37, 39], [0, 0, 56, 40], [44, 30, 54, 36]], numpy.float32)
# Two samples of DRAWS numbers differ by more than this many deviations once in 150,000 times.
DEVIATIONS = 4.5


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Equal samples, so that their windows are draws of one distribution."""
    folder = tmp_path_factory.mktemp("iou") / "data"
    items = ({"image": numpy.zeros((HEIGHT, WIDTH, 3), numpy.uint8), "boxes": BOXES} for _ in range(COUNT))
    penstock.pack(items, folder, fields={"boxes": "boxes"}, class_names=[], shards=1)
    return folder


def loader_of(data, spec):
    return penstock.Loader(data, augment=f"{spec},resize(height={HEIGHT},width={WIDTH})", columns="boxes(center=true)", batch_size=100,
                           shuffle=False, arrays="numpy", seed=3)


def our_windows(data, spec):
    """x, y, width, height; the whole picture where there is no crop."""
    loader = loader_of(data, spec)
    return numpy.array([loader.plan(epoch, sample).view for epoch in range(EPOCHS) for sample in range(COUNT)])


def a_picture():
    return {"image": tv_tensors.Image(torch.zeros(3, HEIGHT, WIDTH, dtype=torch.uint8)),
            "boxes": tv_tensors.BoundingBoxes(torch.tensor(BOXES), format="XYXY", canvas_size=(HEIGHT, WIDTH))}


def their_windows(**options):
    torch.manual_seed(5)
    transform, inputs = v2.RandomIoUCrop(**options), list(a_picture().values())
    drawn = [transform.make_params(inputs) for _ in range(DRAWS)]
    return numpy.array([(one["left"], one["top"], one["width"], one["height"]) if one else (0, 0, WIDTH, HEIGHT) for one in drawn])


def is_cropped(windows):
    return (windows[:, 2:] != (WIDTH, HEIGHT)).any(axis=1)


def are_alike(ours, theirs):
    """Whether two shares of DRAWS each are those of one probability."""
    both = (ours.mean() + theirs.mean()) / 2
    return abs(ours.mean() - theirs.mean()) <= DEVIATIONS * math.sqrt(2 * both * (1 - both) / DRAWS)


def largest_difference(ours, theirs):
    """The largest difference of the two distribution functions (Smirnov's statistic)."""
    values = numpy.unique(numpy.concatenate([ours, theirs]))
    shares = [numpy.searchsorted(numpy.sort(one), values, side="right") / DRAWS for one in (ours, theirs)]
    return abs(shares[0] - shares[1]).max()


@pytest.mark.parametrize("least", [0, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_window_is_taken_as_often_as_by_torchvision(data, least):
    """One trial is taken with the probability a, or else a coin is thrown again: a / (1 + a) of the samples are cropped."""
    ours = is_cropped(our_windows(data, f"random-iou-crop(iou={least}:1,trials=1)"))
    theirs = is_cropped(their_windows(sampler_options=[least, 1.0], trials=1))
    assert are_alike(ours, theirs), (ours.mean(), theirs.mean())


@pytest.mark.parametrize("spec, options", [("random-iou-crop", {}), ("random-iou-crop(iou=0.7,scale=0.5:1,ratio=0.8:1.5)", {
    "sampler_options": [0.7], "min_scale": 0.5, "min_aspect_ratio": 0.8, "max_aspect_ratio": 1.5})])
def test_windows_lie_where_those_of_torchvision_do(data, spec, options):
    ours, theirs = our_windows(data, spec), their_windows(**options)
    assert are_alike(is_cropped(ours), is_cropped(theirs))
    for place, name in enumerate(("x", "y", "width", "height")):  # 2 exp(-2 * 2.5^2): once in 130,000 times
        assert largest_difference(ours[:, place], theirs[:, place]) < 2.5 * math.sqrt(2 / DRAWS), name


class Numbers:
    """In place of torch.rand: the numbers that make torchvision draw a given window at its first trial, and nothing after them."""

    def __init__(self, window, least_scale):
        x, y, width, height = (int(number) for number in window)
        sides = [((side + 0.5) / whole - least_scale) / (1 - least_scale) for side, whole in ((width, WIDTH), (height, HEIGHT))]
        corner = [(at + 0.5) / (whole - side) for at, whole, side in ((x, WIDTH, width), (y, HEIGHT, height))]
        self.left = [torch.tensor(sides, dtype=torch.float64), torch.tensor(corner, dtype=torch.float64)]

    def __call__(self, size):
        assert self.left, "torchvision refuses this window"
        return self.left.pop(0)


@pytest.mark.parametrize("least", [0, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_window_of_ours_is_taken_by_torchvision_and_keeps_the_same_boxes(data, least, monkeypatch):
    loader = loader_of(data, f"random-iou-crop(iou={least})")
    loader.set_epoch(0)
    compared = 0
    for batch in loader:
        columns = {name: numpy.asarray(column) for name, column in batch.columns.items()}
        for row in range(batch.count):
            window = loader.plan(0, int(batch.ids[row])).view
            if window[2] == WIDTH or window[3] == HEIGHT:
                continue  # a number below 1 draws no whole side
            monkeypatch.setattr(torch, "rand", Numbers(window, 0.3))
            cropped = v2.RandomIoUCrop(sampler_options=[least])(a_picture())
            assert cropped["image"].shape == (3, window[3], window[2])
            kept = (cropped["boxes"][:, 2:] > cropped["boxes"][:, :2]).all(dim=1).numpy()
            count = columns["boxes.count"][row]
            assert columns["boxes.index"][row][:count].tolist() == kept.nonzero()[0].tolist()
            theirs = cropped["boxes"].numpy()[kept] * (WIDTH / window[2], HEIGHT / window[3], WIDTH / window[2], HEIGHT / window[3])
            assert numpy.allclose(columns["boxes"][row][:count], theirs, atol=1e-4)
            compared += 1
    assert compared > COUNT * 0.8
