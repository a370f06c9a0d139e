"""A web server, or a service that speaks S3's language, over a folder, for tests: with ranges, ETags and signatures, and
faults that a script asks for. Loopback only.

    with FarServer(folder, faults=[Fault("shard-00001", "status", times=3, status=503)]) as server:
        ...  server.url, server.requests, server.byte_count, server.connection_count

A fault is taken by each request for an object whose path holds its text, until it was taken `times` times; the first
fault that fits counts. With `every` it is taken by each second, third ... of them, with `only` by these methods. `act` is called when it is taken. Kinds:
    status    the answer `status`, with S3's `code` and Retry-After `retry_after` if they are given
    reset     the connection is reset after `at` bytes of the body
    close     the connection ends after `at` bytes of the body
    short     the connection ends one byte before the end of the body
    range     Content-Range says other bytes than those that come
    flip      a bit of byte `at` of the object is another one
    slow      `rate` bytes per second
    silent    no answer for `seconds`
    changed   the object has another ETag from now on
    whole     status 200 and the whole object, whatever range was asked for
    html      status 200 and a page
and of what is written, where the server is `writable`:
    cut       the connection is reset after `at` bytes of the body were read
    lost      the request is done, and the connection is reset in place of an answer
    late      status 200, and an error with S3's `code` in the body
    forget    status 200, and nothing is stored
    garble    status 200, and a bit of what is stored is another one
    drip      the request is done, and the answer comes a byte at a time, without an end
"""
import argparse
import base64
import datetime
import hashlib
import hmac
import http.server
import pathlib
import re
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.parse


CHECKED_BYTES = 1 << 14  # of larger bodies the crc32c is believed, because Python takes a second for 8 MiB


class Fault:
    def __init__(self, part, kind, times=1, *, status=503, code="", retry_after=None, at=0, rate=1000, seconds=60,
                 every=1, act=lambda: None, only=()):
        self.part, self.kind, self.left = part, kind, times
        self.status, self.code, self.retry_after = status, code, retry_after
        self.at, self.rate, self.seconds, self.act = at, rate, seconds, act
        self.every, self.seen_count, self.only = every, 0, only
        self.is_given_up = False  # whoever got the answer has closed the connection before its end


def hash_of(data):
    return hashlib.sha256(data).hexdigest()


def etag_of(body):
    return f'"{hashlib.md5(body).hexdigest()}"'


CRC_TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ 0x82f63b78 * (number & 1)
    CRC_TABLE.append(number)


def crc32c_of(data):
    """As services write it: in base64, the highest byte first."""
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 255]
    return base64.b64encode((crc ^ 0xffffffff).to_bytes(4, "big")).decode()


def drip(far):
    """The body of an answer that never ends: ten bytes per second."""
    while not far.ending.wait(0.1):
        yield b" "


