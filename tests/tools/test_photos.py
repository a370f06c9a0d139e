"""A folder of photographs, packed, inspected, loaded and unpacked as a user does it; and files that are no photographs."""
import io
import json
import os
import re
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

BIN = Path(os.environ.get("PENSTOCK_BIN", Path(__file__).parents[2] / "build" / "release" / "bin"))
AUGMENT = "random-resized-crop(size=32),flip,normalize"
ENCODES = ("auto", "coef", "keep")


def photograph(seed, height=90, width=120):
    """A smooth picture with some noise, so that its entropy and size are those of a photograph."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [127 + 90 * np.sin(x / rng.uniform(5, 30) + y / rng.uniform(5, 30)) for _ in range(3)]
    return Image.fromarray(np.clip(np.stack(planes, -1) + rng.normal(0, 6, (height, width, 3)), 0, 255).astype(np.uint8))


def saved(image, kind="JPEG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def run(tool, *arguments, code=0):
    done = subprocess.run([BIN / tool, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == code, f"{tool} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def pack(folder, out, *arguments, code=0):
    return run("shardprep", "pack", "--source", "image-folder", "--input", folder, "--out", out, *arguments, code=code)


def digest(data, *arguments):
    done = run("loadbench", "--data", data, "--digest", "--workers", "0,2", "--epochs", 1, "--batch-size", 8, "--augment",
               AUGMENT, *arguments)
    return re.fullmatch(r"epoch 0 digest ([0-9a-f]{32})\n", done.stdout)[1]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Pictures with all samplings, of odd sizes, grey, progressive, with EXIF orientation, CMYK, PNG, and of one pixel."""
    folder = tmp_path_factory.mktemp("photos")
    files = {}
    for i, sampling in enumerate(("4:4:4", "4:2:2", "4:2:0", "4:1:1")):
        files[f"cat/{sampling.replace(':', '')}.jpg"] = saved(photograph(i, 90 + i, 121 - i), subsampling=sampling)
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        files[f"dog/turned{orientation}.jpg"] = saved(photograph(10 + orientation, 61, 93), exif=exif)
    files["dog/grey.jpg"] = saved(photograph(4).convert("L"))
    files["dog/progressive.jpg"] = saved(photograph(5), progressive=True)
    files["dog/optimised.jpg"] = saved(photograph(6), optimize=True, quality=95)
    files["owl/restart.jpg"] = saved(photograph(7), restart_marker_rows=1)
    files["owl/cmyk.jpg"] = saved(photograph(8).convert("CMYK"))
    files["owl/really.png.jpg"] = saved(photograph(9), "PNG")
    files["owl/pixel.jpg"] = saved(photograph(0, 1, 1))
    write(folder, files)
    return folder


@pytest.fixture(scope="module")
def packed(photos, tmp_path_factory):
    folders = {}
    for encode in ENCODES:
        folders[encode] = tmp_path_factory.mktemp("packed") / encode
        pack(photos, folders[encode], "--encode", encode)
    return folders


def test_every_way_to_decode_gives_the_same_digest(packed):
    for arguments in ((), ("--dct-scale", "off")):
        digests = {(encode, way): digest(packed[encode], "--decode", way, *arguments)
                   for encode in ENCODES for way in ("auto", "index", "region", "full")}
        assert len(set(digests.values())) == 1, digests


def coarsened(file, factor):
    """The JPEG with its quantisation steps multiplied: its coefficients leave the range of what an encoder writes."""
    def scaled(table):
        return table[1] + bytes(min(255, step * factor) for step in table[2])

    return re.sub(rb"(\xff\xdb\x00\x43.)(.{64})", scaled, file, flags=re.S)


