"""How fast a far data set is beside a local one: python bench/loader/far.py PACKED

PACKED is a packed data set, best of photographs and some hundred megabytes. nginx (Debian: nginx-light) serves it by https on this machine,
so that its encryption takes cores from the loader. The certificates are the system's and one more, as many as for a service. Prints, as the median of rounds in which the three alternate, the least and the most:

    cold / local    time of an epoch of local data / time of the same epoch with an empty cache, from the start of the program
    full / local    the same with a cache that has all shards
    processor time  of the loader alone, cold and full, and of nginx and of curl, / that of local data
    bound           the most that cold / local can be where cores limit both: local processor time / the same with that of nginx and that of
                    curl, which fetches all shards to /dev/null with one connection, keeps nothing and checks nothing

and once: bytes that nginx has sent / bytes of the shards, cold and full; and the most that a cache of a quarter of the set held, looked at
every 10 ms, / its limit. All digests have to be equal.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
from far_server import make_certificate  # noqa: E402

BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", pathlib.Path(__file__).parents[2] / "build" / "release" / "bin"))
PORT = 8443
SYSTEM = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
CONFIGURATION = """
worker_processes 1; daemon off; pid {top}/nginx.pid; error_log {top}/error.log;
events {{}}
http {{
  log_format bytes '$body_bytes_sent $uri'; access_log {top}/access.log bytes;
  sendfile on; keepalive_requests 100000; client_body_temp_path {top}/body; proxy_temp_path {top}/proxy;
  fastcgi_temp_path {top}/fastcgi; uwsgi_temp_path {top}/uwsgi; scgi_temp_path {top}/scgi;
  server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; ssl_certificate_key {certificate}; root {data}; }}
}}
"""


class Server:
    """nginx over a folder."""

    def __init__(self, top, data):
        self.log, certificate = top / "access.log", make_certificate(top)
        self.certificates = top / "certificates.pem"
        self.certificates.write_bytes(certificate.read_bytes() + (SYSTEM.read_bytes() if SYSTEM.exists() else b""))
        os.chmod(top, 0o755)  # nginx gives up its rights
        configuration = top / "nginx.conf"
        configuration.write_text(CONFIGURATION.format(top=top, port=PORT, certificate=certificate, data=data.resolve()))
        self.process = subprocess.Popen(["nginx", "-c", configuration, "-g", "user root;"], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        if self.process.poll() is not None:
            sys.exit(f"nginx ended; {top}/error.log says why")

    def processor_time(self):
        """Seconds of its worker."""
        workers = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sum(int(pathlib.Path(f"/proc/{worker}/schedstat").read_text().split()[0]) for worker in workers) / 1e9

    def shard_bytes(self):
        lines = [line.split() for line in self.log.read_text().splitlines()]
        return sum(int(count) for count, path in lines if path.endswith(".safetensors"))


def epoch(data, options, cache=None, server=None, words=()):
    """Seconds, processor seconds and the digest."""
    more = ["--cache-dir", cache] if cache else []
    environment = {**os.environ, **({"AWS_CA_BUNDLE": str(server.certificates)} if server else {})}
    begin = time.monotonic()
    child = subprocess.Popen([BIN / "loadbench", "--data", data, "--digest", "--epochs", "1", "--workers", str(options.workers), "--shuffle",
                              options.shuffle, "--augment", options.augment, *more, *words], env=environment, stdout=subprocess.PIPE, text=True)
    digest = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"loadbench ended with {status}")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime, digest


def curl_time(url, packed, server):
    """Processor seconds in which curl fetches all shards."""
    shards = json.loads((packed / "train/manifest.json").read_text())["shards"]
    wanted = "".join(f'url = "{url}/train/{shard["file"]}"\noutput = "/dev/null"\n' for shard in shards)
    child = subprocess.Popen(["curl", "--silent", "--fail", "--cacert", server.certificates, "--config", "-"], stdin=subprocess.PIPE, text=True)
    child.stdin.write(wanted)
    child.stdin.close()
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"curl ended with {status}")
    return used.ru_utime + used.ru_stime


def most_held(folder, limit, run):
    """The most that the folder took on the disk while `run` ran, as a part of the limit."""
    most, is_ending = [0], threading.Event()

    def watch():
        while not is_ending.wait(0.01):
            held = 0
            for path in folder.iterdir() if folder.exists() else ():
                try:
                    held += 512 * path.stat().st_blocks
                except FileNotFoundError:
                    pass
            most[0] = max(most[0], held)
    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    is_ending.set()
    watcher.join()
    return most[0] / limit


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shuffle", default="shards(window=16,lanes=2)")
    parser.add_argument("--augment", default="random-resized-crop(size=224),flip,normalize")
    options = parser.parse_args()
    shards = sum(shard["byte_count"] for shard in json.loads((options.packed / "train/manifest.json").read_text())["shards"])
    top = pathlib.Path(tempfile.mkdtemp(prefix="penstock-far-"))
    server, url, rounds, sent = Server(top, options.packed), f"https://127.0.0.1:{PORT}", [], []
    try:
        for _ in range(options.rounds):
            shutil.rmtree(top / "cache", ignore_errors=True)
            local, before, begin_s = epoch(options.packed, options), server.shard_bytes(), server.processor_time()
            cold = epoch(url, options, top / "cache", server)
            middle, nginx_s = server.shard_bytes(), server.processor_time() - begin_s
            full = epoch(url, options, top / "cache", server)
            assert local[2] == cold[2] == full[2], "digests differ"
            sent.append(((middle - before) / shards, (server.shard_bytes() - middle) / shards))
            curl_s = curl_time(url, options.packed, server)
            bound = local[1] / (local[1] + nginx_s + curl_s)
            rounds.append((local[0] / cold[0], bound, local[0] / full[0], *(used / local[1] for used in (cold[1], full[1], nginx_s, curl_s))))
        names = ("cold / local", "  bound", "full / local", *(f"processor time, {who}" for who in ("cold", "full", "nginx", "curl")))
        for name, values in zip(names, zip(*rounds)):
            print(f"{name:22} {statistics.median(values):.3f}  ({min(values):.3f} to {max(values):.3f})")
        print(f"{'bytes sent / shards':22} {max(cold for cold, _ in sent):.4f} cold, {max(full for _, full in sent):.4f} full")
        limit = shards // 4
        held = most_held(top / "small", limit, lambda: epoch(url, options, top / "small", server, ("--cache-limit", str(limit))))
        print(f"{'most held / limit':22} {held:.4f}")
    finally:
        server.process.terminate()
        server.process.wait()
        shutil.rmtree(top)


if __name__ == "__main__":
    main()
