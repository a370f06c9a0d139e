"""Far data sets of servers that mean no good, and caches that others have written to: one line, in a bounded time."""
import gzip
import json
import os
import re
import shutil

import pytest

from far_tool import FETCH, SECRET, TOKEN, cache, digest, pack, refusal, run, s3  # noqa: F401
from far_server import FarServer, Fault, drip

ALWAYS = 1 << 30
SHORT = {"PENSTOCK_DOWNLOAD_TIMEOUT": 1, "PENSTOCK_RETRY_TIMEOUT": 1}
MANIFEST = "/train/manifest.json"


@pytest.fixture
def small(tmp_path):
    pack(tmp_path / "set", "--quiet", source="digits(count=20,size=12)", shards=1)
    return tmp_path / "set"


def change_manifest(folder, **of_shard):
    path = folder / "train/manifest.json"
    manifest = json.loads(path.read_text())
    for key, value in of_shard.items():
        manifest["shards"][0][key] = value
    path.write_text(json.dumps(manifest))
    return manifest["shards"][0]


DOORS = {
    "loadbench": FETCH,
    "info": ("shardprep", "info"),
    "verify": ("shardprep", "verify"),
    "train": ("train", "--epochs", 1, "--device", "cpu", "--data"),
    "pretrained": ("train", "--epochs", 1, "--device", "cpu", "--pretrained"),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_object_that_is_always_another_one_is_one_line_at_every_door(door, small, tmp_path):
    words = ("--out", tmp_path / "run") if door in ("train", "pretrained") else ()
    words += ("--data", small) if door == "pretrained" else ()
    with FarServer(small, faults=[Fault("", "status", ALWAYS, status=412)]) as server:
        address = server.url + ("/model.safetensors" if door == "pretrained" else "")
        line = refusal(*DOORS[door], address, *words, code=4, PENSTOCK_CACHE_DIR=tmp_path / "cache")
        assert "changed while it was read: the service says that it is another object than before (412)" in line


@pytest.mark.parametrize("part", ("manifest.json", "shard-"))
def test_a_body_that_drips_ends_after_the_retry_timeout(part, small, cache):
    with FarServer(small, faults=[Fault(part, "slow", ALWAYS, rate=10)]) as server:
        line = refusal(*FETCH, server.url, "--cache-dir", cache, code=3, **SHORT)
        assert re.search("([Ll]ess|fewer) than 500 bytes", line) and "expected a service that comes back" in line


def test_a_service_that_is_always_one_byte_short_is_given_up(small, cache):
    with FarServer(small, faults=[Fault("manifest.json", "short", ALWAYS)]) as server:
        line = refusal(*FETCH, server.url, "--cache-dir", cache, code=3, **SHORT)
        assert "expected a service that comes back" in line


def test_a_body_without_an_end_is_refused(small, cache):
    def endless(_):
        return 200, iter(lambda: b" " * (1 << 20), None), {}
    with FarServer(small, answers={MANIFEST: endless}) as server:
        assert "bytes or more; expected at most 100000000" in refusal(*FETCH, server.url, "--cache-dir", cache, code=3)
    with FarServer(small, answers={MANIFEST: lambda request: (404, endless(request)[1], {})}) as server:
        assert "no manifest.json and no train/manifest.json" in refusal(*FETCH, server.url + "/train", "--cache-dir", cache, code=3)


def test_a_manifest_that_is_too_large_is_refused_before_it_is_read(small):
    os.truncate(small / "train/manifest.json", 200_000_000)  # zeros, which take no room
    assert "manifest.json: 200000000 bytes; expected at most 100000000" in refusal("shardprep", "info", small, code=4)


def test_credentials_that_drip_are_given_up(small, cache):
    def answer(request):
        return 200, drip(request.server.far), {}
    with FarServer(small, answers={"/keys": answer, "/": answer}) as server:
        known = {"AWS_ENDPOINT_URL_S3": server.url, **SHORT}
        line = refusal(*FETCH, "s3://b/set", "--cache-dir", cache, code=2, AWS_CONTAINER_CREDENTIALS_FULL_URI=server.url + "/keys", **known)
        assert re.search("credentials of the container's service: Operation (too slow|timed out)", line)
        (cache.parent / "token").write_text("token")
        web = {"AWS_WEB_IDENTITY_TOKEN_FILE": cache.parent / "token", "AWS_ROLE_ARN": "arn", "AWS_ENDPOINT_URL_STS": server.url}
        assert re.search("Operation (too slow|timed out)", refusal(*FETCH, "s3://b/set", "--cache-dir", cache, code=2, **web, **known))


def test_what_a_credential_process_says_besides_is_not_passed_on(small, cache, tmp_path):
    """It leaves a child that keeps the pipe open, too."""
    profile = tmp_path / "credentials"
    secret = json.dumps({"Version": 1, "AccessKeyId": "A", "SecretAccessKey": SECRET})
    profile.write_text(f"[default]\ncredential_process = echo {SECRET} >&2; sleep 60 & echo '{secret}'\n")
    with FarServer(small, keys={"A": SECRET}, bucket="b") as server:
        shutil.copytree(small, small / "set")
        done = run(*FETCH, "s3://b/set", "--cache-dir", cache, AWS_ENDPOINT_URL_S3=server.url, AWS_SHARED_CREDENTIALS_FILE=profile)
        assert "digest" in done
        profile.write_text(f"[default]\ncredential_process = echo {SECRET} >&2; exit 3\n")
        line = refusal(*FETCH, "s3://b/set", "--cache-dir", cache, code=2, AWS_ENDPOINT_URL_S3=server.url, AWS_SHARED_CREDENTIALS_FILE=profile)
        assert "its process ended with status 3" in line


def test_keys_with_line_breaks_and_files_that_are_none_are_one_line(small, cache, tmp_path):
    with FarServer(small) as server:
        words = (*FETCH, "s3://b/set", "--cache-dir", cache)
        for name, what in (("AWS_ACCESS_KEY_ID", "access key id"), ("AWS_SECRET_ACCESS_KEY", "secret key"), ("AWS_SESSION_TOKEN", "session token")):
            line = refusal(*words, code=2, **{**s3(server), name: TOKEN + "\r\nx-added: 1"})
            assert f"the {what} has a line break" in line
        assert not server.requests
        line = refusal(*words, code=3, AWS_ENDPOINT_URL_S3=server.url, AWS_SHARED_CREDENTIALS_FILE=tmp_path)
        assert f"{tmp_path}: not a regular file" in line
        os.mkfifo(tmp_path / "pipe")
        assert "pipe: not a regular file" in refusal(*words, code=3, AWS_ENDPOINT_URL_S3=server.url, AWS_CONFIG_FILE=tmp_path / "pipe")


def test_verify_goes_by_the_sha256(small):
    entry = change_manifest(small)
    shard = small / "train" / entry["file"]
    forged = bytearray(shard.read_bytes())
    forged[-1] ^= 1
    shard.write_bytes(forged)
    line = run("shardprep", "verify", small, code=4)
    assert "sha256 is " in line and f"the manifest says {entry['sha256']}" in line


def test_a_cached_shard_is_known_by_its_sha256(small, cache, tmp_path):
    """A second set with the same XXH3s, which is none of the first's, does not bring its shards into the first's cache."""
    with FarServer(tmp_path, rate=0) as server:
        run(*FETCH, server.url + "/set", "--cache-dir", cache)
        other = tmp_path / "other"
        pack(other, "--quiet", source="digits(count=20,size=12,seed=3)", shards=1)
        ours, theirs = change_manifest(small), change_manifest(other)
        assert ours["byte_count"] == theirs["byte_count"]
        change_manifest(other, xxh3=ours["xxh3"])
        assert digest(server.url + "/other", cache) == digest(other)
        assert sorted(path.name for path in cache.glob("*.shard")) == sorted(f"{one['sha256']}.shard" for one in (ours, theirs))
        change_manifest(other, sha256=ours["sha256"][::-1])
        line = refusal(*FETCH, server.url + "/other", "--cache-dir", cache, code=4)
        assert f"sha256 is {theirs['sha256']}, the manifest says {ours['sha256'][::-1]}" in line


def test_a_manifest_without_sha256_opens_as_before(small, cache, tmp_path):
    path = small / "train/manifest.json"
    manifest = json.loads(path.read_text())
    for entry in manifest["shards"]:
        del entry["sha256"]
    path.write_text(json.dumps(manifest))
    with FarServer(small) as server:
        assert digest(server.url, cache) == digest(small)
        assert [path.name for path in cache.glob("*.shard")] == [manifest["shards"][0]["xxh3"] + ".shard"]
        assert "1 shard" in run("shardprep", "verify", server.url, "--cache-dir", cache)


def test_what_web_servers_and_services_say_in_ways_of_their_own(small, cache, tmp_path):
    body = (small / "train/manifest.json").read_bytes()
    with FarServer(small, answers={MANIFEST: lambda _: (200, gzip.compress(body), {"Content-Encoding": "gzip"})}) as server:
        line = refusal(*FETCH, server.url + "/train", "--cache-dir", cache, code=4)
        assert 'came with Content-Encoding "gzip", which was not asked for' in line
    with FarServer(tmp_path, states_total=False) as server:
        assert digest(server.url + "/set", cache) == digest(small)
        shutil.copytree(small, tmp_path / "x@1/my set")
        assert digest(server.url + "/x@1/my set", cache) == digest(small)

    def moved(_):
        return 400, b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-3</Region></Error>", {}
    with FarServer(small, answers={"/b" + MANIFEST: moved}) as server:
        line = refusal(*FETCH, "s3://b/train", "--cache-dir", cache, code=2, **s3(server))
        assert "the bucket is in eu-west-3, asked as in us-east-1; expected AWS_REGION=eu-west-3" in line
    with FarServer(tmp_path, bucket="b") as server:
        (tmp_path / "my set").symlink_to(small)
        assert digest("s3://b/my set", cache, **s3(server)) == digest(small)
        line = refusal(*FETCH, "s3://b/my%20set", "--cache-dir", cache, code=3, **s3(server))
        assert "typed as they are, with a space and not %20" in line
