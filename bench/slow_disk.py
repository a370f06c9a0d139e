#!/usr/bin/env python3
"""A folder seen through a disk of a given rate: a FUSE file system whose reads take their time.

    with SlowDisk("/data/packed", megabytes_per_second=20) as folder: ...

The kernel reads through its page cache as from any disk: mapped files fault, read ahead and wait in the same code.
Requests are served together; each takes `latency_ms`, and the bytes of all of them go through one line of the given
rate. Files are read-only. Opening a file drops what the cache holds of it, so that every run reads from the disk. With
`cache_megabytes`, the cache is dropped whenever so much has been read: then every epoch of larger data reads from the
disk, as on a machine with little memory.
Needs root and /dev/fuse, and nothing installed.
"""
import argparse
import ctypes
import heapq
import os
import select
import signal
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 17, 18, 25, 26
OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 27, 28, 29, 36, 42
IN_HEADER = struct.Struct("<IIQQIIIHH")  # length, opcode, unique, node, uid, gid, pid, extensions, padding
OUT_HEADER = struct.Struct("<IiQ")
NO_REPLY = {FORGET, BATCH_FORGET, INTERRUPT}
ASYNC_READ, MOST_READ = 1, 128 * 1024  # INIT flag; bytes per request, as the kernel reads ahead


def attributes(node, path):
    """A struct fuse_attr."""
    info = os.stat(path)
    blocks = (info.st_size + 511) // 512
    return struct.pack("<QQQQQQIIIIIIIIII", node, info.st_size, blocks, *[int(info.st_mtime)] * 3, 0, 0, 0,
                       info.st_mode, info.st_nlink, info.st_uid, info.st_gid, 0, 4096, 0)


class Line:
    """Says when a request is done: its bytes pass one after the other at the given rate, then the latency is added."""

    def __init__(self, bytes_per_second, latency_s):
        self.bytes_per_second, self.latency_s, self.free_at = bytes_per_second, latency_s, 0.0

    def done_at(self, now, size):
        self.free_at = max(self.free_at, now) + size / self.bytes_per_second
        return self.free_at + self.latency_s


