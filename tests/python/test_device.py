"""device="cuda", as far as it can be tried without a device: the errors, page-locked slots, and the order of copies.

FakeTorch is torch, whose streams and events only note what is asked of them, so that the copies stay in the memory of
the host. It proves the values and the order of calls. That a stream waits for another one is for a device to prove.
"""
import contextlib
import ctypes
import types

import penstock
import pytest
import torch
from penstock import _device, _epoch, _loader

from test_errors import failure

LEVELS = "random-resized-crop(size=32),flip"
CROP = f"{LEVELS},normalize"


class FakeEvent:
    def __init__(self, calls):
        self.calls, self.is_done = calls, False

    def record(self, stream):
        self.calls.append(("record", stream.name))

    def query(self):
        return self.is_done

    def synchronize(self):
        self.is_done = True
        self.calls.append(("synchronize",))


class FakeStream:
    def __init__(self, name, calls):
        self.name, self.calls = name, calls

    def wait_stream(self, other):
        self.calls.append(("wait_stream", self.name, other.name))

    def wait_event(self, event):
        self.calls.append(("wait_event", self.name))


class FakeTorch:
    """The parts of torch that Feed uses."""

    def __init__(self):
        self.calls = []
        self.consumer = FakeStream("consumer", self.calls)
        self.cuda = types.SimpleNamespace(Stream=lambda device: FakeStream("copy", self.calls), stream=self.stream,
                                          Event=lambda: FakeEvent(self.calls), current_stream=lambda device: self.consumer)

    def __getattr__(self, name):
        return getattr(torch, name)

    @contextlib.contextmanager
    def current(self, device):
        self.is_current = device is not None
        yield
        self.is_current = False

    @contextlib.contextmanager
    def stream(self, stream):
        self.calls.append(("enter", stream.name))
        yield
        self.calls.append(("leave", stream.name))


# The functions and the memory live as long as the process, as those of CUDA do: a loader may be collected after its test.
KEPT = []


@pytest.fixture
def fake(monkeypatch):
    """Loaders with device="fake" get a Feed that notes its calls, and memory from functions as those of CUDA are."""
    fake = FakeTorch()
    fake.memory, fake.alive, fake.elsewhere = [], 0, 0

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_uint)
    def allocate(out, byte_count, flags):
        block = ctypes.create_string_buffer(byte_count + 64)
        fake.memory.append(block)
        fake.alive += 1
        fake.elsewhere += not fake.is_current
        out[0] = (ctypes.addressof(block) + 63) // 64 * 64
        return 0 if flags == 1 else 1

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def release(memory):
        fake.alive -= 1
        return 0

    fake.functions = allocate, release
    KEPT.append(fake)
    monkeypatch.setattr(_loader, "find_device", lambda device: torch.device("cpu") if device == "fake" else None)
    monkeypatch.setattr(_loader, "page_locking",
                        lambda: tuple(ctypes.cast(function, ctypes.c_void_p).value for function in (allocate, release)))
    for module in (_loader, _epoch):
        monkeypatch.setattr(module, "current", fake.current)
    monkeypatch.setattr(_loader, "Feed", lambda _, *arguments: _device.Feed(fake, *arguments))
    monkeypatch.setattr(_device.Feed, "_record_stream",
                        staticmethod(lambda tensor, stream: fake.calls.append(("record_stream", stream.name))))
    return fake


def test_without_a_device_it_is_one_line(digits):
    if torch.cuda.is_available():
        return
    said = failure(penstock.DeviceError, penstock.Loader, digits, device="cuda")
    assert said == (f"loader: device is 'cuda', and torch {torch.__version__} sees no CUDA device; expected device=None, or a "
                    "machine with one")
    failure(penstock.DeviceError, penstock.Loader, digits, device=torch.device("cuda:1"))
    failure(penstock.ConfigError, penstock.Loader, digits, device="gpu")
    failure(penstock.ConfigError, penstock.Loader, digits, device=3)
    assert penstock.Loader(digits, device="cpu", batch_size=10).batch(0).images.device.type == "cpu"


def test_a_cuda_build_of_torch_has_the_runtimes_functions():
    if torch.version.cuda is None:
        assert "has loaded no libcudart" in failure(penstock.DeviceError, _device.page_locking)
    else:
        assert all(_device.page_locking())


@pytest.mark.parametrize("layout, dtype", [("f32", torch.float32), ("f16", torch.float16), ("bf16", torch.bfloat16),
                                           ("u8", torch.uint8)])
@pytest.mark.parametrize("channels_last", [False, True])
def test_the_values_are_those_of_rounded_levels(pictures, fake, layout, dtype, channels_last):
    options = {"batch_size": 7, "workers": 1, "channels_last": channels_last}
    batches = list(penstock.Loader(pictures, augment=LEVELS if layout == "u8" else CROP, layout=layout, device="fake", **options))
    levels = [batch.images for batch in penstock.Loader(pictures, augment=LEVELS, layout="u8", **options)]
    host = penstock.Loader(pictures, augment=CROP, **options)
    scale, bias = (torch.tensor(values).view(1, 3, 1, 1) for values in host._native.normalizations[0])
    assert [batch.index for batch in batches] == [0, 1, 2, 3] and batches[3].images.shape == (3, 3, 32, 32)
    for batch, level, (images, labels) in zip(batches, levels, host, strict=True):
        expected = level if layout == "u8" else (level.float() * scale + bias).to(dtype)
        assert batch.images.dtype == dtype and torch.equal(batch.images, expected) and torch.equal(batch.labels, labels)
        if layout == "f32":
            assert (batch.images - images).abs().max() <= 0.51 * scale.max()
        is_last = channels_last or layout == "u8"
        assert batch.images.is_contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)


