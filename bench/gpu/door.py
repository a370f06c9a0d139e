"""The Python door on a device: what penstock.Loader(device="cuda") has to give, and how fast it is.

    <python> bench/gpu/door.py check --device cuda --out DIR                every check, on pictures that it packs itself
    <python> bench/gpu/door.py rate DATA --device cuda --workers 2 --out DIR [--by-hand]
                                                                            images/s of a loop that only takes batches

Both write DIR/summary.json. --device cpu rehearses them without a device; --by-hand lets the loop copy f32 batches of the host itself,
as one does without device="cuda".
"""
import argparse
import gc
import json
import pathlib
import statistics
import sys
import time

import numpy
import torch

import penstock

LEVELS = "shift(pad=4),flip"  # which is all that layout u8 takes
AUGMENT = f"{LEVELS},normalize"
LAYOUTS = {"f32": 1e-6, "f16": 1e-3, "bf16": 1e-2, "u8": 0}  # and the relative error of one rounding, or more
PICTURES, BATCH = 320, 32


class Door:
    """A small data set of colour pictures, and the loaders over it."""

    def __init__(self, folder: pathlib.Path, device: str) -> None:
        self.device = device
        self.folder = folder
        draw = numpy.random.default_rng(0)
        pictures = ((draw.integers(0, 256, (32, 40, 3), dtype=numpy.uint8), number % 10) for number in range(PICTURES))
        penstock.pack(pictures, folder, force=True, progress=False)

    def loader(self, device: str = "", **options) -> penstock.Loader:
        device = device or self.device
        augment = LEVELS if options.get("layout") == "u8" else AUGMENT
        return penstock.Loader(self.folder, batch_size=BATCH, device=None if device == "cpu" else device,
                               **{"augment": augment, "workers": 2, **options})

    def sums(self, loader: penstock.Loader) -> list:
        """The sum of each batch, which the device computes some milliseconds after the batch was given and let go."""
        found = []
        for images, labels in loader:
            if self.device != "cpu":
                torch.cuda._sleep(10_000_000)
            found.append(images.double().sum())
            del images, labels
        return [float(value) for value in found]

    def expected_sums(self) -> list:
        found = []
        for images, _ in self.loader():
            self.finish()
            found.append(float(images.double().sum()))
        return found

    def finish(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


def same(what: str, found: object, expected: object) -> None:
    assert found == expected, f"{what} is {found!r:.200}; expected {expected!r:.200}"


def values(door: Door) -> None:
    """Every layout: levels as the host has them, normalised in f32 and rounded once."""
    host = door.loader("cpu")
    scale, bias = (torch.tensor(values).view(1, 3, 1, 1) for values in host._native.normalizations[0])
    for layout, error in LAYOUTS.items():
        for channels_last in (False, True):
            levels = list(door.loader("cpu", layout="u8"))
            for batch, level in zip(door.loader(layout=layout, channels_last=channels_last), levels, strict=True):
                where = f"{layout}, channels_last={channels_last}, batch {batch.index}"
                same(f"{where}: the device", batch.images.device.type, door.device)
                wanted = level.images.double() if layout == "u8" else level.images * scale + bias
                # The host normalises before it rounds: half a level apart.
                slack = 0 if door.device != "cpu" or layout == "u8" else 0.51 * float(scale.max())
                far = float(((batch.images.cpu().double() - wanted).abs() - error * wanted.abs()).max())
                assert far <= slack + 1e-7, f"{where}: values differ by {far:.3g}; expected {slack:.3g} or less"
                is_last = channels_last or layout == "u8"
                form = torch.channels_last if is_last else torch.contiguous_format
                assert batch.images.is_contiguous(memory_format=form), f"{where}: strides are {batch.images.stride()}; expected {form}"
                same(f"{where}: labels", batch.labels.cpu().tolist(), level.labels.tolist())
                same(f"{where}: ids", batch.ids.tolist(), level.ids.tolist())


def memory_in_use_stays_as_it_is(door: Door) -> None:
    """A step that is still queued must find its batch, although Python has let it go: record_stream()."""
    expected = door.expected_sums()
    for prefetch in (1, 4):
        same("the sums", door.sums(door.loader(prefetch=prefetch)), expected)


def another_stream_may_consume(door: Door) -> None:
    expected = door.expected_sums()
    if door.device == "cpu":
        same("the sums", door.sums(door.loader()), expected)
        return
    with torch.cuda.stream(torch.cuda.Stream()):
        same("the sums", door.sums(door.loader()), expected)


def kept_batches_stay_as_they_are(door: Door) -> None:
    expected = door.expected_sums()
    kept = [images for images, _ in door.loader()]
    list(door.loader())
    same("the sums", [float(images.double().sum()) for images in kept], expected)


def a_loader_may_go_before_its_copies_end(door: Door) -> None:
    expected = door.expected_sums()[0]
    for _ in range(20):
        images, _labels = next(iter(door.loader()))
        same("the first sum", float(images.double().sum()), expected)


def mixes_are_there(door: Door) -> None:
    host = list(door.loader("cpu", augment=f"{AUGMENT},mixup(alpha=1)"))
    for batch, wanted in zip(door.loader(augment=f"{AUGMENT},mixup(alpha=1)"), host, strict=True):
        same("the mix weights", batch.mix_weights.cpu().tolist(), wanted.mix_weights.tolist())
        same("the second labels", batch.second_labels.cpu().tolist(), wanted.second_labels.tolist())
        same("their device", batch.mix_weights.device.type, door.device)


def an_epoch_may_be_resumed(door: Door) -> None:
    expected = door.expected_sums()
    loader = door.loader()
    steps = iter(loader)
    for _ in range(4):
        next(steps)
    resumed = door.loader()
    resumed.load_state_dict(loader.state_dict())
    same("the sums of the rest", door.sums(resumed), expected[4:])


def nothing_grows(door: Door) -> None:
    loader, sizes = door.loader(), []
    for _ in range(6):
        for images, _ in loader:
            images.sum()
        del images
        gc.collect()
        door.finish()
        sizes.append((loader.memory_bytes, torch.cuda.memory_reserved() if door.device != "cpu" else 0))
    assert max(sizes[3:]) <= max(sizes[:3]), f"memory of host and device by epoch is {sizes}; expected no growth"


def slots_are_page_locked(door: Door) -> None:
    source = door.loader().batch(0)._copy.source
    assert source.images.is_pinned(), "a batch's memory on the host is pageable; expected page-locked memory"


CHECKS = (values, memory_in_use_stays_as_it_is, another_stream_may_consume, kept_batches_stay_as_they_are,
          a_loader_may_go_before_its_copies_end, mixes_are_there, an_epoch_may_be_resumed, nothing_grows)
DEVICE_CHECKS = (slots_are_page_locked,)


def check(options: argparse.Namespace) -> dict:
    door = Door(options.out / "pictures", options.device)
    broken = []
    for function in CHECKS + (DEVICE_CHECKS if options.device != "cpu" else ()):
        name = function.__name__.replace("_", " ")
        try:
            function(door)
            print(f"{name}: holds", flush=True)
        except Exception as error:  # whatever a check meets, the others are still tried
            broken.append(f"{name}: {type(error).__name__}: {error}")
            print(f"BROKEN: {broken[-1]}", flush=True)
    return {"broken": broken}


def rate(options: argparse.Namespace) -> dict:
    place = None if options.device == "cpu" else options.device
    common = {"batch_size": options.batch_size, "workers": options.workers, "augment": options.augment, "epochs": 0}
    if options.by_hand:
        loader = penstock.Loader(options.data, **common)
    else:
        loader = penstock.Loader(options.data, device=place, layout=options.layout, channels_last=True, **common)
    rates = []
    for epoch in range(options.epochs + 1):
        loader.set_epoch(epoch)
        begin, count = time.perf_counter(), 0
        for images, labels in loader:
            if options.by_hand:
                images = images.to(options.device, non_blocking=True)
            count += len(labels)
        if place is not None:
            torch.cuda.synchronize()
        rates.append(count / (time.perf_counter() - begin))
    print("images/s by epoch: " + ", ".join(f"{value:,.0f}" for value in rates), flush=True)
    return {"workers": options.workers, "images_per_second": statistics.median(rates[1:])}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    checking, timing = verbs.add_parser("check"), verbs.add_parser("rate")
    for verb in (checking, timing):
        verb.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu")
        verb.add_argument("--out", type=pathlib.Path, required=True)
    timing.add_argument("data", type=pathlib.Path)
    timing.add_argument("--workers", type=int, required=True)
    timing.add_argument("--layout", choices=LAYOUTS, default="bf16")
    timing.add_argument("--by-hand", action="store_true")
    timing.add_argument("--batch-size", type=int, default=256)
    timing.add_argument("--epochs", type=int, default=3)
    timing.add_argument("--augment", default="random-resized-crop(size=224),flip,normalize")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = check(options) if options.verb == "check" else rate(options)
    (options.out / "summary.json").write_text(json.dumps({"device": options.device, **found}) + "\n")
    return 1 if found.get("broken") else 0


if __name__ == "__main__":
    sys.exit(main())
