"""What is checked of a folder of pictures: refusals, pixels, orientation, bytes back, coefficients and digests."""
import concurrent.futures
import math
import shutil

import coefficients
import digests
import jpeg
import numpy as np
import reference
import refusals
import stored
import tools

ENCODES = ("raw", "auto", "coef", "keep")
AS_THEY_ARE = "as-they-are"  # packed with --encode keep --transcode off
COEFFICIENT_PIXELS = 1 << 19  # our reader of encoding 3 is slow; larger pictures are left to the digests


def pack_all(inputs, root):
    """Packs the folder in every way, into root/<encode>; broken pictures are left out."""
    shutil.rmtree(root, ignore_errors=True)
    for encode in ENCODES:
        tools.pack(inputs, root / encode, "--encode", encode, "--on-corrupt", "skip", "--shards", 16)
    tools.pack(inputs, root / AS_THEY_ARE, "--encode", "keep", "--transcode", "off", "--on-corrupt", "skip", "--shards", 16)


def names_in(root, encode, paths):
    return {sample.path for sample in stored.samples(root / encode / "train", paths)}


def pillow_or_error(path):
    try:
        return *reference.by_pillow(path), ""
    except Exception as error:  # Pillow throws whatever it likes
        return None, 1, f"{type(error).__name__}: {error}".splitlines()[0][:100]


def check_refusals(report, name, inputs, refused, programs):
    """Each refused picture is listed with the reason of `refusals`."""
    problems, why = [], {}
    for path in sorted(refused):
        message = tools.refusal(inputs / path)
        is_jpeg = (inputs / path).read_bytes()[:2] == b"\xff\xd8"
        warnings = reference.by_djpeg(programs, inputs / path)[1] if is_jpeg else ""
        expected = refusals.reason(message, pillow_or_error(inputs / path)[2], warnings)
        if expected:
            why.setdefault(expected.split(": ")[0], []).append(f"{path}: {expected}")
        else:
            problems.append(f"{path}: {message}")
    report.check(f"{name}: refusals", f"{len(refused)} pictures are refused", problems)
    for kind, paths in sorted(why.items()):
        report.note(f"{len(paths):3} rightly: {kind}")
    return [line for paths in why.values() for line in paths]


def judge_pixels(sample, inputs, programs):
    """(problems of pixels, of orientation, whether djpeg was asked) of one raw sample."""
    path = inputs / sample.path
    ours = sample.data.reshape(sample.extent)
    levels, orientation, error = pillow_or_error(path)
    if error:
        return [f"{sample.path}: is packed, but Pillow says {error}"], [], False
    expected = reference.turned(levels, orientation)
    problems, turns = [], []
    if found := reference.difference(ours, expected):
        if orientation != 1 and not reference.difference(ours, levels):
            return [], [f"{sample.path}: is not turned; Pillow finds orientation {orientation}"], False
        problems.append(f"{sample.path}: {found}; Pillow")
    if path.read_bytes()[:2] != b"\xff\xd8":
        return problems, turns, False
    by_djpeg = reference.by_djpeg(programs, path)[0]
    if by_djpeg is not None and (found := reference.difference(ours, reference.turned(by_djpeg, orientation))):
        problems.append(f"{sample.path}: {found}; djpeg")
    return problems, turns, by_djpeg is not None


def check_pixels(report, name, inputs, root, paths, programs):
    pixels, turns, djpeg_count, count = [], [], 0, 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for of_pixels, of_turns, asked in pool.map(lambda sample: judge_pixels(sample, inputs, programs),
                                                   stored.samples(root / "raw/train", paths)):
            pixels, turns = pixels + of_pixels, turns + of_turns
            djpeg_count, count = djpeg_count + asked, count + 1
    report.check(f"{name}: pixels", f"{count} pictures against Pillow, {djpeg_count} of them against djpeg, to the level", pixels)
    report.check(f"{name}: orientation", f"{count} pictures stand as Pillow turns them", turns)


def check_bytes(report, name, inputs, root, packed):
    """`unpack` gives files back byte for byte; a JPEG that is not plain may come back rewritten, with the same pixels."""
    for encode in (AS_THEY_ARE, "auto", "coef", "keep"):
        back = root / f"back-{encode}"
        tools.run(tools.BIN / "shardprep", "unpack", root / encode, "--out", back, "--quiet")
        problems, rewritten = [], 0
        for path in sorted(packed):
            before = (inputs / path).read_bytes()
            if not (back / path).exists():
                problems.append(f"{path}: does not come back")
            elif (after := (back / path).read_bytes()) != before:
                rewritten += 1
                problems += judge_rewritten(path, before, inputs / path, back / path, encode)
        transcoded = stored.manifest(root / encode / "train")["transcoded_count"]
        if rewritten != transcoded:
            problems.append(f"the manifest says that {transcoded} are rewritten, and {rewritten} are")
        report.check(f"{name}: bytes back, {encode}", f"{len(packed) - rewritten} files come back to the byte, {rewritten} rewritten",
                     problems)
        shutil.rmtree(back)


def judge_rewritten(path, before, was, now, encode):
    if encode == AS_THEY_ARE or before[:2] != b"\xff\xd8" or (encode != "coef" and jpeg.is_plain(before)):
        return [f"{path}: comes back with other bytes"]
    found = reference.difference(reference.by_pillow(now)[0], reference.by_pillow(was)[0])
    return [f"{path}: rewritten, {found}"] if found else []


def check_coefficients(report, name, inputs, root, paths):
    problems, count, large, unread = [], 0, 0, 0
    for sample in stored.samples(root / "coef/train", paths):
        if sample.encoding != stored.COEFFICIENTS:
            continue
        if math.prod(sample.extent[:2]) > COEFFICIENT_PIXELS:
            large += 1
        elif jpeg.is_arithmetic((inputs / sample.path).read_bytes()):
            unread += 1
        else:
            count += 1
            found = coefficients.difference(coefficients.read_sample(sample), coefficients.by_jpeglib(inputs / sample.path))
            problems += [f"{sample.path}: {found}"] if found else []
    left_out = f"left out: {large} large, {unread} with arithmetic coding, which jpeglib does not read"
    report.check(f"{name}: coefficients", f"{count} JPEGs against jpeglib ({left_out})", problems)


def check_folder(report, name, inputs, root, programs):
    """Checks all pictures of inputs/<class>/, and packs them into `root`."""
    paths = {str(path.relative_to(inputs)) for path in inputs.rglob("*") if path.is_file()}
    pack_all(inputs, root)
    packed = names_in(root, "raw", paths)
    apart = [f"{path}: {encode} and raw disagree whether it is whole" for encode in (*ENCODES[1:], AS_THEY_ARE)
             for path in names_in(root, encode, paths) ^ packed]
    report.check(f"{name}: packed", f"{len(packed)} of {len(paths)} pictures, in each of {len(ENCODES) + 1} ways", apart)
    listed = check_refusals(report, name, inputs, paths - packed, programs)
    (root / "refused.txt").write_text("".join(line + "\n" for line in listed))
    check_pixels(report, name, inputs, root, paths, programs)
    check_bytes(report, name, inputs, root, packed)
    check_coefficients(report, name, inputs, root, paths)
    if apart:
        report.note("digests are not compared, since the data sets hold different pictures")
    else:
        digests.check(report, name, inputs, sorted(packed), root)