@pytest.fixture(scope="module")
def wild(tmp_path_factory):
    """Pictures that libjpeg-turbo decodes without a warning, whose samples are far out of range but for two of them."""
    folder = tmp_path_factory.mktemp("wild")
    files = {f"tame/{factor}.jpg": coarsened(saved(photograph(factor), quality=95), factor) for factor in (1, 2)}
    for i, sampling in enumerate(("4:4:4", "4:2:2", "4:2:0")):
        for factor in (24, 255):
            files[f"wild/{i}-{factor}.jpg"] = coarsened(saved(photograph(i), quality=95, subsampling=sampling), factor)
    files["wild/grey.jpg"] = coarsened(saved(photograph(4).convert("L"), quality=95), 255)
    files["wild/progressive.jpg"] = coarsened(saved(photograph(5), quality=95, progressive=True), 255)
    files["wild/restart.jpg"] = coarsened(saved(photograph(6), quality=95, restart_marker_rows=1), 255)
    write(folder, files)
    return folder


def test_a_jpeg_out_of_range_gives_the_same_pixels_by_every_way(wild, tmp_path, monkeypatch):
    for encode in (*ENCODES, "raw"):
        pack(wild, tmp_path / encode, "--encode", encode)
        info = run("shardprep", "info", tmp_path / encode).stdout
        kept = re.search(r"(\d+) JPEG\b(?! coefficients| with seek index)", info)
        assert encode == "raw" or kept[1] == "9", info
    ways = [(encode, way) for encode in ENCODES for way in ("auto", "index", "region", "full")]
    for forced in ("", "1"):  # libjpeg-turbo without its SIMD code gives other pixels, and then every way gives those
        monkeypatch.setenv("JSIMD_FORCENONE", forced)
        digests = {(encode, way): digest(tmp_path / encode, "--decode", way) for encode, way in ways}
        assert len(set(digests.values())) == 1, digests
        digests = {(encode, way): digest(tmp_path / encode, "--decode", way, "--dct-scale", "off") for encode, way in ways}
        if not forced:
            digests["raw"] = digest(tmp_path / "raw")  # packed with the SIMD code
        assert len(set(digests.values())) == 1, digests
    monkeypatch.undo()
    run("shardprep", "unpack", tmp_path / "raw", "--out", tmp_path / "back")
    run("shardprep", "unpack", tmp_path / "auto", "--out", tmp_path / "files")
    for path in (p for p in wild.rglob("*") if p.is_file()):
        name = path.relative_to(wild)
        pixels = np.asarray(Image.open(path).convert("RGB"))
        back = Image.open((tmp_path / "back" / name).with_suffix(".jpg.png")).convert("RGB")
        np.testing.assert_array_equal(np.asarray(back), pixels, str(name))
        if path.name not in ("progressive.jpg", "restart.jpg"):
            assert (tmp_path / "files" / name).read_bytes() == path.read_bytes()


def test_in_range_libjpegs_simd_code_does_not_matter(wild, photos, tmp_path, monkeypatch):
    digests = set()
    pack(photos, tmp_path / "photos")
    pack(wild / "tame", tmp_path / "tame")
    for forced in ("", "1"):
        monkeypatch.setenv("JSIMD_FORCENONE", forced)
        digests.add(tuple(digest(tmp_path / name, "--decode", way) for name in ("photos", "tame") for way in ("auto", "full")))
    assert len(digests) == 1, digests


def test_unpack_gives_the_files_back(photos, packed, tmp_path):
    for encode in ENCODES:
        run("shardprep", "unpack", packed[encode], "--out", tmp_path / encode)
        for path in (p for p in photos.rglob("*") if p.is_file()):
            back = (tmp_path / encode / path.relative_to(photos)).read_bytes()
            is_rewritten = path.name == "progressive.jpg" or (path.name == "restart.jpg" and encode == "keep")
            if not is_rewritten:
                assert back == path.read_bytes(), (encode, path)
                continue
            assert back != path.read_bytes()
            np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(back))), np.asarray(Image.open(path)))
    refused = run("shardprep", "unpack", packed["auto"], "--out", tmp_path / "auto", code=2)
    assert re.search(r'auto has ".*" in it; expected a new or empty folder', refused.stderr)


