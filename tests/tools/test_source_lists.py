"""shardprep pack from lists of files with columns, which csv and json have written."""
import io

import numpy as np
import pytest
from PIL import Image

from shardprep_tool import manifest_of, shards_of
from source_tool import fields_of, pack, samples_of, save, write_csv, write_lines


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
    ("csv", [ROW, {"path": "a.png", "label": "y"}], 4, '"a.png" has label "y", and in '),
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
    ("csv", [ROW | {"n": "1.5"}, ROW | {"n": "-1e300"}], 4, 'row 2: column "n" is "-1e300"; expected numbers of f32'),
    ("csv(number=n)", [ROW | {"n": "1e39"}], 4, 'column "n" is "1e39"; expected numbers of f32'),
    ("jsonl", [ROW | {"n": [1, 1e300]}], 4, 'column "n" is [1,1e+300]; expected numbers of f32'),
    ("jsonl(boxes=b,box-format=xywh)", [ROW | {"b": [[3e38, 3, 3e38, 4]]}], 4, "expected numbers of f32"),
    ("jsonl", [{"path": "a.png"}, ROW], 4, 'row 1: no value in column "label", which row 2 has; expected one in every row'),
    ("jsonl", [ROW, ROW | {"n": 1}], 4, 'row 1: no value in column "n", which row 2 has'),
    ("jsonl(fields=none)", [{"path": "a.png"}, ROW], 4, 'no value in column "label", which row 2 has'),
    ("csv(boxes=b)", [ROW | {"b": "[[3,3,2"}], 4, 'column "b" is "[[3,3,2"; expected a list of boxes'),
    ("csv(boxes=b)", [ROW | {"b": "[3,3,2,4]"}], 4, "expected a list of boxes of four numbers"),
    ("csv(labels=l)", [ROW | {"l": "[1,[2]]"}], 4, "expected a list of whole numbers"),
    ("jsonl", [ROW | {"path": "a\0b.png"}], 4, r"""path is "a\0b.png"; expected a file, without '..'"""),
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


def test_lists_in_the_cells_of_a_csv(tmp_path):
    rows = [["path", "b", "l"], ["0.png", "[[1,2,3,4.5],[0,0,1,1]]", "[7, 8]"], ["1.png", "[]", ""]]
    for i in range(2):
        save(tmp_path / f"in/{i}.png")
    write_csv(tmp_path / "in/train.csv", rows)
    pack("csv(boxes=b,labels=l)", tmp_path / "in", tmp_path / "out")
    samples = samples_of(tmp_path / "out/train")
    assert samples[0]["b"].tolist() == [[1, 2, 3, 4.5], [0, 0, 1, 1]] and samples[0]["l"].tolist() == [7, 8]
    assert samples[1]["b"].size == 0 and samples[1]["l"].size == 0


def test_fields_that_are_not_kept_may_be_in_some_rows(tmp_path):
    save(tmp_path / "in/a.png")
    write_lines(tmp_path / "in/list.jsonl", [ROW, ROW | {"n": 1}])
    pack("jsonl(fields=none)", tmp_path / "in", tmp_path / "out")
    assert len(samples_of(tmp_path / "out/train")) == 2


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
