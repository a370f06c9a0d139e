"""JPEGs of random sizes and parameters by five encoders that share as little as can be had: Pillow (libjpeg-turbo 3), cjpeg
(libjpeg-turbo 2, with its options, and files coded anew by jpegtran and jpegoptim), pvrg-jpeg, libjpeg-tools' jpeg, and jpeglib
(mozjpeg and libjpeg)."""
import shutil

import numpy as np
from PIL import Image

SAMPLINGS = ("1x1", "2x1", "1x2", "2x2", "4x1", "1x4", "4x2", "2x4")


def load_photographs(debian):
    """Wallpapers, made small once, from which pictures are cut out."""
    photographs = []
    for path in sorted(debian.glob("*wallpapers*/usr/share/**/*.jpg"))[:12]:
        with Image.open(path) as image:
            image.draft("RGB", (800, 800))
            photographs.append(image.convert("RGB").copy())
    return photographs


def draw_picture(rng, photographs):
    """RGB, 1 to 200 pixels a side: a part of a photograph at a random scale, with noise, or in one of eight noise alone."""
    side = rng.choice([16, 64, 200])
    width, height = (int(size) for size in rng.integers(1, side + 1, 2))
    if rng.random() < 0.125:
        return Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
    photograph = photographs[rng.integers(len(photographs))]
    across, down = (int(min(limit, size * rng.uniform(1, 4)) + 1) for limit, size in zip(photograph.size, (width, height)))
    left, top = (int(rng.integers(0, max(limit - size, 0) + 1)) for limit, size in zip(photograph.size, (across, down)))
    levels = np.asarray(photograph.crop((left, top, left + across, top + down)).resize((width, height)), np.float64)
    noise = rng.normal(0, rng.choice([0, 3, 20]), levels.shape)
    return Image.fromarray(np.clip(levels + noise, 0, 255).astype(np.uint8))


def happens(rng, probability):
    return bool(rng.random() < probability)


def flags(rng, *choices):
    """Words of a command line: each of `choices` is (probability, function that draws words)."""
    return [str(word) for probability, draw in choices if happens(rng, probability) for word in draw()]


def pillow(image, rng, path, programs):
    mode = str(rng.choice(["RGB", "RGB", "RGB", "L", "CMYK"]))
    options = {"quality": int(rng.integers(1, 101)), "optimize": happens(rng, 0.5), "progressive": happens(rng, 0.3)}
    if mode == "RGB":
        options |= {"keep_rgb": True} if happens(rng, 0.1) else {"subsampling": int(rng.integers(0, 3))}
    if happens(rng, 0.3):
        options[str(rng.choice(["restart_marker_blocks", "restart_marker_rows"]))] = int(rng.integers(1, 9))
    if happens(rng, 0.2):
        options["qtables"] = [[int(step) for step in rng.integers(1, 256, 64)] for _ in range(int(rng.integers(1, 3)))]
    if happens(rng, 0.3):
        exif = Image.Exif()
        exif[0x0112] = int(rng.integers(1, 9))
        options["exif"] = exif
    image.convert(mode).save(path, "JPEG", **options)
    return f"{mode} {({key: value for key, value in options.items() if key not in ('qtables', 'exif')})}"


def cjpeg(image, rng, path, programs):
    image.save(path.with_suffix(".ppm"))
    words = flags(
        rng, (1, lambda: ["-quality", ",".join(map(str, rng.integers(1, 101, rng.integers(1, 3))))]), (0.2, lambda: ["-grayscale"]),
        (0.1, lambda: ["-rgb"]), (0.5, lambda: ["-optimize"]), (0.3, lambda: ["-progressive"]), (0.02, lambda: ["-arithmetic"]),
        (0.3, lambda: ["-restart", f"{rng.integers(1, 9)}{rng.choice(['', 'B'])}"]),
        (0.7, lambda: ["-sample", ",".join(rng.choice(SAMPLINGS, 3)) if happens(rng, 0.2) else rng.choice(SAMPLINGS)]),
        (0.3, lambda: ["-dct", rng.choice(["int", "fast", "float"])]), (0.2, lambda: ["-smooth", rng.integers(1, 101)]))
    programs.run("cjpeg", *words, "-outfile", path, path.with_suffix(".ppm"))
    if happens(rng, 0.2):
        again = flags(rng, (0.5, lambda: ["-progressive"]), (0.5, lambda: ["-restart", rng.integers(1, 9)]),
                      (0.3, lambda: ["-grayscale"]), (0.3, lambda: [f"-{rng.choice(['transpose', 'transverse'])}"]))
        programs.run("jpegtran", *again, "-outfile", path.with_suffix(".new"), path)
        path.with_suffix(".new").replace(path)
        words += ["| jpegtran", *again]
    elif happens(rng, 0.2):
        again = flags(rng, (1, lambda: [f"--{rng.choice(['all-progressive', 'all-normal', 'strip-all'])}"]))
        programs.run("jpegoptim", "-q", "-f", *again, path)
        words += ["| jpegoptim", *again]
    return " ".join(words)


