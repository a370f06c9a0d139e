"""shardprep pack from COCO's json and Pascal VOC's folders."""
import io
import json

import numpy as np
import pytest
from PIL import Image

from source_tool import RNG, fields_of, pack, picture, samples_of, save, unpacked


def coco():
    names = ["nose", "left_eye", "right_eye"]
    return {
        "info": {"year": 2017}, "licenses": [],
        "images": [{"id": 30, "file_name": "b.png", "height": 20, "width": 31}, {"id": 7, "file_name": "a.jpg", "height": 20, "width": 31},
                   {"id": 40, "file_name": "c.png", "height": 4, "width": 3}],
        "annotations": [
            {"id": 1, "image_id": 30, "category_id": 90, "bbox": [1.5, 2, 10, 4.25], "area": 41, "iscrowd": 0,
             "segmentation": [[1.5, 2, 11.5, 2, 11.5, 6.25]], "keypoints": [3, 4, 2, 0, 0, 0, 5, 6, 1]},
            {"id": 2, "image_id": 40, "category_id": 18, "bbox": [0, 0, 3, 4], "area": 6, "iscrowd": 1,
             "segmentation": {"counts": [5, 6, 1], "size": [4, 3]}, "keypoints": [0] * 9},
            {"id": 3, "image_id": 30, "category_id": 18, "bbox": [0, 0, 31, 20], "area": 620, "iscrowd": 0, "segmentation": [], "keypoints": [0] * 9}],
        "categories": [{"id": 90, "name": "toothbrush", "keypoints": names}, {"id": 18, "name": "dog", "keypoints": names}]}


def write_coco(folder, annotations):
    save(folder / "val2017/a.jpg")
    save(folder / "val2017/b.png")
    save(folder / "val2017/c.png", picture(4, 3))
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "annotations/instances_val2017.json").write_text(json.dumps(annotations))
    return folder


def test_coco(tmp_path):
    write_coco(tmp_path / "in", coco())
    captions = {"images": coco()["images"], "annotations": [{"image_id": 7, "caption": "one"}, {"image_id": 30, "caption": "x"}, {"image_id": 7, "caption": "two"}]}
    (tmp_path / "in/annotations/captions_val2017.json").write_text(json.dumps(captions))
    pack("coco", tmp_path / "in", tmp_path / "out", split="test")
    samples = samples_of(tmp_path / "out/test")
    types = {entry["name"]: entry for entry in fields_of(tmp_path / "out/test")}
    assert set(types) == {"image_id", "boxes", "labels", "area", "iscrowd", "keypoints", "masks"}
    assert all(types[name]["of"] == "boxes" for name in ("labels", "area", "iscrowd", "keypoints", "masks"))
    assert types["keypoints"]["shape"][1:] == [3, 3] and types["keypoints"]["swapped"] == [[1, 2]]
    assert [int(sample["image_id"]) for sample in samples.values()] == [7, 30, 40]
    assert samples[0]["boxes"].shape == (0, 4)
    assert samples[1]["boxes"].tolist() == [[1.5, 2, 11.5, 6.25], [0, 0, 31, 20]]
    assert samples[1]["labels"].tolist() == [90, 18] and samples[2]["iscrowd"].tolist() == [1]
    assert samples[1]["keypoints"][0].tolist() == [[3, 4, 2], [0, 0, 0], [5, 6, 1]]
    assert samples[2]["masks"][-4:] == bytes([2, 5, 6, 1])  # runs 5, 6, 1
    pack("coco(labels=index,masks=off,annotations=instances_val2017.json:captions_val2017.json)", tmp_path / "in", tmp_path / "index", split="test")
    samples = samples_of(tmp_path / "index/test")
    assert samples[1]["labels"].tolist() == [1, 0] and "masks" not in samples[1]
    names = {entry["name"]: entry.get("names") for entry in fields_of(tmp_path / "index/test")}
    assert names["labels"] == ["dog", "toothbrush"] and "names" not in types["labels"]
    assert [sample["captions"] for sample in samples.values()] == ["one\ntwo", "x", ""]


