"""Loader: an epoch of batches at a time, made by C++ threads in this process."""
import atexit
import importlib
import os
import re
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from penstock import _native
from penstock._arguments import file_name, known_names, open_data, shown, whole
from penstock._batch import Batch, made_batch, on_device
from penstock._configuration import LEVELS, configuration_of, plain
from penstock._dataset import Dataset
from penstock._device import Copy, Feed, current, find_device, opening, page_locking
from penstock._epoch import Epoch
from penstock._limit import Limit, Watch, foresee
from penstock._plan import Plan, made_plan
from penstock._ranks import rank_and_world_size, ranks_of_torch
from penstock.errors import ConfigError

_OWN_NORMALIZE = re.compile(r"(^|[,| ])normalize($|[,| ])")  # without keys
_open_loaders: "weakref.WeakSet[_native.Loader]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    # Workers that went on while the interpreter ends would use what is being destroyed.
    _native.begin_to_end()
    for native in list(_open_loaders):
        native.close()


class Loader:
    """Batches of a packed data set, in the order of an epoch, made ahead of time by threads of this process.

    Iterating gives one epoch: (images, labels) per step, as torch tensors where torch is imported, otherwise as NumPy
    arrays. Every next iteration gives the next epoch, unless `set_epoch()` says which.

    data: the folder of a packed data set (penstock.pack, shardprep pack), or of one of its splits, or its address (https://, s3://,
        gs://: docs/FAR.md; PENSTOCK_CACHE_DIR and PENSTOCK_CACHE_LIMIT say where shards from there are kept). A list of them: their samples
        one after the other; sampler="mix(proportion=3:1)" says how many of each an epoch has.
    split: "train", "test" (also "val", "valid" or "validation") or "all".
    batch_size: samples per batch, over all ranks together (64). Rank r has its share of every batch, so that the batches do
        not depend on the number of ranks. batch_size_per_rank: in its place, so many for each rank, as DataLoader counts them.
    workers: threads that make batches; None: one per core that this process may use; 0: the thread that iterates makes
        them.
    prefetch: batches that are made ahead.
    augment: transforms in their order, such as "random-resized-crop(size=224),flip,normalize", or a list of such parts, or a
        list or Compose of torchvision's or timm's (penstock.augment). docs/TRANSFORMS.md lists them. Without normalize,
        images are 0 to 1; normalize without keys takes the mean and deviation of the split train wherever the data set has one,
        also for another split (`loader.dataset.statistics`). None: "normalize", for layouts "u8" and "u16" nothing.
    layout: "f32", "f16" or "bf16", or "u8" (levels 0 to 255, without normalize, always channels last), or for pictures of
        uint16 "u16", likewise. Pictures of uint16 and float32, and of any number of channels, are "f32" too: level / 65535, and
        values of float32 as they are, unless they are normalised.
    channels_last: images lie in memory as N x H x W x C. Torch tensors are N x C x H x W all the same, in torch's memory
        format channels_last.
    shuffle: "global", "rank-local" (each rank has shards of its own) or "none"; True and False for "global" and "none".
        "shards(window=256,lanes=8)" is a random order that uses at most 256 shards at a time, of which each of 8 parts of a
        batch has its own: for data that do not fit into memory, or where ranks on several machines should not all read all
        shards. docs/ORDER.md says how well it mixes. Not with a sampler.
    tail: what happens to the samples that do not fill a batch: "pad" delivers them as a smaller batch, "drop" leaves
        them out.
    seed: of the order and of the augmentation, 64 bits.
    rank, world_size: None: those of torch.distributed if it is initialised, also after the loader was made and before its first
        batch is taken; else those of torchrun, Slurm or Open MPI. A rank has an equal share of every batch, also of the last one, or one row less than another rank. With
        shuffle="rank-local" a rank whose samples are used up has none.
    epochs: no batch is made ahead for epochs from this number on; None: there is always a next epoch.
    subset: some of the samples: "percent(0-10)" of each class, "fraction(0.1,seed=1)", "ids(FILE)" or "classes(cat:dog)"; of
        several, each takes from what the one before it has left.
    exclude_ids: a file of samples that are left out: an id per line, or a quarantine.jsonl.
    sampler: which samples an epoch has, and how often: "class-balanced(power=1)", "weighted(field=NAME)" of the data set,
        "weighted(file=FILE)" with id and weight per line, "weighted" with `weights`, "repeat(n=3)", "uniform(rows=10000)", and
        for several data sets "mix(...)"; rows= is the length of an epoch. Counts are exact in every epoch, and the order
        is the same for any number of ranks; copies of a sample in one epoch are augmented by random numbers of their own.
        `loader.selection` says what was chosen.
    weights: with sampler="weighted": a number for each sample, in the order of Dataset(data, split), which is not that of ids: with
        weights by id, weights_by_id[Dataset(data).ids]. With a subset, for all samples of the split or for those of the subset.
    on_corrupt: what a corrupt sample does. "fail": its step raises a CorruptError; "mask": its image is zeros and has weight 0
        (`batch.weights`); "substitute": another sample of its class has its place, or if 8 of them are corrupt as well, it
        is masked. More than 1 % of such images, of 1,000 or more that this loader has delivered, are a CorruptError.
    quarantine: a file that gets a line of JSON for each corrupt sample that was met; lines are appended.
    decode: how JPEGs are decoded, which changes no pixel. "index": the blocks under the crop alone, where a sample allows it;
        "region": by libjpeg-turbo, down to the last row of the crop; "full": all of it; "auto": the first that a sample allows.
    dct_scale: whether JPEGs are decoded at 1/2, 1/4 or 1/8 of their size where the crop is made that small anyway, which is
        faster and changes pixels. "auto": if a transform of `augment` draws at random; "always"; "off".
    read_ahead: with shuffle="shards(...)": whether the shards that come next are read ahead and used ones are dropped from
        memory. "auto": if the data set has more bytes than there is memory; "on"; "off". It changes no batch.
    device: "cuda" or "cuda:1": torch tensors in the memory of that device, copied and normalised there on a stream of its
        own while the step before computes. The values of f32 are those of levels that were rounded to u8 first.
    arrays: "torch", "numpy" or "dlpack" (an object that jax.dlpack.from_dlpack() and others of that name take).
    columns: plug-ins that make further arrays of a batch, such as "mean,angle(unit=degree)", or a list of such parts; they are in
        `Batch.columns` and in the digest. A plug-in is a shared library that was loaded before (ctypes.CDLL).
    views: in place of augment, a list of such lists: each gives a picture of every sample, with random numbers of its own, and
        reads the sample once, and decodes once what several of them look at. `Batch.views` has all, `Batch.images` the first.
        Not with mixup and cutmix.
    sim_link: lets local data come as if from far away, through the cache of the node, after a delay per request and at a rate:
        "20ms,100MB/s". It holds for all loaders of the process that have one, and changes no batch. Sentences are marked
        [emulated].
    size_schedule: sizes of the images by epoch, such as "0:128,6:160,12:224" or {0: 128, 6: 160, 12: 224}: epochs 0 to 5 have
        128. It is the `size` of the last transform of `augment` that sets the size; views that state the same size follow
        it, and others keep theirs. `image_shape` is that of the largest.

    The batches depend on (data, subset, exclude_ids, sampler, weights, augment, views, size_schedule, layout, dct_scale, columns, on_corrupt, seed,
    shuffle, tail, batch size, epoch) and on nothing else: not on workers, prefetch, timing or the number of ranks (but for "rank-local").

    Memory: `prefetch` batches, those that are held, and up to `prefetch` + 2 more that are kept for later.

    Raises ConfigError, IoError, CorruptError or DeviceError with a message of one line. An error of a batch comes from the
    step that would have given it; the loader goes on with the batch after it.

    Threads: a loader may be used on any thread. Signals of Python, such as Ctrl-C, interrupt a step that waits for
    workers. A fork cannot use the loader of its parent; pickled or deep-copied, it is made again, without its threads, at its place.
    """

    @known_names
    def __init__(self, data: "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]", *, split: str = "train",
                 batch_size: Optional[int] = None, workers: Optional[int] = None, prefetch: int = 4,
                 augment: "str | Sequence[Any] | Callable[..., Any] | None" = None, layout: str = "f32",
                 channels_last: bool = False, shuffle: "str | bool" = "global", tail: str = "pad", seed: int = 0,
                 rank: Optional[int] = None, world_size: Optional[int] = None, epochs: Optional[int] = None,
                 on_corrupt: str = "fail", decode: str = "auto", dct_scale: str = "auto", read_ahead: str = "auto",
                 device: Any = None, arrays: Optional[str] = None, columns: "str | Sequence[str]" = "",
                 views: "Sequence[str | Sequence[Any] | Callable[..., Any]]" = (),
                 size_schedule: "str | Mapping[int, int]" = "",
                 subset: str = "", exclude_ids: "str | os.PathLike[str] | None" = None, sampler: str = "",
                 weights: "Sequence[float] | Any" = None,
                 quarantine: "str | os.PathLike[str] | None" = None, sim_link: Optional[str] = None,
                 batch_size_per_rank: Optional[int] = None) -> None:
        self._given = plain({name: value for name, value in locals().items() if name != "self"})
        self._device = find_device(device)
        if self._device is not None and arrays not in (None, "torch"):
            raise ConfigError(f"loader: arrays is {arrays!r} with device {str(device)!r}; expected torch's, or device=None")
        self._given["device"] = None if self._device is None else str(device)
        self._arrays_name = "torch" if self._device is not None else arrays
        self._layout = layout
        self._has_own_rank = rank is None and world_size is None
        self._open(*rank_and_world_size(rank, world_size))
        self._check_pixels_and_length(layout)
        for warning in self._native.warnings:
            warnings.warn(f"loader: {warning}", stacklevel=3)  # the caller of known_names()
        names = ["images", *(f"view{number}" for number in range(1, len(self._configuration["views"]) + 1))]
        self._feed = None if self._device is None else Feed(importlib.import_module("torch"), self._device, layout, channels_last,
                                                            dict(zip(names, self._native.normalizations)))
        # Where the next iteration begins, and how far the newest one has come.
        self._epoch, self._next_batch, self._is_placed = 0, 0, True
        self._turn, self._has_given, self._is_asked = 0, False, False
        self._lock = threading.Lock()

    def _open(self, rank: int, world_size: int) -> None:
        configuration = configuration_of(self._given, rank, world_size)
        allocate, release = page_locking() if self._device is not None else (0, 0)
        with opening(self._device), current(self._device):
            self._native = open_data(_native.Loader, weights=self._given["weights"],
                                     quarantine=file_name("quarantine", self._given["quarantine"]),
                                     allocate=allocate, release=release, **configuration)
        _open_loaders.add(self._native)
        self._configuration = configuration
        self._dataset: Optional[Dataset] = None
        self.rank, self.world_size = rank, world_size

    def _follow_torch(self) -> None:
        """A rank that the loader has found by itself is that of torch.distributed, also where that was initialised later."""
        now = ranks_of_torch() if self._has_own_rank else None
        if now is None or now == (self.rank, self.world_size):
            return
        if self._has_given:
            raise ConfigError(f"loader: it has given batches of rank {self.rank} of {self.world_size}, and torch.distributed now says rank "
                              f"{now[0]} of {now[1]}; expected a loader that is made, or first iterated, after init_process_group(), or "
                              "rank= and world_size=")
        native = self._native
        self._open(*now)
        native.close()

    def _check_pixels_and_length(self, layout: str) -> None:
        if layout in LEVELS and self._native.has_normalize:
            raise ConfigError(f'loader: layout is "{layout}", levels of 0 to {255 if layout == "u8" else 65535}, with normalize in '
                              'augment; expected an augment without it, '
                              'or layout="f32", "f16" or "bf16"')
        if len(self) == 0 and self._native.size > 0:
            most = self._native.rows
            raise ConfigError(f'loader: batch_size is {self.batch_size} with tail="drop" and {most} samples, so that no batch comes; '
                              f'expected a batch_size of {most} or less, or tail="pad"')

    def __iter__(self) -> Iterator[Batch]:
        """Begins an epoch, unless nobody asked the iteration before for a batch: Lightning and others make an iterator only to
        see that they can, and the epoch is then still to come. An earlier iteration ends with a ConfigError at its next step."""
        with self._lock:
            self._follow_torch()
            if not self._is_placed and self._is_asked:
                self._epoch, self._next_batch = self._epoch + 1, 0
            self._native.start_epoch(self._epoch, self._next_batch)
            self._is_placed = self._is_asked = False
            self._turn += 1
            return Epoch(self, self._turn, self._epoch)

    def __len__(self) -> int:
        """Batches per epoch; the same at every rank."""
        return self._native.batches_per_epoch

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is epoch `epoch`, from its first batch on."""
        epoch = whole("epoch", epoch, 0, 2**32 - 1)
        with self._lock:
            self._epoch, self._next_batch, self._is_placed = epoch, 0, True

    @property
    def epoch(self) -> int:
        """The epoch of the newest iteration, or the one that the next iteration was set to."""
        return self._epoch

    def batch(self, index: int, epoch: Optional[int] = None) -> Batch:
        """Batch `index` of the epoch (default: `self.epoch`), made by the calling thread. Iterations do not notice."""
        self._follow_torch()
        arrays = self._arrays()
        epoch = self._epoch if epoch is None else whole("epoch", epoch, 0, 2**32 - 1)
        index = whole("batch", index)
        with current(self._device):
            batch = made_batch(self._native.batch(epoch, index, arrays), arrays, self)
        return batch if self._feed is None else self._delivered(self._feed.begin(batch))

    def plan(self, epoch: int, index: int) -> Plan:
        """What the transforms draw for sample `index` of the data set (`self.dataset[index]`) in `epoch`."""
        index = self.dataset._stored(whole("index", index, 0, len(self.dataset) - 1))
        return made_plan(_native.plan(self._native, whole("epoch", epoch, 0, 2**32 - 1), index))

    def _delivered(self, copy: Copy) -> Batch:
        assert self._feed is not None
        self._feed.deliver(copy)
        return on_device(copy)

    def state_dict(self) -> Dict[str, Any]:
        """Where this loader is: after load_state_dict() the next iteration goes on after the last batch that was
        delivered. The order of all batches is the same for any number of ranks, so that a run may go on with others."""
        with self._lock:
            return {"epoch": self._epoch, "batch": self._next_batch, "samples": self._native.size, "data": self._native.identity,
                    **{name: self._configuration[name] for name in ("batch_size", "seed", "shuffle", "tail", "dct_scale")},
                    "augment": " | ".join([self._native.augment, *self._configuration["views"]]) + self._sizes_text(),
                    "layout": self._layout, "selection": self._native.selection}

    def _sizes_text(self) -> str:
        schedule = self._configuration["size_schedule"]
        return f" in sizes {schedule}" if schedule else ""

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Takes what state_dict() gave. Raises ConfigError if the loader of that state made other batches: of other samples,
        another batch_size, seed, shuffle, tail, augment or views, layout, dct_scale, subset or sampler. set_epoch() takes a loader with others to an epoch."""
        here = self.state_dict()
        if not isinstance(state, dict):
            raise ConfigError(f"loader: state is {state!r:.200}; expected what state_dict() gave")
        try:
            epoch, batch = whole("epoch", state["epoch"], 0, 2**32 - 1), whole("batch", state["batch"], 0)
            # Earlier states lack some of these, and a selection because there was none.
            known = {name: here[name] for name in ("augment", "layout", "data", "dct_scale")}
            state = {**known, "selection": "", **state}
            differing = [key for key in here if key not in ("epoch", "batch") and state[key] != here[key]]
        except (KeyError, TypeError) as error:
            raise ConfigError(f"loader: state {state!r:.200} has no {error}; expected what state_dict() gave") from None
        unknown = [key for key in state if key not in here]
        if unknown:  # of a later version, whose batches may be others
            raise ConfigError(f"loader: the state has {unknown[0]!r:.200}, which is unknown; expected what state_dict() gave")
        if differing:
            key = differing[0]
            raise ConfigError(f"loader: {key} is {here[key]!r} and was {state[key]!r} when the state was taken; "
                              "expected the same, or set_epoch(), which begins an epoch with other batches")
        if batch > len(self):
            raise ConfigError(f"loader: the state's batch is {batch}; expected 0 to {len(self)}")
        with self._lock:
            self._epoch, self._next_batch, self._is_placed = epoch, batch, True

    def statistics(self) -> Dict[str, Any]:
        """What workers and consumer did since the loader was made: times per stage, as `loadbench --json` has them."""
        return self._native.statistics()

    def link(self) -> Dict[str, Any]:
        """What came from far away since this loader was made, for all loaders of the process together: bytes that were
        fetched, those of them that had come before ("over_bytes"), shards that were in the cache when they were needed
        ("hit_count"), waited for ("miss_count") or fetched ahead, evictions, stalls of threads, retries by cause, and bytes
        by origin. All of it is 0 for local data."""
        return self.statistics()["link"]

    def limit(self, step_ms: float, *, step_cpu_ms: Optional[float] = None) -> Limit:
        """What would limit a loop whose step takes `step_ms` once its batch is there, `step_cpu_ms` of that processor time
        of all its threads (None: one thread works all the time), and what other numbers of workers would give. It judges by the batches of
        this loader so far; if they are fewer than 8, some are made for this, for a second at most."""
        return foresee(self._native, step_ms, step_cpu_ms)

    def watch(self, *, name: str = "", history: "Optional[str | os.PathLike[str]]" = None,
              say: Optional[Callable[[str], Any]] = print) -> Watch:
        """`with loader.watch(): for images, labels in loader: ...` measures the loop, and says what limited it:

            load-bound: the trainer waited 71 % of the time; 1 more worker would give about 1.7x (541 images/s), ...
            prediction: the watch before (1 worker) said 541 images/s for 2 workers; it was 531 images/s: 1.9 % too much

        The second line is there if an earlier watch of the same loader, with other workers, has promised something.
        What happens between epochs, such as an evaluation, does not count; the rest of the process should be idle.

        name: of the loop, to tell loops over the same data apart. history: a JSON file that keeps the promises for the
        next process. say: takes the lines; None: they are only in `watch.limit` and `watch.promise`. Of several ranks
        the first one says the lines and keeps the promise.
        """
        self._follow_torch()
        configuration = {key: value for key, value in self._configuration.items() if key not in ("workers", "epoch_count")}
        for key, default in (("size_schedule", ""), ("read_ahead", "auto")):  # histories of earlier versions do not name them
            if configuration.get(key) == default:
                del configuration[key]
        configuration.update(data=self._native.folder, cores=_native.usable_cores())
        for key, variable in (("sim_link", "PENSTOCK_SIM_LINK"), ("cache_limit", "PENSTOCK_CACHE_LIMIT")):
            if "://" in self._native.folder or self._native.folder.startswith("sim:"):
                configuration[key] = os.environ.get(variable, "")
        return Watch(self._native, configuration, name, history, say)

    def digest(self, epochs: int = 1) -> List[str]:
        """One digest per epoch 0 .. epochs - 1 of all that this rank gets: what `loadbench --digest` prints."""
        self._follow_torch()
        return [self._native.digest(epoch) for epoch in range(whole("epochs", epochs, 1))]

    def close(self) -> None:
        """Ends the workers' work and frees the memory. Batches that are held stay valid. May be called again."""
        if self._feed is not None:
            self._feed.close()
        self._native.close()

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def batch_size(self) -> int:
        """Samples per batch, over all ranks together."""
        return self._configuration["batch_size"]

    @property
    def dataset(self) -> Dataset:
        """The samples that epochs are made of, one by one: those of the split that `subset` and `exclude_ids` leave. Without a
        sampler and tail="drop" an epoch has each of them once."""
        if self._dataset is None:
            others = self._configuration["also"]
            split = self._configuration["split"]
            dataset = Dataset([self._native.folder, *others], split) if others else Dataset(self._native.folder)
            self._dataset = dataset._of(self._native.subset)
        return self._dataset

    @property
    def class_names(self) -> List[str]:
        return self._native.class_names

    @property
    def selection(self) -> str:
        """Which samples an epoch has, and how often; "" for all of them, once. A line for people."""
        return self._native.selection_text

    @property
    def sample_count(self) -> int:
        """Samples of this rank in an epoch."""
        return self._native.samples_per_epoch

    @property
    def image_shape(self) -> Tuple[int, int, int]:
        """C, H, W of one image; with a size_schedule of the largest."""
        height, width, channels = self._native.extent
        return channels, height, width

    @property
    def memory_bytes(self) -> int:
        """Memory for batches: those that are made ahead, those that are held, and what is kept for later."""
        return self._native.memory_bytes

    def __repr__(self) -> str:
        lists = " | ".join([self._native.augment or "no augmentation", *self._configuration["views"]])
        whose = f" by the mean and deviation of split {self._native.normalize_split}" if _OWN_NORMALIZE.search(lists) else ""
        count = len(self._native.subset) // 8 or self._native.size
        return (f"<penstock.Loader {shown(self._native.folder)}: {count} samples, {len(self)} batches of {self.batch_size}, "
                f"{lists}{whose}>")

    def __reduce__(self) -> Tuple[Any, ...]:
        with self._lock:
            return _made_again, (type(self), self._given, self._epoch, self._next_batch)

    def _arrays(self) -> "_native.Arrays":
        name = self._arrays_name or ("torch" if "torch" in sys.modules else "numpy")
        if name == "numpy" and self._native.layout.startswith("bf16"):
            raise ConfigError("loader: layout is bf16, which NumPy does not have; expected f32, f16 or u8, or "
                              "`import torch` or arrays=\"dlpack\"")
        if name != "dlpack":
            # Here, because Ctrl-C while C++ imports it would become another exception.
            importlib.import_module("numpy" if name == "numpy" else "torch.utils.dlpack")
        return getattr(_native.Arrays, name)


def _made_again(kind: "type[Loader]", given: Dict[str, Any], epoch: int, next_batch: int) -> Loader:
    options = dict(given)
    loader = kind(options.pop("data"), **options)
    loader._epoch, loader._next_batch = epoch, next_batch
    return loader