class Server:
    def __init__(self, device, root, line, cache_bytes=0):
        self.device, self.line = device, line
        self.cache_bytes, self.cached_bytes = cache_bytes, 0  # 0: no limit
        self.drop = threading.Event()
        self.paths, self.nodes = {1: os.path.abspath(root)}, {}  # node -> path, path -> node
        self.files = {}  # node -> descriptor
        self.pending = []  # (time, unique, bytes) of reads that are not due yet

    def drop_caches(self):
        """Runs in a thread of its own, because the kernel waits for reads in flight, which serve() answers."""
        inval_inode = 2
        while True:
            self.drop.wait()
            self.drop.clear()
            for node in list(self.files):
                try:
                    os.write(self.device, OUT_HEADER.pack(OUT_HEADER.size + 24, inval_inode, 0) +
                             struct.pack("<Qqq", node, 0, 0))
                except OSError:  # the kernel does not hold it in memory, or the folder is unmounted
                    pass

    def serve(self):
        """Serves requests until the folder is unmounted."""
        threading.Thread(target=self.drop_caches, daemon=True).start()
        poll = select.poll()
        poll.register(self.device, select.POLLIN)
        while True:
            now = time.monotonic()
            while self.pending and self.pending[0][0] <= now:
                _, unique, payload = heapq.heappop(self.pending)
                self.reply(unique, payload)
            wait_ms = max(0.0, (self.pending[0][0] - now) * 1e3) if self.pending else None
            # A poll rounds up to whole milliseconds, so that the last part needs a more exact wait.
            if wait_ms is not None and wait_ms < 1:
                time.sleep(wait_ms / 1e3)
                wait_ms = 0
            if not poll.poll(wait_ms if wait_ms is None else int(wait_ms)):
                continue
            try:
                request = os.read(self.device, MOST_READ + 65536)
            except OSError as error:
                if error.errno in (4, 2, 11):  # interrupted, the request was withdrawn, no request is there
                    continue
                return  # unmounted
            self.handle(request)

    def handle(self, request):
        _, opcode, unique, node, *_ = IN_HEADER.unpack_from(request)
        body = request[IN_HEADER.size:]
        if opcode in NO_REPLY:
            return
        try:
            payload = self.answer(opcode, node, body)
        except OSError as error:
            self.reply(unique, b"", error.errno)
            return
        if payload is None:
            self.reply(unique, b"", 38)  # no such function
        elif opcode == READ:
            self.cached_bytes += len(payload)
            if 0 < self.cache_bytes <= self.cached_bytes:
                self.cached_bytes = 0
                self.drop.set()
            heapq.heappush(self.pending, (self.line.done_at(time.monotonic(), len(payload)), unique, payload))
        else:
            self.reply(unique, payload)

    def reply(self, unique, payload, error=0):
        try:
            os.write(self.device, OUT_HEADER.pack(OUT_HEADER.size + len(payload), -error, unique) + payload)
        except OSError as failure:
            if failure.errno != 2:  # the request was interrupted meanwhile
                raise

    def answer(self, opcode, node, body):
        """The bytes of the reply, or None for a function that this file system does not have."""
        if opcode == INIT:
            major, minor, read_ahead = struct.unpack_from("<III", body)
            return struct.pack("<IIIIHHIIHHI", 7, min(minor, 31), read_ahead, ASYNC_READ, 64, 48, MOST_READ, 1, 32, 0,
                               0) + bytes(28)
        if opcode == LOOKUP:
            path = os.path.join(self.paths[node], os.fsdecode(body.split(b"\0")[0]))
            child = self.node_of(path)
            return struct.pack("<QQQQII", child, 0, 3600, 3600, 0, 0) + attributes(child, path)
        if opcode == GETATTR:
            return struct.pack("<QII", 3600, 0, 0) + attributes(node, self.paths[node])
        if opcode == OPEN:
            if node not in self.files:
                self.files[node] = os.open(self.paths[node], os.O_RDONLY)
            return struct.pack("<QII", node, 0, 0)  # without KEEP_CACHE
        if opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(self.files[node], size, offset)
        if opcode == OPENDIR:
            return struct.pack("<QII", node, 0, 0)
        if opcode == READDIR:
            return self.entries(node, *struct.unpack_from("<QI", body, 8))
        if opcode == STATFS:
            return struct.pack("<QQQQQIIII", 0, 0, 0, 0, 0, 4096, 255, 4096, 0) + bytes(24)
        if opcode in (RELEASE, RELEASEDIR, FLUSH):
            return b""
        return None

    def entries(self, node, offset, size):
        reply = b""
        names = sorted(os.listdir(self.paths[node]))
        for index in range(offset, len(names)):
            path = os.path.join(self.paths[node], names[index])
            name = os.fsencode(names[index])
            kind = stat.S_IFMT(os.stat(path).st_mode) >> 12
            entry = struct.pack("<QQII", self.node_of(path), index + 1, len(name), kind) + name
            entry += bytes(-len(entry) % 8)
            if len(reply) + len(entry) > size:
                break
            reply += entry
        return reply

    def node_of(self, path):
        os.stat(path)  # raises when there is no such file
        node = self.nodes.setdefault(path, len(self.nodes) + 2)
        self.paths[node] = path
        return node


def mount(folder):
    """Mounts on `folder` and returns the descriptor from which requests come."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={MOST_READ}"
    read_only, no_suid, no_device = 1, 2, 4
    if libc.mount(b"slow-disk", os.fsencode(folder), b"fuse", read_only | no_suid | no_device, options.encode()) != 0:
        raise OSError(ctypes.get_errno(), f"{folder}: cannot be mounted; expected root and /dev/fuse")
    return device


class SlowDisk:
    """Mounts a view of `root` for as long as the `with` lasts. A process of its own serves it."""

    def __init__(self, root, megabytes_per_second, latency_ms=0.0, cache_megabytes=0):
        self.flags = [f"--rate={megabytes_per_second}", f"--latency={latency_ms}", f"--cache={cache_megabytes}"]
        self.root = root

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="slow-disk-")
        command = [sys.executable, os.path.abspath(__file__), str(self.root), self.folder, *self.flags]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            raise OSError(f"{self.folder}: no slow disk; see above")
        return self.folder

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        os.rmdir(self.folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", help="the folder to be seen")
    parser.add_argument("mount_point", help="an empty folder")
    parser.add_argument("--rate", type=float, default=20, help="MB/s of all reads together")
    parser.add_argument("--latency", type=float, default=0, help="ms a request takes besides")
    parser.add_argument("--cache", type=float, default=0, help="MB after which the page cache is dropped; 0: never")
    options = parser.parse_args()
    device = mount(options.mount_point)
    libc = ctypes.CDLL(None)

    def leave(*_):
        detach = 2
        libc.umount2(os.fsencode(options.mount_point), detach)
        os._exit(0)

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    print("ready", flush=True)
    Server(device, options.root, Line(options.rate * 1e6, options.latency * 1e-3),
           int(options.cache * 1e6)).serve()


if __name__ == "__main__":
    main()
