"""Rates as Markdown: median and range, and Penstock's ratio to each loader, taken within rounds."""

import statistics


def spread(values, text):
    """Median, and range in brackets."""
    return f"{text(statistics.median(values))} ({text(min(values))}-{text(max(values))})"


def images(value):
    return f"{value:,.0f}"


def ratio(value):
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def rows(rates, own):
    """rates: {(title, workers): rates, one a round}; own: the title that the others are compared with."""
    lines = [
        f"| loader | workers | images/s, median (range) | {own} / it, median (range) |",
        "|---|---|---|---|",
    ]
    for (title, workers), measured in rates.items():
        cell = ""
        if title != own and (own, workers) in rates:
            cell = spread([ours / theirs for ours, theirs in zip(rates[own, workers], measured, strict=True)], ratio)
        lines.append(f"| {title} | {workers} | {spread(measured, images)} | {cell} |")
    return lines


def markdown(title, rates, own, missing):
    """A heading, the table, and a line for each loader that is not in it. missing: {title: cause}"""
    lines = [f"### {title}", "", *rows(rates, own)]
    if missing:
        lines += ["", *(f"- Not measured: {name}: {cause}" for name, cause in missing.items())]
    return "\n".join(lines) + "\n"
