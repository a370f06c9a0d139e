"""Pixels by Pillow, by djpeg and by libpng (in torchvision): H x W x C, u8, C 1 (grey) or 3 (RGB), not turned by EXIF."""
import io

import jpeg
import numpy as np
from PIL import Image

Image.MAX_IMAGE_PIXELS = 1 << 28  # what pack takes; Pillow warns above it, and refuses twice as much
GREY = ("1", "L", "LA")
TURNS = {2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
         5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
         8: Image.Transpose.ROTATE_90}


def with_channels(levels):
    return levels[:, :, None] if levels.ndim == 2 else levels


def is_jpeg(path):
    with open(path, "rb") as file:
        return file.read(2) == b"\xff\xd8"


def is_grey_png(path):
    with open(path, "rb") as file:
        return file.read(26)[25] in (0, 4)  # the colour types of IHDR: grey, and grey with alpha


def levels_of(image):
    """A Pillow picture as FORMAT.md says that pictures decode: Pillow itself clips 16-bit grey, which we do not."""
    if image.mode.startswith("I"):
        return with_channels((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
    return with_channels(np.asarray(image.convert("L" if image.mode in GREY else "RGB")))


def by_pillow(path):
    """The pixels, and the orientation that Pillow finds in EXIF or XMP, 1 to 8. Throws what Pillow throws."""
    with Image.open(path) as image:
        orientation = image.getexif().get(0x0112, 1)  # where EXIF has none, Pillow takes that of XMP
        levels = levels_of(image)
    if not is_jpeg(path) and is_grey_png(path):
        levels = levels[:, :, :1]  # Pillow makes 16 bits of grey with alpha RGBA
    return levels, orientation if orientation in TURNS else 1


def turned(levels, orientation):
    if orientation == 1:
        return levels
    image = Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels)
    return with_channels(np.asarray(image.transpose(TURNS[orientation])))


def by_djpeg(tools, path):
    """The pixels of djpeg, by the accurate integer DCT and fancy upsampling, and its warnings. Pixels are None where it
    gives up, and where a JPEG has four components, which djpeg converts to RGB in a way of its own."""
    done = tools.run("djpeg", "-dct", "int", "-pnm", path, code=None)
    warnings = done.stderr.decode(errors="replace").strip()
    if done.returncode not in (0, 2) or not done.stdout:
        return None, warnings or f"exit code {done.returncode}"
    if jpeg.component_count(path.read_bytes()) == 4:
        return None, warnings
    with Image.open(io.BytesIO(done.stdout)) as image:
        return with_channels(np.asarray(image)), warnings


def by_libpng(path):
    """None where libpng gives up."""
    from torchvision.io import ImageReadMode, decode_png, read_file
    try:
        levels = decode_png(read_file(str(path)), ImageReadMode.GRAY if is_grey_png(path) else ImageReadMode.RGB).numpy()
    except RuntimeError:
        return None
    return np.moveaxis(levels >> 8 if levels.dtype == np.uint16 else levels, 0, 2).astype(np.uint8)


def difference(ours, reference):
    """A text that says how two pictures differ; "" if they are equal."""
    if ours.shape != reference.shape:
        return f"{' x '.join(map(str, ours.shape))} here, {' x '.join(map(str, reference.shape))} there"
    distance = np.abs(ours.astype(np.int16) - reference)
    count = np.count_nonzero(distance.max(axis=2))
    return f"{count} of {distance[:, :, 0].size} pixels differ, by up to {distance.max()} levels" if count else ""
