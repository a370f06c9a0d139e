"""Annotations of pictures that EXIF turns: what was made on the raster of the file is turned with it, and what was made upright stays."""
import io
import json

import numpy as np
import pytest
from PIL import Image, ImageOps

from source_tool import fields_of, pack, samples_of, save, write_csv, write_lines

HEIGHT, WIDTH = 12, 20
BOX = [3, 2, 5, 4]  # x, y, width, height
POINTS = [4, 3, 2, 7, 5, 1, 0, 0, 0]
TURNS = range(2, 9)


def exif_of(orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    return exif


def raster(values, orientation=1):
    """A PNG of these levels, and the same as Pillow turns it."""
    image = Image.fromarray(values)
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif_of(orientation))
    return file.getvalue(), np.asarray(ImageOps.exif_transpose(Image.open(file)))


def objects(height=HEIGHT, width=WIDTH):
    values = np.zeros((height, width), np.uint8)
    x, y, wide, high = BOX
    values[y:y + high, x:x + wide] = 1
    return values


def bounds(mask):
    y, x = np.where(mask)
    return [x.min(), y.min(), x.max() + 1, y.max() + 1]


def runs_of(mask):
    columns = np.concatenate([[0], mask.flatten(order="F"), [2]])
    return np.diff(np.concatenate([[0], np.flatnonzero(np.diff(columns.astype(int)))])).tolist()


def stored_runs(block):
    """The counts of a mask of runs, which are LEB128."""
    runs, value, bits = [], 0, 0
    for byte in block[1:]:
        value, bits = value | (byte & 0x7F) << bits, bits + 7
        if byte < 0x80:
            runs, value, bits = [*runs, value], 0, 0
    return runs


def blocks(masks):
    """docs/FORMAT.md, instance masks: the bytes of each."""
    count = int.from_bytes(masks[:4], "little")
    ends = [0, *np.frombuffer(masks, "<u4", count, 4).tolist()]
    return [masks[4 + 4 * count:][begin:end] for begin, end in zip(ends, ends[1:], strict=False)]


def write_coco(folder, orientation, size=(HEIGHT, WIDTH), stated=None, names=("left_eye", "right_eye", "nose")):
    height, width = stated or size
    save(folder / "train2017/a.png", Image.fromarray(objects(*size) * 255), exif=exif_of(orientation))
    x, y, wide, high = BOX
    polygon = [x, y, x + wide, y, x + wide, y + high, x, y + high]
    mask = objects(*size) if (height, width) == size else objects(*size).T
    one = {"image_id": 1, "category_id": 1, "bbox": BOX, "keypoints": POINTS}
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "annotations/instances_train2017.json").write_text(json.dumps({
        "images": [{"id": 1, "file_name": "a.png", "height": height, "width": width}],
        "categories": [{"id": 1, "name": "x", "keypoints": names}],
        "annotations": [one | {"id": 1, "segmentation": [polygon]},
                        one | {"id": 2, "segmentation": {"size": [height, width], "counts": runs_of(mask)}}]}))
    return folder


@pytest.mark.parametrize("orientation", TURNS)
def test_coco_made_on_the_raster_of_the_file_turns_with_the_picture(tmp_path, orientation):
    write_coco(tmp_path / "in", orientation)
    done = pack("coco(annotations=raw)", tmp_path / "in", tmp_path / "out")
    sample = samples_of(tmp_path / "out/train")[0]
    _, upright = raster(objects(), orientation)
    assert sample["boxes"].tolist() == [bounds(upright)] * 2 and not done.stderr
    polygon, runs = blocks(sample["masks"])
    corners = np.frombuffer(polygon, "<f4", 8, 5).reshape(4, 2)
    assert [*corners.min(0), *corners.max(0)] == bounds(upright)
    assert stored_runs(runs) == runs_of(upright)
    dots = np.zeros((HEIGHT, WIDTH), np.uint8)
    dots[3, 4], dots[5, 7] = 1, 2
    (left_y, left_x), (right_y, right_x) = (np.argwhere(raster(dots, orientation)[1] == value)[0] for value in (1, 2))
    points = sample["keypoints"][0]
    if orientation in (2, 4, 5, 7):  # what a mirror shows at the left is at the right
        points = points[[1, 0, 2]]
    corner = (points[:2, :2] - [[left_x, left_y], [right_x, right_y]]).tolist()  # a corner of the pixel of the dot
    assert corner[0] == corner[1] and set(corner[0]) <= {0, 1}
    assert points[:, 2].tolist() == [2, 1, 0] and points[2].tolist() == [0, 0, 0]


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_a_stated_size_says_which_raster_it_was(tmp_path, orientation):
    write_coco(tmp_path / "raw", orientation)
    write_coco(tmp_path / "upright", orientation, stated=(WIDTH, HEIGHT))
    found = []
    for name in ("raw", "upright"):
        done = pack("coco(annotations=upright)", tmp_path / name, tmp_path / f"{name}-out")
        found.append(samples_of(tmp_path / f"{name}-out/train")[0]["boxes"][0].tolist())
        assert not done.stderr
    x, y, wide, high = BOX
    assert found == [bounds(raster(objects(), orientation)[1]), [x, y, x + wide, y + high]]


