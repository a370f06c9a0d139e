"""Rates as Markdown: median and range, and Penstock's ratio to each loader, taken within rounds."""

import statistics


def spread(values, text):
    """Median, and range in brackets."""
    return f"{text(statistics.median(values))} ({text(min(values))}-{text(max(values))})"


def images(value):
    return f"{value:,.0f}"


def ratio(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def rows(measured, own):
    """measured: rows as results.py keeps them; own: the titles that the others are compared with."""
    has_sizes = any(row.get("megabytes") for row in measured)
    head = ["loader", "workers", "images/s, median (range)", *(f"{title} / it, median (range)" for title in own)]
    lines = [line(head + ["MB stored"] * has_sizes), "|" + "---|" * (len(head) + has_sizes)]
    for row in measured:
        cells = [row["title"], str(row["workers"]), spread(row["rates"], images)]
        for title in own:
            ours = row["own"].get(title)
            is_own = row["title"] == title or not ours
            cells.append("" if is_own else spread([a / b for a, b in zip(ours, row["rates"], strict=True)], ratio))
        lines.append(line(cells + [f"{row['megabytes']:,.0f}" if row.get("megabytes") else ""] * has_sizes))
    return lines


def line(cells):
    return f"| {' | '.join(cells)} |"


def markdown(title, measured, own, missing):
    """A heading, the table, and a line for each loader that is not in it. missing: {title: cause}"""
    lines = [f"### {title}", "", *rows(measured, own)]
    if missing:
        lines += ["", *(f"- Not measured: {name}: {cause}" for name, cause in missing.items())]
    return "\n".join(lines) + "\n"


def heading(record):
    """Commands, machine, versions and load of a workload's record."""
    lines = [
        f"`{run['command']}`: {run['machine']}; medians of {run['rounds']} rounds; load average {run['load']}."
        for run in record["runs"]
    ]
    return "\n".join([*lines, f"Versions: {', '.join(record['versions'])}."]) + "\n"
