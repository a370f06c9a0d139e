"""Faults of the machine under the tools: files that are cut short while they are read, no threads, no memory."""

import json
import os
import pathlib
import re
import resource
import struct
import subprocess
import zlib

import pytest

BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
BAD_DISK, FEW_THREADS = (BIN.parent / "lib" / f"lib{name}.so" for name in ("bad_disk", "few_threads"))
CONFIG, IO, CORRUPT, DEVICE = 2, 3, 4, 5
UNREADABLE = r"byte \d+ of the file cannot be read; expected a disk without errors"
CUT = r"the file was cut short while it was read, from \d+ bytes to \d+; expected that nobody changes it"


def limited(threads):
    """A command under which a tool can have this many threads, including its first one. The limit does not hold for root,
    so root becomes a user that has no other process."""
    if os.geteuid() != 0:
        own = sum(len(list(pathlib.Path(f"/proc/{process}/task").iterdir())) for process in os.listdir("/proc")
                  if process.isdigit() and os.stat(f"/proc/{process}").st_uid == os.geteuid())
        return ["prlimit", f"--nproc={own + threads}"]
    user = 20000 + os.getpid() % 40000
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all,+dac_override",
            "--ambient-caps=-all,+dac_override", "prlimit", f"--nproc={threads}"]


def run(tool, *arguments, code=0, fault=None, under=(), **options):
    """Runs a tool; `fault` is a variable of bad_disk and its value."""
    environment = dict(os.environ)
    if fault:
        environment |= {"LD_PRELOAD": str(BAD_DISK), f"PENSTOCK_TEST_{fault[0]}": fault[1]}
    done = subprocess.run([*under, BIN / tool, *map(str, arguments)], env=environment, capture_output=True, text=True,
                          timeout=60, **options)
    assert done.returncode == code, f"{tool} {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture
def data(tmp_path):
    """600 samples in 2 shards of 60 pages."""
    run("shardprep", "pack", "--source", "digits(count=600)", "--out", tmp_path / "data", "--shards", 2, "--quiet")
    return tmp_path / "data"


def is_one_line(stderr, pattern):
    return re.fullmatch(pattern + r"\n", stderr) is not None


@pytest.mark.parametrize("flags", [["--workers", 0], ["--workers", 1], ["--workers", "0,1,2"], ["--digest"],
                                   ["--workers", 1, "--on-corrupt", "substitute"]])
def test_loadbench_names_the_sample_that_cannot_be_read(data, flags):
    shard = re.escape(f"loadbench: {data}/train/shard-0000") + "[01]-of-00002.safetensors: sample "
    # Shard 1 has already been opened when shard 0 is cut.
    for fault, line in ((("UNREADABLE", "shard-00001:102400"), rf"{shard}\d+ \(id \d+\) at byte \d+: {UNREADABLE}"),
                        (("CUT", "shard-00001:shard-00000:102400"), rf"{shard}\d+: {CUT}")):
        done = run("loadbench", "--data", data, "--epochs", 2, *flags, code=IO, fault=fault)
        assert is_one_line(done.stderr, line), done.stderr
        assert done.stdout == ""


