"""Several inputs of shardprep pack, and shardprep export, whose data sets come back."""
import io
import json
import os
import re
import resource
import tarfile

import numpy as np
import pytest
from PIL import Image

from shardprep_tool import manifest_of, run
from source_tool import fields_of, npy_bytes, pack, samples_of, save, unpacked, write_csv, write_lines, write_tar


def test_several_inputs(tmp_path):
    for folder, names in (("one/data", ["b", "c"]), ("two/data", ["a", "c"])):
        for name in names:
            save(tmp_path / folder / name / "1.png")
    pack("image-folder", [tmp_path / "one/data", tmp_path / "two/data"], tmp_path / "out")
    assert [sample["label"] for sample in samples_of(tmp_path / "out/train").values()] == [1, 2, 0, 2]
    back = unpacked(tmp_path / "out", tmp_path / "back")
    assert sorted(str(path.relative_to(back)) for path in back.rglob("*.png")) == ["data-1/b/1.png", "data-1/c/1.png", "data-2/a/1.png", "data-2/c/1.png"]
    (tmp_path / "link").symlink_to(tmp_path / "one")
    twice = pack("image-folder", [tmp_path / "one/data", tmp_path / "two/data", tmp_path / "link/data"], tmp_path / "no", code=2).stderr
    assert f"input: {tmp_path}/link/data is given twice, first as {tmp_path}/one/data; expected each once" in twice and twice.count("\n") == 1
    save(tmp_path / "list/a.png")
    write_csv(tmp_path / "list/train.csv", [["path", "n"], ["a.png", "1"]])
    save(tmp_path / "other/a.png")
    write_csv(tmp_path / "other/train.csv", [["path", "m"], ["a.png", "1"]])
    refused = pack("csv", [tmp_path / "list", tmp_path / "other"], tmp_path / "no", code=2)
    assert 'has the field "m": number I64 [] and not "n": number I64 []' in refused.stderr and refused.stderr.count("\n") == 1


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
    kinds = json.loads(found["__penstock__"])
    assert kinds["class_names"] == ["cat", "dog"] and kinds["fields"]["kind"]["of"] == "box"
    assert found["000000002.cls"] == b"0" and found["000000002.text.txt"].decode() == "é 2"
    assert found["000000004.jpg"] == (tmp_path / "in/train/cat/4.jpg").read_bytes()
    assert np.array_equal(np.load(io.BytesIO(found["000000004.box.npy"])), np.array([[0, 0, 4, 1]] * 4, np.float32))
    write_tar(tmp_path / "one/train.tar", sorted((name, data) for name, data in found.items() if not name.startswith("000000003")))
    pack("webdataset", tmp_path / "one", tmp_path / "again", shards=2)
    assert manifest_of(tmp_path / "again/train")["class_names"] == ["cat", "dog"]
    assert fields_of(tmp_path / "again/train") == fields_of(packed / "train")
    again = {number: sample for number, sample in zip((0, 1, 2, 4, 5), samples_of(tmp_path / "again/train").values(), strict=True)}
    before = samples_of(packed / "train")
    del before[3]
    alike(before, {key: again[key] for key in before}, {name: name for name in ("label", "n", "x", "text", "box", "kind", "mask")})


def test_fields_that_differ_in_capitals_alone_do_not_go_into_tars(tmp_path):
    save(tmp_path / "in/1.png")
    write_lines(tmp_path / "in/train.jsonl", [{"path": "1.png", "label": "x", "A": 1, "a": 2, "b": "text"}])
    pack("jsonl", tmp_path / "in", tmp_path / "out", shards=1)
    refused = run("export", tmp_path / "out", "--to", "webdataset", "--out", tmp_path / "tars", code=2).stderr
    assert 'export: fields "A" and "a" would both be "a" for readers of tars' in refused and refused.count("\n") == 1
    assert not (tmp_path / "tars").exists()
    run("export", tmp_path / "out", "--to", "image-folder", "--out", tmp_path / "folder")
    line = json.loads((tmp_path / "folder/train/metadata.jsonl").read_text())
    assert (line["A"], line["a"]) == (1, 2)


def test_export_writes_into_a_new_folder_alone(tmp_path, packed):
    refused = run("export", packed, "--to", "webdataset", "--out", tmp_path / "in", code=2).stderr
    assert re.search(r'/in has ".*" in it; expected a new or empty folder', refused)
    assert 'unknown' in run("export", packed, "--to", "parquet", "--out", tmp_path / "x", code=2).stderr


@pytest.mark.parametrize("command", [("unpack",), ("export", "--to", "image-folder"), ("export", "--to", "webdataset")])
def test_what_fails_leaves_nothing_that_blocks_the_next_try(tmp_path, packed, command):
    left = tmp_path / "files/.shardprep.partial/train"  # of a process that was killed
    left.mkdir(parents=True)
    (left / "classes.txt").touch()
    run(*command, packed, "--out", tmp_path / "files", code=3, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99)))
    assert os.listdir(tmp_path / "files") == []
    run(*command, packed, "--out", tmp_path / "new", code=3, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99)))
    assert not (tmp_path / "new").exists()
    left.mkdir(parents=True)
    (left / "classes.txt").touch()
    run(*command, packed, "--out", tmp_path / "files")
    assert not (tmp_path / "files/.shardprep.partial").exists() and not (tmp_path / "files/train/classes.txt").exists()


