"""Batches on a CUDA device: page-locked slots, copies on a stream of their own, levels normalised there.

    copy stream      [copy k+1]        [copy k+2]
    consumer         [ step k ........][ step k+1 ......]
    host             copy k+1, give k, launch step k, copy k+2, give k+1, ...

The loader makes levels (u8, a quarter of the bytes of f32), which the device normalises.
"""
import collections
import contextlib
import importlib
import weakref
from typing import Any, Deque, Dict, Iterator, NamedTuple, Tuple

from penstock.errors import ConfigError, DeviceError

_MOST_COPIES = 4  # that may be under way; each holds the memory of a batch


def find_device(device: Any) -> Any:
    """The CUDA device as a torch.device; None for the memory of the host. Raises DeviceError where torch has no such device."""
    if device is None or str(device) == "cpu":
        return None
    if str(device).partition(":")[0] != "cuda":
        raise ConfigError(f"loader: device is {str(device)!r:.200}; expected None, \"cpu\", \"cuda\" or \"cuda:1\"")
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise DeviceError(f"loader: device is {str(device)!r:.200}, and torch is not installed; expected device=None, or torch "
                          "with CUDA") from None
    if not torch.cuda.is_available():
        raise DeviceError(f"loader: device is {str(device)!r:.200}, and torch {torch.__version__} sees no CUDA device; expected "
                          "device=None, or a machine with one")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise ConfigError(f"loader: device is {str(device)!r:.200}; expected \"cuda\" or \"cuda:1\"") from None
    index = torch.cuda.current_device() if found.index is None else found.index
    if index >= torch.cuda.device_count():
        raise DeviceError(f"loader: device is {str(device)!r:.200}; expected cuda:0 to cuda:{torch.cuda.device_count() - 1}")
    return torch.device("cuda", index)


def current(device: Any) -> Any:
    """In its `with` the device is the thread's current one. CUDA's runtime gives page-locked memory only beside a context on
    the current device, which takes some hundred MB there: on a rank's own device, and not on device 0 for every rank."""
    return contextlib.nullcontext() if device is None else importlib.import_module("torch").cuda.device(device)


@contextlib.contextmanager
def opening(device: Any) -> Iterator[None]:
    """For a loader that is opened for a device, whose layout u8 is none that the user has asked for: rasters have no such
    levels, and the error says what the device has to do with them."""
    try:
        yield
    except ConfigError as error:
        before, found, pictures = str(error).partition("layout u8: ")
        if device is None or before or not found:
            raise
        raise ConfigError(f'loader: device is "{device}", to which levels of u8 are copied, and {pictures.partition(";")[0]}; expected '
                          "device=None, and a copy of each batch, as in images.to(\"cuda\")") from None


def page_locking() -> Tuple[int, int]:
    """The addresses of cudaHostAlloc and cudaFreeHost in the CUDA runtime that torch has loaded."""
    ctypes = importlib.import_module("ctypes")  # here: it took 3.5 of the 51 ms of importing the package
    version = importlib.import_module("torch").version.cuda or ""
    for name in (f"libcudart.so.{version.partition('.')[0]}", f"libcudart.so.{version}"):
        try:
            runtime = ctypes.CDLL(name)
            return tuple(ctypes.cast(function, ctypes.c_void_p).value or 0
                         for function in (runtime.cudaHostAlloc, runtime.cudaFreeHost))  # type: ignore[return-value]
        except (OSError, AttributeError):
            continue
    raise DeviceError(f"loader: torch for CUDA {version} has loaded no libcudart, which the loader needs for page-locked "
                      "memory; expected torch's own wheel, or device=None")


class Copy(NamedTuple):
    """A batch that is under way. `source` keeps its memory until `copied` has passed."""
    columns: Dict[str, Any]  # all but the ids
    copied: Any
    source: Any


def _wait_for_first(copies: Deque[Copy]) -> None:
    """The copy goes after it has ended, so that Ctrl-C while this waits leaves it there; another thread may have been faster."""
    with contextlib.suppress(IndexError):
        first = copies[0]
        first.copied.synchronize()
        if copies[0] is first:
            copies.popleft()


def _wait_for(copies: Deque[Copy]) -> None:
    while copies:
        _wait_for_first(copies)


class Feed:
    """Copies batches to the device.

    Every tensor is allocated on the copy stream. The consumer's stream waits for the copy, and the allocator is told that
    this stream uses the tensor (record_stream), so that its memory is not given to the next copy while a step still
    reads it.
    """

    # normalizations: by the name of a column with pictures.
    def __init__(self, torch: Any, device: Any, layout: str, channels_last: bool,
                 normalizations: Dict[str, Tuple[Any, Any]]) -> None:
        self._torch, self._device = torch, device
        self._dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "u8": None}[layout]
        self._format = torch.channels_last if channels_last else torch.contiguous_format
        self._stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self._stream):  # which owns their memory, so that nobody gets it before this stream is done
            self._normalizations = {name: tuple(torch.tensor(values, device=device).view(1, -1, 1, 1) for values in pair)
                                    for name, pair in normalizations.items()}
        self._under_way: Deque[Copy] = collections.deque()
        weakref.finalize(self, _wait_for, self._under_way)  # also at the end of the process

    def begin(self, batch: Any) -> Copy:
        """Starts the copy of a batch of the host."""
        with self._torch.cuda.stream(self._stream):
            columns = {name: column.to(self._device, non_blocking=True)
                       for name, column in batch.columns.items() if name != "ids"}
            for name, (scale, bias) in self._normalizations.items():
                columns[name] = self._normalised(columns[name], scale, bias)
            copied = self._torch.cuda.Event()
            copied.record(self._stream)
        copy = Copy(columns, copied, batch)
        self._under_way.append(copy)
        while self._under_way and (len(self._under_way) > _MOST_COPIES or self._under_way[0].copied.query()):
            _wait_for_first(self._under_way)
        return copy

    def deliver(self, copy: Copy) -> None:
        """From here on the consumer's current stream may use the tensors."""
        consumer = self._torch.cuda.current_stream(self._device)
        consumer.wait_event(copy.copied)
        for tensor in copy.columns.values():
            self._record_stream(tensor, consumer)

    def close(self) -> None:
        """Waits for all copies, so that the memory that they read may go."""
        _wait_for(self._under_way)

    def _normalised(self, levels: Any, scale: Any, bias: Any) -> Any:
        """Computed in f32 and then rounded, as the loader does it on the host."""
        if self._dtype is None:
            return levels
        values = levels.to(self._torch.float32, memory_format=self._format).mul_(scale).add_(bias)
        return values.to(self._dtype)

    @staticmethod
    def _record_stream(tensor: Any, stream: Any) -> None:
        tensor.record_stream(stream)
