"""shardprep pack from foreign data sets, which Pillow, tarfile and json have written; and shardprep export back to them."""
import csv
import io
import json
import struct
import tarfile

import numpy as np
import pytest
from PIL import Image, ImageOps

from shardprep_tool import manifest_of, run, shards_of

RNG = np.random.default_rng(7)


def picture(height=20, width=31, mode="RGB"):
    channels = {"RGB": (3,), "L": (), "RGBA": (4,)}[mode]
    return Image.fromarray(RNG.integers(0, 255, (height, width, *channels), dtype=np.uint8))


def save(path, image=None, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    (image or picture()).save(path, **options)
    return path


def png_bytes(image=None, **options):
    out = io.BytesIO()
    (image or picture()).save(out, "PNG", **options)
    return out.getvalue()


def pack(source, inputs, out, *arguments, code=0, shards=1, split="train"):
    inputs = inputs if isinstance(inputs, list) else [inputs]
    given = [argument for path in inputs for argument in ("--input", path)]
    return run("pack", "--source", source, *given, "--out", out, "--shards", shards, "--split", split, *arguments, code=code)


def samples_of(folder):
    """id -> {"label": ..., field: value}; text is str, numbers are arrays, the others bytes."""
    types = {entry["name"]: entry for entry in fields_of(folder)}
    samples = {}
    for shard in shards_of(folder):
        for row, sample_id in enumerate(shard["id"]):
            sample = {"label": int(shard["label"][row])}
            for name, entry in types.items():
                values = shard[f"field.{name}"]
                if f"field_offset.{name}" in shard:
                    begin, end = shard[f"field_offset.{name}"][row:row + 2]
                    value = values[int(begin):int(end)]
                else:
                    value = values[row]
                kind = entry["kind"]
                if kind == "text":
                    value = value.tobytes().decode()
                elif kind in ("bytes", "mask", "instances", "picture"):
                    value = value.tobytes()
                sample[name] = value
            samples[int(sample_id)] = sample
    return dict(sorted(samples.items()))


def fields_of(folder):
    return [{"name": name, **entry} for name, entry in manifest_of(folder).get("fields", {}).items()]


def unpacked(folder, out):
    run("unpack", folder, "--out", out)
    return out


# Pictures


def test_pictures_of_other_formats_keep_their_pixels(tmp_path):
    image, see_through = picture(), picture(mode="RGBA")
    wanted = {
        "a.webp": (image, {"lossless": True}), "b.tiff": (image, {}), "c.tif": (image, {"compression": "tiff_lzw"}),
        "d.bmp": (image, {}), "e.gif": (image.convert("P"), {}), "f.tif": (image.convert("L"), {}),
        "g.bmp": (image.convert("P"), {}), "h.tif": (image.convert("1"), {"compression": "group4"}),
        "i.tif": (image.convert("P"), {}), "j.tif": (see_through, {"compression": "tiff_adobe_deflate"}), "o.webp": (see_through, {"lossless": True, "exact": True}),
        "p.bmp": (see_through, {}), "q.tif": (image.convert("YCbCr"), {"compression": "jpeg"}),
        "k.bmp": (image.convert("L"), {}), "l.webp": (image, {"quality": 60}),
    }
    for name, (source, options) in wanted.items():
        save(tmp_path / "in/deep" / name, source, **options)
    frames = [picture(), picture()]
    frames[0].convert("P").save(tmp_path / "in/m.gif", save_all=True, append_images=[frames[1].convert("P")], interlace=1)
    frames[0].save(tmp_path / "in/n.webp", save_all=True, append_images=frames[1:], lossless=True)
    (tmp_path / "in/notes.txt").write_text("no picture")
    done = pack("flat", tmp_path / "in", tmp_path / "out")
    assert "17 samples of 0 classes" in done.stdout and "1 file ignored" in done.stdout
    back = unpacked(tmp_path / "out", tmp_path / "back")
    for path in sorted((tmp_path / "in").rglob("*.*")):
        if path.suffix == ".txt":
            continue
        made = Image.open(back / path.relative_to(tmp_path / "in").with_suffix(path.suffix + ".png"))
        expected = Image.open(path)
        grey = expected.mode in ("L", "1") and path.suffix == ".tif"
        assert made.mode == ("L" if grey else "RGB"), path
        assert np.array_equal(made, expected.convert(made.mode)), path
    assert all(sample["label"] == -1 for sample in samples_of(tmp_path / "out/train").values())


@pytest.mark.parametrize("suffix", ["tif", "webp"])
def test_orientation_comes_along(tmp_path, suffix):
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[274] = orientation
        options = {"lossless": True} if suffix == "webp" else {}
        save(tmp_path / f"in/{orientation}.{suffix}", exif=exif, **options)
    pack("flat", tmp_path / "in", tmp_path / "out")
    assert "7 turned" in run("info", tmp_path / "out").stdout
    back = unpacked(tmp_path / "out", tmp_path / "back")
    for orientation in range(1, 9):
        made = ImageOps.exif_transpose(Image.open(back / f"{orientation}.{suffix}.png"))
        expected = ImageOps.exif_transpose(Image.open(tmp_path / f"in/{orientation}.{suffix}"))
        assert np.array_equal(made, expected), orientation


def test_sixteen_bits_are_a_choice(tmp_path):
    deep = RNG.integers(0, 65535, (9, 13), dtype=np.uint16)
    save(tmp_path / "in/a.png", Image.fromarray(deep))
    save(tmp_path / "in/b.tif", Image.fromarray(deep))
    refused = pack("flat", tmp_path / "in", tmp_path / "out", code=2)
    assert "16 bits per channel; expected 8, or shardprep pack --sixteen-bit drop" in refused.stderr
    assert not (tmp_path / "out/train").exists()
    pack("flat", tmp_path / "in", tmp_path / "drop", "--sixteen-bit", "drop")
    assert manifest_of(tmp_path / "drop/train")["storage"] == "encode=auto,sixteen-bit=drop"
    back = unpacked(tmp_path / "drop", tmp_path / "dropped")
    for name in ("a.png", "b.tif.png"):
        assert np.array_equal(Image.open(back / name), deep >> 8)
    pack("flat", tmp_path / "in", tmp_path / "keep", "--sixteen-bit", "keep")
    back = unpacked(tmp_path / "keep", tmp_path / "kept")
    for name in ("a.png", "b.tif.png"):
        assert np.array_equal(np.asarray(Image.open(back / name)).astype(np.uint16), deep)


def tiff(width, height):
    """A little TIFF whose header says that it is large."""
    entries = [(256, 4, width), (257, 4, height), (258, 3, 8), (259, 3, 1), (262, 3, 1), (273, 4, 8), (277, 3, 1),
               (278, 4, height), (279, 4, 16)]
    return (b"II*\0" + struct.pack("<I", 24) + bytes(16) + struct.pack("<H", len(entries)) +
            b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in entries) + bytes(4))


