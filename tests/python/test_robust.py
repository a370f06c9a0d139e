"""Ctrl-C, exceptions, threads, forks and the end of the interpreter: no hang, no leak, no crash."""
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import penstock
import pytest

from conftest import python

MAKE = """
import sys, penstock
loader = penstock.Loader(sys.argv[1], batch_size=50, workers=2, augment="affine(degrees=10),normalize")
"""


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("ending", [
    "for batch in loader: break",  # the loader is a global when the interpreter ends
    "kept = list(loader)",
    "for batch in loader: del loader; break",
    "loader.cycle = loader; next(iter(loader))",
    "sys.modules['kept'] = loader; steps = iter(loader); next(steps)",
    "import os; steps = iter(loader); next(steps); os._exit(0)",
    "other = penstock.Loader(sys.argv[1], workers=1); pairs = list(zip(loader, other))",
    "import torch; tensors = [images for images, _ in loader]",
    "import threading; threading.Thread(target=lambda: [None for _ in range(10**6) for batch in loader], daemon=True).start()",
    "import threading; threading.Thread(target=lambda: list(loader)).start()",
    "sys.exit(0)",
])
def test_the_interpreter_ends_whatever_the_loader_is_doing(digits, ending):
    done = python(MAKE + ending, digits)
    assert (done.returncode, done.stderr) == (0, "")


def test_daemon_threads_in_the_middle_of_a_batch_do_not_abort_the_process(digits):
    done = python("""
import sys, threading, penstock
for _ in range(4):
    loader = penstock.Loader(sys.argv[1], batch_size=1000, workers=0, arrays="dlpack",
                             augment="affine(degrees=10,interpolation=bilinear),normalize")
    steps = iter(loader)
    next(steps)  # the thread below makes the next epochs
    threading.Thread(target=lambda loader=loader: [None for _ in range(10**6) for batch in loader], daemon=True).start()
""", digits)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_exception_in_the_loop_leaves_through_the_loop(digits):
    done = python(MAKE + "for batch in loader: raise KeyError('mine')", digits)
    assert done.returncode == 1 and done.stderr.endswith("KeyError: 'mine'\n")


