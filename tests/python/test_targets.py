"""Masks, boxes and key points: what a Loader delivers is what PIL and torchvision make of the same plan."""
import io
import warnings

import numpy
import penstock
import pytest
from PIL import Image, ImageOps

torchvision = pytest.importorskip("torchvision")

HEIGHT, WIDTH = 40, 56
FIELDS = {"boxes": "boxes", "kinds": penstock.Field("labels", of="boxes"), "shapes": penstock.Field("instances", of="boxes"),
          "people": penstock.Field("keypoints", of="boxes", swapped=[(0, 1)]), "mask": penstock.Field("mask", fill=255)}
COLUMNS = "boxes(with=kinds:shapes:people),mask(field=mask)"
GEOMETRY = "random-resized-crop(size=32),flip,affine(degrees=30,translate=0.1,scale=0.7:1.4,shear=8),vflip"


def item(i):
    random = numpy.random.default_rng(i)
    mask = random.integers(0, 200, (HEIGHT // 4, WIDTH // 4), dtype=numpy.uint8).repeat(4, 0).repeat(4, 1)
    corners = random.integers(0, (WIDTH - 20, HEIGHT - 20), (i % 4, 2))
    boxes = numpy.concatenate([corners, corners + random.integers(6, 20, (i % 4, 2))], axis=1).astype(numpy.float32)
    shapes = []
    for number, (x0, y0, x1, y1) in enumerate(boxes.astype(int).tolist()):
        drawn = numpy.zeros((HEIGHT, WIDTH), numpy.uint8)
        drawn[y0:y1, x0:x1] = 1
        shapes.append(drawn if number % 2 else [[x0, y0, x1, y0, x1, y1, x0, y1]])
    people = numpy.stack([numpy.concatenate([boxes[:, :2], numpy.full((len(boxes), 1), 2)], axis=1),
                          numpy.concatenate([boxes[:, 2:], numpy.full((len(boxes), 1), 1)], axis=1)], axis=1)
    return {"image": mask[..., None].repeat(3, 2), "label": "ab"[i % 2], "boxes": boxes, "kinds": [10 * i + k for k in range(i % 4)],
            "shapes": shapes, "people": people.astype(numpy.float32).reshape(-1, 2, 3), "mask": mask}


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    folder = tmp_path_factory.mktemp("targets") / "data"
    penstock.pack((item(i) for i in range(40)), folder, fields=FIELDS, shards=1)  # the index is the id
    return folder


def rows(loader, epoch):
    loader.set_epoch(epoch)
    for batch in loader:
        for row in range(batch.count):
            yield int(batch.ids[row]), {name: numpy.asarray(column)[row] for name, column in batch.columns.items()}


def test_masks_are_those_of_pil_under_the_plan(objects):
    loader = penstock.Loader(objects, augment=GEOMETRY, columns=COLUMNS, batch_size=8, shuffle=False, arrays="numpy")
    different = compared = 0
    for epoch in range(5):
        for sample, row in rows(loader, epoch):
            plan = loader.plan(epoch, sample)
            whole = Image.fromarray(item(sample)["mask"])
            x, y, width, height = (int(number) for number in plan.view)
            xx, xy, x0, yx, yy, y0 = plan.map
            seen = whole.crop((x, y, x + width, y + height))
            wanted = seen.transform((32, 32), Image.Transform.AFFINE, (xx, xy, x0 - x, yx, yy, y0 - y),
                                    Image.Resampling.NEAREST, fillcolor=255)
            different += int((numpy.asarray(wanted) != row["mask"]).sum())
            compared += 32 * 32
    assert compared > 200_000
    assert different < compared / 5_000  # PIL's maps are in 16.16 fixed point


def test_boxes_are_those_of_torchvision_for_single_edits(objects):
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms.v2 import functional
    edits = {"flip(p=1)": functional.horizontal_flip, "resize(height=30,width=61)": lambda boxes: functional.resize(boxes, [30, 61]),
             "center-crop(size=24)": lambda boxes: functional.center_crop(boxes, [24, 24]),
             "affine(degrees=20:20)": lambda boxes: functional.affine(boxes, 20, [0, 0], 1, [0, 0])}
    for augment, edit in edits.items():
        loader = penstock.Loader(objects, augment=augment, columns=COLUMNS, batch_size=8, shuffle=False, arrays="numpy")
        for sample, row in rows(loader, 0):
            given = item(sample)
            boxes = tv_tensors.BoundingBoxes(torch.tensor(given["boxes"]), format="XYXY", canvas_size=(HEIGHT, WIDTH))
            wanted = functional.clamp_bounding_boxes(edit(boxes), clamping_mode="hard").numpy()
            left = [k for k, (x0, y0, x1, y1) in enumerate(wanted) if x1 > x0 and y1 > y0]
            count = row["boxes.count"]
            assert row["boxes.index"][:count].tolist() == left, augment
            assert numpy.allclose(row["boxes"][:count], wanted[left], atol=1e-3), augment
            assert row["boxes.kinds"][:count].tolist() == [given["kinds"][k] for k in left]


def test_what_is_left_out_is_left_out_of_everything(objects):
    loader = penstock.Loader(objects, augment=GEOMETRY, columns=COLUMNS.replace("(with", "(min-share=0.4,with"), batch_size=8,
                             workers=2, arrays="numpy")
    left_out = 0
    for sample, row in rows(loader, 1):
        count = int(row["boxes.count"])
        left_out += sample % 4 - count
        assert (row["boxes.share"][:count] >= 0.4 - 1e-6).all() and not row["boxes"][count:].any()
        for k in range(count):
            assert row["boxes.kinds"][k] == 10 * sample + row["boxes.index"][k]
            x0, y0, x1, y1 = row["boxes"][k]
            ys, xs = numpy.nonzero(row["boxes.shapes"][k])
            assert not len(xs) or (xs.min() >= x0 - 1 and xs.max() <= x1 and ys.min() >= y0 - 1 and ys.max() <= y1)
        assert not row["boxes.shapes"][count:].any()
    assert left_out > 5


def test_a_crop_by_boxes_and_its_plan(objects):
    loader = penstock.Loader(objects, augment="random-iou-crop(iou=0.1),letterbox(size=32)", columns="boxes(center=true)",
                             batch_size=8, shuffle=False, arrays="numpy")
    for sample, row in rows(loader, 2):
        view = loader.plan(2, sample).view
        assert row["boxes.count"] >= min(1, sample % 4)
        assert (sample % 4 > 0) or tuple(view) == (0, 0, WIDTH, HEIGHT)


def test_what_cannot_be_is_refused_in_one_line(objects):
    for augment, columns, message in (("mixup", "boxes", "mix the pixels of two rows"), ("", "boxes(most=1)", "expected most="),
                                      ("random-iou-crop(field=kinds)", "", "expected boxes")):
        with pytest.raises(penstock.ConfigError, match=message) as raised:
            for _ in penstock.Loader(objects, augment=augment, columns=columns, batch_size=8):
                pass
        assert "\n" not in str(raised.value)


def test_a_sheet_has_colours_where_something_is_drawn(objects):
    sheet = penstock.show(objects, grid=(2, 3))
    assert len(sheet.ids) == 6


def masks_packed(tmp_path, picture, mask, **words):
    items = [{"image": picture, "boxes": numpy.ones((1, 4), numpy.float32), "shapes": [mask]}]
    penstock.pack(items, tmp_path / "data", class_names=[], shards=1, progress=False, **words,
                  fields={"boxes": "boxes", "shapes": penstock.Field("instances", of="boxes")})


def test_a_mask_with_height_and_width_exchanged_is_refused(tmp_path):
    upright = Image.new("RGB", (WIDTH, HEIGHT))
    files = {}
    for name, picture, orientation in (("upright", upright, 1), ("turned", upright.transpose(Image.Transpose.ROTATE_90), 6)):
        exif = Image.Exif()
        exif[0x112] = orientation
        files[name] = tmp_path / f"{name}.jpg"
        picture.save(files[name], exif=exif)
    right, wrong = numpy.zeros((HEIGHT, WIDTH), bool), numpy.zeros((WIDTH, HEIGHT), bool)
    coco = {"counts": [HEIGHT * WIDTH], "size": [WIDTH, HEIGHT]}
    pictures = [numpy.asarray(upright), upright, *files.values(), files["turned"].read_bytes()]
    for number, picture in enumerate(pictures):
        masks_packed(tmp_path / f"{number}", picture, right)
        for mask in (wrong, coco):
            if number > 2:  # made before the orientation of the file turned the picture
                masks_packed(tmp_path / f"{number}-{type(mask).__name__}", picture, mask)
                continue
            with pytest.raises(penstock.ConfigError, match=f"item 0: 'shapes': mask 0 is {WIDTH} x {HEIGHT}; expected {HEIGHT} x {WIDTH}, the"):
                masks_packed(tmp_path / "none", picture, mask)
    masks_packed(tmp_path / "stored", files["turned"], wrong, exif=False)  # lies on its side, as its pixels do
    masks_packed(tmp_path / "polygons", upright, [[1, 1, 5, 1, 5, 5]])
    with pytest.raises(penstock.CorruptError, match="item 0"):  # a broken file is what is said, not its size
        masks_packed(tmp_path / "none", b"\xff\xd8\xff\xe0broken", right)


def turned_picture(orientation):
    """A picture with an object at x 3 to 8, y 2 to 6, that is to be turned, and its box and mask as they are before that."""
    mask = numpy.zeros((12, 20), numpy.uint8)
    mask[2:6, 3:8] = 1
    image, file, exif = Image.fromarray(mask * 255), io.BytesIO(), Image.Exif()
    exif[0x112] = orientation
    image.save(file, "PNG", exif=exif)
    return file.getvalue(), [[3, 2, 8, 6]], mask, numpy.asarray(ImageOps.exif_transpose(Image.open(file))) // 255


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pil_and_dicts_turn_as_files_do(tmp_path, orientation):
    data, box, mask, upright = turned_picture(orientation)
    (tmp_path / "a.png").write_bytes(data)
    y, x = numpy.where(upright)
    wanted = [[x.min(), y.min(), x.max() + 1, y.max() + 1]]
    items = [{"image": picture, "boxes": numpy.array(box, numpy.float32), "shapes": [mask], "depth": Image.open(io.BytesIO(data)),
              "height": 12, "width": 20} for picture in (data, tmp_path / "a.png", Image.open(io.BytesIO(data)))]
    penstock.pack(items, tmp_path / "data", class_names=[], shards=1, annotations="raw",
                  fields={"boxes": "boxes", "shapes": penstock.Field("instances", of="boxes"), "depth": "picture"})
    for sample in penstock.Dataset(tmp_path / "data"):
        assert numpy.array_equal(sample.image[..., 0] // 255, upright) and sample.fields["boxes"].tolist() == wanted
        assert numpy.array_equal(numpy.asarray(Image.open(io.BytesIO(sample.fields["depth"]))) // 255, upright)
    loader = penstock.Loader(tmp_path / "data", columns="boxes(with=shapes)", batch_size=3, augment="flip(p=0)", arrays="numpy")
    assert all(numpy.array_equal(row["boxes.shapes"][0], upright) for _, row in rows(loader, 0))


def test_boxes_of_which_no_size_tells_where_they_were_made_are_counted_in_a_warning(tmp_path):
    data, box, _, _ = turned_picture(3)
    items = [{"image": picture, "boxes": numpy.array(box, numpy.float32)} for picture in (data, turned_picture(1)[0])]
    words = {"class_names": [], "shards": 1, "fields": {"boxes": "boxes"}}
    with pytest.warns(UserWarning, match="pack: 1 picture has annotations and an orientation") as said:
        penstock.pack(items, tmp_path / "data", **words)
    assert len(said) == 1 and said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        penstock.pack(items, tmp_path / "upright", annotations="upright", **words)
    with pytest.raises(penstock.ConfigError, match="expected it in the source"):
        penstock.pack("digits", tmp_path / "named", annotations="raw")
    with pytest.raises(penstock.ConfigError, match='pack: annotations: unknown value "lying"'):
        penstock.pack(items, tmp_path / "lying", annotations="lying", **words)


def test_key_points_without_pairs_are_warned_of_where_pictures_are_mirrored(tmp_path):
    picture, points = numpy.zeros((20, 20, 3), numpy.uint8), numpy.ones((1, 2, 3), numpy.float32)
    for name, swapped in (("unsaid", None), ("none", []), ("pair", [(0, 1)])):
        penstock.pack([{"image": picture, "points": points}], tmp_path / name, class_names=[], shards=1,
                      fields={"points": penstock.Field("keypoints", swapped=swapped)})
        for augment in ("flip(p=0)", "rotate(degrees=30)", "apply(p=0.3,list={vflip})"):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                penstock.Loader(tmp_path / name, augment=augment, columns="keypoints(field=points)", batch_size=1)
            is_warned = name == "unsaid" and "vflip" in augment
            assert len(said) == is_warned, (name, augment)
            assert not said or ('field "points" has key points and no pairs' in str(said[0].message) and said[0].filename == __file__)