def test_verify_and_info_know_how_pictures_are_stored(packed):
    for encode in ENCODES:
        run("shardprep", "verify", packed[encode])
    info = run("shardprep", "info", packed["auto"]).stdout
    assert re.search(r"storage +encode=auto, 1 JPEG transcoded ", info)
    assert "7 turned by EXIF" in info
    assert "JPEG coefficients" in info and "1 PNG" in info
    assert "JPEG with seek index" in run("shardprep", "info", packed["keep"]).stdout


def test_pictures_stand_as_exif_says(tmp_path):
    """Every orientation becomes the same upright picture, turned by pack and by the loader alike."""
    upright = photograph(1, 64, 48)
    inverse = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 8, 7: 7, 8: 6}
    for orientation in range(1, 9):
        lying = ImageOps.exif_transpose(_with_orientation(upright, orientation))
        exif = Image.Exif()
        exif[0x0112] = inverse[orientation]
        write(tmp_path / "in", {f"c/{orientation}.jpg": saved(lying, exif=exif, quality=95, subsampling="4:4:4")})
    pack(tmp_path / "in", tmp_path / "raw", "--encode", "raw")
    run("shardprep", "unpack", tmp_path / "raw", "--out", tmp_path / "back")
    for orientation in range(1, 9):
        back = np.asarray(Image.open(tmp_path / "back" / "c" / f"{orientation}.jpg.png"), dtype=int)
        assert np.abs(back - np.asarray(upright, dtype=int)).mean() < 6, orientation  # quality 95 changes this noise by 3, and a wrong turn by 60
    whole = ("--digest", "--workers", "0,2", "--augment", "normalize(mean=0.5,std=0.5)", "--epochs", 1)
    digests = {run("loadbench", "--data", tmp_path / "raw", *whole).stdout}
    for encode in ENCODES:
        pack(tmp_path / "in", tmp_path / encode, "--encode", encode)
        digests.add(run("loadbench", "--data", tmp_path / encode, *whole).stdout)
    assert len(digests) == 1, digests
    pack(tmp_path / "in", tmp_path / "plain", "--encode", "keep", "--no-exif")
    # If they are not turned, four of them lie on their side. They have another size, and one batch cannot hold both.
    refused = run("loadbench", "--data", tmp_path / "plain", *whole, code=2)
    assert "is 48 x 64 after the transforms, and the first sample is 64 x 48; expected all of one size" in refused.stderr


