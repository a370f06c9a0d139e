"""Tables and chart of docs/peers.md, from .peers/results.json: python bench/peers/page.py.

Only the part of the page between the two comments is replaced. The chart is docs/peers.svg, drawn by gnuplot.
"""

import pathlib
import statistics
import subprocess
import sys

import results
import table
from peers import OWN
from workloads import WORKLOADS

ROOT = pathlib.Path(__file__).resolve().parents[2]
BEGIN, END = "<!-- measured: from here on by bench/peers/page.py -->", "<!-- end of what was measured -->"
OWN_COLOR, PEER_COLOR = 0x1B6CA8, 0x9AA5B1
CHART_WORKERS = 2


def photo_records(path):
    return {name: record for name, record in results.read(path).items() if WORKLOADS[name].is_photos and record["rows"]}


def replaced(page, text):
    """The page with `text` between its two comments."""
    head, rest = page.split(BEGIN)
    return f"{head}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}"


def bars(record):
    """(title, median, lowest, highest, color) with CHART_WORKERS workers, the slowest first."""
    found = [
        (
            row["title"],
            statistics.median(row["rates"]),
            min(row["rates"]),
            max(row["rates"]),
            OWN_COLOR if row["title"].startswith("Penstock") else PEER_COLOR,
        )
        for row in record["rows"]
        if row["workers"] == CHART_WORKERS
    ]
    return sorted(found, key=lambda bar: bar[1])


def plot(name, record):
    """gnuplot's commands for one panel: one bar per loader, with its range as a line."""
    data = bars(record)
    block = "\n".join(f'"{title}" {median} {low} {high} {color}' for title, median, low, high, color in data)
    title = WORKLOADS[name].title.split(":")[0]
    return f"""$data_{name} << EOD
{block}
EOD
set title '{title}: images a second, {CHART_WORKERS} workers, median and range'
set yrange [-0.6:{len(data) - 0.4}]
set xrange [0:{1.15 * max(high for _, _, _, high, _ in data)}]
plot $data_{name} using (0):0:(0):2:($0 - 0.35):($0 + 0.35):5:ytic(1) with boxxyerror lc rgb variable fs solid notitle, \\
  '' using 2:0:3:4 with xerrorbars pt -1 lc rgb '#404040' notitle, \\
  '' using 4:0:(sprintf('  %.0f', $2)) with labels left font ',10' notitle
"""


def chart(records):
    """The panels, one below the other, each as high as its bars need."""
    heights = [26 * len(bars(record)) + 90 for record in records.values()]
    commands = [
        f"set terminal svg size 860,{sum(heights)} font 'sans,11'",
        "set border 1",
        "set xtics nomirror",
        "set ytics nomirror scale 0",
        "set lmargin at screen 0.33",
        "set multiplot",
    ]
    top = sum(heights)
    for height, (name, record) in zip(heights, records.items()):
        top -= height
        commands += [f"set size 1,{height / sum(heights)}", f"set origin 0,{top / sum(heights)}", plot(name, record)]
    return "\n".join(commands)


def write(source, docs):
    """docs/peers.md's tables and docs/peers.svg, from the results in `source`."""
    records = photo_records(source)
    if not records:
        sys.exit(f"page: {source}: no photographs in it; expected those of script/peers --workload photos,photos256")
    parts = [f"![Images a second, {CHART_WORKERS} workers](peers.svg)\n"]
    parts += [
        table.markdown(WORKLOADS[name].title, record["rows"], OWN[name], record["missing"]) + "\n" + table.heading(record)
        for name, record in records.items()
    ]
    path = docs / "peers.md"
    path.write_text(replaced(path.read_text(), "\n".join(parts)))
    drawn = subprocess.run(["gnuplot"], input=chart(records), capture_output=True, text=True, check=True)
    (docs / "peers.svg").write_text(drawn.stdout)


if __name__ == "__main__":
    write(ROOT / ".peers" / "results.json", ROOT / "docs")