def test_verify_and_unpack_name_the_first_sample_that_cannot_be_read(data, tmp_path):
    where = re.escape(f"{data}/train/shard-00001-of-00002.safetensors")
    line = rf"{where}: sample (\d+) \(id \d+\) at byte \d+: {UNREADABLE}\n"
    fault = ("UNREADABLE", "shard-00001:102400")
    verified = run("shardprep", "verify", data, "--jobs", 1, code=IO, fault=fault)
    found = re.fullmatch(line + "shardprep: verify: 1 problem; expected none\n", verified.stderr)
    assert found, verified.stderr
    unpacked = run("shardprep", "unpack", data, "--out", tmp_path / "out", code=IO, fault=fault)
    assert re.match(line, unpacked.stderr).group(1) == found.group(1), unpacked.stderr
    lost = int(re.search(r"unpack: (\d+) problems; expected none", unpacked.stderr).group(1))
    assert lost in (6, 7) and unpacked.stderr.count("\n") == 3, unpacked.stderr  # lines: the first one, the number of others, the summary
    assert len([path for path in (tmp_path / "out").rglob("*") if path.is_file()]) == 600 - lost
    # If the file is cut when it is mapped, opening it finds that its columns are missing.
    for command in (["verify", data, "--jobs", 1], ["unpack", data, "--out", tmp_path / "none"], ["info", data]):
        shard = data / "train/shard-00001-of-00002.safetensors"
        whole = shard.read_bytes()
        done = run("shardprep", *command, code=IO, fault=("CUT", "shard-00001:shard-00001:102400"))
        assert re.match(rf"(shardprep: )?{where}: {CUT}\n", done.stderr), done.stderr
        shard.write_bytes(whole)


def test_pack_names_the_file_that_cannot_be_read(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(1, 6):
        (tmp_path / "in" / f"data_batch_{number}.bin").write_bytes(bytes(3073 * 10))
    pack = ["pack", "--source", "cifar10", "--input", tmp_path / "in", "--out", tmp_path / "out", "--quiet"]
    for fault, line in ((("UNREADABLE", "data_batch_3:8192"), rf"shardprep: .*/data_batch_3.bin: {UNREADABLE}"),
                        (("CUT", "data_batch_4:data_batch_3:8192"), rf"shardprep: .*/data_batch_3.bin: record \d+: {CUT}"),
                        (("UNREADABLE", "out/.train.partial/split/shard:8192"), rf"shardprep: .*/shard-0.*: {UNREADABLE}")):
        done = run("shardprep", *pack, code=IO, fault=fault)
        assert is_one_line(done.stderr, line), done.stderr
        assert not (tmp_path / "out").exists()
        (tmp_path / "in" / "data_batch_3.bin").write_bytes(bytes(3073 * 10))


THREADS = r"%s: (\d+) threads? (is|are) wanted and the system gives (\d+) \(limits: %s processes and threads of this user " \
          r"\(ulimit -u\).*\); expected fewer %s, or higher limits"


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_loadbench_wants_a_thread_for_each_worker(data, threads):
    for workers in (1, 2, 4):
        is_enough = workers < threads
        done = run("loadbench", "--data", data, "--epochs", 2, "--workers", workers, under=limited(threads),
                   code=0 if is_enough else DEVICE)
        if is_enough:
            continue
        line = "loadbench: " + THREADS % ("loader", r"\d+", "workers")
        found = re.fullmatch(line + "\n", done.stderr)
        assert found and found.group(1) == str(workers) and found.group(3) == str(threads - 1), done.stderr


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_shardprep_wants_a_thread_for_each_job(data, tmp_path, threads):
    commands = {
        "pack": ["--source", "digits(count=100)", "--out", tmp_path / "out", "--shards", 4],
        "verify": [data],
        "unpack": [data, "--out", tmp_path / "files"],
    }
    for command, arguments in commands.items():
        wanted = 2 if command != "pack" else 4  # at most one thread per shard
        is_enough = wanted < threads
        done = run("shardprep", command, *arguments, "--jobs", 4, under=limited(threads), code=0 if is_enough else DEVICE)
        if not is_enough:
            line = "shardprep: " + THREADS % ("jobs", r"\d+", r"jobs \(--jobs\)")
            assert is_one_line(done.stderr, line), done.stderr
    assert not (tmp_path / "out").exists() or threads > 4


def test_memory_that_is_not_there_is_named_with_its_amount_and_the_flag(data):
    limit = 400_000_000
    done = run("loadbench", "--data", data, "--workers", 0, "--batch-size", 100_000, "--augment", "resize(size=512),normalize", code=DEVICE,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert is_one_line(done.stderr, r"loadbench: loader: no memory for batch \d of 6, 62[0-9.]+ MB each \(.* of address "
                       r"space are used, 400.0 MB allowed by ulimit -v\); expected a smaller batch size \(--batch-size\) or "
                       r"less --prefetch, or more memory"), done.stderr


def write_png(path, height, width):
    """A small file with a black picture of the given size."""
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
    row = bytes(1 + width)
    pack = zlib.compressobj(1)
    pixels = b"".join(pack.compress(row) for _ in range(height)) + pack.flush()
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b""))


