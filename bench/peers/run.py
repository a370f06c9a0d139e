"""Measures Penstock and its peers in turn, on the same cores and the same data: script/peers installs them and calls this.

A round runs each loader with each number of workers once, each in a process of its own. Ratios are taken within a round, since
the machine's speed drifts between them. What was measured is kept in .peers/results.json, row by row, and page.py makes
docs/reports/peers.md from it.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile

import results
import table
from peers import OWN, PEERS
from workloads import BATCH_SIZE, WORKLOADS

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE, BIN, HOME = ROOT / "bench" / "peers", ROOT / "build" / "release" / "bin", ROOT / ".peers"
TIMEOUT_SECONDS = 180
RESULTS = HOME / "results.json"


def fail(message, code=2):
    print(f"peers: {message}", file=sys.stderr)
    sys.exit(code)


def store(peer, workload):
    """The folder that a loader reads when it is Penstock's or calls Penstock."""
    return HOME / "data" / (peer.store or f"penstock-{workload.name}")


def command(peer, workload, workers, seconds, report):
    if peer.is_penstock:
        # an epoch of MNIST takes about 0.1 s, one of photographs 0.4
        epochs = max(3, round((2.5 if workload.is_photos else 10) * seconds))
        return [BIN / peer.program, "--data", store(peer, workload), "--workers", workers, "--augment", workload.augment,
                "--batch-size", BATCH_SIZE, "--epochs", epochs, "--json", report]  # fmt: skip
    timing = ["--workers", workers, "--variant", peer.variant, "--seconds", seconds]
    if peer.program == "torch_data_peer":
        return [BIN / peer.program, "--data", store(peer, workload), "--augment", workload.augment, *timing]
    python = HOME / peer.environment / "bin" / "python" if peer.environment else ROOT / ".venv" / "bin" / "python"
    return [python, HERE / f"peer_{peer.program}.py", "--workload", workload.name, "--data", HOME / "data", *timing]


def penstock_result(report):
    rates = json.loads(pathlib.Path(report).read_text())["runs"][0]["epoch_images_per_second"]
    return len(rates) / sum(1 / rate for rate in rates)  # epochs are equally long: images / time


def cause(done):
    """One line of at most 200 characters: the last of a Python traceback, the first of anything else."""
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return (lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0])[:200]