def change(annotations, section, number, **values):
    annotations[section][number].update(values)
    return annotations


@pytest.mark.parametrize("annotations, message", [
    (change(coco(), "annotations", 0, image_id=8), 'image_id is 8; expected one of "images"'),
    (change(coco(), "annotations", 0, category_id=8), 'category_id is 8; expected one of "categories"'),
    (change(coco(), "annotations", 0, bbox=[1, 2, 3]), "bbox has 3 numbers"),
    (change(coco(), "annotations", 0, bbox=[1, 2, -3, 4]), "expected x0 <= x1"),
    (change(coco(), "annotations", 0, bbox=[1, 2, 300, 4]), "inside of 31 x 20"),
    (change(coco(), "annotations", 0, bbox=[1, 2, "x", 4]), "expected a list of finite numbers"),
    (change(coco(), "annotations", 1, segmentation={"counts": [5, 600], "size": [4, 3]}), "runs of 605 pixels; expected 4 x 3"),
    (change(coco(), "annotations", 1, segmentation={"counts": [5, 7], "size": [3, 4]}), "a mask of size [3,4]"),
    (change(coco(), "annotations", 0, segmentation=[[1, 2, 3]]), "a polygon of 3 numbers"),
    (change(coco(), "images", 0, id=7), "image 7: the id comes twice"),
    (change(coco(), "images", 0, id=2 ** 63), "id is 9223372036854775808; expected less than 2^63"),
    (change(coco(), "categories", 0, id=18), "category 18: the id comes twice"),
    (change(coco(), "categories", 0, keypoints=["nose", 5]), 'category 90: keypoints is ["nose",5]; expected a list of names'),
    (change(coco(), "annotations", 0, area="big"), 'image 30, annotation 1: area is "big"; expected a number'),
    (change(coco(), "annotations", 0, area=1e300), "image 30, annotation 1: area has 1e+300; expected numbers of f32"),
    (change(coco(), "annotations", 0, iscrowd=2), "image 30, annotation 1: iscrowd is 2; expected 0 or 1"),
    (change(coco(), "annotations", 0, iscrowd="no"), 'image 30, annotation 1: iscrowd is "no"; expected 0 or 1'),
    (change(coco(), "annotations", 0, caption=5), "image 30, annotation 1: caption is 5; expected a text"),
    (coco() | {"annotations": coco()["annotations"] + [{"id": 9, "image_id": 7, "category_id": 18}]}, "image 7: no bbox; expected one"),
    (coco() | {"annotations": {"1": {}}}, '"annotations" is an object; expected a list of objects'),
    (coco() | {"annotations": [5]}, '"annotations" has 5; expected a list of objects'),
    (change(coco(), "images", 0, file_name="../b.png"), "file_name is \"../b.png\""),
    (change(coco(), "images", 0, height=21), "a picture of 20 x 31; expected 21 x 31"),
])
def test_bad_coco_is_refused_in_one_line(tmp_path, annotations, message):
    write_coco(tmp_path / "in", annotations)
    done = pack("coco", tmp_path / "in", tmp_path / "out", split="test", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_coco_without_a_picture(tmp_path):
    write_coco(tmp_path / "in", coco())
    (tmp_path / "in/val2017/b.png").unlink()
    assert "b.png is not there" in pack("coco", tmp_path / "in", tmp_path / "out", split="test", code=3).stderr


VOC = """<annotation><filename>x.jpg</filename><size><width>31</width><height>20</height><depth>3</depth></size>
<object><name>dog</name><difficult>1</difficult><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>31</xmax><ymax>20</ymax></bndbox></object>
<object><name>aeroplane</name><truncated>1</truncated><bndbox><xmin>5.5</xmin><ymin>6</ymin><xmax>8</xmax><ymax>9</ymax></bndbox>
<part><name>head</name><bndbox><xmin>0</xmin></bndbox></part></object></annotation>"""


def write_voc(folder, xml=VOC, name="x"):
    save(folder / f"JPEGImages/{name}.jpg")
    for sub in ("Annotations", "ImageSets/Segmentation", "ImageSets/Main"):
        (folder / sub).mkdir(parents=True, exist_ok=True)
    (folder / f"Annotations/{name}.xml").write_text(xml)
    (folder / "ImageSets/Main/train.txt").write_text(f"{name}\n")
    (folder / "ImageSets/Segmentation/train.txt").write_text(f"{name}  1\n")
    return folder


def test_voc(tmp_path):
    write_voc(tmp_path / "in")
    pack("voc", tmp_path / "in", tmp_path / "out")
    sample = samples_of(tmp_path / "out/train")[0]
    assert sample["boxes"].tolist() == [[0, 1, 31, 20], [4.5, 5, 8, 9]]
    assert sample["labels"].tolist() == [12, 1]
    assert sample["difficult"].tolist() == [1, 0] and sample["truncated"].tolist() == [0, 1]
    pack("voc(one-based=off,classes=dog:aeroplane)", tmp_path / "in", tmp_path / "zero")
    sample = samples_of(tmp_path / "zero/train")[0]
    assert sample["boxes"].tolist() == [[1, 2, 31, 20], [5.5, 6, 8, 9]] and sample["labels"].tolist() == [1, 2]


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_voc_masks_are_the_numbers_of_the_palette(tmp_path, bits):
    write_voc(tmp_path / "in")
    values = RNG.integers(0, 2 ** bits, (20, 31), dtype=np.uint8)
    mask = Image.fromarray(values, mode="P")
    mask.putpalette([(7 * i + 90) % 256 for i in range(3 * 2 ** bits)])
    for kind in ("Class", "Object"):
        save(tmp_path / f"in/Segmentation{kind}/x.png", mask, bits=bits)
    pack("voc(masks=both)", tmp_path / "in", tmp_path / "out")
    assert {entry["name"]: entry.get("fill", 0) for entry in fields_of(tmp_path / "out/train") if entry["kind"] == "mask"} == {"mask": 255, "objects": 0}
    sample = samples_of(tmp_path / "out/train")[0]
    assert np.array_equal(Image.open(io.BytesIO(sample["mask"])), values)
    save(tmp_path / "in/SegmentationClass/x.png", Image.fromarray(values[:, 1:], mode="L"))
    assert "expected 20 x 31, as the picture has" in pack("voc(masks=both)", tmp_path / "in", tmp_path / "no", code=4).stderr


BOMB = '<!DOCTYPE a [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><annotation>&b;</annotation>'


@pytest.mark.parametrize("xml, message", [
    (BOMB, "a document type, which may hold entities; expected none"),
    ("<annotation>" + "<a>" * 30 + "</a>" * 30 + "</annotation>", "more than 16 levels"),
    (VOC[:100], "XML, line "),
    ("<kml/>", "<kml>; expected <annotation>"),
    (VOC.replace("dog", "cow-boy"), '<name> is "cow-boy"; expected one of aeroplane'),
    (VOC.replace("<xmin>1</xmin>", ""), "<bndbox> without <xmin>"),
    (VOC.replace("<difficult>1<", "<difficult>2<"), '<difficult> is "2"; expected 0 or 1, a share between them'),
    (VOC.replace("<truncated>1<", "<truncated>nan<"), '<truncated> is "nan"; expected 0 or 1'),
    (VOC.replace("<xmin>1<", "<xmin>one<"), '<xmin> is "one"; expected a number'),
    (VOC.replace("<width>31<", "<width>32<"), "<size> is 20 x 32; expected 20 x 31"),
    (VOC.replace("<xmax>31<", "<xmax>34<"), "expected x0 <= x1 and y0 <= y1, inside of 31 x 20"),
    ("<annotation>&b;</annotation>", "XML, line 1: undefined entity"),
])
def test_bad_voc_is_refused_in_one_line(tmp_path, xml, message):
    write_voc(tmp_path / "in", xml)
    done = pack("voc", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_voc_with_one_class_twice(tmp_path):
    write_voc(tmp_path / "in")
    done = pack("voc(classes=dog:aeroplane:dog)", tmp_path / "in", tmp_path / "out", code=2)
    assert 'classes has "dog" twice' in done.stderr and done.stderr.count("\n") == 1, done.stderr


@pytest.mark.parametrize("name", ["y", "y" * 5000])
def test_voc_lists_what_is_not_there(tmp_path, name):
    write_voc(tmp_path / "in")
    (tmp_path / "in/ImageSets/Main/train.txt").write_text(f"{name}\n")
    done = pack("voc", tmp_path / "in", tmp_path / "out", code=3)
    assert "is not there; expected the picture of Annotations/" in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_voc_masks_of_pictures_in_folders(tmp_path):
    folder = write_voc(tmp_path / "in")
    for sub, ending in (("Annotations", "xml"), ("JPEGImages", "jpg")):
        (folder / sub / "a").mkdir()
        (folder / sub / f"x.{ending}").rename(folder / sub / f"a/x.{ending}")
    save(folder / "SegmentationClass/a/x.png", Image.fromarray(np.full((20, 31), 3, np.uint8)))
    (folder / "ImageSets/Segmentation/train.txt").write_text("a/x\n")
    pack("voc(masks=class)", folder, tmp_path / "out")
    mask = Image.open(io.BytesIO(samples_of(tmp_path / "out/train")[0]["mask"]))
    assert np.all(np.asarray(mask) == 3)


@pytest.mark.parametrize("ending", [".PNG", ".JPEG", ".Jpg", ".gif", ".jPg", ".TIF"])
def test_voc_pictures_have_any_ending_in_any_case(tmp_path, ending):
    folder = write_voc(tmp_path / "in", name="a b 1")
    save(folder / f"JPEGImages/a b 1{ending}", format={".gif": "GIF", ".TIF": "TIFF", ".PNG": "PNG"}.get(ending, "JPEG"))
    (folder / "JPEGImages/a b 1.jpg").unlink()
    (folder / "Annotations/a b 1.xml").rename(folder / "Annotations/a b 1.XML")
    save(folder / "SegmentationClass/a b 1.PNG", Image.fromarray(np.full((20, 31), 3, np.uint8)))
    for split, masks in (("train", "none"), ("train", "class"), ("all", "none")):
        if split == "all":
            for name in ("Main", "Segmentation"):
                (folder / f"ImageSets/{name}/train.txt").unlink()
            for name in ("Main", "Segmentation", "."):
                (folder / f"ImageSets/{name}").rmdir()
        pack(f"voc(masks={masks})", folder, tmp_path / f"{split}-{masks}", split=split)
        assert samples_of(tmp_path / f"{split}-{masks}/{split}")[0]["boxes"].tolist()[0] == [0, 1, 31, 20]


def test_a_line_of_a_voc_list_is_a_name_with_spaces_or_one_before_a_number(tmp_path):
    for name in ("my image 1", "my", "2007_000032"):
        write_voc(tmp_path / "in", name=name)
    (tmp_path / "in/ImageSets/Main/train.txt").write_text("2007_000032  1\r\nmy image 1 -1\nmy image 1\nmy\n\n")
    pack("voc", tmp_path / "in", tmp_path / "out")
    back = [path.stem for path in (unpacked(tmp_path / "out", tmp_path / "back") / "JPEGImages").iterdir()]
    assert sorted(back) == ["2007_000032", "my", "my image 1-1", "my image 1-2"]


@pytest.mark.parametrize("text, flag", [("0.0597", 1), ("0.0", 0), ("1", 1), ("Unspecified", 0), ("true", 1), ("FALSE", 0), ("", 0)])
def test_voc_flags_are_numbers_shares_or_words(tmp_path, text, flag):
    xml = VOC.replace("<truncated>1<", f"<truncated>{text}<").replace("<difficult>1<", f"<difficult>{text}<")
    write_voc(tmp_path / "in", xml)
    pack("voc", tmp_path / "in", tmp_path / "out")
    sample = samples_of(tmp_path / "out/train")[0]
    assert sample["truncated"].tolist() == [0, flag] and sample["difficult"].tolist() == [flag, 0]