def test_a_picture_that_memory_is_too_small_for_is_named(tmp_path):
    (tmp_path / "in" / "class").mkdir(parents=True)
    write_png(tmp_path / "in" / "class" / "large.png", 12000, 20000)
    pack = ["pack", "--source", "image-folder", "--input", tmp_path / "in", "--jobs", 1, "--shards", 1, "--quiet"]
    limit = 220_000_000  # the picture's pixels are 240 MB
    few = {"code": DEVICE, "preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit))}
    done = run("shardprep", *pack, "--out", tmp_path / "none", **few)
    assert is_one_line(done.stderr, r"shardprep: .*/large.png: no memory for its pixels \(.*\); expected fewer --jobs, .*, "
                       "or more memory"), done.stderr
    run("shardprep", *pack, "--out", tmp_path / "out")
    for policy in ("fail", "substitute"):
        done = run("loadbench", "--data", tmp_path / "out", "--workers", 0, "--augment", "center-crop(size=8)",
                   "--on-corrupt", policy, **few)
        assert is_one_line(done.stderr, r"loadbench: .*: sample 0 \(id 0\) at byte \d+: no memory for decoding 20000 x "
                           r"12000 x 1 pixels .*; expected fewer workers, .*, or more memory"), done.stderr


def test_a_gzipped_idx_file_is_unpacked_no_further_than_its_header_says(tmp_path):
    """The file of 0.3 MB says that it is one picture; unpacked it has 300 MB of zeros, and the memory is limited to less."""
    pack = zlib.compressobj(1, wbits=31)
    content = pack.compress(struct.pack(">IIII", 0x803, 1, 28, 28))
    content += b"".join(pack.compress(bytes(1_000_000)) for _ in range(300)) + pack.flush()
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(struct.pack(">IIB", 0x801, 1, 7))
    limit = 150_000_000
    done = run("shardprep", "pack", "--source", "mnist", "--input", tmp_path, "--out", tmp_path / "out", code=CORRUPT,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert is_one_line(done.stderr, r"shardprep: .*/train-images-idx3-ubyte.gz: more than 784 bytes of data; expected 784, "
                       "as its dimensions say"), done.stderr


def train(data, out, *flags, threads=1, **options):
    return run("train", "--data", data, "--epochs", 2, "-b", 32, "--threads", threads, "--device", "cpu", "--out", out,
               *flags, **options)


@pytest.mark.parametrize("flags", [["-j", 0], ["-j", 1], ["-j", 1, "--resident"]])
def test_train_names_the_sample_that_cannot_be_read(data, tmp_path, flags):
    shard = re.escape(f"train: {data}/train/shard-00001-of-00002.safetensors")
    done = train(data, tmp_path / "run", *flags, code=IO, fault=("UNREADABLE", "shard-00001:102400"))
    assert is_one_line(done.stderr, rf"{shard}: sample \d+ \(id \d+\) at byte \d+: {UNREADABLE}"), done.stderr
    shard = re.escape(f"train: {data}/train/shard-00000-of-00002.safetensors")
    done = train(data, tmp_path / "run", *flags, code=IO, fault=("CUT", "shard-00001:shard-00000:102400"))
    assert is_one_line(done.stderr, rf"{shard}: sample \d+: {CUT}"), done.stderr


def test_train_names_the_weights_that_cannot_be_read(data, tmp_path):
    train(data, tmp_path / "run", "-j", 0)
    for flag, name in (("--pretrained", "model"), ("--resume", "checkpoint-last")):
        weights = tmp_path / "run" / f"{name}.safetensors"
        done = train(data, tmp_path / "again", "-j", 0, flag, weights, code=IO, fault=("UNREADABLE", f"{name}:40960"))
        assert is_one_line(done.stderr, re.escape(f"train: {weights}: ") + UNREADABLE), done.stderr


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 5])
def test_train_wants_its_threads(data, tmp_path, threads):
    """train needs its own thread, one more for OpenMP, one for LibTorch's pool, and two workers."""
    done = train(data, tmp_path / "run", "-j", 2, threads=2, under=limited(threads), code=0 if threads > 4 else DEVICE)
    where, advice = ("--threads 2", "of them") if threads < 3 else ("loader", "workers")
    if threads < 5:
        assert is_one_line(done.stderr, "train: " + THREADS % (where, r"\d+", advice)), done.stderr