def measure(peer, workload, workers, seconds, cores):
    """(images per second, versions). Raises RuntimeError with one line."""
    if peer.is_core_a_worker:
        cores = cores[:workers]
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        try:
            done = subprocess.run(
                [str(part) for part in command(peer, workload, workers, seconds, report)],
                capture_output=True,
                text=True,
                check=False,
                timeout=TIMEOUT_SECONDS,
                preexec_fn=lambda: os.sched_setaffinity(0, cores),
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            raise RuntimeError(str(error)) from error
        if done.returncode != 0:
            raise RuntimeError(cause(done))
        if peer.is_penstock:
            return penstock_result(report), ""
        result = json.loads(done.stdout.strip().splitlines()[-1])
        return result["images_per_second"], result["versions"]


def not_there(peer, workload):
    """Why a peer cannot be run, as script/peers noted it; None for one that can be run."""
    note = HOME / f"{peer.environment}.failed"
    if peer.is_penstock:
        note = store(peer, workload).with_suffix(".failed")
    elif not peer.environment:
        return None
    return note.read_text().strip() if note.exists() else None


def megabytes(peer):
    path = HOME / "data" / peer.store if peer.store else None
    if path is None or not path.exists():
        return 0
    parts = [path] if path.is_file() else [part for part in path.rglob("*") if part.is_file()]
    return sum(part.stat().st_size for part in parts) / 1e6


def measure_workload(workload, peers, options, cores):
    """A record for results.py."""
    load_before, versions = os.getloadavg()[0], set()
    peers = [peer for peer in peers if workload.name in peer.workloads]
    missing = {peer.title: why for peer in peers if (why := not_there(peer, workload))}
    rates = {}
    for number in range(options.rounds):
        for peer in peers:
            for workers in peer.workers:
                if peer.title in missing:
                    continue
                try:
                    rate, used = measure(peer, workload, workers, options.seconds, cores)
                except RuntimeError as error:
                    if peer.is_penstock:
                        fail(f"{peer.title}, {workload.name}: {error}", 1)
                    missing[peer.title] = str(error)
                    continue
                rates.setdefault((peer.title, workers), []).append(rate)
                versions.update(part for part in used.split(", ") if part)
                print(f"round {number + 1}: {workload.name}, {peer.title}, {workers} workers: {rate:,.0f}", file=sys.stderr)
    rates = {key: measured for key, measured in rates.items() if key[0] not in missing}
    sizes = {peer.title: megabytes(peer) for peer in peers}
    load = f"{load_before:.1f} before and {os.getloadavg()[0]:.1f} after"
    run = {"command": shell(), "machine": machine(cores), "rounds": options.rounds, "load": load}
    return {
        "rows": results.rows(rates, OWN[workload.name], sizes),
        "missing": missing,
        "versions": sorted(versions),
        "runs": [run],
    }


def shell():
    return " ".join(["script/peers", *sys.argv[1:]])


def machine(cores):
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return f"{model}, {len(cores)} cores, Linux {platform.release()}, Python {platform.python_version()}"


def parse():
    names = sorted({peer.name for peer in PEERS if not peer.is_penstock})
    parser = argparse.ArgumentParser(prog="script/peers", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each loader and worker count; the median counts")
    parser.add_argument("--only", default="", help=f"of {','.join(names)}")
    parser.add_argument("--workload", default="", help=f"of {','.join(WORKLOADS)}; all without it")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured, of each loader and worker count in a round")
    parser.add_argument("--cores", type=int, default=2, help="that everything is kept to")
    parser.add_argument("--list", action="store_true", help="print the environments, programs and data that this needs, and end")
    options = parser.parse_args()
    options.names = options.only.split(",") if options.only else names
    options.workloads = options.workload.split(",") if options.workload else list(WORKLOADS)
    for name in options.names:
        if name not in names:
            fail(f'--only: unknown peer "{name}"; known: {", ".join(names)}')
    for name in options.workloads:
        if name not in WORKLOADS:
            fail(f'--workload: unknown workload "{name}"; known: {", ".join(WORKLOADS)}')
    for flag, value in (("--rounds", options.rounds), ("--cores", options.cores)):
        if value < 1:
            fail(f"{flag}: is {value}; expected 1 or more")
    if not 0 < options.seconds < TIMEOUT_SECONDS / 2:
        fail(f"--seconds: is {options.seconds}; expected more than 0 and less than {TIMEOUT_SECONDS / 2:.0f}")
    return options


def main():
    options = parse()
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < options.cores:
        fail(f"--cores: is {options.cores}; expected at most {len(cores)}, which this process may run on")
    cores = cores[: options.cores]
    peers = [peer for peer in PEERS if peer.is_penstock or peer.name in options.names]
    peers = [peer for peer in peers if set(peer.workloads) & set(options.workloads)]
    if options.list:
        needed = {peer.environment or peer.program for peer in peers}
        needed |= {"photographs" if WORKLOADS[name].is_photos else "arrays" for name in options.workloads}
        print(*sorted(needed))
        return
    kept = results.read(RESULTS)
    for name in options.workloads:
        record = measure_workload(WORKLOADS[name], peers, options, cores)
        titles = [peer.title for peer in PEERS if name in peer.workloads]
        kept[name] = results.merged(kept.get(name, {}), record, titles)
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
        print(table.heading(record))
        print(table.markdown(WORKLOADS[name].title, record["rows"], OWN[name], record["missing"]), flush=True)


if __name__ == "__main__":
    main()