def test_a_file_that_a_list_names_twice_is_written_twice(tmp_path):
    save(tmp_path / "in/a/1.png")
    (tmp_path / "in/list.csv").write_text("path,n\na/1.png,1\na/1.png,2\n")
    pack("csv(file=list.csv)", tmp_path / "in", tmp_path / "out")
    run("export", tmp_path / "out", "--to", "image-folder", "--out", tmp_path / "folder")
    lines = [json.loads(line) for line in (tmp_path / "folder/train/metadata.jsonl").read_text().splitlines()]
    assert [line["file_name"] for line in lines] == ["a/1-0.png", "a/1-1.png"] and [line["n"] for line in lines] == [1, 2]
    run("unpack", tmp_path / "out", "--out", tmp_path / "files")
    assert sorted(path.name for path in (tmp_path / "files").rglob("*.png")) == ["1-0.png", "1-1.png"]


def test_a_field_with_the_name_of_a_key_is_not_exported_over_it(tmp_path):
    save(tmp_path / "in/1.png")
    (tmp_path / "in/list.csv").write_text("path,class,label\n1.png,x,3\n")
    pack("csv(file=list.csv,label=class)", tmp_path / "in", tmp_path / "out")
    done = run("export", tmp_path / "out", "--to", "image-folder", "--out", tmp_path / "folder", code=2)
    assert 'export: field "label" would be "label" in metadata.jsonl, which is there already; expected another name' in done.stderr
    assert not (tmp_path / "folder").exists()
    run("export", tmp_path / "out", "--to", "webdataset", "--out", tmp_path / "tars")


@pytest.mark.parametrize("command", [["unpack"], ["export", "--to", "webdataset"]])
def test_what_is_written_is_local(tmp_path, packed, command):
    done = run(command[0], packed, *command[1:], "--out", "s3://bucket/x", code=2, cwd=tmp_path)
    assert "--out: s3://bucket/x is an address; expected a local folder or file" in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "s3:").exists()


def test_names_that_no_file_can_have_are_replaced(tmp_path):
    rows, long = [], "x" * 251 + ".bmp"  # becomes a PNG, which is 259 bytes of name
    for number, (path, label) in enumerate(((f"c/{long}", "c"), ("d/1.png", "metadata.jsonl"), ("d/2.png", "\u00e9" * 150), ("d/3.png", "x" * 300))):
        save(tmp_path / "in" / path)
        rows.append([path, label, number])
    label, deep = "a" * 200, "/".join(["a" * 200] * 15)
    save(tmp_path / "in" / deep / "1.png")
    write_csv(tmp_path / "in/train.csv", [["path", "label", "n"], *rows, [f"{deep}/1.png", label, 4]])
    pack("csv", tmp_path / "in", tmp_path / "out")
    out = tmp_path / ("y" * 200) / ("y" * 200) / ("y" * 200) / ("y" * 200) / ("y" * 200)
    run("export", tmp_path / "out", "--to", "image-folder", "--out", out)
    lines = {line["n"]: line for line in map(json.loads, (out / "train/metadata.jsonl").read_text().splitlines())}
    assert lines[0]["file_name"] == "c/0.png" and lines[1]["file_name"] == "_metadata.jsonl/1.png"
    assert lines[2]["file_name"].startswith("\u00e9" * 100 + "_") and lines[3]["file_name"].startswith("x" * 200 + "_")
    assert lines[4]["file_name"] == f"{label}/4.png" and lines[1]["label"] == "metadata.jsonl"
    assert all((out / "train" / line["file_name"]).is_file() for line in lines.values())
    run("unpack", tmp_path / "out", "--out", tmp_path / "files")
    assert (tmp_path / "files/c/0.png").is_file() and (tmp_path / "files" / deep / "1.png").is_file()


def test_a_number_that_is_none_is_null_in_json(tmp_path):
    save(tmp_path / "in/1.png")
    write_tar(tmp_path / "in/train.tar", [("1.png", (tmp_path / "in/1.png").read_bytes()), ("1.x.npy", npy_bytes(np.array([np.nan, 2], np.float32)))])
    pack("webdataset", tmp_path / "in", tmp_path / "out")
    run("export", tmp_path / "out", "--to", "image-folder", "--out", tmp_path / "folder")
    assert json.loads((tmp_path / "folder/train/metadata.jsonl").read_text())["x"] == [None, 2]
    write_tar(tmp_path / "in/train.tar", [("1.png", (tmp_path / "in/1.png").read_bytes()), ("1.x.npy", npy_bytes(np.array([np.inf], np.float32)))])
    pack("webdataset", tmp_path / "in", tmp_path / "inf")
    refused = run("export", tmp_path / "inf", "--to", "image-folder", "--out", tmp_path / "no", code=2).stderr
    assert 'export: id 0 (1.png): field "x": is inf, which JSON cannot hold' in refused and refused.count("\n") == 1
