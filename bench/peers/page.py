"""Tables and charts of docs/reports/peers.md, from .peers/results.json: python bench/peers/page.py.

Only the part of the page between the two comments is replaced. The charts are docs/reports/peers-*.svg, one per workload, drawn by gnuplot;
README shows that of photographs.
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


def chart(name, record):
    """gnuplot's commands for the chart of one workload: one bar per loader, with its range as a line."""
    data = bars(record)
    block = "\n".join(f'"{title}" {median} {low} {high} {color}' for title, median, low, high, color in data)
    title = WORKLOADS[name].title.split(":")[0]
    return f"""$data << EOD
{block}
EOD
set terminal svg size 860,{24 * len(data) + 80} font 'sans,11' background 'white'
set border 1
set xtics nomirror
set ytics nomirror scale 0
set lmargin at screen 0.33
set title '{title}: images per second, {CHART_WORKERS} workers, median and range'
set yrange [-0.6:{len(data) - 0.4}]
set xrange [0:{1.15 * max(high for _, _, _, high, _ in data)}]
plot $data using (0):0:(0):2:($0 - 0.35):($0 + 0.35):5:ytic(1) with boxxyerror lc rgb variable fs solid notitle, \\
  '' using 2:0:3:4 with xerrorbars pt -1 lc rgb '#404040' notitle, \\
  '' using 4:0:(sprintf('  %.0f', $2)) with labels left font ',10' notitle
"""


def drawn(name, record):
    return subprocess.run(["gnuplot"], input=chart(name, record), capture_output=True, text=True, check=True).stdout


def write(source, docs):
    """docs/reports/peers.md's tables and charts, from the results in `source`."""
    records = photo_records(source)
    if not records:
        sys.exit(f"page: {source}: no photographs in it; expected those of script/peers --workload photos,photos256")
    parts = []
    for name, record in records.items():
        workload = table.markdown(WORKLOADS[name].title, record["rows"], OWN[name], record["missing"]).split("\n", 1)
        parts.append(f"{workload[0]}\n\n![Images per second, {CHART_WORKERS} workers](peers-{name}.svg)\n{workload[1]}\n"
                     + table.heading(record))
        (docs / f"peers-{name}.svg").write_text(drawn(name, record))
    path = docs / "peers.md"
    path.write_text(replaced(path.read_text(), "\n".join(parts)))


if __name__ == "__main__":
    write(ROOT / ".peers" / "results.json", ROOT / "docs/reports")
