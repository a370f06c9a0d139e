"""Packing to S3 and Google's storage: the bytes of a local pack, whatever goes wrong on the way."""
import shutil
import signal
import subprocess
import threading
import time

import pytest

from far_tool import BIN, KEY, SECRET, clean, digest, refusal, run, s3, until
from far_server import FarServer, Fault

PART = 8 << 20
SMALL = ("--source", "digits(count=600,size=40)", "--shards", 6, "--quiet")  # about 160 KB per shard
TINY = ("--source", "digits(count=40,size=12)", "--shards", 4, "--quiet")  # their sums are computed by the server
LARGE = ("--source", "digits(count=6000,size=40)", "--shards", 1, "--quiet")  # one shard of two parts


def service(folder, **more):
    folder.mkdir(exist_ok=True)
    return FarServer(folder, keys={KEY: SECRET}, bucket="b", writable=True, **more)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    top = tmp_path_factory.mktemp("local")
    for name, words in (("small", SMALL), ("large", LARGE), ("tiny", TINY)):
        run("shardprep", "pack", *words, "--out", top / name)
    return top


@pytest.fixture
def temporary(tmp_path):
    (tmp_path / "tmp").mkdir()
    return tmp_path / "tmp"


def pack_to(address, words, server, temporary, **more):
    return run("shardprep", "pack", *words, "--out", address, TMPDIR=temporary, **s3(server, **more))


def methods(server, part=""):
    return [method for _, method, path, _ in server.requests if part in path]


def test_the_bytes_are_those_of_a_local_pack(local, tmp_path, temporary):
    with service(tmp_path / "far") as server:
        pack_to("s3://b/set", SMALL, server, temporary)
        assert files_of(tmp_path / "far/set/train") == files_of(local / "small/train")
        written = [path for _, method, path, _ in server.requests if method in ("PUT", "POST")]
        assert written[-1].endswith("/manifest.json") and len(written) == 7  # shards first, with one PUT for each
        assert not list(temporary.iterdir())
        assert digest("s3://b/set", tmp_path / "cache", **s3(server)) == digest(local / "small")
        google = {"GS_ENDPOINT_URL": server.url, "GS_ACCESS_KEY_ID": KEY, "GS_SECRET_ACCESS_KEY": SECRET}
        pack_to("gs://b/google", SMALL, server, temporary, **google)
        assert files_of(tmp_path / "far/google/train") == files_of(local / "small/train")


