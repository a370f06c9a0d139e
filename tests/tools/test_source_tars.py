"""shardprep pack from WebDataset's tars, which tarfile has written."""
import bz2
import gzip
import json
import lzma
import os
import subprocess
import tarfile

import numpy as np
import pytest
from PIL import Image

from shardprep_tool import run
from source_tool import fields_of, npy_bytes, pack, picture, png_bytes, samples_of, write_tar


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
    ([PICTURE, ("a.npy", npy_bytes(np.zeros((2, 3)))), ("b.png", PICTURE[1]), ("b.npy", npy_bytes(np.zeros((2, 4))))], ".npy is F64 [2, 4]; expected F64 [2, 3], as in the samples before"),
    ([("a.txt", b"x")], "a: no picture (.jpg, .png, .webp, ...) among .txt; expected one in every sample, or picture=ENDING"),
    ([("0.left.jpg", b"x"), ("0.right.jpg", b"x")], "among .left.jpg, .right.jpg; expected"),
    ([("22.05.jpg", b"x"), ("22.05.cls", b"0")], "22: no picture (.jpg, .png, .webp, ...) among .05.cls, .05.jpg; expected"),
    ([PICTURE, ("a.cls", b"1.0")], '.cls is "1.0"; expected a whole number, 0 or more, or a name'),
    ([PICTURE, ("a.cls", b"-1")], '.cls is "-1"; expected a whole number, 0 or more, or a name'),
    ([PICTURE, ("a.cls", b"1"), ("b.png", PICTURE[1]), ("b.cls", b"cat")], 'b: .cls is "cat"; expected a whole number, 0 or more'),
    ([PICTURE, ("a.cls", b"cat"), ("b.png", PICTURE[1]), ("b.cls", b"1")], 'b: .cls is "1"; expected a name, as the samples before have'),
    ([PICTURE, ("a.cls", b"1"), ("b.cls", b"2")], "b: no picture (.png); expected one in every sample, or shardprep pack --on-corrupt skip"),
])
def test_bad_tars_are_refused_in_one_line(tmp_path, members, message):
    write_tar(tmp_path / "in/x.tar", members)
    done = pack("webdataset", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out/train").exists()


def labels_of(folder):
    return [sample["label"] for sample in samples_of(folder / "train").values()]


@pytest.mark.parametrize("classes", [[b" 1", b"0"], [b"\xef\xbb\xbf1\n", b"0"], [b"001", b"000"], [b"+1", b"0\r\n"]])
def test_classes_are_the_numbers_that_python_reads(tmp_path, classes):
    write_tar(tmp_path / "in/x.tar", [member for i, text in enumerate(classes) for member in ((f"{i}.png", png_bytes()), (f"{i}.cls", text))])
    pack("webdataset", tmp_path / "in", tmp_path / "out")
    assert labels_of(tmp_path / "out") == [1, 0]


def test_pictures_of_several_formats_and_none(tmp_path):
    members = [("0.cls", b"0"), ("1.jpg", png_bytes()), ("1.cls", b"1"), ("2.png", png_bytes()), ("2.cls", b"2"), ("3.jpeg", png_bytes()), ("3.cls", b"3")]
    write_tar(tmp_path / "in/x.tar", members)
    done = pack("webdataset", tmp_path / "in", tmp_path / "out", "--on-corrupt", "skip")
    assert labels_of(tmp_path / "out") == [1, 2, 3]
    assert done.stderr == f"skipped: {tmp_path}/in/x.tar: 0: no picture (.jpg); expected one in every sample\n"


def test_the_picture_may_be_named(tmp_path):
    write_tar(tmp_path / "in/x.tar", [(f"{i}.{side}.png", png_bytes(picture(mode="L"))) for i in range(2) for side in ("left", "right")])
    pack("webdataset(picture=right.png)", tmp_path / "in", tmp_path / "out")
    assert [(entry["name"], entry["kind"]) for entry in fields_of(tmp_path / "out/train")] == [("left", "mask")]


@pytest.mark.parametrize("zeros", [0, 1])
def test_tars_without_an_end_are_taken_with_a_note(tmp_path, zeros):
    whole = write_tar(tmp_path / "in/x.tar", [PICTURE, ("a.cls", b"1")]).read_bytes().rstrip(b"\0")
    (tmp_path / "in/x.tar").write_bytes(whole + bytes(-len(whole) % 512 + 512 * zeros))
    done = pack("webdataset", tmp_path / "in", tmp_path / "out")
    assert labels_of(tmp_path / "out") == [1]
    assert done.stderr == f'note: {tmp_path}/in/x.tar: ends after "a.cls" without the two blocks of zeros that end a tar, and may have been cut there\n'


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


def zstd(data):
    return subprocess.run(["zstd", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def in_two(compress):
    """Two streams one after the other, which count as one."""
    return lambda data: compress(data[:700]) + compress(data[700:])


COMPRESSED = [(".tar.gz", gzip.compress), (".tgz", in_two(gzip.compress)), (".tar.zst", zstd), (".tar.zst", in_two(zstd)),
              (".tar.gz", lambda data: gzip.compress(data) + bytes(1000))]


@pytest.mark.parametrize("ending, compress", COMPRESSED, ids=["gzip", "two gzips", "zstd", "two zstds", "gzip and zeros"])
def test_compressed_tars(tmp_path, ending, compress):
    for number in range(2):
        tar = write_tar(tmp_path / f"plain/train-{number}.tar", [member for i in range(3) for member in wds_members(3 * number + i)])
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / f"in/train-{number}{ending}").write_bytes(compress(tar.read_bytes()))
    pack("webdataset", tmp_path / "plain", tmp_path / "wanted", shards=2)
    pack("webdataset", tmp_path / "in", tmp_path / "out", shards=2)
    assert shards_of_files(tmp_path / "out") == shards_of_files(tmp_path / "wanted")


def shards_of_files(folder):
    return [path.read_bytes() for path in sorted((folder / "train").glob("*.safetensors"))]


WHOLE = 2000 * b"a tar" + bytes(5000)


@pytest.mark.parametrize("data, message", [
    (gzip.compress(WHOLE)[:-9], "gzip: the file is cut short"),
    (gzip.compress(WHOLE)[:-8] + bytes(8), "gzip: incorrect data check"),
    (gzip.compress(WHOLE) + b"xyz", "gzip: incorrect header check"),
    (gzip.compress(WHOLE) + bytes(9) + b"x", "gzip: something follows the end; expected nothing but zeros"),
    (zstd(WHOLE)[:-9], "zstd: the file is cut short"),
    (zstd(WHOLE) + b"x", "zstd: "),
    (zstd(WHOLE)[:-1] + b"x", "zstd: Restored data doesn't match checksum"),
    (gzip.compress(bytes(3 << 20)), "gzip: unpacks to more than"),
    (zstd(bytes(1 << 28)), "zstd: unpacks to more than"),
    (bz2.compress(WHOLE), "is compressed by bzip2; expected a plain file, or one of gzip or zstd"),
    (lzma.compress(WHOLE), "is compressed by xz"),
    (gzip.compress(b""), "the archive is cut short"),
    (gzip.compress(WHOLE), "expected octal digits"),
], ids=lambda value: value if isinstance(value, str) else "data")
def test_broken_compressed_tars_are_refused_in_one_line(tmp_path, data, message):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/train.tar.gz").write_bytes(data)
    done = pack("webdataset", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.startswith(f"shardprep: {tmp_path}/in/train.tar.gz: "), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "out/train").exists()


def test_a_tmpdir_that_is_not_there_is_named(tmp_path):
    tar = write_tar(tmp_path / "train.tar", [("a.png", png_bytes()), ("a.cls", b"0")])
    (tmp_path / "in").mkdir()
    (tmp_path / "in/train.tar.gz").write_bytes(gzip.compress(tar.read_bytes()))
    words = ("pack", "--source", "webdataset", "--input", tmp_path / "in", "--out", tmp_path / "out")
    done = run(*words, code=3, env=os.environ | {"TMPDIR": "/nonexistent/x"})
    assert done.stderr == ('shardprep: TMPDIR: is "/nonexistent/x", which is no folder; expected one for the unpacked '
                           'train.tar.gz\n'), done.stderr


def test_names_in_braces(tmp_path):
    for name in ("a-00", "a-01", "b-00", "b-01"):
        write_tar(tmp_path / f"in/{name}.tar", [(f"{name}.png", png_bytes()), (f"{name}.txt", name.encode())])

    def names(folder):
        return [sample["txt"] for sample in samples_of(folder / "train").values()]

    pack("webdataset(shards={b,a}-{00..01}.tar,label=none)", tmp_path / "in", tmp_path / "one")
    assert names(tmp_path / "one") == ["b-00", "b-01", "a-00", "a-01"]
    pack("webdataset", tmp_path / "in/{a,b}-01.tar", tmp_path / "two")
    assert names(tmp_path / "two") == ["a-01", "b-01"]
    assert "c-01.tar: is not there" in pack("webdataset", tmp_path / "in/{a,c}-01.tar", tmp_path / "no", code=3).stderr
    (tmp_path / "in/link-01.tar").symlink_to(tmp_path / "in/a-01.tar")
    for names in ("a,a", "a,link"):
        twice = pack(f"webdataset(shards={{{names}}}-01.tar)", tmp_path / "in", tmp_path / "no", code=2).stderr
        assert f"/in/{names[2:]}-01.tar is given twice, first as {tmp_path}/in/a-01.tar; expected each once" in twice and twice.count("\n") == 1
    assert 'the pattern has "{1}"' in pack("webdataset(shards={1})", tmp_path / "in", tmp_path / "no", code=2).stderr


@pytest.mark.parametrize("kinds, message", [
    ("{", "__penstock__: "),
    ("[1]", "__penstock__: is "),
    ('{"class_names": [], "fields": {"txt": {"kind": "mask", "dtype": "F32", "shape": [null], "most": 0}}}', '"txt"'),
    ('{"class_names": [], "fields": {"TXT": {"kind": "number", "dtype": "F32", "shape": [2]}}}',
     'field "TXT" is number of F32 in __penstock__, and its files are text of U8; expected the same numbers in the same shape'),
    ('{"class_names": ["x"], "fields": {}}', 'class "2"; expected 0 to 0, for which __penstock__ has names'),
])
def test_kinds_that_do_not_fit_are_refused(tmp_path, kinds, message):
    write_tar(tmp_path / "in/x.tar", [("__penstock__", kinds.encode()), *wds_members(2)])
    done = pack("webdataset", tmp_path / "in", tmp_path / "out", code=4)
    assert message in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_kinds_say_nothing_about_samples_without_a_class(tmp_path):
    write_tar(tmp_path / "in/x.tar", [("__penstock__", b'{"class_names": ["a", "b"], "fields": {}}'), PICTURE])
    pack("webdataset", tmp_path / "in", tmp_path / "out")
    assert samples_of(tmp_path / "out/train")[0]["label"] == -1


def test_tars_of_a_split_begin_with_its_name_and_no_letter_after_it(tmp_path):
    for name in ("train-0", "trainval-0", "val-0"):
        write_tar(tmp_path / f"in/{name}.tar", [(f"{name}.png", png_bytes()), (f"{name}.cls", b"0")])
    pack("webdataset", tmp_path / "in", tmp_path / "out", split="train,test")
    assert len(samples_of(tmp_path / "out/train")) == len(samples_of(tmp_path / "out/test")) == 1
    write_tar(tmp_path / "in/test-0.tar", [("a.png", png_bytes()), ("a.cls", b"0")])
    done = pack("webdataset", tmp_path / "in", tmp_path / "two", split="test", code=2)
    assert "has both test-0.tar and val-0.tar; expected one of them for split test" in done.stderr and done.stderr.count("\n") == 1


def test_a_png_with_no_other_ending_is_bytes(tmp_path):
    write_tar(tmp_path / "in/train-0.tar", [("0.jpg", png_bytes()), ("0.png", png_bytes()), ("0.cls", b"0")])
    pack("webdataset", tmp_path / "in", tmp_path / "out")
    assert [entry["kind"] for entry in fields_of(tmp_path / "out/train")] == ["bytes"]
