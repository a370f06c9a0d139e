"""Fields: what pack(fields=) is given is what Dataset and the batches of a Loader have."""
import pathlib

import numpy
import pytest

import penstock

pytest.importorskip("numpy")


def items(count=12):
    random = numpy.random.default_rng(3)
    for i in range(count):
        yield {"image": random.integers(0, 256, (8, 10, 3), dtype=numpy.uint8), "label": "ab"[i % 2], "age": i / 2,
               "size": numpy.array([[i, 1], [2, 3]], dtype=numpy.int16), "caption": f"picture {i}: \u00e4", "tags": list(range(i % 4)),
               "boxes": [[0, 0, 5, 4.5]] * (i % 3), "kinds": [7] * (i % 3), "mask": numpy.full((8, 10), i, dtype=numpy.uint8),
               "raw": bytes([i] * i)}


FIELDS = {"age": "number", "size": "number", "caption": "text", "tags": "labels", "boxes": "boxes", "raw": "bytes",
          "kinds": penstock.Field("labels", of="boxes"), "mask": penstock.Field("mask", fill=255)}


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fields") / "data"
    penstock.pack(items(), folder, fields=FIELDS, shards=2)
    return folder


def test_a_data_set_has_every_value(packed):
    expected = list(items())
    for sample in penstock.Dataset(packed):
        item = expected[sample.id]
        assert sample.class_name == item["label"]
        assert sample.fields["age"] == numpy.float32(item["age"])
        assert sample.fields["caption"] == item["caption"]
        assert sample.fields["raw"] == item["raw"]
        assert sample.fields["size"].dtype == numpy.int16
        assert (sample.fields["size"] == item["size"]).all()
        assert sample.fields["tags"].tolist() == item["tags"]
        assert sample.fields["boxes"].shape == (len(item["boxes"]), 4)
        assert sample.fields["boxes"].tolist() == item["boxes"]
        assert sample.fields["mask"].startswith(b"\x89PNG")


def test_batches_have_them_as_columns(packed):
    loader = penstock.Loader(packed, batch_size=5, workers=2, columns="field(name=age),field(name=size),field(name=boxes),"
                             "field(name=tags,column=hot,as=multi-hot,classes=4)")
    expected = list(items())
    seen = 0
    for batch in loader:
        columns = batch.columns
        for row, number in enumerate(batch.ids.tolist()):
            item = expected[number]
            assert float(columns["age"][row]) == item["age"]
            assert columns["size"][row].tolist() == item["size"].tolist()
            count = int(columns["boxes.count"][row])
            assert columns["boxes"][row][:count].tolist() == item["boxes"]
            assert columns["hot"][row].tolist() == [float(tag in item["tags"]) for tag in range(4)]
            seen += 1
    assert seen == 12


def test_a_data_set_may_have_no_classes(tmp_path):
    penstock.pack(({"image": item["image"], "age": item["age"]} for item in items()), tmp_path, fields=["age"], class_names=[])
    penstock.pack((item["image"] for item in items()), tmp_path / "bare", class_names=[])
    for folder in (tmp_path, tmp_path / "bare"):
        dataset = penstock.Dataset(folder)
        assert dataset.class_names == [] and dataset[0].label == -1 and dataset[0].class_name == ""
        batch = next(iter(penstock.Loader(folder, batch_size=4)))
        assert batch.labels.tolist() == [-1] * 4


def test_dicts_with_fields_need_no_label(tmp_path):
    bare = [{"image": item["image"], "age": item["age"]} for item in items()]
    penstock.pack(bare, tmp_path / "data", fields=["age"])
    assert penstock.Dataset(tmp_path / "data").class_names == [] and float(penstock.Dataset(tmp_path / "data")[0].fields["age"]) == bare[0]["age"]
    for wrong, message in (([bare[0], bare[1] | {"label": 3}], "item 1 has 'label', and item 0 has no label; expected one in every item"),
                           ([bare[0] | {"label": 3}, bare[1]], "item 1 is a dict of image, age; expected a picture")):
        with pytest.raises(penstock.ConfigError, match=message):
            penstock.pack(wrong, tmp_path / "no", fields=["age"])