@pytest.mark.parametrize("name, data, message", [
    ("large.tif", tiff(40000, 25000), "picture of 25000 x 40000 pixels; expected sides"),
    ("lies.tif", tiff(4000, 4000), "TIFF: "),
    ("cut.bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 100, 0, 54, 40, 9, 9, 1, 24, 0, 0, 0, 0, 0, 0), "BMP: 54 bytes for a picture that needs"),
    ("large.bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 100, 0, 54, 40, 1 << 30, 9, 1, 24, 0, 0, 0, 0, 0, 0), "picture of 9 x 1073741824"),
    ("cut.gif", b"GIF89a\xff\xff\xff\xff\0\0\0,", "GIF: "),
    ("cut.webp", b"RIFF\x10\0\0\0WEBPVP8 \x04\0\0\0abcd", "WebP: "),
])
def test_broken_pictures_are_refused_in_one_line(tmp_path, name, data, message):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(data)
    done = pack("flat", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out/train").exists()


@pytest.mark.parametrize("suffix", ["tif", "gif", "bmp", "webp"])
def test_pictures_cut_short_are_refused(tmp_path, suffix):
    whole = save(tmp_path / f"whole.{suffix}").read_bytes()
    (tmp_path / "in").mkdir()
    (tmp_path / f"in/cut.{suffix}").write_bytes(whole[:len(whole) * 2 // 3])
    done = pack("flat", tmp_path / "in", tmp_path / "out", code=4)
    assert f"cut.{suffix}: " in done.stderr and done.stderr.count("\n") == 1, done.stderr


# Lists


def write_csv(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def write_lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_csv(tmp_path):
    rows = [["path", "class", "age", "score", "caption", "tags"]]
    for i in range(12):
        save(tmp_path / f"in/pictures/{i}.png")
        rows.append([f"pictures/{i}.png", ["cat", "dog", "ant"][i % 3], i, i / 4, f'a "{i}", and,\nmore', f"{i};{i + 1}"])
    write_csv(tmp_path / "in/train.csv", rows)
    pack("csv(label=class,labels=tags)", tmp_path / "in", tmp_path / "out", shards=3)
    manifest = manifest_of(tmp_path / "out/train")
    assert manifest["class_names"] == ["ant", "cat", "dog"]
    samples = samples_of(tmp_path / "out/train")
    assert len(samples) == 12
    for i, sample in samples.items():
        assert sample["label"] == [1, 2, 0][i % 3]
        assert (int(sample["age"]), float(sample["score"])) == (i, i / 4)
        assert sample["caption"] == f'a "{i}", and,\nmore'
        assert list(sample["tags"]) == [i, i + 1]
    for shard in shards_of(tmp_path / "out/train"):  # classes are dealt over the shards
        assert sorted(int(label) for label in shard["label"]) in ([0, 0, 1, 2], [0, 1, 1, 2], [0, 1, 2, 2])


def test_csv_chooses_columns_and_splits(tmp_path):
    for i in range(4):
        save(tmp_path / f"in/{i}.png")
    write_csv(tmp_path / "list.csv", [["file", "n", "x", "part"]] + [[tmp_path / f"in/{i}.png", 7 + i, "7", ["train", "val"][i % 2]] for i in range(4)])
    pack("csv(label=n,fields=none,text=x,split=part)", tmp_path / "list.csv", tmp_path / "out", split="train,test")
    for split, labels in (("train", [7, 9]), ("test", [8, 10])):
        samples = samples_of(tmp_path / "out" / split)
        assert [sample["label"] for sample in samples.values()] == labels
        assert [sample["x"] for sample in samples.values()] == ["7", "7"]


def test_json_lines(tmp_path):
    rows = []
    for i in range(3):
        save(tmp_path / f"in/{i}.jpg")
        save(tmp_path / f"in/mask{i}.png", Image.fromarray(np.full((20, 31), i, np.uint8)))
        rows.append({"path": f"{i}.jpg", "label": i, "vector": [i, 0.5], "list": list(range(i)),
                     "objects": {"bbox": [[1, 2, 3, 4.5]] * i, "category": [4] * i}, "seg": f"mask{i}.png"})
    write_lines(tmp_path / "in/list.jsonl", rows)
    pack("jsonl(fields=vector:list,boxes=objects.bbox,labels=objects.category,box-format=xywh,mask=seg)", tmp_path / "in", tmp_path / "out")
    kinds = {entry["name"]: (entry["kind"], entry.get("of", "")) for entry in fields_of(tmp_path / "out/train")}
    assert kinds == {"vector": ("number", ""), "list": ("number", ""), "objects.bbox": ("boxes", ""),
                     "objects.category": ("labels", "objects.bbox"), "seg": ("mask", "")}
    for i, sample in samples_of(tmp_path / "out/train").items():
        assert list(sample["vector"]) == [i, 0.5] and list(sample["list"]) == list(range(i))
        assert sample["objects.bbox"].tolist() == [[1, 2, 4, 6.5]] * i and list(sample["objects.category"]) == [4] * i
        assert np.all(np.asarray(Image.open(io.BytesIO(sample["seg"]))) == i)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_metadata_folder(tmp_path, form):
    for split, count in (("train", 3), ("validation", 2)):
        rows = [{"file_name": f"a/{i}.png", "text": f"{split} {i}"} for i in range(count)]
        for row in rows:
            save(tmp_path / "in" / split / row["file_name"])
        if form == "jsonl":
            write_lines(tmp_path / "in" / split / "metadata.jsonl", rows)
        else:
            write_csv(tmp_path / "in" / split / "metadata.csv", [list(rows[0])] + [list(row.values()) for row in rows])
    pack("metadata-folder", tmp_path / "in", tmp_path / "out", split="train,test")
    assert [sample["text"] for sample in samples_of(tmp_path / "out/test").values()] == ["validation 0", "validation 1"]
    assert len(samples_of(tmp_path / "out/train")) == 3


ROW = {"path": "a.png", "label": "x"}


@pytest.mark.parametrize("source, rows, code, message", [
    ("csv(label=klass)", [ROW], 2, 'source csv: label is "klass"; expected one of the columns path, label'),
    ("csv(fields=a:b)", [ROW], 2, 'fields has "a"; expected some of the columns'),
    ("csv", [ROW, {"path": "b.png", "label": "x"}], 3, "list.csv: row 2: "),
    ("csv", [ROW, {"path": "a.png", "label": "y"}], 4, '"a.png" has another label than in '),
    ("csv", [{"path": "../a.png", "label": "x"}], 4, "path is \"../a.png\"; expected a file, without '..'"),
    ("csv", [{"path": "", "label": "x"}], 4, 'column "path" is ""; expected a text'),
    ("csv", [{"name": "a.png"}], 2, "no column path, file_name, image, filename or file; expected path=COLUMN"),
    ("jsonl", [ROW, {"path": "a.png"}], 4, 'no value in column "label"; expected one in every row'),
    ("jsonl", [ROW | {"v": [1, 2]}, ROW | {"v": 3}], 4, "expected a list of numbers, as in the rows before"),
    ("jsonl", [ROW | {"v": [[1, 2]]}, ROW | {"v": [[1]]}], 4, "expected lists of the same lengths inside"),
    ("jsonl", [ROW | {"v": {"a": 1}}], 4, "name the keys of an object as a.b"),
    ("jsonl(boxes=b)", [ROW | {"b": [[3, 3, 2, 4]]}], 4, "expected x0 <= x1"),
    ("jsonl(boxes=b)", [ROW | {"b": [[3, 3, 2]]}], 4, "expected a list of boxes of four numbers"),
    ("jsonl(labels=l)", [ROW | {"l": ["x"]}], 4, "expected a list of whole numbers"),
    ("jsonl(mask=m)", [ROW | {"m": "a.png"}], 4, "mask: has colours or alpha"),
    ("jsonl(box-format=cxcywh)", [ROW], 2, "box-format is \"cxcywh\"; expected xyxy or xywh"),
])
def test_lists_are_refused_in_one_line(tmp_path, source, rows, code, message):
    save(tmp_path / "in/a.png")
    if source.startswith("csv"):
        write_csv(tmp_path / "in/list.csv", [list(rows[0])] + [list(row.values()) for row in rows])
    else:
        write_lines(tmp_path / "in/list.jsonl", rows)
    done = pack(source, tmp_path / "in", tmp_path / "out", code=code)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out/train").exists()


@pytest.mark.parametrize("text, message", [
    ('path,label\n"a.png,x\n', "has an opening quote and no closing one"),
    ("path,label\na.png\n", "line 2: 1 cells; expected 2"),
    ("path,path\na.png,x\n", "is there twice"),
    ("", "is empty; expected a row of column names"),
])
def test_broken_csv(tmp_path, text, message):
    save(tmp_path / "in/a.png")
    (tmp_path / "in/list.csv").write_text(text)
    done = pack("csv", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


# WebDataset


def write_tar(path, members, format=tarfile.PAX_FORMAT):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w", format=format) as tar:
        for name, data in members:
            entry = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(data, bytes):
                entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data) if isinstance(data, bytes) else None)
    return path


def npy_bytes(array, **options):
    out = io.BytesIO()
    np.save(out, array, **options)
    return out.getvalue()


def wds_members(i):
    key = f"{'deep/' * 30}{i:06d}"
    return [(f"{key}.png", png_bytes()), (f"{key}.cls", str(i % 3).encode()), (f"{key}.txt", f"text {i}".encode()),
            (f"{key}.json", json.dumps({"i": i}).encode()), (f"{key}.vec.npy", npy_bytes(np.full((i + 1, 2), i, np.float32))),
            (f"{key}.seg.png", png_bytes(Image.fromarray(np.full((20, 31), i, np.uint8)).convert("P")))]


@pytest.mark.parametrize("format", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_webdataset(tmp_path, format):
    for shard in range(2):
        write_tar(tmp_path / f"in/train-{shard:03d}.tar", [member for i in range(3) for member in wds_members(3 * shard + i)], format)
    for source in ("webdataset", "webdataset(shards=train-{000..001}.tar)"):
        out = tmp_path / source[10:13]
        pack(source, tmp_path / "in", out, shards=2)
        samples = samples_of(out / "train")
        assert {entry["name"]: entry["kind"] for entry in fields_of(out / "train")} == {"txt": "text", "json": "text", "vec": "number", "seg": "mask"}
        assert sorted(samples) == list(range(6))
        for i, sample in samples.items():
            assert sample["label"] == i % 3 and sample["txt"] == f"text {i}" and json.loads(sample["json"]) == {"i": i}
            assert np.array_equal(sample["vec"], np.full((i + 1, 2), i, np.float32))
    missing = pack("webdataset(shards=train-{000..003}.tar)", tmp_path / "in", tmp_path / "no", code=3)
    assert "train-002.tar: is not there" in missing.stderr


def link(name, kind):
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, "/etc/passwd"
    return entry


PICTURE = ("a.png", png_bytes())


@pytest.mark.parametrize("members, message", [
    ([PICTURE, ("a.jpg", link("a.jpg", tarfile.SYMTYPE))], "is a link; expected files and folders"),
    ([PICTURE, ("a.jpg", link("a.jpg", tarfile.LNKTYPE))], "is a link"),
    ([PICTURE, ("x", link("x", tarfile.CHRTYPE))], 'is of type "3"'),
    ([("../a.png", PICTURE[1])], "expected a relative path without '..'"),
    ([("/a.png", PICTURE[1])], "expected a relative path without '..'"),
    ([PICTURE, ("a.png", PICTURE[1])], "two files .png; expected one"),
    ([PICTURE, ("b.png", PICTURE[1]), PICTURE], "the key comes twice"),
    ([PICTURE, ("a.cls", b"1"), ("b.png", PICTURE[1])], "no file .cls; expected one, as the first sample has"),
    ([PICTURE, ("b.png", PICTURE[1]), ("b.txt", b"x")], "a file .txt, which the first sample has not"),
    ([PICTURE, ("a.npy", npy_bytes(np.array([{}], dtype=object), allow_pickle=True))], "which is a pickle"),
    ([PICTURE, ("a.npy", npy_bytes(np.zeros(3))[:-1])], "23 bytes of data, 24 by its shape"),
    ([PICTURE, ("a.npy", npy_bytes(np.zeros((2, 3)))), ("b.png", PICTURE[1]), ("b.npy", npy_bytes(np.zeros((2, 4))))], "has another dtype or shape"),
    ([("a.txt", b"x")], "no picture"),
])
def test_bad_tars_are_refused_in_one_line(tmp_path, members, message):
    write_tar(tmp_path / "in/x.tar", members)
    done = pack("webdataset", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out/train").exists()


def test_pickles_are_refused(tmp_path):
    write_tar(tmp_path / "in/x.tar", [PICTURE, ("a.pyd", b"x")])
    assert ".pyd is a pickle" in pack("webdataset", tmp_path / "in", tmp_path / "out", code=2).stderr
    pack("webdataset(fields=none)", tmp_path / "in", tmp_path / "out")


def test_tars_cut_short_are_refused(tmp_path):
    whole = write_tar(tmp_path / "whole.tar", [PICTURE, ("b.png", PICTURE[1])]).read_bytes()
    end = len(whole.rstrip(b"\0"))
    (tmp_path / "in").mkdir()
    for cut in (100, 512, 700, end // 2, end - 100):
        (tmp_path / "in/x.tar").write_bytes(whole[:cut])
        done = pack("webdataset", tmp_path / "in", tmp_path / "out", code=4)
        assert "cut short" in done.stderr and done.stderr.count("\n") == 1, done.stderr
    (tmp_path / "in/x.tar").write_bytes(whole[:300] + b"x" + whole[301:])
    assert "checksum of the header" in pack("webdataset", tmp_path / "in", tmp_path / "out", code=4).stderr
    (tmp_path / "in/x.tar").write_bytes(whole + whole)
    assert "something follows the end" in pack("webdataset", tmp_path / "in", tmp_path / "out", code=4).stderr


# COCO and VOC


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
    (change(coco(), "annotations", 0, image_id=8), 'an annotation of image 8; expected one of "images"'),
    (change(coco(), "annotations", 0, category_id=8), 'category_id is 8; expected one of "categories"'),
    (change(coco(), "annotations", 0, bbox=[1, 2, 3]), "bbox has 3 numbers"),
    (change(coco(), "annotations", 0, bbox=[1, 2, -3, 4]), "expected x0 <= x1"),
    (change(coco(), "annotations", 0, bbox=[1, 2, 300, 4]), "inside of 31 x 20"),
    (change(coco(), "annotations", 0, bbox=[1, 2, "x", 4]), "expected a list of finite numbers"),
    (change(coco(), "annotations", 1, segmentation={"counts": [5, 600], "size": [4, 3]}), "runs of 605 pixels; expected 4 x 3"),
    (change(coco(), "annotations", 1, segmentation={"counts": [5, 7], "size": [3, 4]}), "a mask of size [3,4]"),
    (change(coco(), "annotations", 0, segmentation=[[1, 2, 3]]), "a polygon of 3 numbers"),
    (change(coco(), "images", 0, id=7), "image 7: the id comes twice"),
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
    (VOC.replace("<xmin>1<", "<xmin>one<"), '<xmin> is "one"; expected a number'),
    (VOC.replace("<width>31<", "<width>32<"), "<size> is 20 x 32; expected 20 x 31"),
    (VOC.replace("<xmax>31<", "<xmax>34<"), "expected x0 <= x1 and y0 <= y1, inside of 31 x 20"),
    ("<annotation>&b;</annotation>", "XML, line 1: undefined entity"),
])
def test_bad_voc_is_refused_in_one_line(tmp_path, xml, message):
    write_voc(tmp_path / "in", xml)
    done = pack("voc", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


# Several inputs, and the way back


def test_several_inputs(tmp_path):
    for folder, names in (("one/data", ["b", "c"]), ("two/data", ["a", "c"])):
        for name in names:
            save(tmp_path / folder / name / "1.png")
    pack("image-folder", [tmp_path / "one/data", tmp_path / "two/data"], tmp_path / "out")
    assert [sample["label"] for sample in samples_of(tmp_path / "out/train").values()] == [1, 2, 0, 2]
    back = unpacked(tmp_path / "out", tmp_path / "back")
    assert sorted(str(path.relative_to(back)) for path in back.rglob("*.png")) == ["data-1/b/1.png", "data-1/c/1.png", "data-2/a/1.png", "data-2/c/1.png"]
    save(tmp_path / "list/a.png")
    write_csv(tmp_path / "list/train.csv", [["path", "n"], ["a.png", "1"]])
    save(tmp_path / "other/a.png")
    write_csv(tmp_path / "other/train.csv", [["path", "m"], ["a.png", "1"]])
    refused = pack("csv", [tmp_path / "list", tmp_path / "other"], tmp_path / "no", code=2)
    assert 'has the field "m" with another name' in refused.stderr and refused.stderr.count("\n") == 1


@pytest.fixture
def packed(tmp_path):
    rows = []
    for i in range(6):
        name = f"train/{['cat', 'dog'][i % 2]}/{i}.{'png' if i == 3 else 'jpg'}"
        save(tmp_path / "in" / name)
        save(tmp_path / f"in/masks/{i}.png", Image.fromarray(np.full((20, 31), i, np.uint8)))
        rows.append({"path": name, "label": ["cat", "dog"][i % 2], "n": i, "x": i / 3, "text": f"é {i}", "box": [[0, 0, i, 1]] * i,
                     "kind": list(range(i)), "mask": f"masks/{i}.png"})
    write_lines(tmp_path / "in/train.jsonl", rows)
    pack("jsonl(boxes=box,labels=kind,mask=mask)", tmp_path / "in", tmp_path / "out", shards=2)
    return tmp_path / "out"


def alike(left, right, names):
    assert left.keys() == right.keys()
    for key in left:
        for mine, theirs in names.items():
            one, other = left[key][mine], right[key][theirs]
            assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, (key, mine)


def test_export_to_an_image_folder_comes_back(tmp_path, packed):
    done = run("export", packed, "--to", "image-folder", "--out", tmp_path / "folder")
    assert "6 samples as image-folder" in done.stdout
    assert sorted(path.name for path in (tmp_path / "folder/train").iterdir()) == [".fields", "cat", "dog", "metadata.jsonl"]
    for i in range(6):
        name = f"train/{['cat', 'dog'][i % 2]}/{i}.{'png' if i == 3 else 'jpg'}"
        assert (tmp_path / "folder" / name).read_bytes() == (tmp_path / "in" / name).read_bytes()
    pack("image-folder", tmp_path / "folder", tmp_path / "classes")
    assert len(samples_of(tmp_path / "classes/train")) == 6
    pack("metadata-folder(boxes=box,labels=kind,mask=mask_file_name)", tmp_path / "folder", tmp_path / "again", shards=2)
    lines = [json.loads(line) for line in (tmp_path / "folder/train/metadata.jsonl").read_text().splitlines()]
    order = {int(line["n"]): place for place, line in enumerate(lines)}
    again = samples_of(tmp_path / "again/train")
    again = {number: again[place] for number, place in order.items()}
    alike(samples_of(packed / "train"), again, {name: name for name in ("label", "n", "x", "text", "box", "kind", "mask")})


def test_export_to_webdataset_comes_back(tmp_path, packed):
    for out in ("tars", "same"):
        run("export", packed, "--to", "webdataset", "--out", tmp_path / out)
    names = sorted(path.name for path in (tmp_path / "tars").iterdir())
    assert names == ["classes.txt", "train-000000.tar", "train-000001.tar"]
    for name in names:
        assert (tmp_path / "tars" / name).read_bytes() == (tmp_path / "same" / name).read_bytes()
    found = {}
    for name in names[1:]:
        with tarfile.open(tmp_path / "tars" / name) as tar:
            for member in tar:
                assert member.mtime == 0 and member.uid == 0
                found[member.name] = tar.extractfile(member).read()
    assert found["000000002.cls"] == b"0" and found["000000002.text.txt"].decode() == "é 2"
    assert found["000000004.jpg"] == (tmp_path / "in/train/cat/4.jpg").read_bytes()
    assert np.array_equal(np.load(io.BytesIO(found["000000004.box.npy"])), np.array([[0, 0, 4, 1]] * 4, np.float32))
    write_tar(tmp_path / "one/train.tar", sorted((name, data) for name, data in found.items() if not name.startswith("000000003")))
    pack("webdataset", tmp_path / "one", tmp_path / "again", shards=2)
    again = {number: sample for number, sample in zip((0, 1, 2, 4, 5), samples_of(tmp_path / "again/train").values(), strict=True)}
    before = samples_of(packed / "train")
    del before[3]
    alike(before, {key: again[key] for key in before}, {name: name for name in ("label", "n", "x", "text", "box", "kind", "mask")})


def test_export_writes_into_a_new_folder_alone(tmp_path, packed):
    assert "exists already" in run("export", packed, "--to", "webdataset", "--out", tmp_path / "in", code=2).stderr
    assert 'unknown' in run("export", packed, "--to", "parquet", "--out", tmp_path / "x", code=2).stderr
