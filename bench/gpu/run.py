"""run: the steps that are not done yet, one after the other, each with a log, a time limit and a status."""

import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import report
import results
import steps as all_steps
from bundle import PROGRAMS, Bundle
from judge import why_failed
from results import FAILED, LEFT_OUT, NOT_BUILT, NOT_REACHED, PASSED

LEAST_SECONDS = 5  # a step that has less than this is not begun


class Runner:
    """Everything of a call lies below `work`: LOGS, packed data, the folders of the runs."""

    def __init__(self, bundle, sizes, work, budget):
        self.bundle, self.sizes, self.work = bundle, sizes, work
        self.end = time.monotonic() + budget
        self.logs = work / "logs"
        shutil.rmtree(self.logs, ignore_errors=True)
        self.logs.mkdir(parents=True)
        self.env = bundle.environment(work)
        self.flags = self.known_flags()
        self.package = bundle.unpacked_package(work)
        self.programs = self.digest_of_programs()

    def known_flags(self):
        """The flags of this build, as its --help says; those of verify-modes with its name before them."""
        flags = set()
        for words, mark in (([], ""), (["verify-modes"], "verify-modes ")):
            done = subprocess.run([self.bundle.program("train"), *words, "--help"], capture_output=True, text=True, env=self.env)
            flags |= {mark + flag for flag in re.findall(r"^ +(?:-\w, *)?(--[a-z][a-z0-9-]*)", done.stdout, re.MULTILINE)}
        return flags  # empty where train does not start at all: the step `start` then says why

    def environment(self, step):
        """A step of Python gets the package from its wheel, whose libraries are its own: those of the bundle stay out of its way."""
        return {**os.environ, "PYTHONPATH": str(self.package)} if step.command[0] == "python" else self.env

    def digest_of_programs(self):
        """A digest of what the steps run: our programs and libraries."""
        digest = hashlib.blake2b(digest_size=16)
        for path in [*(self.bundle.bin / name for name in PROGRAMS), *sorted((self.bundle.bin.parent / "lib").glob("libpenstock*.so*"))]:
            digest.update(path.name.encode() + path.read_bytes())
        return digest.hexdigest()

    def filled(self, word):
        places = {"runs": self.work / "runs", "data": self.work / "data", "photos": self.work / "photos",
                  "cifar10": self.work / "cifar10", "input": self.bundle.data, "here": pathlib.Path(__file__).parent}
        return re.sub(r"\{(\w+)\}", lambda found: str(places[found[1]]), word)

    def place_photos(self):
        """The photographs in four classes, each several times: links, so that copies cost nothing."""
        files = sorted((self.bundle.data / "imagenet-sample").glob("*.JPEG"))[:self.sizes.photo_count]
        for number, path in enumerate(files):
            folder = self.work / "photos" / f"class-{number % 4}"
            folder.mkdir(parents=True, exist_ok=True)
            for copy in range(self.sizes.photo_copies):
                target = folder / f"{number}-{copy}.JPEG"
                if not target.is_symlink():
                    target.symlink_to(path.resolve())

    def unpack_cifar10(self):
        """Pictures in class folders, from the archives of the bundle. The folder has its name when it is whole."""
        partial = self.work / "cifar10.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for archive in sorted((self.bundle.data / "cifar10").glob("*.tar.xz")):
            with tarfile.open(archive) as tar:
                tar.extractall(partial, filter="data")
        partial.rename(self.work / "cifar10")

    def is_done(self, step, done):
        has_made = not step.makes or pathlib.Path(self.filled(step.makes)).exists()
        return done.get(step.name, {}).get("status") == PASSED and has_made

    def is_stale(self, step, done):
        """Whether the step has passed with other programs than these."""
        return done[step.name].get("programs") != self.programs

    def execute(self, step, done):
        """The result of a step: its status, why that is not `passed`, its figures."""
        result = {"published": step.published} if step.published else {}
        missing = [flag for flag in step.needs if self.flags and flag not in self.flags]
        if missing:
            return {**result, "status": NOT_BUILT, "why": f"this train has no {', '.join(missing)}"}
        if step.command[0] == "python" and self.package is None:
            why = f"{self.bundle.wheels} has no wheel for Python {'{}.{}'.format(*sys.version_info)}; script/wheel makes it"
            return {**result, "status": NOT_BUILT, "why": why}
        for name in step.after:
            if done.get(name, {}).get("status") != PASSED:
                return {**result, "status": LEFT_OUT, "why": f"{name} has not passed"}
        left = self.end - time.monotonic()
        if left < LEAST_SECONDS:
            return {**result, "status": NOT_REACHED, "why": "the budget had ended"}
        if step.name == "photos":
            self.place_photos()
        if "{cifar10}" in step.command and not (self.work / "cifar10").exists():
            self.unpack_cifar10()
        words = [self.bundle.program(step.command[0]), *map(self.filled, step.command[1:])]
        shutil.rmtree(self.work / "runs" / step.name, ignore_errors=True)
        code, result["wall"] = self.call(words, self.logs / f"{step.name}.log", min(step.limit, left), self.environment(step))
        result["command"] = " ".join(words)
        if code is None and left < step.limit:
            return {**result, "status": NOT_REACHED, "why": f"the budget ended after {result['wall']:.0f} s of it"}
        why = f"took more than {step.limit:.0f} s" if code is None else why_failed(step, code, self, result)
        return {**result, "status": FAILED, "why": why} if why else {**result, "status": PASSED}

    def call(self, words, path, seconds, env):
        """(exit code, or None if the time was over; seconds)."""
        start = time.monotonic()
        with path.open("w") as log:
            log.write("$ " + " ".join(words) + "\n")
            log.flush()
            process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env,
                                       start_new_session=True)
            try:
                code = process.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        return code, time.monotonic() - start


