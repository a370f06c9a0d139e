"""Data sets behind http, https, S3 and Google's storage are read as local ones are, with credentials from all places."""
import json
import os

import pytest

from far_tool import (  # noqa: F401
    KEY, SECRET, SHARDS, TOKEN, cache, dataset, digest, expected, refusal, run, s3, shard_bytes)
from far_server import FarServer, Fault, make_certificate
from shardprep_tool import manifest_of, pack
from source_tool import pack as pack_list, save, write_csv


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


def test_certificates_are_read_once(dataset, expected, cache, tmp_path):
    """By the first connection: the others have them when the file is gone, and still refuse who has another one."""
    certificate = make_certificate(tmp_path)
    trusted, other = tmp_path / "trusted.pem", tmp_path / "other"
    trusted.write_bytes(certificate.read_bytes())
    other.mkdir()
    with FarServer(dataset, certificate=certificate, faults=[Fault("shard-", "close", 2, at=1000, act=lambda: trusted.unlink(missing_ok=True))]) as server:
        assert digest(server.url, cache, AWS_CA_BUNDLE=trusted) == expected
        assert not trusted.exists() and server.connection_count > 3
    with FarServer(dataset, certificate=make_certificate(other)) as server:
        def elsewhere(request):
            return 302, b"", {"Location": server.url + request.path}
        answers = {f"/train/{shard['file']}": elsewhere for shard in manifest_of(dataset / "train")["shards"]}
        with FarServer(dataset, certificate=certificate, answers=answers) as first:
            message = refusal("loadbench", "--data", first.url, "--digest", "--cache-dir", tmp_path / "new", AWS_CA_BUNDLE=certificate, code=2)
            assert "certificate" in message and server.byte_count == 0


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
        assert digest("s3://bucket/a+b (c)~ü", cache, **s3(server)) == expected


def test_connections_are_used_again(cache, tmp_path):
    pack(tmp_path / "set", "--quiet", source="digits(count=120,size=8)", shards=40)
    with FarServer(tmp_path / "set") as server:
        assert digest(server.url, cache) == digest(tmp_path / "set")
        # One for each thread that asks at the same time, which are 7, and some for what a busy machine lets time out.
        assert server.count(".safetensors") >= 40 and server.connection_count < 20


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


def test_the_other_commands_work_by_address(dataset, cache, tmp_path):
    with FarServer(dataset) as server:
        words = ("--cache-dir", cache)
        assert "every one as packed" in run("shardprep", "verify", server.url, *words)
        assert server.count("shard-") == SHARDS  # once each
        run("shardprep", "unpack", server.url, "--out", tmp_path / "files", "--quiet", *words)
        run("shardprep", "unpack", dataset, "--out", tmp_path / "local", "--quiet")
        files = [sorted(path.relative_to(top) for path in top.rglob("*")) for top in (tmp_path / "files", tmp_path / "local")]
        assert len(files[0]) > 600 and files[0] == files[1]
        run("shardprep", "show", server.url, "--out", tmp_path / "sheet.png", *words)
        run("shardprep", "show", dataset, "--out", tmp_path / "local.png")
        assert (tmp_path / "sheet.png").read_bytes() == (tmp_path / "local.png").read_bytes()


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


@pytest.mark.parametrize("key", ["sso_session", "sso_start_url", "role_arn"])
def test_what_only_the_aws_command_line_follows_is_refused_with_what_to_type(dataset, tmp_path, key):
    """And the profile to which the line leads is taken: here a program of that name stands for the AWS command line."""
    config, program = tmp_path / "config", tmp_path / "bin/aws"
    config.write_text(f"[profile far]\n{key} = x\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n[profile far-keys]\n"
                      "credential_process = aws configure export-credentials --profile far --format process\n")
    program.parent.mkdir()
    program.write_text('#!/bin/sh\ntest "$*" = "configure export-credentials --profile far --format process" || exit 1\n'
                       f"echo '{json.dumps({'Version': 1, 'AccessKeyId': KEY, 'SecretAccessKey': SECRET})}'\n")
    program.chmod(0o755)
    with FarServer(dataset, keys={KEY: SECRET}, bucket="b") as server:
        known = {"AWS_ENDPOINT_URL": server.url, "AWS_CONFIG_FILE": config, "PENSTOCK_CACHE_DIR": tmp_path / "cache",
                 "PATH": f"{program.parent}:{os.environ['PATH']}"}
        assert refusal("shardprep", "info", "s3://b/train", code=2, AWS_PROFILE="far", **known).endswith(
            f': has {key}, which the AWS command line follows; expected AWS_PROFILE to name a profile with credential_process = '
            "aws configure export-credentials --profile far --format process\n")
        assert "samples    600" in run("shardprep", "info", "s3://b/train", AWS_PROFILE="far-keys", **known)
        assert "neither file" in refusal("shardprep", "info", "s3://b/train", code=2, AWS_PROFILE="none", **known)


def test_the_first_batch_of_a_set_with_fields_comes_before_its_shards(tmp_path, cache):
    """Ranges for two rows of a batch, and two of the one after it, of 200 in two shards of 0.9 MB, before either shard is asked for."""
    write_csv(tmp_path / "in/list.csv", [["path", "label", "note"]] + [
        [save(tmp_path / f"in/{i}.png").name, i % 4, f"note {i} " * 800] for i in range(200)])
    pack_list("csv()", tmp_path / "in/list.csv", tmp_path / "set", "--encode", "raw", shards=2)
    words = ("--digest", "--epochs", 1, "--workers", 1, "--batch-size", 2, "--batches", 1, "--columns", "field(name=note)")
    with FarServer(tmp_path / "set") as server:
        out = run("loadbench", "--data", server.url, *words, "--cache-dir", cache)
        assert out == run("loadbench", "--data", tmp_path / "set", *words)
        asked = [[int(byte) for byte in range_.removeprefix("bytes=").split("-")]
                 for _, _, path, range_ in server.requests if "shard-" in path]
        counts = [end + 1 - begin for begin, end in asked]
        whole = max(manifest_of(tmp_path / "set/train")["shards"], key=lambda shard: shard["byte_count"])["byte_count"]
        first_count = next((i for i, count in enumerate(counts) if count > 0.9 * whole), len(counts))
        assert first_count >= 6 and sum(counts[:first_count]) < 0.6 * shard_bytes(tmp_path / "set")
