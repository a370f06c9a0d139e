"""Two network namespaces as two machines, with host names and /etc/hosts of their own."""
import os
import shutil
import subprocess

import pytest


def ip(*words):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True)


@pytest.fixture
def machines():
    """Two network namespaces, each with an interface `net` on one cable: 10.77.0.1 and 10.77.0.2."""
    names = [f"penstock-{os.getpid()}-{side}" for side in "ab"]
    try:
        if os.geteuid() != 0 or not shutil.which("ip") or ip("netns", "add", names[0]).returncode != 0:
            pytest.skip("did not run: network namespaces need root and iproute2")
        ip("netns", "add", names[1])
        assert ip("link", "add", "net", "netns", names[0], "type", "veth", "peer", "name", "net", "netns", names[1]).returncode == 0
        for number, name in enumerate(names, 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", "net")
            for device in ("lo", "net"):
                ip("-n", name, "link", "set", device, "up")
        yield names
    finally:
        for name in names:
            ip("netns", "del", name)


HOSTS = ("alpha", "beta")  # of `machines`


@pytest.fixture
def named_machines(machines, tmp_path):
    """Commands that run what follows on machine alpha and on machine beta. Each has the /etc/hosts that Debian's installer
    writes: its own name is 127.0.1.1. It knows the other one's address."""
    commands = []
    for own, other, other_address, space in zip(HOSTS, HOSTS[::-1], ("10.77.0.2", "10.77.0.1"), machines):
        (tmp_path / own).write_text(f"127.0.0.1\tlocalhost\n127.0.1.1\t{own}\n{other_address}\t{other}\n")
        prepare = f'hostname {own} && mount --bind {tmp_path / own} /etc/hosts && exec "$@"'
        commands.append(["ip", "netns", "exec", space, "unshare", "--uts", "--mount", "sh", "-c", prepare, "sh"])
    return commands