FAULTS = {
    "503": Fault("shard-", "status", 4, status=503, code="SlowDown", every=2),
    "cut": Fault("shard-", "cut", 3, at=1 << 20, every=2),
    "lost": Fault("shard-", "lost", 4, every=2),
    "late": Fault("shard-", "late", 4, code="InternalError", every=2),
    "silent": Fault("shard-", "silent", 3, every=2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_parts_survive(name, local, tmp_path, temporary):
    """A fault is met by every second request: the first one of each step of a multipart upload."""
    with service(tmp_path / "far", faults=[FAULTS[name]]) as server:
        pack_to("s3://b/set", LARGE, server, temporary)
        assert FAULTS[name].left == 0, "the fault was not met"
        assert len(server.uploads) == (name in ("lost", "late"))  # begun without an answer: nobody knows its name
        assert files_of(tmp_path / "far/set/train") == files_of(local / "large/train")


def test_an_upload_that_fails_is_aborted_and_the_next_one_sends_what_lacks(local, tmp_path, temporary):
    words = ("shardprep", "pack", *SMALL, "--jobs", 1, "--out", "s3://b/set")
    with service(tmp_path / "far", faults=[Fault("shard-00003", "status", 10_000, status=500)]) as server:
        known = s3(server, TMPDIR=temporary, AWS_MAX_ATTEMPTS=2)
        assert "shard-00003-of-00006.safetensors: HEAD: status 500, 2 times" in refusal(*words, code=3, **known)
        assert sorted(files_of(tmp_path / "far/set/train")) == [f"shard-0000{i}-of-00006.safetensors" for i in range(3)]
        assert not list(temporary.iterdir())
        server.faults.clear()
        server.forget()
        run(*words, **known)
        assert methods(server, "shard-").count("PUT") == 3
        assert files_of(tmp_path / "far/set/train") == files_of(local / "small/train")
    with service(tmp_path / "parts", faults=[Fault("shard-", "late", 10_000, code="InternalError")]) as server:
        server.faults[0].left = 0

        def fail_second_part():
            until(lambda: methods(server, "shard-").count("PUT") == 1)
            server.faults[0].left = 10_000
        thread = threading.Thread(target=fail_second_part)
        thread.start()
        line = refusal("shardprep", "pack", *LARGE, "--out", "s3://b/set", code=3, **s3(server, TMPDIR=temporary, AWS_MAX_ATTEMPTS=2))
        thread.join()
        assert "InternalError, 2 times" in line
        assert methods(server, "shard-")[-1] == "DELETE" and not server.uploads


def test_a_killed_packing_goes_on(local, tmp_path, temporary):
    with service(tmp_path / "far", faults=[Fault("shard-00004", "silent", 1)]) as server:
        command = [BIN / "shardprep", "pack", *map(str, SMALL), "--jobs", "1", "--out", "s3://b/set"]
        environment = clean(TMPDIR=temporary, **{**s3(server), "PENSTOCK_DOWNLOAD_TIMEOUT": 60})
        child = subprocess.Popen(command, env=environment)
        until(lambda: server.count("shard-00004") == 1)
        assert sum(path.stat().st_size for path in temporary.rglob("*.safetensors")) < 300_000  # one shard
        child.send_signal(signal.SIGKILL)
        child.wait()
        server.forget()
        out = run("shardprep", "pack", *[word for word in SMALL if word != "--quiet"], "--jobs", 1, "--out", "s3://b/set",
                  TMPDIR=temporary, **s3(server))
        assert "400 of them packed before an interruption" in out
        assert methods(server, "shard-").count("PUT") == 2
        assert files_of(tmp_path / "far/set/train") == files_of(local / "small/train") and not list(temporary.iterdir())


def test_a_set_that_is_there_is_replaced_by_force_alone(local, tmp_path, temporary):
    with service(tmp_path / "far") as server:
        known = s3(server, TMPDIR=temporary)
        pack_to("s3://b/set", ("--source", "digits(count=60,size=12)", "--shards", 9, "--quiet"), server, temporary)
        words = ("shardprep", "pack", *SMALL, "--out", "s3://b/set")
        assert "s3://b/set/train: exists already" in refusal(*words, code=2, **known)
        server.forget()
        run(*words, "--force", **known)
        changes = [(method, path.rsplit("/", 1)[1][:5]) for _, method, path, _ in server.requests if method in ("PUT", "DELETE")]
        assert changes[:2] == [("PUT", "repla"), ("DELETE", "manif")] and changes[8] == ("PUT", "manif")
        assert files_of(tmp_path / "far/set/train") == files_of(local / "small/train")


def kill_when(is_time, words, known):
    child = subprocess.Popen([BIN / "shardprep", "pack", *map(str, words), "--jobs", "1"], env=clean(**{**known, "PENSTOCK_DOWNLOAD_TIMEOUT": 60}))
    until(is_time)
    child.send_signal(signal.SIGKILL)
    child.wait()


def test_what_a_killed_packing_was_to_replace_is_removed_by_the_next_one(local, tmp_path, temporary):
    """Killed twice, the second time before it has sent a shard, and with other shards again."""
    with service(tmp_path / "far") as server:
        known = s3(server, TMPDIR=temporary)
        pack_to("s3://b/set", ("--source", "digits(count=60,size=12)", "--shards", 9, "--quiet"), server, temporary)
        for silent, shards in (("shard-00004-of-00006", 6), ("shard-00000-of-00003", 3)):
            server.faults = [Fault(silent, "silent", 1)]
            words = ("--source", "digits(count=600,size=40)", "--shards", shards, "--quiet", "--out", "s3://b/set", "--force")
            kill_when(lambda: server.count(silent) == 1, words, known)
        assert len(files_of(tmp_path / "far/set/train")) == 9 + 4 + 1  # and the list of what is replaced
        run("shardprep", "pack", *SMALL, "--out", "s3://b/set", **known)
        assert files_of(tmp_path / "far/set/train") == files_of(local / "small/train")
        assert not list(temporary.iterdir())


def test_a_multipart_upload_of_a_killed_packing_is_aborted_by_the_next_one(local, tmp_path, temporary):
    with service(tmp_path / "far") as server:
        known = s3(server, TMPDIR=temporary)
        server.faults = [Fault("shard-", "silent", 1, every=4)]  # asked for, begun, a part, a part
        kill_when(lambda: methods(server, "shard-").count("PUT") == 2, (*LARGE, "--out", "s3://b/set"), known)
        assert len(server.uploads) == 1
        run("shardprep", "pack", *SMALL, "--out", "s3://b/set", **known)  # whose shards have other names
        assert not server.uploads and not list(temporary.iterdir())
        assert files_of(tmp_path / "far/set/train") == files_of(local / "small/train")


def test_what_cannot_be_written_is_one_line(tmp_path, temporary):
    words = ("shardprep", "pack", *SMALL, "--out")
    line = refusal(*words, "https://host/set", code=2)
    assert "out is https://host/set, which is only read; expected a local folder, or an address of s3:// or gs://" in line
    with service(tmp_path / "far") as server:
        known = s3(server, TMPDIR=temporary)
        assert "part is 0" in refusal(*words, "s3://b/set", "--part", "0/2", code=2, **known)
        assert "NoSuchBucket" in refusal(*words, "s3://other/set", code=3, **known)
        server.writable = False
        line = refusal(*words, "s3://b/set", code=2, **known)
        assert "PUT: status 403 AccessDenied; expected a right to write it" in line and "environment AWS_ACCESS_KEY_ID" in line
        wrong = refusal(*words, "s3://b/set", code=2, **{**known, "AWS_SECRET_ACCESS_KEY": "wrong"})
        assert "SignatureDoesNotMatch" in wrong
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("part", ("shard-00003", "manifest.json"))
@pytest.mark.parametrize("kind", ("forget", "garble"))
def test_what_a_service_says_that_it_has_stored_is_looked_at(part, kind, local, tmp_path, temporary):
    """What is wrong once is sent again; what is wrong twice ends the packing. The service states no sum of garbled shards."""
    for times in (1, 1 << 30):
        shutil.rmtree(tmp_path / "far", ignore_errors=True)
        with service(tmp_path / "far", faults=[Fault(part, kind, times, only=("PUT",))], states_google_hash=True) as server:
            known = s3(server, TMPDIR=temporary)
            words = ("shardprep", "pack", *TINY, "--out", "s3://b/set")
            if times == 1:
                run(*words, **known)
                assert files_of(tmp_path / "far/set/train") == files_of(local / "tiny/train")
                continue
            line = refusal(*words, code=3, **known)
            assert "the service says that it is stored, and it " + ("is not there" if kind == "forget" else "has crc32c") in line
            assert "twice" in line


def test_a_service_that_states_no_sums_is_asked_for_the_manifest(tmp_path, temporary):
    with service(tmp_path / "far", faults=[Fault("manifest.json", "garble", 1 << 30, only=("PUT",))]) as server:
        google = {"GS_ENDPOINT_URL": server.url, "GS_ACCESS_KEY_ID": KEY, "GS_SECRET_ACCESS_KEY": SECRET, "TMPDIR": temporary}
        line = refusal("shardprep", "pack", *TINY, "--out", "gs://b/set", code=3, **google)
        assert "manifest.json: the service has stored other bytes than the " in line


@pytest.mark.parametrize("method", ("PUT", "DELETE"))
def test_an_answer_that_drips_is_given_up(method, tmp_path, temporary):
    with service(tmp_path / "far") as server:
        known = s3(server, TMPDIR=temporary, PENSTOCK_RETRY_TIMEOUT=1)
        if method == "DELETE":
            run("shardprep", "pack", *TINY, "--out", "s3://b/set", **known)
        server.faults = [Fault("", "drip", 1 << 30, only=(method,))]
        line = refusal("shardprep", "pack", *TINY, "--out", "s3://b/set", "--force", code=3, **known)
        assert f"{method}: Operation too slow" in line and "expected a service that comes back" in line
