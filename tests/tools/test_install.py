"""cmake --install makes a package that other CMake projects find, and whose loader needs no LibTorch."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["PENSTOCK_BIN"])


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def test_another_project_links_the_loader_alone(tmp_path):
    prefix, build = tmp_path / "prefix", tmp_path / "build"
    run("cmake", "--install", BIN.parent, "--prefix", prefix)
    run("cmake", "-S", ROOT / "tests/consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    run(prefix / "bin/shardprep", "pack", "--source", "digits(count=100)", "--split", "train", "--out", tmp_path / "digits",
        "--shards", "2")
    assert run(build / "consumer", tmp_path / "digits") == "100 samples\n"
    libraries = run("ldd", build / "consumer")
    assert "libpenstock" in libraries
    assert "torch" not in libraries


@pytest.fixture(scope="module")
def beside_libtorch(tmp_path_factory):
    """The folder of a project that uses LibTorch itself, built against an installation."""
    prefix, build = tmp_path_factory.mktemp("prefix"), tmp_path_factory.mktemp("build")
    run("cmake", "--install", BIN.parent, "--prefix", prefix)
    run("cmake", "-S", ROOT / "tests/consumer/libtorch", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    return build


def test_a_libtorch_model_of_ones_own_learns_from_the_loader(beside_libtorch, tmp_path):
    run(BIN / "shardprep", "pack", "--source", "digits(count=500)", "--out", tmp_path, "--quiet")
    lines = run(beside_libtorch / "own_model", tmp_path).splitlines()
    assert len(lines) == 8
    assert float(lines[-1].split()[-1]) > 0.9 > float(lines[0].split()[-1]), lines


def test_libtorch_does_not_take_the_file_system_over(beside_libtorch, tmp_path):
    """libtorch_cpu.so exports a std::filesystem of its own; this program links it before libpenstock."""
    program = beside_libtorch / "pack_again"
    libraries = re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", program))
    assert libraries.index("libtorch_cpu.so") < libraries.index("libpenstock.so.0")
    done = subprocess.run([program, tmp_path / "digits"], capture_output=True, text=True, env={**os.environ, "LD_DEBUG": "bindings"})
    assert done.returncode == 0 and done.stdout == "11 removed\n", done.stderr[-1000:]
    calls = [line for line in done.stderr.splitlines()
             if "St10filesystem" in line and re.search(r"binding file \S*(libpenstock|pack_again)", line)]
    assert any("remove_all" in line for line in calls)
    assert [line for line in calls if re.search(r" to \S*libtorch", line)] == []


def test_libtorch_is_asked_for_by_name(tmp_path):
    run("cmake", "--install", BIN.parent, "--component", "loader", "--prefix", tmp_path / "prefix")
    done = subprocess.run(["cmake", "-S", ROOT / "tests/consumer/libtorch", "-B", tmp_path / "build",
                           f"-DCMAKE_PREFIX_PATH={tmp_path}/prefix"], capture_output=True, text=True)
    assert done.returncode != 0 and "no component train in this installation" in done.stderr


def test_installed_headers_name_no_third_party_type(tmp_path):
    run("cmake", "--install", BIN.parent, "--prefix", tmp_path)
    everything = sorted((tmp_path / "include/penstock").rglob("*.h"))
    headers = [header for header in everything if "train" not in header.parts]  # headers of train need LibTorch's
    assert headers and len(headers) < len(everything)
    for header in headers:
        for line in header.read_text().splitlines():
            for name in ("tbb", "jpeglib", "turbojpeg", "opencv", "cuda", "torch", "hwy", "nlohmann", "spng"):
                assert not (line.startswith("#include <") and name in line), f"{header}: {line}"


def test_the_loaders_prefetches_are_in_the_binary():
    """GCC dropped them once, and with them a third of the rate on MNIST, which no test of behaviour can see."""
    code = run("objdump", "--disassemble", "--no-show-raw-insn", BIN.parent / "lib/libpenstock.so")
    assert code.count("prefetcht0") >= 2 and code.count("prefetcht1") >= 1