def test_sizes_that_fit_neither_raster_are_refused_with_both(tmp_path):
    save(tmp_path / "a.png", Image.fromarray(objects()), exif=exif_of(6))
    save(tmp_path / "b.png", Image.fromarray(objects()))
    for name, size, message in (("a.png", (30, 40), "are of a picture of 30 x 40; expected 12 x 20, as its file stores it, or 20 x 12, as "
                                                    "its orientation 6 turns it"),
                                ("b.png", (20, 12), "are of a picture of 20 x 12; expected 12 x 20 (height x width), as it has, which no "
                                                    "orientation turns")):
        row = {"file_name": name, "height": size[0], "width": size[1], "bbox": [[1, 1, 4, 4]]}
        write_lines(tmp_path / "train.jsonl", [row])
        done = pack("jsonl(boxes=bbox)", tmp_path, tmp_path / "out", code=4)
        assert message in done.stderr and f"{name}: " in done.stderr and done.stderr.count("\n") == 1
    write_coco(tmp_path / "in", 1, stated=(WIDTH, HEIGHT))
    assert "which no orientation turns" in pack("coco", tmp_path / "in", tmp_path / "out", code=4).stderr


def test_where_no_size_tells_one_note_has_the_count(tmp_path):
    x, y, wide, high = BOX
    for number, orientation in enumerate((6, 3, 1)):
        save(tmp_path / f"{number}.png", Image.fromarray(objects()), exif=exif_of(orientation))
    write_csv(tmp_path / "train.csv", [["path", "box"], *([f"{number}.png", f"[[{x},{y},{wide},{high}]]"] for number in range(3))])
    kept, found = [x, y, x + wide, y + high], {}
    for key in ("", ",annotations=raw", ",annotations=upright"):
        done = pack(f"csv(boxes=box,box-format=xywh{key})", tmp_path, tmp_path / f"out{key}")
        found[key] = [sample["box"][0].tolist() for sample in samples_of(tmp_path / f"out{key}/train").values()]
        assert done.stderr.count("note:") == (0 if key else 1)
        assert key or "note: 2 pictures have annotations and an orientation" in done.stderr
    assert found[""] == found[",annotations=upright"] == [kept] * 3
    assert found[",annotations=raw"] == [bounds(raster(objects(), orientation)[1]) for orientation in (6, 3, 1)]
    wrong = pack("csv(boxes=box,annotations=lying)", tmp_path, tmp_path / "no", code=2)
    assert 'annotations: unknown value "lying"' in wrong.stderr


def test_a_box_outside_of_the_turned_picture_names_the_key(tmp_path):
    save(tmp_path / "a.png", Image.fromarray(objects()), exif=exif_of(6))
    write_lines(tmp_path / "train.jsonl", [{"file_name": "a.png", "bbox": [[1, 1, 19, 4]]}])
    done = pack("jsonl(boxes=bbox)", tmp_path, tmp_path / "out", code=4)
    assert "inside of 12 x 20" in done.stderr and "annotations=raw if it was annotated before orientation 6" in done.stderr


def test_voc_turns_with_its_picture(tmp_path):
    x, y, wide, high = BOX
    save(tmp_path / "JPEGImages/a.png", Image.fromarray(objects()), exif=exif_of(8))
    for folder in ("Annotations", "SegmentationClass"):
        (tmp_path / folder).mkdir()
    (tmp_path / "Annotations/a.xml").write_text(
        f"<annotation><size><width>{WIDTH}</width><height>{HEIGHT}</height></size><object><name>dog</name><bndbox><xmin>{x + 1}</xmin>"
        f"<ymin>{y + 1}</ymin><xmax>{x + wide}</xmax><ymax>{y + high}</ymax></bndbox></object></annotation>")
    (tmp_path / "SegmentationClass/a.png").write_bytes(raster(objects())[0])
    pack("voc(masks=class)", tmp_path, tmp_path / "out")
    sample = samples_of(tmp_path / "out/train")[0]
    upright = raster(objects(), 8)[1]
    assert sample["boxes"].tolist() == [bounds(upright)]
    assert np.array_equal(Image.open(io.BytesIO(sample["mask"])), upright)


