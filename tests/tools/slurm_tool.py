"""A Slurm with one node, which tests start where its programs are installed."""
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from train_tool import free_port

CONFIGURATION = """
ClusterName=one
SlurmctldHost={host}
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName={host} CPUs={cores}
PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:4
"""


def wait_until(is_true, seconds=60):
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    """Calls programs of Slurm."""
    path = f"{os.environ['PATH']}:/usr/sbin"
    missing = [name for name in ("munged", "slurmctld", "slurmd", "srun") if not shutil.which(name, path=path)]
    if missing or os.geteuid() != 0:
        pytest.skip(f"did not run: needs root and {', '.join(missing) or 'nothing else'} (Debian: slurm-wlm, munge)")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    (folder / "slurm.conf").write_text(CONFIGURATION.format(
        host=socket.gethostname(), folder=folder, controller_port=free_port(), node_port=free_port(), cores=os.cpu_count()))
    env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "PATH": path}
    munged = ["munged", "--foreground", "--force", f"--key-file={folder}/key"] + [
        f"--{name}-file={folder}/munged.{name}" for name in ("pid", "log", "seed")] + [f"--socket={folder}/munge.socket"]
    servers = [subprocess.Popen(munged, env=env, stderr=subprocess.DEVNULL)]
    wait_until((folder / "munge.socket").exists)
    for server in (["slurmctld", "-D", "-c"], ["slurmd", "-D"]):
        servers.append(subprocess.Popen(server, env=env, stderr=subprocess.DEVNULL))

    def call(*words, **options):
        return subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120, env={**env, **options})

    wait_until(lambda: "idle" in call("sinfo", "-h", "-o", "%t").stdout)
    yield call
    for server in reversed(servers):
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)
