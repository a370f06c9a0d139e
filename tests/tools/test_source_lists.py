"""shardprep pack from lists of files with columns, which csv and json have written."""
import io

import numpy as np
import pytest
from PIL import Image

from shardprep_tool import manifest_of, shards_of
from source_tool import fields_of, pack, samples_of, save, unpacked, write_csv, write_lines


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
    ("csv", [ROW | {"label": "1"}, ROW | {"path": "b.png", "label": "nan"}], 4, 'list.csv: row 2: label is "nan"; expected a number, as the others are'),
    ("jsonl", [ROW | {"label": 1.5}], 4, 'column "label" is 1.5; expected a text'),
    ("csv", [{"path": "../a.png", "label": "x"}], 4, "path is \"../a.png\"; expected a file, without '..'"),
    ("csv", [{"path": "", "label": "x"}], 4, 'column "path" is ""; expected a text'),
    ("csv", [{"name": "a.png"}], 2, "no column path, file_name, image, filename or file; expected path=COLUMN, one of name, or another separator="),
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
    for name in "ab" if any("nan" in row.values() for row in rows) else "a":
        save(tmp_path / f"in/{name}.png")
    if source.startswith("csv"):
        write_csv(tmp_path / "in/list.csv", [list(rows[0])] + [list(row.values()) for row in rows])
    else:
        write_lines(tmp_path / "in/list.jsonl", rows)
    done = pack(source, tmp_path / "in", tmp_path / "out", code=code)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out/train").exists()


def labels_of(folder):
    return [sample["label"] for sample in samples_of(folder / "train").values()]


@pytest.mark.parametrize("form, labels", [
    ("csv", ["0.0", "2.0", "10.0", "1.0"]), ("csv", [" 0", " 2", " 10", " 1"]), ("jsonl", [0.0, 2.0, 10.0, 1]), ("jsonl", ["0", "2", "10", "1"])])
def test_labels_that_are_whole_numbers_are_the_labels(tmp_path, form, labels):
    write = {"csv": write_csv, "jsonl": write_lines}[form]
    rows = [{"path": f"{i}.png", "label": label} for i, label in enumerate(labels)]
    for i in range(4):
        save(tmp_path / f"in/{i}.png")
    write(tmp_path / f"in/train.{form}", [["path", "label"]] * (form == "csv") + [list(row.values()) if form == "csv" else row for row in rows])
    pack(form, tmp_path / "in", tmp_path / "out")
    assert labels_of(tmp_path / "out") == [0, 2, 10, 1]


def columns_of(tmp_path, columns, form="csv", keys=""):
    """What becomes of columns: the kind of each, its values, and what packing says."""
    count = len(next(iter(columns.values())))
    rows = [{"path": f"{i}.png"} | {name: values[i] for name, values in columns.items()} for i in range(count)]
    for i in range(count):
        save(tmp_path / f"in/{i}.png")
    if form == "csv":
        write_csv(tmp_path / "in/train.csv", [list(rows[0])] + [list(row.values()) for row in rows])
    else:
        write_lines(tmp_path / "in/train.jsonl", rows)
    done = pack(form + keys, tmp_path / "in", tmp_path / "out")
    kinds = {entry["name"]: entry["kind"] if entry["kind"] == "text" else entry["dtype"] for entry in fields_of(tmp_path / "out/train")}
    samples = samples_of(tmp_path / "out/train").values()
    return kinds, {name: [sample[name] for sample in samples] for name in columns}, done.stderr


def test_a_number_that_does_not_say_all_of_its_text_stays_text(tmp_path):
    texts = {"zeros": ["007", "010"], "hash": ["1e5", "12"], "long": ["123456789012345678901234", "5"], "missing": ["123456789", ""],
             "pandas": ["123456789.0", "nan"], "minus": ["-07", "-1"]}
    numbers = {"whole": ["7", "-10"], "real": ["0.50", "1e-05"], "large": ["16777217", "0.5"], "whole_reals": ["1.0", "2.0"], "i64": ["123456789012345678", "1"]}
    kinds, values, _ = columns_of(tmp_path, texts | numbers)
    assert {name: values[name] for name in texts} == texts
    assert {name: kinds[name] for name in numbers} == {"whole": "I64", "real": "F32", "large": "F32", "whole_reals": "F32", "i64": "I64"}
    assert [float(value) for value in values["real"]] == pytest.approx([0.5, 1e-5])


