"""cmake --install gives a package that another CMake project finds, and whose loader needs no LibTorch."""
import os
import pathlib
import subprocess

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


def test_installed_headers_name_no_third_party_type(tmp_path):
    run("cmake", "--install", BIN.parent, "--prefix", tmp_path)
    headers = sorted((tmp_path / "include/penstock").rglob("*.h"))
    assert headers
    for header in headers:
        for line in header.read_text().splitlines():
            for name in ("tbb", "jpeglib", "turbojpeg", "opencv", "cuda", "torch", "hwy", "nlohmann", "spng"):
                assert not (line.startswith("#include <") and name in line), f"{header}: {line}"


def test_the_loaders_prefetches_are_in_the_binary():
    """GCC dropped them once, and with them a third of the rate on MNIST, which no test of behaviour can see."""
    code = run("objdump", "--disassemble", "--no-show-raw-insn", BIN.parent / "lib/libpenstock.so")
    assert code.count("prefetcht0") >= 2 and code.count("prefetcht1") >= 1
