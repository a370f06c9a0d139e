"""Data sets behind http, https, S3 and Google's storage, with the cache of the node, and what happens when things fail."""
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from far_server import FarServer, Fault, make_certificate  # noqa: E402
from shardprep_tool import manifest_of, pack  # noqa: E402

BIN = pathlib.Path(os.environ["PENSTOCK_BIN"]).resolve()
KEY, SECRET, TOKEN = "AKIAFARTEST", "far/secret+of/the=test", "token-of-the-session"
FETCH = ("loadbench", "--digest", "--epochs", 1, "--workers", 1, "--data")  # reads all shards
SHARDS, SIZE = 6, 40  # about 160 KB per shard


def clean(**more):
    """An environment in which no credentials or proxies of the machine are seen, and waits are short."""
    names = ("AWS_", "S3_", "GS_", "PENSTOCK_CACHE", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    return {**kept, "AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent", "PENSTOCK_DOWNLOAD_TIMEOUT": "1",
            "PENSTOCK_RETRY_TIMEOUT": "20", **{name: str(value) for name, value in more.items()}}


def run(tool, *words, code=0, timeout=90, **environment):
    done = subprocess.run([BIN / tool, *map(str, words)], capture_output=True, text=True, timeout=timeout,
                          env=clean(**environment))
    assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def refusal(tool, *words, code, **environment):
    """The one line that a tool prints."""
    message = run(tool, *words, code=code, **environment)
    assert message.count("\n") == 1, message
    assert SECRET not in message and TOKEN not in message
    return message


def digest(data, cache=None, *words, workers=2, **environment):
    if cache is not None:
        words += ("--cache-dir", cache)
    return run("loadbench", "--data", data, "--digest", "--epochs", 2, "--workers", workers, *words, **environment)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("far") / "set"
    pack(out, "--quiet", source=f"digits(count=600,size={SIZE})", shards=SHARDS)
    return out


@pytest.fixture(scope="module")
def expected(dataset):
    return digest(dataset)


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def shard_bytes(dataset):
    return sum(entry["byte_count"] for entry in manifest_of(dataset / "train")["shards"])


def largest(dataset):
    return max(entry["byte_count"] for entry in manifest_of(dataset / "train")["shards"])


def s3(server, **more):
    return {"AWS_ENDPOINT_URL_S3": server.url, "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, **more}


def test_the_digest_is_that_of_the_local_set_and_a_full_cache_fetches_nothing(dataset, expected, cache):
    with FarServer(dataset) as server:
        assert digest(server.url, cache) == expected
        assert shard_bytes(dataset) <= server.byte_count < 1.05 * shard_bytes(dataset)
        server.forget()
        assert digest(server.url, cache) == expected
        assert server.count(".safetensors") == 0 and server.byte_count < 0.05 * shard_bytes(dataset)
        # A split's own folder, with a slash after it, is the same.
        assert digest(server.url + "/train/", cache) == expected


def test_https_needs_a_certificate_that_somebody_vouches_for(dataset, expected, cache, tmp_path):
    certificate = make_certificate(tmp_path)
    with FarServer(dataset, certificate=certificate) as server:
        message = refusal("loadbench", "--data", server.url, "--digest", "--cache-dir", cache, code=2)
        assert "certificate" in message and "AWS_CA_BUNDLE" in message
        assert digest(server.url, cache, AWS_CA_BUNDLE=certificate) == expected


def test_s3_and_google_are_signed(dataset, expected, cache):
    with FarServer(dataset, keys={KEY: SECRET}, tokens={TOKEN, None}, bucket="data.set") as server:
        assert digest("s3://data.set/train", cache, AWS_SESSION_TOKEN=TOKEN, **s3(server)) == expected
        assert server.count("/data.set/train/manifest.json") > 0
        assert digest("gs://data.set/train", cache, GS_ENDPOINT_URL=server.url, GS_ACCESS_KEY_ID=KEY,
                      GS_SECRET_ACCESS_KEY=SECRET) == expected


def test_names_are_encoded_as_they_are_signed(dataset, expected, cache, tmp_path):
    odd = tmp_path / "root" / "a+b (c)~ü" / "train"
    odd.parent.mkdir(parents=True)
    odd.symlink_to(dataset / "train")
    with FarServer(tmp_path / "root", keys={KEY: SECRET}, bucket="bucket") as server:
        message = refusal("shardprep", "info", "s3://bucket/a+b (c)~ü", code=2, **s3(server))
        assert "has a space" in message
        plain = odd.parent.with_name("a+b(c)~ü")
        odd.parent.rename(plain)
        assert digest("s3://bucket/a+b(c)~ü", cache, **s3(server)) == expected


FAULTS = {
    "503": [Fault("shard-", "status", 4, status=503, code="SlowDown")],
    "429": [Fault("shard-00002", "status", 2, status=429, retry_after=1)],
    "500": [Fault("manifest", "status", 2, status=500, code="InternalError")],
    "reset": [Fault("shard-00001", "reset", 3, at=50_000)],
    "close": [Fault("shard-", "close", 6, at=70_001)],
    "range": [Fault("shard-00003", "range", 2)],
    "flip": [Fault("shard-00004", "flip", 1, at=80_000)],
    "slow": [Fault("shard-00005", "slow", 1, rate=100_000)],
    "silent": [Fault("shard-00000", "silent", 1)],
    "whole": [Fault("shard-00001", "close", 1, at=90_000), Fault("shard-00001", "whole", 3)],
    "changed": [Fault("shard-00002", "close", 1, at=60_000), Fault("shard-00002", "changed", 1)],
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_digest_survives(name, dataset, expected, cache):
    faults = FAULTS[name]
    for fault in faults:
        fault.times = fault.left
    with FarServer(dataset, faults=faults) as server:
        assert digest(server.url, cache) == expected
        assert all(fault.left < fault.times for fault in faults), "the fault was not met"


def test_a_connection_that_is_lost_goes_on_from_the_byte_that_it_reached(dataset, expected, cache):
    with FarServer(dataset, faults=[Fault("shard-00001", "close", 3, at=30_000)]) as server:
        assert digest(server.url, cache) == expected
        begins = [int(asked.removeprefix("bytes=").split("-")[0]) for _, method, path, asked in server.requests
                  if "shard-00001" in path]
        assert begins == [0, 30_000, 60_000, 90_000]
        assert server.byte_count < 1.05 * shard_bytes(dataset)


def test_connections_are_used_again(cache, tmp_path):
    pack(tmp_path / "set", "--quiet", source="digits(count=120,size=8)", shards=40)
    with FarServer(tmp_path / "set") as server:
        assert digest(server.url, cache) == digest(tmp_path / "set")
        # One for each thread that asks at the same time, which are 7, and some for what a busy machine lets time out.
        assert server.count(".safetensors") >= 40 and server.connection_count < 20


def test_open_files_that_run_out_are_let_go(tmp_path, cache):
    """Shards that nobody reads stay mapped, each with a file that is open; here every batch needs other ones."""
    pack(tmp_path / "set", "--quiet", source="digits(count=240,size=8)", shards=80)
    words = ["--digest", "--epochs", "2", "--workers", "2", "--batch-size", "4", "--shuffle", "global"]

    def under(soft, hard):
        return subprocess.run([BIN / "loadbench", "--data", server.url, *words, "--cache-dir", cache], capture_output=True, text=True,
                              timeout=90, env=clean(),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    with FarServer(tmp_path / "set") as server:
        local = run("loadbench", "--data", tmp_path / "set", *words)
        assert under(40, 1000).stdout == local
        assert under(24, 24).stdout == local
        few = under(7, 7)
        assert few.returncode == 5 and "too many files are open; expected a higher limit than 7 (ulimit -n)" in few.stderr


def test_a_wrong_range_is_forgotten_with_its_answer(dataset, cache):
    with FarServer(dataset, faults=[Fault("manifest", "range", 1), Fault("manifest", "status", 10_000, status=404)]) as server:
        assert "no manifest.json" in refusal("shardprep", "info", server.url + "/train", code=3, PENSTOCK_CACHE_DIR=cache)
        assert server.faults[0].left == 0 and server.count("manifest") < 10


def test_a_storm_of_503_is_met_with_few_requests(dataset, expected, cache):
    with FarServer(dataset, faults=[Fault("", "status", 10_000, status=503, code="SlowDown")]) as server:
        def calm():
            server.faults[0].left = 0
        timer = threading.Timer(6, calm)
        timer.start()
        assert digest(server.url, cache, PENSTOCK_RETRY_TIMEOUT=60) == expected
        timer.join()
        storm = 10_000 - server.count()
        assert storm > 0 and server.count() < 60


def test_a_clock_that_is_wrong_is_that_of_the_service(dataset, expected, cache):
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b", clock_offset=-1200) as server:
        assert digest("s3://b/train", cache, **s3(server)) == expected


def test_a_token_that_ends_is_renewed_once(dataset, expected, cache, tmp_path):
    keys = tmp_path / "keys.json"
    script = tmp_path / "keys.sh"

    def give(token):
        keys.write_text(f'{{"Version": 1, "AccessKeyId": "{KEY}", "SecretAccessKey": "{SECRET}", "SessionToken": "{token}"}}')
    script.write_text(f"cat {keys}\n")
    config = tmp_path / "config"
    config.write_text(f"[profile far]\nregion = eu-west-1\ncredential_process = sh {script}\n")
    give("old")
    environment = {"AWS_CONFIG_FILE": config, "AWS_PROFILE": "far"}
    with FarServer(dataset, keys={KEY: SECRET}, tokens={"old"}, bucket="b") as server:
        environment["AWS_ENDPOINT_URL"] = server.url
        assert digest("s3://b/train", cache, **environment) == expected
        def end_token():
            give("new")
            server.tokens = {"new"}
        server.faults = [Fault("shard-", "close", 1, at=50_000, act=end_token)]  # in the middle of the first shard
        assert digest("s3://b/train", tmp_path / "second", **environment) == expected
        assert server.faults[0].left == 0
        server.tokens = {"newer"}
        message = refusal("shardprep", "info", "s3://b/train", code=2, **environment)
        assert "ExpiredToken" in message and "credential_process of profile \"far\"" in message


def test_keys_that_still_hold_stay_when_new_ones_are_not_given(dataset, expected, cache, tmp_path):
    """The process that gives them works once, and its keys end in less than the 5 minutes before which they are renewed."""
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 200))
    (tmp_path / "keys.json").write_text(f'{{"Version": 1, "AccessKeyId": "{KEY}", "SecretAccessKey": "{SECRET}", '
                                        f'"Expiration": "{end}"}}')
    calls = tmp_path / "calls"
    script = tmp_path / "keys.sh"
    script.write_text(f"echo >> {calls}\ntest $(wc -l < {calls}) = 1 && cat {tmp_path}/keys.json\n")
    config = tmp_path / "config"
    config.write_text(f"[profile far]\ncredential_process = sh {script}\n")
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b") as server:
        assert digest("s3://b/train", cache, AWS_CONFIG_FILE=config, AWS_PROFILE="far", AWS_ENDPOINT_URL=server.url) == expected
    assert calls.read_text().count("\n") == 2  # the next look is a minute later


def keys_json(**more):
    words = {"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": TOKEN, **more}
    return "{" + ", ".join(f'"{name}": "{value}"' for name, value in words.items()) + "}"


def test_credentials_come_from_where_awss_tools_find_them(dataset, tmp_path):
    token_file = tmp_path / "token"
    token_file.write_text("identity\n")
    seen = []

    def sts(request):
        seen.append(request.body.decode())
        return 200, (f"<AssumeRoleWithWebIdentityResponse><Credentials><AccessKeyId>{KEY}</AccessKeyId><SecretAccessKey>"
                     f"{SECRET}</SecretAccessKey><SessionToken>{TOKEN}</SessionToken><Expiration>2099-01-01T00:00:00Z"
                     "</Expiration></Credentials></AssumeRoleWithWebIdentityResponse>").encode(), {}

    def container(request):
        return (200, keys_json().encode(), {}) if request.headers.get("Authorization") == "may" else (403, b"", {})

    def instance(request):
        is_known = request.headers.get("x-aws-ec2-metadata-token") == "imds"
        return (200, b"role\n" if request.path.endswith("/") else keys_json().encode(), {}) if is_known else (401, b"", {})

    role = "/latest/meta-data/iam/security-credentials/"
    answers = {"/": sts, "/keys": container, "/latest/api/token": lambda _: (200, b"imds", {}), role: instance,
               role + "role": instance}
    credentials = tmp_path / "credentials"
    credentials.write_text(f"[other]\naws_access_key_id = x\n[default]\naws_access_key_id = {KEY}\n"
                           f"aws_secret_access_key={SECRET}\naws_session_token = {TOKEN}\n")
    with FarServer(dataset, keys={KEY: SECRET}, tokens={TOKEN}, bucket="b", answers=answers) as server:
        base = {"AWS_ENDPOINT_URL": server.url, "PENSTOCK_CACHE_DIR": tmp_path / "cache"}
        for environment in (
                {"AWS_WEB_IDENTITY_TOKEN_FILE": token_file, "AWS_ROLE_ARN": "arn:role", "AWS_ENDPOINT_URL_STS": server.url},
                {"AWS_SHARED_CREDENTIALS_FILE": credentials},
                {"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url + "/keys", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "may"},
                {"AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url, "AWS_EC2_METADATA_DISABLED": "false"}):
            assert "samples    600" in run("shardprep", "info", "s3://b/train", **base, **environment), environment
        assert "WebIdentityToken=identity" in seen[0] and "RoleArn=arn%3Arole" in seen[0]
        message = refusal("shardprep", "info", "s3://b/train", code=2, **base)
        assert "no credentials" in message and "AWS_NO_SIGN_REQUEST" in message
    with FarServer(dataset, bucket="b") as server:
        assert "samples    600" in run("shardprep", "info", "s3://b/train", AWS_ENDPOINT_URL=server.url,
                                       AWS_NO_SIGN_REQUEST="true", PENSTOCK_CACHE_DIR=tmp_path / "cache")


def used_bytes(folder):
    total = 0
    for entry in os.scandir(folder):
        try:
            total += max(entry.stat().st_size, 512 * entry.stat().st_blocks)
        except FileNotFoundError:  # removed meanwhile
            pass
    return total


class Sampler(threading.Thread):
    """The most that a folder held, looked at every 2 ms."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.folder, self.most, self.is_ending = folder, 0, False

    def run(self):
        while not self.is_ending:
            if self.folder.exists():
                self.most = max(self.most, used_bytes(self.folder))
            time.sleep(0.002)


def test_a_small_cache_gives_the_same_digest_and_keeps_its_limit(dataset, expected, cache):
    limit = int(3.5 * largest(dataset))
    sampler = Sampler(cache)
    sampler.start()
    with FarServer(dataset) as server:
        assert digest(server.url, cache, "--cache-limit", limit, "--batch-size", 64) == expected_of_batch(dataset)
    sampler.is_ending = True
    sampler.join()
    assert largest(dataset) < sampler.most <= limit


def expected_of_batch(dataset):
    return digest(dataset, None, "--batch-size", 64)


def test_ranks_share_one_small_cache(dataset, expected, cache):
    limit = 7 * largest(dataset)
    with FarServer(dataset) as server:
        command = [BIN / "loadbench", "--data", server.url, "--digest", "--workers", "1", "--world-size", "2",
                   "--cache-dir", cache, "--cache-limit", str(limit)]
        ranks = [subprocess.Popen([*command, "--rank", str(rank)], env=clean(), stdout=subprocess.PIPE, text=True)
                 for rank in (0, 1)]
        outputs = [rank.communicate(timeout=90)[0] for rank in ranks]
        assert [rank.returncode for rank in ranks] == [0, 0]
        local = [run("loadbench", "--data", dataset, "--digest", "--workers", 1, "--world-size", 2, "--rank", rank)
                 for rank in (0, 1)]
        assert outputs == local


def test_two_processes_fetch_each_shard_once(dataset, expected, cache):
    with FarServer(dataset, rate=2_000_000) as server:
        command = [BIN / "loadbench", "--data", server.url, "--digest", "--epochs", "2", "--workers", "2", "--cache-dir",
                   str(cache)]
        both = [subprocess.Popen(command, env=clean(), stdout=subprocess.PIPE, text=True) for _ in range(2)]
        assert [one.communicate(timeout=90)[0] for one in both] == [expected, expected]
        assert server.byte_count < 1.05 * shard_bytes(dataset)


def start_fetch(server, cache, *words):
    command = [BIN / FETCH[0], *map(str, FETCH[1:]), server.url, "--cache-dir", cache, *words]
    return subprocess.Popen(command, env=clean(), stdout=subprocess.DEVNULL)


def test_a_killed_download_is_continued(dataset, expected, cache):
    with FarServer(dataset, rate=200_000) as server:
        child = start_fetch(server, cache)
        until(lambda: server.byte_count > 0.5 * shard_bytes(dataset))
        child.send_signal(signal.SIGKILL)
        child.wait()
        partials = list(cache.glob("*.partial"))
        assert partials
        server.rate = 0
        assert digest(server.url, cache) == expected
        assert not list(cache.glob("*.partial"))
        # Each of the four downloads that were under way had noted how far it was at most 0.1 s, or 20 KB, before.
        assert server.byte_count < shard_bytes(dataset) + 4 * 60_000


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def test_a_stopped_download_does_not_stop_others(dataset, expected, cache):
    with FarServer(dataset, rate=200_000) as server:
        child = start_fetch(server, cache)
        until(lambda: server.byte_count > 100_000)
        child.send_signal(signal.SIGSTOP)
        try:
            server.rate = 0
            assert digest(server.url, cache) == expected
        finally:
            child.send_signal(signal.SIGCONT)
        assert child.wait(timeout=60) == 0
        assert len(list(cache.glob("*.shard"))) == SHARDS and not list(cache.glob("*.partial"))


def test_what_was_damaged_in_the_cache_is_found_and_fetched_again(dataset, expected, cache):
    with FarServer(dataset) as server:
        assert digest(server.url, cache) == expected
        broken = sorted(cache.glob("*.shard"))[0]
        data = bytearray(broken.read_bytes())
        data[-1] ^= 1
        broken.write_bytes(data)
        assert "1 shard had other bytes" in refusal_after_table("shardprep", "cache", "verify", "--cache-dir", cache)
        assert not broken.exists()
        assert digest(server.url, cache) == expected and broken.exists()
        cut = sorted(cache.glob("*.shard"))[1]
        os.truncate(cut, 1000)
        assert digest(server.url, cache) == expected and cut.stat().st_size > 1000


def refusal_after_table(*words):
    return refusal(*words, code=4)


def test_the_cache_is_listed_and_pruned(dataset, cache):
    with FarServer(dataset) as server:
        run(*FETCH, server.url, "--cache-dir", cache)
    table = run("shardprep", "cache", "list", "--cache-dir", cache)
    assert table.count("whole") == SHARDS and f"{SHARDS} shards" in table
    run("shardprep", "cache", "prune", "--cache-dir", cache, "--to", 2 * largest(dataset) + 10_000)
    assert len(list(cache.glob("*.shard"))) == 2
    run("shardprep", "cache", "prune", "--cache-dir", cache)
    assert [path.name for path in cache.iterdir()] == ["penstock-cache"]
    assert "no cache" in refusal("shardprep", "cache", "list", "--cache-dir", cache / "none", code=3)


def test_the_other_commands_work_by_address(dataset, cache, tmp_path):
    with FarServer(dataset) as server:
        words = ("--cache-dir", cache)
        assert "every one as packed" in run("shardprep", "verify", server.url, *words)
        run("shardprep", "unpack", server.url, "--out", tmp_path / "files", "--quiet", *words)
        run("shardprep", "unpack", dataset, "--out", tmp_path / "local", "--quiet")
        files = [sorted(path.relative_to(top) for path in top.rglob("*")) for top in (tmp_path / "files", tmp_path / "local")]
        assert len(files[0]) > 600 and files[0] == files[1]
        run("shardprep", "show", server.url, "--out", tmp_path / "sheet.png", *words)
        run("shardprep", "show", dataset, "--out", tmp_path / "local.png")
        assert (tmp_path / "sheet.png").read_bytes() == (tmp_path / "local.png").read_bytes()


def large_answer(request):
    """The begin of an answer of 2 GB."""
    request.send_response(200)
    request.send_header("Content-Length", str(2 << 30))
    request.end_headers()
    request.wfile.write(b"{")
    raise ConnectionError


def test_bad_input_is_one_line(dataset, cache, tmp_path):
    size = manifest_of(dataset / "train")["shards"][0]["byte_count"]
    wide = (dataset / "train/manifest.json").read_bytes().replace(str(size).encode(), b"%d" % (2**64 - 152))
    info = ("shardprep", "info")
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b") as server:
        known = s3(server, PENSTOCK_CACHE_DIR=cache)
        assert "NoSuchBucket" in refusal(*info, "s3://other/train", code=3, **known)
        assert "no manifest.json" in refusal(*info, "s3://b/none", code=3, **known)
        wrong = refusal(*info, "s3://b/train", code=2, **{**known, "AWS_SECRET_ACCESS_KEY": "wrong"})
        assert "SignatureDoesNotMatch" in wrong and "environment AWS_ACCESS_KEY_ID" in wrong and "wrong" not in wrong
        assert "InvalidAccessKeyId" in refusal(*info, "s3://b/train", code=2, **{**known, "AWS_ACCESS_KEY_ID": "AKIANONE"})
        half = refusal(*info, "s3://b/train", code=2, **{**known, "AWS_SECRET_ACCESS_KEY": ""})
        assert "AWS_SECRET_ACCESS_KEY is not set" in half
    with FarServer(dataset) as server:
        url = server.url
        for text, fact in ((f"http://user:{SECRET}@127.0.0.1:{server.port}/", "password before an @"),
                           (f"{url}/train?X-Amz-Signature={SECRET}", "has a ? or #"), (f"{url}/../train", ".. in its path"), ("http:///x", "no host")):
            assert fact in refusal(*info, text, code=2, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("manifest", "html", 10_000)]
        assert "manifest.json" in refusal(*info, url + "/train", code=4, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("shard-00001", "html", 10_000)]
        assert "bytes of HTML; expected" in refusal(*FETCH, url, code=4, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("shard-00001", "status", 10_000, status=404)]
        assert "no such object" in refusal(*FETCH, url, code=3, PENSTOCK_CACHE_DIR=cache)
        server.faults = [Fault("shard-00001", "flip", 10_000, at=5000)]
        line = refusal(*FETCH, url, code=4, PENSTOCK_CACHE_DIR=cache)
        sums = re.findall(r"\b[0-9a-f]{32}\b", line)
        assert len(set(sums)) == 2 and "twice" in line
        server.faults = [Fault("shard-00001", "status", 10_000, status=412)]
        assert "changed while it was read" in refusal(*FETCH, url, code=4, PENSTOCK_CACHE_DIR=cache)
        server.answers = {"/loop/manifest.json": lambda _: (302, b"", {"Location": "/loop/manifest.json"}),
                          "/large/manifest.json": large_answer, "/wide/manifest.json": lambda _: (200, wide, {})}
        assert "2147483648 bytes or more; expected at most 1000000000" in refusal(*info, url + "/large", code=3, PENSTOCK_CACHE_DIR=cache)
        assert "byte_count is 18446744073709551464; expected at most" in refusal(*info, url + "/wide", code=4, PENSTOCK_CACHE_DIR=cache)
        assert "redirect" in refusal(*info, url + "/loop", code=3, PENSTOCK_CACHE_DIR=cache)
    begin = time.monotonic()
    assert "3 times" in refusal(*info, url + "/train", code=3, PENSTOCK_CACHE_DIR=cache)  # nobody listens any more
    assert "3 times" in refusal(*info, "https://no-such-host.invalid/set", code=3, PENSTOCK_CACHE_DIR=cache)
    assert time.monotonic() - begin < 15


def test_a_service_that_does_not_come_back_is_given_up(dataset, cache):
    with FarServer(dataset, faults=[Fault("shard-", "status", 10_000, status=500)]) as server:
        message = refusal(*FETCH, server.url, code=3, PENSTOCK_CACHE_DIR=cache, PENSTOCK_RETRY_TIMEOUT=2)
        assert "status 500" in message
        server.forget()
        message = refusal(*FETCH, server.url, code=3, PENSTOCK_CACHE_DIR=cache, AWS_MAX_ATTEMPTS=2)
        assert "2 times" in message


def test_cache_folders_that_are_no_good_are_refused(dataset, cache, tmp_path):
    with FarServer(dataset) as server:
        info = ("shardprep", "info", server.url)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine/letter.txt").write_text("dear")
        line = refusal(*info, "--cache-dir", tmp_path / "mine", code=2)
        assert "holds 1 file and is no cache" in line and [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]
        assert "is no cache" in refusal(*info, "--cache-dir", dataset / "train", code=2)
        (tmp_path / "file").write_text("")
        refusal(*info, "--cache-dir", tmp_path / "file/below", code=3)
        for text in ("0", "x", "-1gb", "120%", "5 gb"):
            assert "--cache-limit" in refusal(*info, "--cache-dir", cache, "--cache-limit", text, code=2)
        line = refusal(*info, "--cache-dir", cache, "--cache-limit", "20kb", code=2)
        assert "is 20000 bytes; expected at least" in line
        line = refusal("loadbench", "--data", server.url, "--digest", "--workers", 4, "--cache-dir", cache, "--cache-limit",
                       int(3.2 * largest(dataset)), code=2)
        assert "room for 3 shards" in line and "at least 5 for 4 workers" in line
        # A foreign file in the cache stays, whatever is removed.
        run(*info, "--cache-dir", cache)
        (cache / "notes.txt").write_text("kept")
        run("shardprep", "cache", "prune", "--cache-dir", cache)
        assert (cache / "notes.txt").read_text() == "kept"


def test_jobs_with_different_limits_do_not_share_a_folder(dataset, cache):
    with FarServer(dataset, rate=100_000) as server:
        first = start_fetch(server, cache, "--cache-limit", "10mb")
        until(lambda: server.byte_count > 10_000)
        line = refusal(*FETCH, server.url, "--cache-dir", cache, "--cache-limit", "20mb", code=2)
        assert "in use with 10000000 bytes" in line and "20000000" in line
        server.rate = 0
        assert first.wait(timeout=60) == 0
        run("shardprep", "info", server.url, "--cache-dir", cache, "--cache-limit", "20mb")


def test_a_full_disk_is_one_line_and_the_next_run_goes_on(dataset, expected, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    size = 3 * largest(dataset)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", small], capture_output=True).returncode != 0:
        pytest.fail("a tmpfs can be mounted where tests run as root; run them so")
    try:
        with FarServer(dataset) as server:
            line = refusal(*FETCH, server.url, "--cache-dir", small / "cache", "--cache-limit", "1gb", code=3)
            assert "No space left on device" in line and "--cache-limit" in line
            assert digest(server.url, small / "cache", "--cache-limit", int(2.9 * largest(dataset)), workers=1) == expected
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_secrets_are_nowhere(dataset, cache, tmp_path):
    """In no output and in no file that a run leaves."""
    with FarServer(dataset, keys={KEY: SECRET}, tokens={TOKEN}, bucket="b") as server:
        report = tmp_path / "report.json"
        out = run("loadbench", "--data", "s3://b/train", "--workers", 1, "--epochs", 1, "--json", report, "--cache-dir",
                  cache, **s3(server, AWS_SESSION_TOKEN=TOKEN))
        texts = [out.encode(), report.read_bytes(), *(path.read_bytes() for path in cache.iterdir())]
        assert len(texts) > SHARDS
        for text in texts:
            assert SECRET.encode() not in text and TOKEN.encode() not in text