def commit_of(root, bundle, folder):
    if bundle.is_packed and (folder / "commit").is_file():
        return (folder / "commit").read_text().strip()
    done = subprocess.run(["git", "-C", root, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def run(root, folder, out, work, options):
    out, work = pathlib.Path(out).resolve(), pathlib.Path(work).resolve()
    out.mkdir(parents=True, exist_ok=True)
    earlier = [options.earlier] if options.earlier else [out / "results.json", folder / "results.json"]
    done = results.load(earlier, options.device)
    bundle = Bundle(root, folder)
    runner = Runner(bundle, all_steps.CUDA if options.device == "cuda" else all_steps.CPU, work, options.budget)
    commit, wanted = commit_of(root, bundle, folder), tuple(filter(None, options.only.split(",")))
    every = all_steps.steps_of(runner.sizes)
    asked = [step for step in every if not wanted or step.name.startswith(wanted)]
    needed = {name for step in asked for name in step.after}
    plan = [step for step in every if step in asked or step.name in needed]
    new = [step for step in plan if not runner.is_done(step, done)]
    # What has passed with other programs comes after all that has not passed at all.
    old = [step for step in plan if step not in new and (runner.is_stale(step, done) or options.again and step in asked)]
    is_left = False
    for step in new + old:
        result = {**runner.execute(step, done), "commit": commit, "programs": runner.programs}
        if step in old and result["status"] in (NOT_REACHED, LEFT_OUT):
            is_left, result = True, {**done[step.name], "why": f"passed with the programs of {done[step.name].get('commit')}"}
        done[step.name] = result
        results.save(out / "results.json", options.device, commit, done)
        print(report.line(step.name, done[step.name]), flush=True)
    names = [step.name for step in every if step.name in done]
    report.keep_logs(runner.logs, out / "logs.tar.gz")
    text = report.table(names, done, f"script/gpu run --device {options.device}, commit {commit}")
    (out / "table.md").write_text(text)
    print(f"\n{text}\nwritten: {out}/results.json, table.md, logs.tar.gz")
    failure = report.first_failure(names, done)
    if failure:
        print(failure)
        return 1
    return 4 if is_left or any(done[step.name]["status"] in (NOT_REACHED, LEFT_OUT) for step in plan) else 0
