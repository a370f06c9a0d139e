"""The pictures of foreign packages, found by their first bytes, as a folder that shardprep packs."""
import hashlib
import os
import shutil

FIRST_BYTES = {".jpg": b"\xff\xd8\xff", ".png": b"\x89PNG\r\n\x1a\n"}


def kind_of(path):
    """.jpg or .png, or None for a file that is neither."""
    with open(path, "rb") as file:
        first = file.read(8)
    return next((kind for kind, expected in FIRST_BYTES.items() if first.startswith(expected)), None)


def add_picture(path, to):
    """A second name for the file, or a copy where a file system has no links."""
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(path, to)
    except OSError:
        shutil.copyfile(path, to)


def gather(packages, out):
    """Gives each picture in the folders `packages` a name in out/<package>/; of files with equal bytes only the first.
    Returns how many there are."""
    shutil.rmtree(out, ignore_errors=True)
    seen = set()
    for package in sorted(packages):
        for path in sorted(package.rglob("*")):
            kind = kind_of(path) if path.is_file() and not path.is_symlink() else None
            if kind is None or (digest := hashlib.sha256(path.read_bytes()).digest()) in seen:
                continue
            seen.add(digest)
            name = f"{len(seen):04}-{path.name}"
            add_picture(path, out / package.name / (name if name.endswith(kind) else name + kind))
    return len(seen)
