"""Instance masks: runs are those of pycocotools to the pixel, and polygons but for pixels whose middle an edge nearly meets."""
import numpy
import penstock
import pytest

coco = pytest.importorskip("pycocotools.mask")

HEIGHT, WIDTH, COUNT = 37, 53, 60


def delivered(tmp_path, masks):
    """What a loader makes of a list of masks for each picture, which it does not move."""
    boxes = [[[0, 0, WIDTH, HEIGHT]] * len(row) for row in masks]
    items = ({"image": numpy.zeros((HEIGHT, WIDTH, 3), numpy.uint8), "boxes": numpy.array(box, numpy.float32).reshape(-1, 4), "shapes": row}
             for box, row in zip(boxes, masks, strict=True))
    penstock.pack(items, tmp_path / "data", fields={"boxes": "boxes", "shapes": penstock.Field("instances", of="boxes")}, class_names=[],
                  shards=1, progress=False)
    loader = penstock.Loader(tmp_path / "data", columns="boxes(with=shapes)", batch_size=7, shuffle=False, arrays="numpy")
    for batch in loader:
        counts, shapes = (numpy.asarray(batch.columns[name]) for name in ("boxes.count", "boxes.shapes"))
        for row in range(batch.count):
            yield int(batch.ids[row]), shapes[row][:counts[row]]


def a_mask(random):
    """Blobs, lines and single pixels; also empty and full ones."""
    mask = random.random((HEIGHT, WIDTH)) < random.choice([0, 0.02, 0.5, 1])
    for _ in range(random.integers(0, 4)):
        y, x = random.integers(0, HEIGHT), random.integers(0, WIDTH)
        mask[y:y + random.integers(1, 20), x:x + random.integers(1, 30)] = random.integers(0, 2)
    return numpy.asfortranarray(mask, numpy.uint8)


@pytest.mark.parametrize("is_compressed", [True, False])
def test_runs_are_those_of_pycocotools(tmp_path, is_compressed):
    random = numpy.random.default_rng(1)
    wanted = [[a_mask(random) for _ in range(index % 4)] for index in range(COUNT)]
    compressed = [[coco.encode(mask) for mask in row] for row in wanted]
    masks = compressed if is_compressed else [[uncompressed(mask) for mask in row] for row in wanted]
    compared = 0
    for index, shapes in delivered(tmp_path, masks):
        assert len(shapes) == len(wanted[index])
        for shape, rle in zip(shapes, compressed[index], strict=True):
            assert numpy.array_equal(shape != 0, coco.decode(rle) != 0)
            assert (shape != 0).sum() == coco.area(rle)
            compared += 1
    assert compared == sum(index % 4 for index in range(COUNT))


def uncompressed(mask):
    """COCO's uncompressed runs: down the columns, of zeros first."""
    flat = mask.flatten(order="F")
    changes = numpy.flatnonzero(numpy.diff(flat, prepend=0)).tolist() + [flat.size]
    return {"size": [HEIGHT, WIDTH], "counts": [end - begin for begin, end in zip([0, *changes], changes, strict=False)]}


def a_polygon(random):
    """Its corners lie around a middle, so that no edge crosses another; some are outside of the picture."""
    angles = numpy.sort(random.uniform(0, 2 * numpy.pi, random.integers(3, 12)))
    radii = random.uniform(2, 30, len(angles))
    middle = random.uniform((0, 0), (WIDTH, HEIGHT))
    return middle + radii[:, None] * numpy.stack([numpy.cos(angles), numpy.sin(angles)], axis=1)


def distances(polygons):
    """From each pixel's middle to the nearest edge."""
    y, x = numpy.mgrid[:HEIGHT, :WIDTH] + 0.5
    nearest = numpy.full((HEIGHT, WIDTH), numpy.inf)
    for polygon in polygons:
        for (x0, y0), (x1, y1) in zip(polygon, numpy.roll(polygon, -1, axis=0), strict=True):
            along = ((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / max((x1 - x0) ** 2 + (y1 - y0) ** 2, 1e-9)
            along = along.clip(0, 1)
            nearest = numpy.minimum(nearest, numpy.hypot(x - x0 - along * (x1 - x0), y - y0 - along * (y1 - y0)))
    return nearest


def test_polygons_are_those_of_pycocotools_but_for_their_edges(tmp_path):
    random = numpy.random.default_rng(2)
    polygons = [[[a_polygon(random) for _ in range(1 + index % 2)]] for index in range(COUNT)]
    masks = [[[polygon.flatten().tolist() for polygon in shape] for shape in row] for row in polygons]
    different = inside = 0
    for index, shapes in delivered(tmp_path, masks):
        theirs = coco.decode(coco.merge(coco.frPyObjects(masks[index][0], HEIGHT, WIDTH))) != 0
        differs = (shapes[0] != 0) != theirs
        assert distances(polygons[index][0])[differs].max(initial=0) <= 0.25  # theirs are drawn on a grid of a fifth of a pixel
        different += differs.sum()
        inside += theirs.sum()
    assert inside > 20 * COUNT and different < inside / 50