def test_the_launcher_wants_the_threads_of_all_ranks(data, tmp_path):
    """Each rank needs its own thread, a worker and 9 threads of the communicator; the launcher needs one too."""
    for threads in (3, 8, 22):
        done = train(data, tmp_path / "run", "-j", 1, "--mode", "ddp", "--nproc", 2, under=limited(threads), code=DEVICE)
        assert is_one_line(done.stderr, "train: " + THREADS % ("--nproc 2", r"\d+", "ranks, --threads or --workers"))
    train(data, tmp_path / "run", "-j", 1, "--mode", "ddp", "--nproc", 2, under=limited(23))


def test_threads_that_are_ranks_and_do_not_start_end_the_run(data, tmp_path):
    """The launcher tries eight threads and then starts eight, of which the system gives about four."""
    environment = dict(os.environ, LD_PRELOAD=str(FEW_THREADS), PENSTOCK_TEST_THREADS="12")
    done = subprocess.run([BIN / "train", "--data", data, "--epochs", "2", "-b", "32", "-j", "0", "--threads", "1", "--device", "cpu",
                           "--hosting", "threads", "--mode", "ddp", "--nproc", "8", "--out", tmp_path / "run"], env=environment,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == DEVICE, done.stderr
    assert is_one_line(done.stderr, "train: " + THREADS % ("--hosting threads", r"\d+", r"ranks \(--nproc\)")), done.stderr


def large_weights(path):
    """20 GB of zeros that take no room on the disk."""
    header = json.dumps({"fc1.weight": {"dtype": "F32", "shape": [5_000_000_000], "data_offsets": [0, 20_000_000_000]}}).encode()
    header += b" " * (-len(header) % 8)
    path.write_bytes(struct.pack("<Q", len(header)) + header)
    os.truncate(path, 8 + len(header) + 20_000_000_000)
    return path


@pytest.mark.parametrize("flag, message", [("--resume", 'no "penstock" in its metadata'), ("--pretrained", "is missing")])
def test_a_file_that_is_larger_than_memory_is_mapped_and_judged_by_its_header(data, tmp_path, flag, message):
    weights = large_weights(tmp_path / "weights.safetensors")
    limit = 30_000_000_000  # enough for the map of the file, not for a copy beside it
    done = train(data, tmp_path / "run", "-j", 0, flag, weights, code=CORRUPT,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert message in done.stderr and "no memory" not in done.stderr, done.stderr


def test_a_model_that_memory_is_too_small_for_is_named_with_its_size(data, tmp_path):
    limit = 30_000_000_000
    done = train(data, tmp_path / "run", "-j", 0, "--arch", "mlp(hidden=1000:100000000)", code=DEVICE,
                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert is_one_line(done.stderr, r"train: --arch mlp\(hidden=1000:100000000\): no memory for 400.0 GB of its weights \(.*\); "
                       "expected a smaller model, or more memory"), done.stderr