def signature_of(method, path, query, headers, names, body_hash, secret, date, scope):
    """AWS Signature Version 4, of the names in SignedHeaders."""
    pairs = sorted(urllib.parse.quote(key, safe="-._~") + "=" + urllib.parse.quote(value, safe="-._~")
                   for key, value in urllib.parse.parse_qsl(query, keep_blank_values=True))
    lines = [method, path, "&".join(pairs), *(f"{name}:{headers.get(name, '').strip()}" for name in names), "",
             ";".join(names), body_hash]
    text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hash_of("\n".join(lines).encode())])
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle(self):
        with self.server.far.lock:
            self.server.far.connection_count += 1
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError, TimeoutError):
            pass

    def date_time_string(self, timestamp=None):
        return super().date_time_string(time.time() + self.server.far.clock_offset if timestamp is None else timestamp)

    def do_GET(self):
        self.serve()

    def do_HEAD(self):
        self.serve()

    def do_PUT(self):
        self.serve()

    def do_POST(self):
        self.serve()

    def do_DELETE(self):
        self.serve()

    def serve(self):
        far = self.server.far
        path, _, query = self.path.partition("?")
        cut = far.take_fault(path, self.command, is_cut=True) if self.command in ("PUT", "POST") else None
        self.body = self.rfile.read(min(cut.at if cut else 1 << 40, int(self.headers.get("Content-Length") or 0)))
        with far.lock:
            far.requests.append((time.monotonic(), self.command, urllib.parse.unquote(path), self.headers.get("Range")))
        if cut:
            return self.reset()
        if path in far.answers:
            return self.answer(*far.answers[path](self))
        refusal = far.keys and self.refusal(path, query)
        if refusal:
            return self.error(*refusal)
        parts = urllib.parse.unquote(path).lstrip("/")
        if far.bucket:
            bucket, _, parts = parts.partition("/")
            if bucket != far.bucket:
                return self.error(404, "NoSuchBucket")
        file = far.folder / parts
        fault = far.take_fault(path, self.command)
        if fault and fault.kind == "status":
            return self.error(fault.status, fault.code, fault.retry_after)
        if fault and fault.kind == "silent":
            far.ending.wait(fault.seconds)
            self.close_connection = True
            return None
        if fault and fault.kind == "html":
            return self.answer(200, b"<html><body>Please log in</body></html>", {"Content-Type": "text/html"})
        if self.command in ("PUT", "POST", "DELETE"):
            return self.write(file, query, fault)
        if not file.is_file():
            return self.error(404, "NoSuchKey")
        return self.send_file(file, fault)

    def write(self, file, query, fault):
        """PUT, DELETE and multipart uploads, with the rules of S3 about their parts."""
        far = self.server.far
        words = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        body, crc = self.body, self.headers.get("x-amz-checksum-crc32c")
        if crc and len(body) < CHECKED_BYTES and crc != crc32c_of(body):
            return self.error(400, "BadDigest")
        if fault and fault.kind == "forget":
            return self.answer(200, b"", {"ETag": etag_of(body)})
        if fault and fault.kind == "garble":
            body = bytes([body[0] ^ 1]) + body[1:]
            crc = crc32c_of(body) if crc and len(body) < CHECKED_BYTES else None
        with far.lock:
            answer = far.written(self.command, file, words, body, self.headers.get("x-amz-meta-xxh3"), crc)
        if fault and fault.kind == "drip":
            return self.answer(200, drip(far))
        if fault and fault.kind == "lost":
            return self.reset()
        if fault and fault.kind == "late":
            return self.error(200, fault.code)
        return self.answer(*answer) if answer[0] < 300 else self.error(*answer)

    def reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def send_file(self, file, fault):
        far = self.server.far
        data = bytearray(file.read_bytes())
        kind = fault.kind if fault else ""
        if kind == "changed":
            with far.lock:
                far.versions[file] = far.versions.get(file, 0) + 1
        etag = f'"{hash_of(bytes(data))[:16]}-{far.versions.get(file, 0)}"'
        if self.headers.get("If-Match") not in (None, etag):
            return self.error(412, "PreconditionFailed")
        if kind == "flip":
            data[fault.at] ^= 1
        begin, end, status = 0, len(data), 200
        asked = self.headers.get("Range")
        if asked and kind != "whole":
            first, _, last = asked.removeprefix("bytes=").partition("-")
            begin, end, status = int(first), min(int(last) + 1 if last else len(data), len(data)), 206
            if begin >= len(data):
                return self.error(416, "InvalidRange")
        self.send_response(status)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(end - begin))
        if file in far.sums:
            self.send_header("x-amz-meta-xxh3", far.sums[file])
        if file in far.crcs and far.crcs[file] and self.headers.get("x-amz-checksum-mode") == "ENABLED":
            self.send_header("x-amz-checksum-crc32c", far.crcs[file])
        if far.states_google_hash and len(data) < CHECKED_BYTES:
            self.send_header("x-goog-hash", f"crc32c={crc32c_of(data)}")
            self.send_header("x-goog-hash", "md5=unknown")
        if status == 206:
            shift = 1 if kind == "range" else 0
            self.send_header("Content-Range", f"bytes {begin + shift}-{end - 1 + shift}/{len(data) if far.states_total else '*'}")
        self.end_headers()
        if self.command != "HEAD":
            self.send_body(data[begin:end], fault)
        return None

    def send_body(self, body, fault):
        far = self.server.far
        kind = fault.kind if fault else ""
        if kind in ("reset", "close"):
            body = body[:fault.at]
        if kind == "short":
            body = body[:-1]
        step = max(1, fault.rate // 10) if kind == "slow" else far.rate // 20 if far.rate else 1 << 20
        for begin in range(0, len(body), step):
            part = body[begin:begin + step]
            try:
                self.wfile.write(part)
            except (ConnectionError, ssl.SSLError):
                if fault:
                    fault.is_given_up = True
                raise
            with far.lock:
                far.byte_count += len(part)
            if kind == "slow" and far.ending.wait(0.1):
                break
            if kind != "slow" and far.rate and far.ending.wait(0.05):
                break
        if kind == "reset":
            self.reset()
        if kind in ("close", "short"):
            self.close_connection = True
            self.connection.close()

    def refusal(self, path, query):
        """None, or the status and S3's code for what is wrong with the signature."""
        far = self.server.far
        words = self.headers.get("Authorization", "")
        if not words:
            return 403, "AccessDenied"
        fields = dict(part.strip().split("=", 1) for part in words.removeprefix("AWS4-HMAC-SHA256").split(","))
        key_id, _, scope = fields["Credential"].partition("/")
        secret = far.keys.get(key_id)
        if secret is None:
            return 403, "InvalidAccessKeyId"
        token = self.headers.get("x-amz-security-token")
        if far.tokens is not None and token not in far.tokens:
            return 400, "ExpiredToken"
        date = self.headers.get("x-amz-date", "")
        stamp = datetime.datetime.strptime(date, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()
        if abs(stamp - time.time() - far.clock_offset) > 900:
            return 403, "RequestTimeTooSkewed"
        names = fields["SignedHeaders"].split(";")
        body_hash = self.headers.get("x-amz-content-sha256", "")
        found = signature_of(self.command, path, query, self.headers, names, body_hash, secret, date, scope)
        is_whole = "host" in names and "x-amz-date" in names and body_hash == hash_of(self.body)
        return None if is_whole and found == fields["Signature"] else (403, "SignatureDoesNotMatch")

    def error(self, status, code="", retry_after=None):
        headers = {"Content-Type": "application/xml"}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>on purpose</Message></Error>" if code else ""
        self.answer(status, text.encode(), headers)

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if not isinstance(body, bytes):
            self.close_connection = True
            self.end_headers()
            for part in body:
                self.wfile.write(part)
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class FarServer:
    """`keys`: id -> secret, with which requests must be signed; `tokens`: the session tokens that hold; `bucket`: paths
    begin with its name; `certificate`: of make_certificate(), for https; `rate`: bytes per second and connection;
    `answers`: path -> function of the request, which returns status, body (bytes, or parts without an end) and headers;
    `states_google_hash`: answers have x-goog-hash, as those of Google's storage;
    `states_total`: Content-Range says how many bytes there are; `clock_offset`: seconds that
    its clock is ahead; `writable`: objects may be put and removed."""

    def __init__(self, folder, *, faults=(), keys=None, tokens=None, bucket="", certificate=None, rate=0, answers=None,
                 clock_offset=0, port=0, writable=False, states_google_hash=False,
                 states_total=True):
        self.folder, self.faults, self.keys, self.tokens = pathlib.Path(folder), list(faults), keys, tokens
        self.bucket, self.rate, self.answers, self.clock_offset = bucket, rate, answers or {}, clock_offset
        self.requests, self.byte_count, self.versions = [], 0, {}
        self.connection_count = 0
        self.writable, self.uploads, self.sums = writable, {}, {}  # uploads: id -> file, xxh3, parts by number
        self.crcs, self.part_crcs = {}, {}
        self.states_google_hash, self.states_total = states_google_hash, states_total
        self.lock, self.ending = threading.Lock(), threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.far, self.server.daemon_threads, self.server.block_on_close = self, True, False
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        scheme = "https" if certificate else "http"
        self.port = self.server.server_address[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"

    def written(self, command, file, words, body, xxh3, crc):
        """Status, body and headers, or status and S3's code. Requires the lock."""
        if not self.writable:
            return 403, "AccessDenied"
        if "uploadId" in words and words["uploadId"] not in self.uploads:
            return 404, "NoSuchUpload"
        if command == "POST" and "uploads" in words:
            self.uploads[f"upload/{len(self.sums)}-{len(self.requests)}=="] = (file, xxh3, {})
            name = list(self.uploads)[-1]
            return 200, f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>".encode(), {}
        if command == "PUT" and "uploadId" in words:
            self.uploads[words["uploadId"]][2][int(words["partNumber"])] = body
            self.part_crcs[words["uploadId"], int(words["partNumber"])] = crc
            return 200, b"", {"ETag": etag_of(body)}
        if command == "POST":
            return self.completed(words["uploadId"], body.decode())
        if command == "DELETE" and "uploadId" in words:
            del self.uploads[words["uploadId"]]
        elif command == "DELETE":
            file.unlink(missing_ok=True)
        else:
            self.store(file, body, xxh3, crc)
            return 200, b"", {"ETag": etag_of(body)}
        return 204, b"", {}

    def completed(self, upload, text):
        file, xxh3, parts = self.uploads[upload]
        listed = re.findall("<PartNumber>([0-9]+)</PartNumber><ETag>(.*?)</ETag>", text)
        crcs = [self.part_crcs[upload, number] for number in sorted(parts)]
        if all(crcs) and re.findall("<ChecksumCRC32C>(.*?)</ChecksumCRC32C>", text) != crcs:
            return 400, "InvalidPart"
        if [(int(number), tag) for number, tag in listed] != [(number, etag_of(parts[number])) for number in sorted(parts)]:
            return 400, "InvalidPart"
        if any(len(parts[number]) < 5 << 20 for number in sorted(parts)[:-1]):
            return 400, "EntityTooSmall"
        whole = f"{crc32c_of(b''.join(base64.b64decode(crc) for crc in crcs))}-{len(crcs)}" if all(crcs) else None
        self.store(file, b"".join(parts[number] for number in sorted(parts)), xxh3, whole)
        del self.uploads[upload]
        return 200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>", {}

    def store(self, file, body, xxh3, crc):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        self.sums.pop(file, None)
        self.crcs[file] = crc
        if xxh3:
            self.sums[file] = xxh3

    def take_fault(self, path, method, is_cut=False):
        with self.lock:
            for fault in self.faults:
                if fault.left > 0 and fault.part in path and (fault.kind == "cut") == is_cut and method in (fault.only or (method,)):
                    fault.seen_count += 1
                    if fault.seen_count % fault.every:
                        continue
                    fault.left -= 1
                    fault.act()
                    return fault
        return None

    def count(self, part=""):
        with self.lock:
            return sum(part in path for _, _, path, _ in self.requests)

    def forget(self):
        with self.lock:
            self.requests.clear()
            self.byte_count = self.connection_count = 0

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.server.shutdown()
        self.server.server_close()


def make_certificate(folder):
    """A file with a key and a certificate of 127.0.0.1 that only itself vouches for."""
    file = pathlib.Path(folder) / "server.pem"
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                           "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "-", "-out", "-"],
                          check=True, capture_output=True)
    file.write_bytes(made.stdout)
    return file


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Serves a folder on 127.0.0.1, as tests do.")
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--rate", type=int, default=0, help="bytes per second and connection")
    arguments = parser.parse_args()
    with FarServer(arguments.folder, port=arguments.port, rate=arguments.rate) as running:
        print(running.url, flush=True)
        threading.Event().wait()
