"""What was measured, kept in .peers/results.json, so that loaders can be measured one after the other (--only).

A row holds its own rates and those of Penstock in the same rounds: a ratio never mixes two runs.
"""

import json


def rows(rates, own, sizes):
    """rates: {(title, workers): rates, one per round}; own: titles; sizes: {title: megabytes}"""
    return [
        {
            "title": title,
            "workers": workers,
            "rates": measured,
            "own": {name: rates[name, workers] for name in own if (name, workers) in rates and name != title},
            "megabytes": sizes.get(title, 0),
        }
        for (title, workers), measured in rates.items()
    ]


def read(path):
    return json.loads(path.read_text()) if path.exists() else {}


def merged(old, new, titles):
    """A workload's record: rows and causes of `new` replace those of `old`; sorted in the order of titles."""
    found = {(row["title"], row["workers"]): row for record in (old, new) for row in record.get("rows", [])}
    missing = {**old.get("missing", {}), **new["missing"]}
    measured = {row["title"] for row in new["rows"]}
    missing = {title: missing[title] for title in titles if title in missing and title not in measured}
    kept = [row for row in found.values() if row["title"] in titles and row["title"] not in missing]
    kept.sort(key=lambda row: (titles.index(row["title"]), row["workers"]))
    versions = sorted({*old.get("versions", []), *new["versions"]})
    runs = [run for run in old.get("runs", []) if run["command"] != new["runs"][0]["command"]] + new["runs"]
    return {"rows": kept, "missing": missing, "versions": versions, "runs": runs}
