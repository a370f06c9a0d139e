"""Report: the table, and the first failure before everything else."""

import tarfile

from results import FAILED, LEFT_OUT, NOT_BUILT, NOT_REACHED, PASSED

COLUMNS = ("step", "status", "wall s", "train s", "published s", "load ms", "update ms", "images/s", "accuracy",
           "prediction", "GPU busy", "GPU MiB")
MOST_BYTES = 16 << 20  # a machine may give back no larger file


def number(value, form="{:.3g}"):
    return "" if value is None else form.format(value)


def row(name, result):
    found = result.get("figures") or {}
    error, accuracy, busy = (found.get(key) for key in ("prediction_error", "accuracy", "gpu_percent"))
    return [name, result["status"], number(result.get("wall"), "{:.1f}"), number(found.get("train_seconds"), "{:.2f}"),
            number(result.get("published") or None, "{:.1f}"), number(found.get("load_ms_per_step")),
            number(found.get("update_ms_per_step")), number(found.get("images_per_second"), "{:,.0f}"),
            number(accuracy and 100 * accuracy, "{:.2f} %"), number(error and 100 * error, "{:+.1f} %"),
            number(busy, "{:.0f} %"), number(found.get("gpu_memory_mib"), "{:.0f}")]


def line(name, result):
    """What is printed when a step has ended."""
    wall = f", {result['wall']:.1f} s" if "wall" in result else ""
    return f"{name}: {result['status']}{wall}" + (f": {result['why']}" if result.get("why") else "")


def counts(names, steps):
    statuses = [steps[name]["status"] for name in names]
    return ", ".join(f"{statuses.count(status)} {status}" for status in (PASSED, FAILED, NOT_BUILT, LEFT_OUT, NOT_REACHED))


def first_failure(names, steps):
    """The failure of the step that comes first, in its own words; "" if no step has failed."""
    for name in names:
        if steps[name]["status"] == FAILED:
            return f"first failure: {name}: {steps[name]['why']}"
    return ""


def table(names, steps, title):
    lines = [f"# {title}", ""]
    failure = first_failure(names, steps)
    lines += [failure, ""] if failure else []
    lines += [counts(names, steps), "", "| " + " | ".join(COLUMNS) + " |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    lines += ["| " + " | ".join(row(name, steps[name])) + " |" for name in names]
    lines.append("")
    for name in names:
        sentence = (steps[name].get("figures") or {}).get("sentence")
        why = steps[name].get("why")
        lines += [f"- {name}: {text}" for text in (why, sentence) if text]
    return "\n".join(lines) + "\n"


def keep_logs(folder, target):
    """Puts every log into one file. If they weigh too much, the longest keep their ends alone."""
    share = MOST_BYTES // 2
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.stat().st_size > share // 8:
            path.write_bytes(b"(cut)\n" + path.read_bytes()[-(share // 8):])
    with tarfile.open(target, "w:gz") as tar:
        tar.add(folder, arcname="logs")
