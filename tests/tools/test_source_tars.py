"""shardprep pack from WebDataset's tars, which tarfile has written."""
import json
import tarfile

import numpy as np
import pytest
from PIL import Image

from source_tool import fields_of, npy_bytes, pack, png_bytes, samples_of, write_tar


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
