"""Steps: what a GPU has to show, the most useful first, with sizes for a GPU and for a rehearsal on the CPU."""

from dataclasses import dataclass, field

AFFINE = "affine(degrees=10,translate=0.1)"
CROP = "random-resized-crop(size={size}),flip,normalize"
# The published measurement, on an H100 in Python (docs/reports/finding.md): seconds by workers, with the affine.
PUBLISHED_SECONDS = {0: 72.8, 2: 35.0, 4: 18.5}


@dataclass
class Step:
    name: str
    command: list  # a program of the bundle, or python, and its arguments
    # Seconds after which it is ended and has failed: several times what it should take, so that one that hangs leaves the
    # budget to the others.
    limit: float
    # train: it writes OUT/summary.json, as door.py does too; cuda_test, verify and plain: what its output must say differs
    kind: str = "train"
    least_accuracy: float = 0
    needs: tuple = ()  # flags of train without which this step is not built yet
    after: tuple = ()  # steps that must have passed
    published: float = 0  # seconds
    makes: str = ""  # what it leaves for other steps: it is run again where this is not there
    checks: dict = field(default_factory=dict)  # keys of summary.json and what they must be


@dataclass
class Sizes:
    """What a machine can do in minutes."""
    device: str
    epochs: int
    workers: tuple
    mnist: str  # --data of the finding
    least_accuracy: float
    photo_workers: tuple
    photo_batch: int
    photo_copies: int
    photo_count: int
    photo_size: int
    photo_epochs: int
    verify: tuple


CUDA = Sizes("cuda", 10, (0, 4, 1, 2), "mnist", 0.98, (1, 2, 4, 8), 256, 60, 199, 224, 3,
             ("-a", "lenet", "--nproc", "2", "--hosting", "processes", "--steps", "40"))
CPU = Sizes("cpu", 2, (0, 1), "digits(count=1500)", 0.3, (1,), 4, 1, 8, 64, 1,
            ("-a", "mlp", "--nproc", "2", "--hosting", "threads", "--steps", "4", "--modes", "ddp"))

# Every mode, and of those with several ways the ones that differ on a device. Two ranks share the device as threads; what
# waits in backward, as zero(stage=3) does, cannot, and is verified with processes.
MODES = ("single", "dp", "ddp", "ddp(compress=fp16)", "zero", "zero(stage=2)", "mp",
         "pipeline(micro-batches=4)", "pipeline(micro-batches=4,schedule=zero-bubble)")


def train(sizes, *words):
    return ["train", "--device", sizes.device, *map(str, words)]


def device_steps(sizes):
    small = ["--data", "digits(count=600)", "--epochs", "1"]
    yield Step("start", train(sizes, *small, "--out", "{runs}/start"), 60)
    if sizes.device == "cuda":
        yield Step("cuda_test", ["cuda_test"], 150, kind="cuda_test", after=("start",))
    else:
        yield Step("cuda_test", ["cuda_test", "--gtest_list_tests"], 60, kind="listed")


def finding_step(sizes, name, augment, *flags, needs=(), published=0, **expected):
    return Step(name, train(sizes, "--data", "{data}/mnist", "--epochs", sizes.epochs, "-b", 64, "--eval-at-end",
                            *(["--augment", AFFINE] if augment else []), *flags, "--out", f"{{runs}}/{name}"),
                150, least_accuracy=sizes.least_accuracy, needs=needs, after=("start", "mnist-train", "mnist-test"), published=published,
                checks=expected)


def finding_steps(sizes):
    """LeNet, MNIST, batch 64: what the loader costs, and what is left of it when the data are on the device."""
    for split in ("train", "test"):
        yield Step(f"mnist-{split}", ["shardprep", "pack", "--quiet", "--force", "--source", sizes.mnist, "--split", split,
                                      "--out", "{data}/mnist",
                                      *(["--input", "{input}/mnist"] if sizes.mnist == "mnist" else [])],
                   60, kind="plain", after=("start",), makes=f"{{data}}/mnist/{split}/manifest.json")
    for position, count in enumerate(sizes.workers):
        # Until the fastest and the slowest are known with and without the affine, nothing else is as useful.
        for augment in (True, False):
            name = f"finding-{'affine' if augment else 'plain'}-workers-{count}"
            yield finding_step(sizes, name, augment, "--workers", count, workers=count,
                               published=PUBLISHED_SECONDS.get(count, 0) if augment and sizes.epochs == 10 else 0)
        if position == 1:
            yield from resident_steps(sizes)
    yield finding_step(sizes, "finding-affine-ddp", True, "--mode", "ddp", "--nproc", 1, "--workers", 1, mode="ddp")


def resident_steps(sizes):
    for augment in (True, False):
        kind = "affine" if augment else "plain"
        yield finding_step(sizes, f"finding-{kind}-resident", augment, "--resident")
        yield finding_step(sizes, f"finding-{kind}-graph", augment, "--resident", "--graph", needs=("--graph",),
                           graph=sizes.device == "cuda")


def mode_steps(sizes):
    for mode in MODES:
        ranks = [] if mode in ("single", "dp") else ["--nproc", 2, "--hosting", "threads"]
        name = "mode-" + mode.translate(str.maketrans("(=,", "---", ")"))
        yield Step(name, train(sizes, "--data", "digits(count=600)", "--epochs", 1, "--workers", 1, "--mode", mode, *ranks,
                               "--out", f"{{runs}}/{name}"), 60, after=("start",), checks={"mode": mode})
    yield Step("verify-modes", ["train", "verify-modes", "--device", sizes.device, *sizes.verify], 240, kind="verify",
               needs=("verify-modes --device",), after=("start",))