def pvrg(image, rng, path, programs):
    """pvrg-jpeg reads the levels of each component from a file of its own, in the size of its sampling."""
    factors = [(1, 1)] if happens(rng, 0.3) else [tuple(map(int, rng.integers(1, 3, 2))) for _ in range(3)]
    across, down = (max(values) for values in zip(*factors))
    planes = [image.convert("L")] if len(factors) == 1 else image.convert("YCbCr").split()
    words = flags(rng, (1, lambda: ["-q", rng.integers(1, 200)]), (0.5, lambda: ["-JFIF"]), (0.3, lambda: ["-n"]),
                  (0.3, lambda: ["-r", rng.integers(1, 9)]), (0.5, lambda: ["-z"]), (0.3, lambda: [rng.choice(["-a", "-b"])]),
                  (0.03, lambda: ["-k", rng.integers(1, 8)]))  # lossless
    words += ["-iw", str(image.width), "-ih", str(image.height)]
    for number, (plane, (h, v)) in enumerate(zip(planes, factors)):
        width, height = -(-image.width * h // across), -(-image.height * v // down)
        path.with_suffix(f".{number}").write_bytes(plane.resize((width, height)).tobytes())
        words += ["-ci", str(number + 1), "-fw", str(width), "-fh", str(height), "-hf", str(h), "-vf", str(v),
                  str(path.with_suffix(f".{number}"))]
    programs.run("pvrg-jpeg", *words[:words.index("-iw") + 4], "-s", path, *words[words.index("-iw") + 4:])
    return " ".join(word for word in words if "/" not in word)


def libjpeg_tools(image, rng, path, programs):
    is_grey = happens(rng, 0.25)
    image.convert("L" if is_grey else "RGB").save(path.with_suffix(".ppm"))
    words = flags(
        rng, (1, lambda: ["-p"] if happens(rng, 0.03) else ["-q", rng.integers(1, 101)]),  # -p: lossless
        (0.5, lambda: ["-h"]), (0.3, lambda: [rng.choice(["-v", "-qv"])]),
        (0.3, lambda: ["-bl"]), (0.3, lambda: ["-z", rng.integers(1, 9)]), (0.5, lambda: ["-qt", rng.integers(0, 9)]),
        (0.2, lambda: ["-oz"]), (0.2, lambda: ["-dz"]), (0.03, lambda: ["-a"]), (0.03, lambda: ["-n"]),
        (0 if is_grey else 0.1, lambda: ["-c"]),
        (0 if is_grey else 0.6, lambda: ["-s", rng.choice(["1x1,2x2,2x2", "1x1,2x1,2x1", "1x1,1x2,1x2", "1x1,2x2,1x1"])]))
    if "-qv" in words:
        words.append("-v")
    programs.run("jpeg", *words, path.with_suffix(".ppm"), path)
    return " ".join(words)


def jpeglib(image, rng, path, programs):
    """mozjpeg and the Independent JPEG Group's libjpeg, as the package jpeglib has them."""
    import jpeglib as package  # fetched by script/conformance
    release = str(rng.choice(["mozjpeg101", "mozjpeg201", "mozjpeg300", "mozjpeg403", "6b", "9e"]))
    is_grey, sampling = happens(rng, 0.2), str(rng.choice(["4:4:4", "4:2:2", "4:2:0", "4:4:0"]))
    quality = int(rng.integers(1, 101))
    words = flags(rng, (0.5, lambda: ["OPTIMIZE_CODING"]), (0.3, lambda: ["PROGRESSIVE_MODE"]))
    if is_grey and release in ("mozjpeg300", "mozjpeg403") and "PROGRESSIVE_MODE" not in words:
        raise ValueError("jpeglib 1.0.2 ends by signal 11 with these")
    with package.version(release):
        jpeg = package.from_spatial(np.asarray(image))
        if is_grey:
            jpeg.jpeg_color_space = package.JCS_GRAYSCALE
        else:
            jpeg.samp_factor = sampling
        jpeg.write_spatial(str(path), qt=quality, flags=[f"+{word}" for word in words])
    if happens(rng, 0.15):
        words.append(f"| {multiply_tables(package, path, int(rng.choice([2, 8, 255])))}")
    return f"{release} quality {quality} {'grey' if is_grey else sampling} {' '.join(words)}"


def multiply_tables(package, path, factor):
    """Makes the steps of the quantisation tables so many times as large, up to 255, so that products leave JPEG's range."""
    with package.version("turbo210"):
        jpeg = package.read_dct(str(path))
        jpeg.qt = np.minimum(jpeg.qt.astype(np.uint32) * factor, 255).astype(np.uint16)
        jpeg.write_dct(str(path))
    return f"tables times {factor}"


ENCODERS = {"pillow": pillow, "cjpeg": cjpeg, "pvrg-jpeg": pvrg, "libjpeg-tools": libjpeg_tools, "jpeglib": jpeglib}


def encode(number, out, programs, photographs, seed):
    """Writes one JPEG. An encoder may refuse what was drawn for it (factors too large for a scan); then it is drawn again."""
    name = list(ENCODERS)[number % len(ENCODERS)]
    path = out / name / f"{number:04}.jpg"
    path.parent.mkdir(parents=True, exist_ok=True)
    for attempt in range(50):
        rng = np.random.default_rng([seed, number, attempt])
        image = draw_picture(rng, photographs)
        try:
            said = ENCODERS[name](image, rng, path, programs)
            if path.stat().st_size == 0:
                raise ValueError(f"{name}: wrote nothing: {said}")
            break
        except (RuntimeError, OSError, ValueError) as error:
            refused = error
    else:
        raise refused
    for left in path.parent.glob(f"{number:04}.*"):
        if left != path:
            left.unlink()
    return f"{path.relative_to(out)}: {image.width} x {image.height} {said}\n"


def make(out, programs, folder, count, seed):
    """Writes out/<encoder>/NNNN.jpg, as many of each, and parameters.txt beside `out`. The same seed gives the same files."""
    shutil.rmtree(out, ignore_errors=True)
    photographs = load_photographs(folder / "debian")
    lines = [encode(number, out, programs, photographs, seed) for number in range(count)]
    (out.parent / "parameters.txt").write_text("".join(lines))