@pytest.mark.parametrize("levels", ["L", "I;16", "RGB"])
def test_a_mask_says_by_its_size_whether_it_turns(tmp_path, levels):
    values = np.random.default_rng(5).integers(0, 200, (HEIGHT, WIDTH), np.uint8)
    mask = {"L": values, "I;16": values.astype(np.uint16) * 300, "RGB": np.stack([values, values // 2, 200 - values], axis=2)}[levels]
    save(tmp_path / "a.png", Image.fromarray(values), exif=exif_of(6))
    Image.fromarray(mask).save(tmp_path / "raw.png")
    Image.fromarray(np.rot90(mask, -1)).save(tmp_path / "upright.png")
    for name in ("raw", "upright"):
        write_lines(tmp_path / "train.jsonl", [{"file_name": "a.png", "m": f"{name}.png", "box": [[1, 2, 5, 9]]}])
        done = pack("jsonl(mask=m,boxes=box)" if levels != "RGB" else "jsonl(picture=m)", tmp_path, tmp_path / name)
        sample = samples_of(tmp_path / name / "train")[0]
        assert np.array_equal(Image.open(io.BytesIO(sample["m"])), np.rot90(mask, -1)) and not done.stderr
        if levels != "RGB":  # the mask speaks for the boxes beside it, which state no size
            assert sample["box"].tolist() == ([[3, 1, 10, 5]] if name == "raw" else [[1, 2, 5, 9]])


def test_a_second_picture_is_turned_by_its_own_orientation_first(tmp_path):
    second = np.random.default_rng(6).integers(0, 255, (HEIGHT, WIDTH), np.uint8)
    save(tmp_path / "a.png", Image.fromarray(second), exif=exif_of(6))
    data, upright = raster(second, 8)
    (tmp_path / "b.png").write_bytes(data)
    write_lines(tmp_path / "train.jsonl", [{"file_name": "a.png", "depth_file_name": "b.png"}])
    pack("jsonl(picture=depth_file_name)", tmp_path, tmp_path / "out")
    assert np.array_equal(Image.open(io.BytesIO(samples_of(tmp_path / "out/train")[0]["depth"])), upright)


@pytest.mark.parametrize("names, pairs", [
    (["left_eye", "right_eye", "nose"], [[0, 1]]), (["Left_eye", "Right_eye", "nose"], [[0, 1]]), (["l_eye", "r_eye", "nose"], [[0, 1]]),
    (["eye_left", "nose", "eye_right"], [[0, 2]]), (["Eye (R)", "Eye (L)", "nose"], [[1, 0]]), (["REar", "LEar", "LHip"], [[1, 0]]),
    (["righteye", "lefteye", "tail"], [[1, 0]]), (["l1", "r1", "r2"], [[0, 1]]), (["collar", "color", "lr"], None)])
def test_key_points_are_paired_by_the_words_of_their_names(tmp_path, names, pairs):
    write_coco(tmp_path / "in", 1, names=names)
    pack("coco", tmp_path / "in", tmp_path / "out")
    types = {entry["name"]: entry for entry in fields_of(tmp_path / "out/train")}
    assert types["keypoints"].get("swapped") == pairs


def test_pairs_are_also_given_by_name_or_number_or_not_at_all(tmp_path):
    write_coco(tmp_path / "in", 1, names=["a", "b", "left_c"])
    for number, (text, pairs) in enumerate((("a/b", [[0, 1]]), ("2/0", [[2, 0]]), ("none", []))):
        pack(f"coco(pairs={text})", tmp_path / "in", tmp_path / str(number))
        assert {entry["name"]: entry for entry in fields_of(tmp_path / str(number) / "train")}["keypoints"]["swapped"] == pairs
    for text, message in (("a/c", 'pairs has "c"; expected none, or a/b:c/d'), ("a", 'pairs has "a"; expected two different'),
                          ("a/b:b/2", 'pairs has "b/2"; expected two different')):
        assert message in pack(f"coco(pairs={text})", tmp_path / "in", tmp_path / "no", code=2).stderr


def test_polygons_without_an_area_are_kept_and_counted(tmp_path):
    folder = write_coco(tmp_path / "in", 1)
    file = folder / "annotations/instances_train2017.json"
    annotations = json.loads(file.read_text())
    annotations["annotations"][0]["segmentation"] = [[5, 5, 9, 9], [2, 2, 8, 2, 8, 8], []]
    file.write_text(json.dumps(annotations))
    done = pack("coco", folder, tmp_path / "out")
    assert "note: 2 polygons have fewer than 3 points" in done.stderr
    polygons = blocks(samples_of(tmp_path / "out/train")[0]["masks"])[0]
    assert len(polygons) == 1 + 3 * 4 + (2 + 3) * 8


def test_a_second_picture_that_is_cut_short_is_refused_when_it_is_packed(tmp_path):
    data, _ = raster(np.random.default_rng(6).integers(0, 255, (HEIGHT, WIDTH), np.uint8))
    for name, bytes_ in (("a", data), ("b", data[:-60])):
        save(tmp_path / f"{name}.png", Image.fromarray(objects()))
        (tmp_path / f"{name}-depth.png").write_bytes(bytes_)
    write_lines(tmp_path / "train.jsonl", [{"file_name": f"{name}.png", "depth": f"{name}-depth.png"} for name in "ab"])
    done = pack("jsonl(picture=depth)", tmp_path, tmp_path / "out", code=4)
    assert f'{tmp_path}/b.png: field "depth": ' in done.stderr and done.stderr.count("\n") == 1
    pack("jsonl(picture=depth)", tmp_path, tmp_path / "out", "--on-corrupt", "skip")
    assert len(samples_of(tmp_path / "out/train")) == 1