def small_recipe_step(sizes, recipe, arch, *flags):
    name = f"{recipe}-seed-0"
    return Step(name, train(sizes, "--recipe", recipe, "--data", "digits(count=600)", "--arch", arch, "--seed", 0, *flags,
                             "--out", f"{{runs}}/{name}"),
                120, least_accuracy=0.3, needs=("--recipe",), after=("start",), checks={"arch": arch})


def recipe_seeds(sizes, name, recipe, arch, *flags):
    """The pictures are recompressed: one run on a CPU reached 91.05 % with cifar10-94 (docs/RECIPES.md)."""
    for seed in range(10):
        yield Step(f"{name}-seed-{seed}", train(sizes, "--recipe", recipe, "--data", "{data}/cifar10", "--resident",
                                                "--seed", seed, *flags, "--out", f"{{runs}}/{name}-seed-{seed}"),
                   60, least_accuracy=0.88, needs=("--recipe", *[flag for flag in flags if flag.startswith("--")]),
                   after=("cifar10-train", "cifar10-test"), checks={"arch": arch})


def recipe_steps(sizes):
    """Ten seeds of each recipe, none left out. On the CPU one of a small model, on digits."""
    if sizes.device == "cpu":
        yield small_recipe_step(sizes, "cifar10-94", "airbench(width=0.125)", "--batch-size", 50, "--epochs", 2,
                                "--layer-lr", "head=17", "--bias-lr", 11)
        # Its average would still be that of the first weights: it forgets a twentieth of them every 5 steps.
        yield small_recipe_step(sizes, "cifar10-94-resnet", "bag-of-tricks-resnet(width=0.125)", "--batch-size", 20, "--epochs", 4,
                                "--average", "ema(decay=0.5,every=1)")
        return
    for split in ("train", "test"):
        yield Step(f"cifar10-{split}", ["shardprep", "pack", "--quiet", "--force", "--source", "image-folder", "--encode", "raw",
                                        "--input", "{cifar10}", "--split", split, "--out", "{data}/cifar10"],
                   90, kind="plain", after=("start",), makes=f"{{data}}/cifar10/{split}/manifest.json")
    half = ("--precision", "bf16", "--channels-last")
    yield from recipe_seeds(sizes, "cifar10-94", "cifar10-94", "airbench")
    yield from recipe_seeds(sizes, "cifar10-94-bf16", "cifar10-94", "airbench", *half)
    yield from recipe_seeds(sizes, "cifar10-94-resnet-bf16", "cifar10-94-resnet", "bag-of-tricks-resnet", *half)


def photo_steps(sizes):
    """Photographs: does one core feed the device?"""
    yield Step("photos", ["shardprep", "pack", "--quiet", "--force", "--source", "image-folder", "--out", "{data}/photos",
                          "--input", "{photos}"], 120, kind="plain",
               after=("start",), makes="{data}/photos/train/manifest.json")
    size, batch = sizes.photo_size, sizes.photo_batch
    for arch in ("resnet18", "resnet50"):
        for count in sizes.photo_workers:
            yield photo_step(sizes, f"{arch}-workers-{count}", arch, size, batch, "--workers", count, "--layout", "u8")
        first = sizes.photo_workers[0]
        yield photo_step(sizes, f"{arch}-f32", arch, size, batch, "--workers", first)
        yield photo_step(sizes, f"{arch}-bf16", arch, size, batch, "--workers", first, "--layout", "u8", "--precision", "bf16",
                         "--channels-last", needs=("--precision", "--channels-last"))


def photo_step(sizes, name, arch, size, batch, *flags, needs=()):
    return Step(name, train(sizes, "--data", "{data}/photos", "--arch", arch, "--epochs", sizes.photo_epochs, "-b", batch,
                            "--lr", 0.001, "--augment", CROP.format(size=size), *flags, "--out", f"{{runs}}/{name}"),
                150, needs=needs, after=("start", "photos"), checks={"arch": arch})


def python_steps(sizes):
    """penstock.Loader(device="cuda") in Python: what it gives, and how fast."""
    door = ("python", "{here}/door.py")
    yield Step("python", [*door, "check", "--device", sizes.device, "--out", "{runs}/python"], 120, after=("start",),
               checks={"broken": []})
    rate = (*door, "rate", "{data}/photos", "--device", sizes.device, "--batch-size", str(sizes.photo_batch),
            "--augment", CROP.format(size=sizes.photo_size), "--epochs", str(sizes.photo_epochs))
    for count in sizes.photo_workers:
        for name, flags in (("", []), ("by-hand-", ["--by-hand"])):
            step = f"python-photos-{name}workers-{count}"
            yield Step(step, [*rate, *flags, "--workers", str(count), "--out", f"{{runs}}/{step}"], 120, after=("start", "photos"),
                       checks={"workers": count})


def steps_of(sizes):
    """All steps in order of worth."""
    finding, photos = list(finding_steps(sizes)), list(photo_steps(sizes))
    modes, recipe, python = list(mode_steps(sizes)), list(recipe_steps(sizes)), list(python_steps(sizes))
    return [*device_steps(sizes), python[0], *finding, *recipe, *photos, *python[1:], *modes]
