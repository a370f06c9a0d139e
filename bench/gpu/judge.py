"""judge: whether a step has shown what it is for. An exit code of 0 alone is not enough."""

import json
import re
import shutil

import results

KEPT = ("summary.json", "metrics.csv", "gpu.csv", "options.json")  # of a run's folder, beside its log


def why_failed(step, code, runner, result):
    """Why the step has failed; "" if it has passed. Fills in the figures of a run."""
    log = (runner.logs / f"{step.name}.log").read_text(errors="replace")
    lines = [line.strip() for line in log.splitlines()[1:] if line.strip()]
    if step.kind == "train":
        why = judge_run(step, runner, result)
    elif step.kind == "cuda_test":
        passed = re.search(r"\[  PASSED  \] (\d+) test", log)
        result["failed_tests"] = sorted(set(re.findall(r"\[  FAILED  \] (\w+\.\w+)", log)))
        why = "" if passed and int(passed[1]) > 0 else "no test has passed"
    elif step.kind == "verify":
        why = "" if re.search(r"\b([1-9]\d*) of \1 pairs? holds?", log) else "no line says that all pairs hold"
    elif step.kind == "listed":
        why = "" if re.search(r"^\w+\.$", log, re.MULTILINE) else "no test is listed"
    else:
        why = ""
    if code != 0:  # the program's own last words say more than what is missing after it
        if result.get("failed_tests"):
            return f"exit code {code}: {', '.join(result['failed_tests'])}"
        return f"exit code {code}: {lines[-1] if lines else 'it said nothing'}"
    return why


def judge_run(step, runner, result):
    folder = runner.work / "runs" / step.name
    for name in KEPT:
        if (folder / name).is_file():
            shutil.copy(folder / name, runner.logs / f"{step.name}.{name}")
    try:
        summary = json.loads((folder / "summary.json").read_text())
        result["figures"] = {**results.figures(summary), **results.device_use(folder / "gpu.csv")}
    except (OSError, ValueError, KeyError) as error:
        return f"no summary.json and gpu.csv that can be read: {type(error).__name__} {error}"
    for key, expected in {"device": runner.sizes.device, **step.checks}.items():
        if summary.get(key) != expected:
            return f"{key} is {summary.get(key)} in summary.json; expected {expected}"
    accuracy = summary.get("accuracy")
    if step.least_accuracy > 0 and not (accuracy or 0) >= step.least_accuracy:
        return f"accuracy is {accuracy}; expected {step.least_accuracy} or more"
    return ""
