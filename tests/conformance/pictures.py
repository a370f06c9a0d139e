"""What is checked of a folder of pictures: refusals, pixels, orientation, bytes back, coefficients and digests."""
import collections
import concurrent.futures
import itertools
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
DIGEST_PIXELS = 1 << 21  # each picture is decoded 76 times; larger ones than 1920 x 1080 are left to the other checks


def pack_all(inputs, root):
    """Packs the folder in every way, into root/<encode>; broken pictures are left out."""
    shutil.rmtree(root, ignore_errors=True)
    for encode in ENCODES:
        tools.pack(inputs, root / encode, "--encode", encode, "--on-corrupt", "skip", "--shards", 16)
    tools.pack(inputs, root / AS_THEY_ARE, "--encode", "keep", "--transcode", "off", "--on-corrupt", "skip", "--shards", 16)


def extents_in(root, encode, paths):
    """path -> height, width and channels, of all samples."""
    return {sample.path: sample.extent for sample in stored.samples(root / encode / "train", paths)}


def pillow_or_error(path):
    try:
        return *reference.by_pillow(path), ""
    except Exception as error:  # Pillow throws whatever it likes
        return None, 1, f"{type(error).__name__}: {error}".splitlines()[0][:100]


def judge_refusal(path, programs):
    """(what pack says of one file, why that is right); the second is "" if the file should have been packed."""
    message = tools.refusal(path)
    if why := refusals.left_out(message, path.read_bytes()):
        return message, why
    warnings = reference.by_djpeg(programs, path)[1] if reference.is_jpeg(path) else ""
    return message, refusals.shared(pillow_or_error(path)[2], warnings)


def check_refusals(report, name, inputs, refused, programs, listing):
    """Writes each refused picture with the reason into the file `listing`; one that should be packed is a problem."""
    problems, kinds, lines = [], collections.Counter(), []
    for path in sorted(refused):
        message, why = judge_refusal(inputs / path, programs)
        problems += [] if why else [f"{path}: {message}"]
        kinds[why.split(": ")[0]] += bool(why)
        lines.append(f"{path}: {message}; {why or 'NOT EXPECTED'}\n")
    listing.write_text("".join(lines))
    report.check(f"{name}: refusals", f"{len(refused)} pictures are refused, see {listing}", problems)
    for kind, count in sorted((+kinds).items()):
        report.note(f"{count:3} rightly: {kind}")


def judge_pixels(ours, path, orientation, references):
    """(problem of pixels, problem of orientation) of one picture; "" for none. `references` has pixels by name of the
    decoder, not turned."""
    for name, levels in references.items():
        found = reference.difference(ours, reference.turned(levels, orientation))
        if found and orientation != 1 and not reference.difference(ours, levels):
            return "", f"{path}: is not turned; Pillow finds orientation {orientation}"
        if found:
            return f"{path}: {found}; {name}", ""
    return ("", "") if references else (f"{path}: is packed, and no reference has its pixels", "")


def compare_sample(sample, inputs, programs):
    """(problem of pixels, of orientation, the references that were asked) of one raw sample."""
    path = inputs / sample.path
    levels, orientation, _ = pillow_or_error(path)
    second = ("djpeg", reference.by_djpeg(programs, path)[0]) if reference.is_jpeg(path) else ("libpng", reference.by_libpng(path))
    references = {name: pixels for name, pixels in (("Pillow", levels), second) if pixels is not None}
    return *judge_pixels(sample.data.reshape(sample.extent), sample.path, orientation, references), references.keys()


def check_pixels(report, name, inputs, root, paths, programs):
    pixels, turns, asked = [], [], collections.Counter()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        shards = stored.shards(root / "raw/train", paths)  # one in memory at a time
        found = (pool.map(lambda sample: compare_sample(sample, inputs, programs), shard) for shard in shards)
        for of_pixels, of_turn, names in itertools.chain.from_iterable(found):
            pixels += filter(None, [of_pixels])
            turns += filter(None, [of_turn])
            asked.update({"pictures": 1} | dict.fromkeys(names, 1))
    against = ", ".join(f"{asked[name]} against {name}" for name in ("Pillow", "djpeg", "libpng") if asked[name])
    report.check(f"{name}: pixels", f"{asked['pictures']} pictures: {against}, to the level", pixels)
    report.check(f"{name}: orientation", f"{asked['pictures']} pictures stand as Pillow turns them", turns)


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
    found = {encode: extents_in(root, encode, paths) for encode in (*ENCODES, AS_THEY_ARE)}
    anywhere, packed = set().union(*found.values()), set(paths).intersection(*found.values())
    apart = [f"{path}: is packed by {', '.join(encode for encode in found if path in found[encode])} alone"
             for path in sorted(anywhere - packed)]
    report.check(f"{name}: packed", f"{len(anywhere)} of {len(paths)} pictures, in each of {len(found)} ways", apart)
    check_refusals(report, name, inputs, paths - anywhere, programs, root.parent / "refused.txt")
    check_pixels(report, name, inputs, root, paths, programs)
    check_bytes(report, name, inputs, root, packed)
    check_coefficients(report, name, inputs, root, paths)
    small = [inputs / path for path in sorted(packed) if math.prod(found["raw"][path][:2]) <= DIGEST_PIXELS]
    digests.check(report, name, small, root / "digests")
