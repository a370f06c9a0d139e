"""Measures what docs/reports/performance.md says about Python, all of it side by side in one run:

    build/python-environments/full/bin/python bench/python/run.py [--rows loop,loaders,...] [--rounds 5] [--json FILE]

script/test-python makes that environment: the wheel, torch, torchvision, Pillow; `pack` also needs datasets (script/setup
ecosystem). Each round runs every side once, in turn, in a process of its own. Ratios are taken within a round, because the
machine's speed drifts between them. Nothing else may run on the machine. The data are in PENSTOCK_DATA or ../shared/data;
what is made of them is kept in --work.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import figures
import prepared
from sides import ROWS, SIDES

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "peers"))
import table  # noqa: E402

GROUPS = tuple(dict.fromkeys([*(row.group for row in ROWS), *figures.FIGURES]))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default=",".join(GROUPS), help=f"of {','.join(GROUPS)}; all without it")
    parser.add_argument("--rounds", type=int, default=5, help="the median counts")
    parser.add_argument("--cores", type=int, default=2, help="that everything is kept to")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/bench-python"))
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/bench-python.json"))
    options = parser.parse_args()
    options.rows = options.rows.split(",")
    for name in options.rows:
        if name not in GROUPS:
            parser.error(f'--rows: unknown row "{name}"; known: {", ".join(GROUPS)}')
    return options


def measure_rows(rows, data, rounds):
    """{side: one rate per round}"""
    rates = {side: [] for row in rows for side in (row.first, row.second)}
    for number in range(rounds):
        for side, measured in rates.items():
            measured.append(SIDES[side](data))
            print(f"round {number + 1}: {side}: {measured[-1]:,.1f}/s", file=sys.stderr, flush=True)
    return rates


def row_line(row, rates):
    first, second = rates[row.first], rates[row.second]
    ratios = [a / b for a, b in zip(first, second, strict=True)]
    return table.line([row.text, row.asked_for, table.spread(first, table.images), table.spread(second, table.images),
                       table.spread(ratios, lambda value: f"{value:.3f}" if value < 2 else table.ratio(value))])


def machine():
    lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    return f"{model}, {len(os.sched_getaffinity(0))} cores, Python {sys.version.split()[0]}, commit {commit}"


def main():
    options = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    begin, load = time.monotonic(), os.getloadavg()[0]
    rows = [row for row in ROWS if row.group in options.rows]
    data = prepared.Data(options.work, {row.group for row in rows} | set(options.rows))
    rates = measure_rows(rows, data, options.rounds)
    found = [figure for name, measure in figures.FIGURES.items() if name in options.rows
             for figure in measure(data, options.rounds)]
    lines = [table.line(["what", "asked for", "first/s, median (range)", "second/s, median (range)", "ratio, median (range)"]),
             "|---|---|---|---|---|", *(row_line(row, rates) for row in rows)] if rows else []
    if found:
        lines += ["", "| what | asked for | measured, median (range) |", "|---|---|---|",
                  *(table.line([figure.text, figure.asked_for, figure.measured()]) for figure in found)]
    about = (f"{machine()}; {options.rounds} rounds in {(time.monotonic() - begin) / 60:.1f} minutes; load average "
             f"{load:.1f} before and {os.getloadavg()[0]:.1f} after.")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps({
        "about": about, "command": " ".join(sys.argv), "rates": rates,
        "rows": [{"text": row.text, "asked_for": row.asked_for, "first": row.first, "second": row.second} for row in rows],
        "figures": [{"text": one.text, "asked_for": one.asked_for, "values": one.values} for one in found]}, indent=1) + "\n",
        encoding="utf-8")
    print("\n".join([*lines, "", about]))


if __name__ == "__main__":
    main()