def _with_orientation(image, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    return Image.open(io.BytesIO(saved(image, "PNG", exif=exif)))


def test_reduced_and_raw_forms(photos, tmp_path):
    pack(photos, tmp_path / "small", "--resize", 48, "--raw-share", 0.5)
    info = run("shardprep", "info", tmp_path / "small").stdout
    assert "encode=auto,resize=48,quality=90,raw-share=0.5" in info
    assert re.search(r"\d+ raw", info) and "JPEG coefficients" in info
    assert re.search(r"pictures +1 to \d+ x", info)
    refused = pack(photos, tmp_path / "no", "--resize", 48, "--encode", "keep", code=2)
    assert "with encode keep, which leaves files as they are" in refused.stderr


@pytest.mark.parametrize("flag, expected", (
    ("--resize=0", '--resize: is "0"; expected 1 to 65535 pixels'),
    ("--resize=-1", '--resize: is "-1"; expected a whole number'),
    ("--resize=abc", '--resize: is "abc"; expected a whole number'),
    ("--quality=0", "quality is 0; expected 1 to 100"),
    ("--quality=101", "quality is 101; expected 1 to 100"),
    ("--raw-share=2", "raw-share is 2; expected 0 to 1"),
    ("--encode=foo", '--encode: unknown value "foo"'),
    ("--max-pixels=0", "max-pixels is 0; expected 1 to 268435456"),
    ("--max-pixels=268435457", "max-pixels is 268435457; expected 1 to 268435456")))
def test_an_option_that_cannot_be_meant_is_one_line(flag, expected, photos, tmp_path):
    done = pack(photos, tmp_path / "out", flag, code=2)
    assert expected in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_larger_pictures_than_max_pixels_are_broken_ones(tmp_path):
    write(tmp_path / "in", {"c/a.jpg": saved(photograph(0, 20, 30)), "c/b.jpg": saved(photograph(1, 20, 31))})
    refused = pack(tmp_path / "in", tmp_path / "out", "--max-pixels", 600, code=4)
    assert "b.jpg: picture of 20 x 31 pixels; expected at most 600" in refused.stderr
    pack(tmp_path / "in", tmp_path / "out", "--max-pixels", 600, "--on-corrupt", "skip")
    assert "max-pixels=600" in run("shardprep", "info", tmp_path / "out").stdout


def test_a_name_cannot_write_lines_of_its_own(tmp_path):
    write(tmp_path / "in", {"c/a\n\x1b[2Jb.jpg": b"none"})
    done = pack(tmp_path / "in", tmp_path / "out", code=4)
    assert "c/a ?[2Jb.jpg: 4 bytes" in done.stderr and len(done.stderr.splitlines()) == 1
    (tmp_path / "in" / "c").rename(tmp_path / "in" / "c\x1b[2J")
    write(tmp_path / "in", {"c\x1b[2J/good.jpg": saved(photograph(0))})
    done = pack(tmp_path / "in", tmp_path / "out", "--on-corrupt", "skip")
    assert done.stderr.startswith("skipped: ") and len(done.stderr.splitlines()) == 1
    assert "\x1b" not in done.stderr + done.stdout
    assert "\x1b" not in run("shardprep", "info", tmp_path / "out").stdout


def test_loadbench_says_what_limits_it_and_what_to_do_next(packed):
    for encode in ("keep", "coef"):
        out = run("loadbench", "--data", packed[encode], "--workers", "0,1", "--augment", AUGMENT, "--epochs", 1).stdout
        assert re.search(r"^limit: [\d,]+ images/s with \d workers? on \d+ cores?; \w+ takes \d+ % of a sample's time", out, re.M)
        assert re.search(r"^next: \S", out, re.M)


def test_advice_looks_at_the_shards_that_the_rank_opened(packed):
    """On one core the fastest run has enough workers, so that the advice is about how the pictures are stored."""
    done = subprocess.run(
        [BIN / "loadbench", "--data", packed["keep"], "--workers", "1", "--shuffle", "rank-local", "--world-size", "2", "--rank", "1",
         "--decode", "full", "--dct-scale", "off", "--augment", "resize(size=8),center-crop(size=8)", "--epochs", "1"],
        capture_output=True, text=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}))
    assert done.returncode == 0, done.stderr
    assert "next: set --decode to auto: the data have a seek index" in done.stdout, done.stdout


