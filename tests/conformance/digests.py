"""One digest, however pictures are stored and decoded, and with any number of workers; where not, of which picture."""
import re
import shutil
import tempfile
from pathlib import Path

import corpus
import tools

JPEG_ENCODES, WAYS = ("auto", "coef", "keep"), ("auto", "index", "region", "full")
VARIANTS = [("raw", "auto")] + [(encode, way) for encode in JPEG_ENCODES for way in WAYS]
# Whole pictures of up to 512 pixels a side, and the middle of larger ones, to the level; and random regions, made smaller.
WHOLE = ("--augment", "center-crop(size=512),normalize(mean=0.5,std=0.5)", "--layout", "u8", "--dct-scale", "off")
REGIONS = ("--augment", "random-resized-crop(size=96),flip,normalize(mean=0.5,std=0.5)", "--dct-scale", "off")
# Decoding at 1/2, 1/4 or 1/8 changes pixels, equally for all JPEGs; raw pictures are always whole.
REDUCED = ("--augment", "random-resized-crop(size=24),flip,normalize(mean=0.5,std=0.5)")
LOADS = {"whole pictures": (WHOLE, VARIANTS), "random regions": (REGIONS, VARIANTS), "reduced regions": (REDUCED, VARIANTS[1:])}


def digest(data, way, arguments):
    """The digest of all pictures, with 0 and with 2 workers, which loadbench compares; or what it says instead."""
    done = tools.run(tools.BIN / "loadbench", "--data", data, "--digest", "--workers", "0,2", "--epochs", 1, "--batch-size", 4,
                     "--prefetch", 1, "--decode", way, *arguments, code=None)
    found = re.fullmatch(rb"epoch 0 digest ([0-9a-f]{32})\n", done.stdout)
    return found[1].decode() if found and done.returncode == 0 else done.stderr.decode(errors="replace").strip()


def digests(folder, arguments, variants):
    return {f"{encode}, --decode {way}": digest(folder / encode, way, arguments) for encode, way in variants}


def pack_again(paths, folder, encodes):
    for path in paths:
        corpus.add_picture(path, folder / "in/c" / path.name)
    for encode in encodes:
        tools.pack(folder / "in", folder / encode, "--encode", encode, "--shards", 4)


def differing(paths, arguments, variants):
    """The pictures whose digests differ, found by halves: path -> digests by variant."""
    with tempfile.TemporaryDirectory(dir=paths[0].parents[2]) as folder:
        pack_again(paths, Path(folder), {encode for encode, _ in variants})
        found = digests(Path(folder), arguments, variants)
    if len(set(found.values())) == 1:
        return {}
    if len(paths) == 1:
        return {paths[0]: found}
    middle = len(paths) // 2
    return differing(paths[:middle], arguments, variants) | differing(paths[middle:], arguments, variants)


def apart(of_path):
    """How many digests a picture has, and which variants have the rarest one."""
    groups = {}
    for variant, value in of_path.items():
        groups.setdefault(value, []).append(variant)
    return f"{len(groups)} digests; apart stand {'; '.join(min(groups.values(), key=len))}"


def check(report, name, paths, root):
    """Packs the pictures once per encoding into `root`, and compares the digests of all variants."""
    shutil.rmtree(root, ignore_errors=True)
    pack_again(paths, root, ("raw", *JPEG_ENCODES))
    for load, (arguments, variants) in LOADS.items():
        found = digests(root, arguments, variants)
        problems = []
        if len(set(found.values())) > 1:
            culprits = differing(paths, arguments, variants)
            problems = [f"{path.parent.name}/{path.name}: {apart(of_path)}" for path, of_path in culprits.items()]
            problems = problems or [f"no picture alone differs; all together: {apart(found)}"]
        report.check(f"{name}: one digest, {load}", f"{len(paths)} pictures, {len(found)} ways, each with 0 and 2 workers", problems)
