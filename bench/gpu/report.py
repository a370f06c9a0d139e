"""Report: the table, and the first failure before everything else."""

import statistics
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


def seeds(names, steps):
    """A line per recipe that ran with several seeds, all of those that have passed or failed with a figure."""
    runs = {}
    for name in names:
        recipe, mark, _ = name.partition("-seed-")
        found = steps[name].get("figures") or {}
        if mark and found.get("accuracy") is not None:
            runs.setdefault(recipe, []).append((found["accuracy"], found["train_seconds"]))
    for recipe, figures in runs.items():
        accuracies, seconds = zip(*figures)
        yield (f"- {recipe}: mean of {len(figures)} seeds {100 * statistics.mean(accuracies):.2f} % "
               f"({100 * min(accuracies):.2f} to {100 * max(accuracies):.2f}), {statistics.mean(seconds):.2f} s of training")


def table(names, steps, title):
    lines = [f"# {title}", ""]
    failure = first_failure(names, steps)
    lines += [failure, ""] if failure else []
    lines += [counts(names, steps), "", "| " + " | ".join(COLUMNS) + " |", "|---|---|" + "---:|" * (len(COLUMNS) - 2)]
    lines += ["| " + " | ".join(row(name, steps[name])) + " |" for name in names]
    lines += ["", *seeds(names, steps)]
    for name in names:
        sentence = (steps[name].get("figures") or {}).get("sentence")
        why = steps[name].get("why")
        lines += [f"- {name}: {text}" for text in (why, sentence) if text]
    return "\n".join(lines) + "\n"


def largest_share(sizes, most):
    """The number of bytes to which each of the sizes is cut so that their sum is at most `most`."""
    left, share = most, most
    for count, size in zip(range(len(sizes), 0, -1), sorted(sizes)):
        share = left // count
        if size > share:
            return share
        left -= size
    return share


def keep_logs(folder, target):
    """Puts every log into one file. If they weigh too much, the longest keep their ends alone."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    mark = b"(cut)\n"
    # A tar has up to 1.5 KB beside the bytes of a file; text that cannot be compressed does not grow by a thousandth.
    share = largest_share([path.stat().st_size for path in paths], MOST_BYTES * 9 // 10 - 2048 * len(paths)) - len(mark)
    for path in paths:
        if path.stat().st_size > share + len(mark):
            path.write_bytes(mark + path.read_bytes()[-share:])
    with tarfile.open(target, "w:gz") as tar:
        tar.add(folder, arcname="logs")