def broken(kind):
    whole = saved(photograph(1))
    scan = whole.index(b"\xff\xda")
    return {
        "truncated": whole[: len(whole) // 2],
        "flipped": whole[: scan + 200] + bytes([whole[scan + 200] ^ 0x7F, 0xFF, 0xC7]) + whole[scan + 203:],
        "zero length": b"",
        "no picture": b"GIF89a" + bytes(100),
        "huge": whole[:158] + re.sub(rb"(\xff\xc0\x00\x11\x08)....", rb"\g<1>SIZE", whole[158:], flags=re.S)[:60]
        .replace(b"SIZE", b"\xff" * 4),
        "cmyk cut": saved(photograph(2).convert("CMYK"))[:3000],
    }[kind]


@pytest.mark.parametrize("kind", ("truncated", "flipped", "zero length", "no picture", "huge", "cmyk cut"))
@pytest.mark.parametrize("encode", ENCODES)
def test_a_broken_picture_is_one_line_and_can_be_skipped(kind, encode, tmp_path):
    write(tmp_path / "in", {"c/a.jpg": saved(photograph(0)), "c/b.jpg": broken(kind)})
    done = pack(tmp_path / "in", tmp_path / "out", "--encode", encode, code=4)
    assert len(done.stderr.splitlines()) == 1 and "b.jpg" in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()
    done = pack(tmp_path / "in", tmp_path / "out", "--encode", encode, "--on-corrupt", "skip")
    assert re.fullmatch(r"skipped: .*/c/b\.jpg: .+; expected .+\n", done.stderr), done.stderr
    assert "1 broken picture left out" in run("shardprep", "info", tmp_path / "out").stdout


def test_of_many_broken_pictures_twenty_are_named_and_all_are_listed(tmp_path):
    write(tmp_path / "in", {"c/good.jpg": saved(photograph(0)), **{f"c/{i}.jpg": b"\xff\xd8broken" for i in range(25)}})
    done = pack(tmp_path / "in", tmp_path / "out", "--on-corrupt", "skip", "--quiet")
    lines = done.stderr.splitlines()
    listed = tmp_path / "out/train/skipped.jsonl"
    assert len(lines) == 21 and lines[-1] == f"skipped: ... and 5 more; all are in {listed}", lines
    skipped = [json.loads(line) for line in listed.read_text().splitlines()]
    assert [entry["path"] for entry in skipped] == sorted(f"c/{i}.jpg" for i in range(25))
    assert all("; expected " in entry["reason"] and ".jpg" not in entry["reason"] for entry in skipped)
    done = pack(tmp_path / "in", tmp_path / "out", "--on-corrupt", "skip", "--force")
    assert f", 25 broken pictures skipped, see {listed}\n" in done.stdout
    run("shardprep", "verify", tmp_path / "out")
    assert len({re.search(r"/c/(\d+)\.jpg: ", line)[1] for line in lines[:-1]}) == 20
    (tmp_path / "in/c/good.jpg").unlink()
    lines = pack(tmp_path / "in", tmp_path / "none", "--on-corrupt", "skip", code=4).stderr.splitlines()
    assert len(lines) == 1 and "all 25 pictures are broken" in lines[0], lines
    assert "; before it 25 broken pictures were skipped, first " in lines[0] and "/in/c/" in lines[0].split("first ")[1], lines


def test_one_class_is_said(tmp_path):
    write(tmp_path / "in", {"a.jpg": saved(photograph(0)), "b.jpg": saved(photograph(1))})
    assert "all samples are of one class, in; for labels" in pack(tmp_path / "in", tmp_path / "out").stdout


def test_unpack_leaves_out_what_is_damaged_and_says_so(tmp_path):
    write(tmp_path / "in", {f"c/{i}.jpg": saved(photograph(i)) for i in range(4)})
    pack(tmp_path / "in", tmp_path / "out", "--shards", 2)
    shard = sorted((tmp_path / "out" / "train").glob("*.safetensors"))[0]  # holds ids 0 and 2
    content = bytearray(shard.read_bytes())
    content[4096 + 100] ^= 1  # the first sample begins after the header's 4,096 bytes
    shard.write_bytes(content)
    done = run("shardprep", "unpack", tmp_path / "out", "--out", tmp_path / "back", code=4)
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and "id 0" in lines[0] and "crc32c" in lines[0], lines
    assert lines[1] == "shardprep: unpack: 1 problem; expected none"
    assert sorted(path.name for path in (tmp_path / "back" / "c").iterdir()) == ["1.jpg", "2.jpg", "3.jpg"]


def test_an_index_that_lies_is_one_line_or_changes_nothing(tmp_path):
    write(tmp_path / "in", {f"c/{i}.jpg": saved(photograph(i)) for i in range(4)})
    pack(tmp_path / "in", tmp_path / "out", "--encode", "keep", "--shards", 1)
    shard = next((tmp_path / "out" / "train").glob("*.safetensors"))
    whole = shard.read_bytes()
    length = struct.unpack("<Q", whole[:8])[0]
    header = json.loads(whole[8:8 + length])
    begin, end = header["index"]["data_offsets"]
    for at in range(begin, end, 37):
        damaged = bytearray(whole)
        damaged[8 + length + at] ^= 0x55
        shard.write_bytes(damaged)
        done = run("loadbench", "--data", tmp_path / "out", "--workers", 0, "--augment", AUGMENT, "--epochs", 1, code=4)
        assert "crc32c is" in done.stderr and len(done.stderr.splitlines()) == 1
