"""What `shardprep plan --link` promises beside what a loader does: python bench/loader/far_plan.py PACKED [PACKED ...]

For each PACKED, link and cache: the table of the plan for the form that PACKED has, and then epochs of loadbench over the emulated link with a cache
of that size, empty at first. Prints images per second and MB per epoch after the first, predicted, measured, and their ratio. Needs the tools,
in PENSTOCK_BIN.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import tempfile

BIN = pathlib.Path(os.environ.get("PENSTOCK_BIN", "build/release/bin"))
UNITS = {"B": 1e-6, "KB": 1e-3, "MB": 1, "GB": 1e3}


def planned(data, form, link, cache, options):
    words = ["plan", "--target", "1", "--data", data, "--link", link, "--cache-limit", cache, "--shuffle", options.shuffle, "--augment", options.augment]
    said = subprocess.check_output([BIN / "shardprep", *words], text=True).split("\nover a link of ")[1]
    cells = re.search(rf"^{form} .*\)  +([\d,]+) \((\w+), ([\d.]+) (\w+)\)$", said, re.MULTILINE)
    if cells is None:
        raise SystemExit(f"{data}: no line of {form} in\n{said}")
    return int(cells[1].replace(",", "")), cells[2], float(cells[3]) * UNITS[cells[4]]


def measured(data, link, cache, options):
    with tempfile.TemporaryDirectory(prefix="penstock-far-plan-") as top:
        words = ["--data", data, "--sim-link", link, "--workers", "1", "--epochs", str(options.epochs), "--shuffle", options.shuffle,
                 "--augment", options.augment, "--cache-limit", cache, "--cache-dir", f"{top}/cache", "--json", f"{top}/out.json"]
        subprocess.run([BIN / "loadbench", *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        run = json.loads(pathlib.Path(f"{top}/out.json").read_text())["runs"][0]
    return run["images_per_second"], run["link"]["fetched_bytes"] / options.epochs / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", nargs="+", help="FORM=DIR: a set and the line of the table that is stored so, as in '--encode auto=data/raw'")
    parser.add_argument("--links", default="10ms,20MB/s 10ms,40MB/s 10ms,80MB/s")
    parser.add_argument("--shares", default="0.5 0.75", help="of the set, which the cache has")
    parser.add_argument("--shuffle", default="shards(window=8,lanes=2)")
    parser.add_argument("--augment", default="normalize")
    parser.add_argument("--epochs", type=int, default=3)
    options = parser.parse_args()
    for one in options.packed:
        form, data = one.split("=", 1)
        size = sum(path.stat().st_size for path in pathlib.Path(data).rglob("*.safetensors")) / 1e6
        for link in options.links.split():
            for share in options.shares.split():
                cache = f"{size * float(share):.0f}mb"
                rate, bound, megabytes = planned(data, form, link, cache, options)
                real_rate, real_megabytes = measured(data, link, cache, options)
                print(f"{form} {size:.0f} MB, {link}, {cache}: {rate:,} images/s ({bound}), {megabytes:.1f} MB; measured {real_rate:,.0f}, "
                      f"{real_megabytes:.1f} MB; ratios {rate / real_rate:.2f}, {megabytes / real_megabytes:.2f}", flush=True)


if __name__ == "__main__":
    main()