@pytest.mark.parametrize("channels_last", [False, True])
def test_every_view_is_normalised_as_its_list_says(pictures, fake, channels_last):
    """Views on a device have the values of loaders of their own, which draw the same where the list draws nothing."""
    lists = ["resize(height=12,width=14),normalize", "resize(height=9,width=8)", "center-crop(size=10),normalize(mean=0.5,std=0.25)"]
    options = {"batch_size": 7, "workers": 1, "shuffle": "none", "device": "fake", "channels_last": channels_last}
    together = penstock.Loader(pictures, views=lists, **options)
    alone = [penstock.Loader(pictures, augment=text, **options) for text in lists]
    for batch, *others in zip(together, *alone, strict=True):
        assert len(batch.views) == 3
        for view, other in zip(batch.views, others):
            assert torch.equal(view, other.images) and view.dtype == torch.float32


def test_a_copy_begins_before_the_batch_before_it_is_given(pictures, fake):
    steps = iter(penstock.Loader(pictures, augment=CROP, batch_size=12, device="fake"))
    fake.calls.clear()
    next(steps)
    copy = [("enter", "copy"), ("record", "copy"), ("leave", "copy")]
    given = [("wait_event", "consumer")] + 3 * [("record_stream", "consumer")]  # images, labels, weights
    assert fake.calls == copy + copy + given
    next(steps)
    assert fake.calls == copy + copy + given + given
    assert next(steps, None) is None


def test_memory_is_kept_while_it_is_copied(digits, fake):
    loader = penstock.Loader(digits, batch_size=100, device="fake")
    for _ in loader:
        assert len(loader._feed._under_way) <= 4
    assert ("synchronize",) in fake.calls and len(loader._feed._under_way) == 4
    loader.close()
    assert not loader._feed._under_way


def test_a_loader_that_goes_waits_for_its_copies(digits, fake):
    images, labels = next(iter(penstock.Loader(digits, batch_size=100, device="fake")))
    assert fake.calls.count(("synchronize",)) == 2


def test_what_the_copy_stream_reads_is_its_own(digits, fake):
    loader = penstock.Loader(digits, batch_size=100, device="fake")
    assert fake.calls == [("enter", "copy"), ("leave", "copy")]  # scale and bias
    assert loader._feed._normalizations["images"][0].shape == (1, 1, 1, 1)


def test_slots_are_page_locked_and_given_back(digits, fake):
    loader = penstock.Loader(digits, batch_size=100, device="fake", workers=1)
    kept = list(loader)
    loader.batch(0)
    assert fake.alive > 10 and fake.elsewhere == 0
    del kept
    loader.close()
    del loader
    assert fake.alive == 0 and len(fake.memory) >= 4


def test_no_page_locked_memory_is_one_line(digits, fake, monkeypatch):
    refuse = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)(lambda *_: 2)
    release = fake.functions[1]
    KEPT.append(refuse)
    monkeypatch.setattr(_loader, "page_locking",
                        lambda: tuple(ctypes.cast(function, ctypes.c_void_p).value for function in (refuse, release)))
    failure(penstock.DeviceError, penstock.Loader, digits, device="fake")


def test_mixes_places_and_single_batches_are_those_of_the_host(digits, fake):
    options = {"augment": "normalize,mixup(alpha=1)", "batch_size": 64, "layout": "f32"}
    loader, host = penstock.Loader(digits, device="fake", **options), penstock.Loader(digits, **options)
    batch, expected = loader.batch(3), host.batch(3)
    assert torch.equal(batch.second_labels, expected.second_labels) and torch.equal(batch.mix_weights, expected.mix_weights)
    assert torch.equal(batch.ids, expected.ids) and (batch.images - expected.images).abs().max() < 0.05
    steps = iter(loader)
    next(steps)
    assert loader.state_dict()["batch"] == 1  # and not 2, of which the copy has begun
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert [batch.index for batch in loader] == list(range(1, 16))


def test_an_error_comes_from_the_step_that_would_have_given_the_batch(digits, fake, tmp_path):
    import shutil
    shutil.copytree(digits, tmp_path / "damaged")
    shard = sorted((tmp_path / "damaged").glob("train/shard-*"))[0]
    content = bytearray(shard.read_bytes())
    content[-2000] ^= 1
    shard.write_bytes(content)

    def outcomes(device):
        steps, found = iter(penstock.Loader(tmp_path / "damaged", batch_size=100, device=device)), []
        while True:
            try:
                found.append(next(steps).index)
            except StopIteration:
                return found
            except penstock.CorruptError:
                found.append("corrupt")
    assert outcomes("fake") == outcomes(None) and outcomes("fake").count("corrupt") == 1


def test_only_torch_has_devices(digits, fake):
    assert "expected torch's" in failure(penstock.ConfigError, penstock.Loader, digits, device="fake", arrays="numpy")