def test_texts_of_json_stay_texts(tmp_path):
    columns = {"id": ["007", "010"], "age": ["7", "8"], "number": [7, 8]}
    kinds, values, _ = columns_of(tmp_path, columns, "jsonl")
    assert kinds == {"id": "text", "age": "text", "number": "I64"} and values["age"] == ["7", "8"]


@pytest.mark.parametrize("keys", ["", "(number=age)"])
def test_an_empty_cell_among_numbers_is_nan_and_counted(tmp_path, keys):
    kinds, values, said = columns_of(tmp_path, {"age": ["7", "", "8.5", "NaN"]}, keys=keys)
    assert kinds == {"age": "F32"} and np.array_equal(values["age"], [7, np.nan, 8.5, np.nan], equal_nan=True)
    assert said == f'note: {tmp_path}/in/train.csv: column "age" has no number in 2 of 4 rows; they are NaN\n'


def test_empty_cells_among_texts_are_empty_texts(tmp_path):
    kinds, values, said = columns_of(tmp_path, {"name": ["x", "", "nan"], "empty": ["", "", ""]})
    assert kinds == {"name": "text", "empty": "text"} and values == {"name": ["x", "", "nan"], "empty": ["", "", ""]} and said == ""


@pytest.mark.parametrize("text", ["path\tlabel\n1.png\tcat\n", "path;label\r\n1.png;cat\r\n", "path,Label\n./1.png,cat\n", "FILE_NAME, label \n1.png,cat\n",
                                  "image,label\n1,cat\n", "path,label\n.//./1.png,cat\n"])
def test_usual_lists_are_read_without_keys(tmp_path, text):
    save(tmp_path / "in/1.png")
    (tmp_path / "in/train.csv").write_text(text)
    pack("csv", tmp_path / "in", tmp_path / "out")
    assert manifest_of(tmp_path / "out/train")["class_names"] == ["cat"]
    assert [path.name for path in unpacked(tmp_path / "out/train", tmp_path / "back").rglob("*.png")] == ["1.png"]


def test_an_ending_that_is_left_out_must_be_one(tmp_path):
    for name in ("1.png", "1.jpg"):
        save(tmp_path / "in" / name)
    write_csv(tmp_path / "in/train.csv", [["path"], ["1"]])
    assert "/in/1 is not there; expected the file that the list names" in pack("csv", tmp_path / "in", tmp_path / "out", code=3).stderr


@pytest.mark.parametrize("source", ["csv", "metadata-folder"])
def test_a_test_split_that_lacks_a_class_has_those_of_train(tmp_path, source):
    for split, labels in (("train", ["cat", "dog", "eel"]), ("test", ["eel", "dog"])):
        folder = tmp_path / "in" / split if source == "metadata-folder" else tmp_path / "in"
        write_csv(folder / (f"{split}.csv" if source == "csv" else "metadata.csv"),
                  [["file_name", "label"]] + [[save(folder / f"{split}{i}.png").name, label] for i, label in enumerate(labels)])
    pack(source, tmp_path / "in", tmp_path / "one", split="test")  # without train beside it, as train's cache has it
    assert manifest_of(tmp_path / "one/test")["class_names"] == ["cat", "dog", "eel"]
    assert [sample["label"] for sample in samples_of(tmp_path / "one/test").values()] == [2, 1]


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
    ("path,label\na.png,x\n".encode("utf-16"), "list.csv: is UTF-16; expected UTF-8 (iconv -f UTF-16 -t UTF-8)"),
    ("path,label\na.png,x\n".encode("utf-16-le"), "list.csv: is UTF-16; expected UTF-8"),
])
def test_broken_csv(tmp_path, text, message):
    save(tmp_path / "in/a.png")
    (tmp_path / "in/list.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    done = pack("csv", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