@pytest.mark.parametrize("spoil, message", [
    (lambda item: item.pop("age"), "item 3: no 'age'; expected a dict with all of fields"),
    (lambda item: item.update(age=[1, 2]), "item 3: 'age' has the shape [2]; expected []"),
    (lambda item: item.update(age="old"), "item 3: 'age' is 'old'; expected numbers"),
    (lambda item: item.update(age=1e39), "item 3: 'age' is 1e+39; expected numbers of float32"),
    (lambda item: item.update(size=[[1, 1.5], [2, 3]]), "item 3: 'size' is [[1, 1.5], [2, 3]]; expected numbers of int16"),
    (lambda item: item.update(size=[[1, 40000], [2, 3]]), "item 3: 'size' is [[1, 40000], [2, 3]]; expected numbers of int16"),
    (lambda item: item.update(tags=[2**70]), "item 3: 'tags' is [1180591620717411303424]; expected numbers of int64"),
    (lambda item: item.update(caption=3), "item 3: 'caption' is int; expected text"),
    (lambda item: item.update(boxes=[[3, 0, 1, 1]], kinds=[1]), "field \"boxes\": box 0 is 3, 0, 1, 1"),
    (lambda item: item.update(boxes=[[0, 0, 1, float("nan")]], kinds=[1]), "field \"boxes\": box 0 is"),
    (lambda item: item.update(kinds=[1, 2]), "field \"kinds\": 2 entries; expected 0"),
    (lambda item: item.update(mask=numpy.zeros((3, 3), dtype=numpy.uint8)), "a mask of 3 x 3; expected 8 x 10"),
])
def test_a_wrong_value_is_one_line_and_leaves_nothing(tmp_path, spoil, message):
    def spoilt():
        for i, item in enumerate(items()):
            if i == 3:
                spoil(item)
            yield item
    with pytest.raises((penstock.ConfigError, penstock.CorruptError)) as error:
        penstock.pack(spoilt(), tmp_path / "out", fields=FIELDS)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("fields, message", [
    ("age", "fields is 'age'; expected names"),
    ({"age": "nummer"}, "field \"age\" is nummer"),
    ({"age": 3}, "fields has 3 for 'age'"),
    ({"a/b": "text"}, "no 'a/b'"),
    ({"kinds": penstock.Field("labels", of="age"), "age": "number"}, "is of \"age\"; expected a field of boxes"),
])
def test_wrong_fields_are_one_line(tmp_path, fields, message):
    with pytest.raises(penstock.ConfigError) as error:
        penstock.pack(items(), tmp_path / "out", fields=fields)
    assert message in str(error.value) and "\n" not in str(error.value)


def test_the_example_in_the_format_document_is_what_pack_writes(tmp_path):
    document = (pathlib.Path(__file__).resolve().parents[2] / "docs/FORMAT.md").read_text()
    section = document[document.index("## Example with fields"):]
    names = {"numpy": numpy}
    exec(section.split("```python\n")[1].split("```")[0], names)  # the items that the document shows
    penstock.pack(names["items"], tmp_path, fields={"age": "number", "tags": "labels"}, shards=1)
    shard = (tmp_path / "train/shard-00000-of-00001.safetensors").read_bytes()
    dump = section.split("```\n")[2]
    for line in dump.splitlines():
        if line != "*":
            place, text = int(line[:8], 16), line[10:58]
            assert shard[place:place + 16].hex(" ") == text.rstrip()
    assert (tmp_path / "train/manifest.json").read_text().split('  "fields": ')[1].startswith(section.split('  "fields": ')[1].split("```")[0].rstrip())


def test_labels_may_have_names(tmp_path):
    tags = penstock.Field("labels", names=["a", "b", "c"])
    penstock.pack(items(), tmp_path / "data", fields={"tags": tags})
    batch = next(iter(penstock.Loader(tmp_path / "data", batch_size=12, workers=0, shuffle="none", arrays="numpy",
                                      columns="field(name=tags,as=multi-hot)")))
    hot = dict(zip(batch.ids.tolist(), batch.columns["tags"].tolist()))
    assert [hot[i] for i in range(4)] == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    with pytest.raises(penstock.CorruptError, match='field "tags": label is 2; expected 0 to 1, as it has 2 names'):
        penstock.pack(items(), tmp_path / "less", fields={"tags": tags._replace(names=["a", "b"])})
    with pytest.raises(penstock.ConfigError, match='has 1 names and is of kind text; expected labels'):
        penstock.pack(items(), tmp_path / "text", fields={"caption": penstock.Field("text", names=["a"])})