@pytest.mark.parametrize("work", [
    "[batch for _ in range(10**6) for batch in loader]",
    "loader.digest(10**6)",
    "[loader.batch(0) for _ in range(10**9)]",
])
def test_ctrl_c_ends_it_at_any_moment(digits, work):
    code = "import numpy\n" + MAKE + "print('begun', flush=True)\n" + work  # NumPy's own import makes other errors of it
    for delay in (0, 0.003, 0.05):
        process = subprocess.Popen([sys.executable, "-c", code, str(digits)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGINT and errors.endswith("KeyboardInterrupt\n"), errors


def test_ctrl_c_loses_no_batch(digits):
    loader = penstock.Loader(digits, batch_size=10, workers=1, augment="affine(degrees=10),normalize")
    indices, interrupted, stop = [], 0, threading.Event()
    may_begin = []  # not before the handler's exception is caught

    def interrupt():
        while not stop.wait(0.0005):
            if may_begin:
                signal.raise_signal(signal.SIGUSR1)

    def handler(*_):
        raise InterruptedError

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=interrupt)
    steps = iter(loader)
    try:
        thread.start()
        while True:
            try:
                may_begin.append(True)
                batch = next(steps)
                indices.append(batch.index)
            except InterruptedError:
                interrupted += 1
            except StopIteration:
                break
    finally:
        while True:
            try:
                stop.set()
                thread.join()
                signal.signal(signal.SIGUSR1, before)
                break
            except InterruptedError:
                pass
    # A signal between the step and the list loses the list's entry, and never the order.
    assert indices == sorted(set(indices))


def test_threads_may_share_a_loader(digits):
    loader = penstock.Loader(digits, batch_size=10, workers=2)
    steps, lock, indices = iter(loader), threading.Lock(), []

    def work():
        while True:
            try:
                batch = next(steps)
            except StopIteration:
                return
            with lock:
                indices.append(batch.index)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(indices) == list(range(100))
    assert loader.state_dict()["epoch"] == 1


def test_closing_while_another_thread_waits(digits):
    loader = penstock.Loader(digits, batch_size=10, workers=1, augment="affine(degrees=10),normalize")
    ended = []

    def work():
        try:
            while True:
                list(loader)
        except penstock.ConfigError as error:
            ended.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    while loader.statistics()["batch_count"] == 0:
        pass
    loader.close()
    thread.join()
    assert ended == ["loader: is closed; expected a loader that is open"]


def test_other_python_threads_run_while_a_batch_is_made(digits):
    loader = penstock.Loader(digits, batch_size=1000, workers=0, augment="affine(degrees=10),normalize")
    steps, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            steps[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    while steps[0] == 0:
        pass
    before = steps[0]
    loader.digest(epochs=50)
    during = steps[0] - before
    stop.set()
    thread.join()
    assert during > 0


def test_a_fork_is_told_that_the_workers_are_not_there(digits):
    done = python(MAKE + """
import os, warnings
warnings.simplefilter("ignore")
next(iter(loader))
child = os.fork()
if child == 0:
    for work in (lambda: next(iter(loader)), lambda: penstock.Loader(sys.argv[1], workers=1)):
        try:
            work()
        except penstock.ConfigError as error:
            print("a fork of" in str(error), flush=True)
    print(len(list(penstock.Loader(sys.argv[1], workers=0, batch_size=100))), flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1], flush=True)
next(iter(loader))
""", digits)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "True\nTrue\n10\n0\n")


@pytest.mark.parametrize("order", ["import faulthandler; faulthandler.enable()\n{}", "{}\nimport faulthandler; faulthandler.enable()"])
@pytest.mark.parametrize("name", ["SIGBUS", "SIGSEGV"])
def test_faulthandler_still_says_where(digits, order, name):
    code = order.format(MAKE + "steps = iter(loader); next(steps)") + f"\nimport os, signal; os.kill(os.getpid(), signal.{name})"
    done = python(code, digits)
    assert done.returncode == -getattr(signal, name)
    assert done.stderr.startswith("Fatal Python error: ") and 'File "<string>"' in done.stderr


CUT = """
import os
def cut():
    shard = os.path.join(sys.argv[1], "train", sorted(name for name in os.listdir(sys.argv[1] + "/train") if "shard" in name)[0])
    os.truncate(shard, os.path.getsize(shard) // 2 // 4096 * 4096)
"""


@pytest.mark.parametrize("order", [
    "faulthandler.enable(); {make}; steps = iter(loader); next(steps); cut()",
    "{make}; steps = iter(loader); next(steps); faulthandler.enable(); next(steps); cut()",
    "{make}; faulthandler.enable(); cut(); steps = iter(loader)",
    "{make}; faulthandler.enable(); steps = iter(loader); faulthandler.disable(); faulthandler.enable(); next(steps); cut()",
])
def test_a_shard_cut_short_is_an_exception_whenever_faulthandler_was_enabled(digits, tmp_path, order):
    shutil.copytree(digits, tmp_path / "data")
    make = "loader = penstock.Loader(sys.argv[1], batch_size=50, workers=2, prefetch=1)"
    done = python(f"""
import sys, faulthandler, penstock
{CUT}
{order.format(make=make)}
try:
    list(steps)
except penstock.IoError as error:
    print("cut short" in str(error))
""", tmp_path / "data")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_a_single_sample_of_a_cut_shard_is_an_exception_too(digits, tmp_path):
    shutil.copytree(digits, tmp_path / "data")
    done = python(f"""
import sys, faulthandler, penstock
{CUT}
data = penstock.Dataset(sys.argv[1])
faulthandler.enable(); cut()
try:
    list(data)
except penstock.IoError as error:
    print("cut short" in str(error))
""", tmp_path / "data")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


@pytest.mark.parametrize("name", ["SIGBUS", "SIGSEGV"])
def test_faulthandler_still_says_where_after_the_guard_is_back(digits, name):
    code = MAKE + f"""
import faulthandler, os, signal
steps = iter(loader); next(steps); faulthandler.enable(); next(steps)
os.kill(os.getpid(), signal.{name})"""
    done = python(code, digits)
    assert done.returncode == -getattr(signal, name)
    assert done.stderr.startswith("Fatal Python error: ") and 'File "<string>"' in done.stderr


def test_a_fork_reads_single_samples(digits):
    done = python("""
import os, sys, warnings, penstock
warnings.simplefilter("ignore")
data = penstock.Dataset(sys.argv[1])
before = data[5].image
next(iter(penstock.Loader(sys.argv[1], workers=1)))
if os.fork() == 0:
    print((data[5].image == before).all(), flush=True)
    os._exit(0)
os.wait()
""", digits)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_memory_does_not_grow(digits):
    loader = penstock.Loader(digits, batch_size=100, workers=2, augment="affine(degrees=10),normalize")

    def epochs(count):
        for _ in range(count):
            for images, labels in loader:
                pass

    epochs(5)
    before = resident_bytes()
    epochs(20)
    assert resident_bytes() - before < 20e6


def test_loaders_come_and_go(digits):
    for _ in range(50):
        loader = penstock.Loader(digits, batch_size=100, workers=2)
        next(iter(loader))
    assert len(os.listdir("/proc/self/fd")) < 100
    assert len(os.listdir("/proc/self/task")) < 40


def test_the_package_may_be_imported_anew(digits):
    done = python("""
import sys, penstock
old = penstock.Loader(sys.argv[1], batch_size=100, workers=1)
for name in [name for name in sys.modules if name.split(".")[0] == "penstock"]:
    del sys.modules[name]
import penstock as again
new = again.Loader(sys.argv[1], batch_size=100, workers=1)
print(again is penstock, len(list(old)), [batch.ids.tolist() for batch in old] == [batch.ids.tolist() for batch in new])
try:
    new.batch(10)
except again.ConfigError as error:
    print(error)
""", digits)
    assert (done.returncode, done.stdout, done.stderr) == (
        0, "False 10 False\nloader: batch is 10; expected 0 to 9\n", "")
