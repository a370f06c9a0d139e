"""train --profile: the format of the trace, its rows, and that all rows have the same clock."""
import collections
import json
import re
import resource
import signal

import pytest

from train_tool import FAST, SMALL, run, start, wait_for_steps

PHASES = ["wait", "host_to_device", "forward", "backward", "communication", "bubble", "optimizer", "other"]
NS = 0.001  # in microseconds, the format's unit; times are whole nanoseconds
STEPS_PER_EPOCH = 10
RUN = [*SMALL, "-b", "40", "--epochs", "3", "--print-freq", "7"]  # no rank is without samples


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def check_format(trace):
    """The object form of the Trace Event Format, with the phases X (complete), M (metadata), s and f (ends of arrows)."""
    assert isinstance(trace, dict) and isinstance(trace["traceEvents"], list) and trace["traceEvents"]
    assert trace["displayTimeUnit"] in ("ms", "ns") and isinstance(trace["otherData"], dict)
    for event in trace["traceEvents"]:
        assert {"ph", "name", "pid", "tid", "ts"} <= event.keys(), event
        assert isinstance(event["name"], str) and type(event["pid"]) is int and type(event["tid"]) is int, event
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0, event
        assert isinstance(event.get("args", {}), dict), event
        if event["ph"] == "X":
            assert isinstance(event["cat"], str) and event["cat"], event
            assert isinstance(event["dur"], (int, float)) and event["dur"] >= 0, event
            assert event.keys() <= {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}, event
        elif event["ph"] in "sf":
            assert event["cat"] == "message" and re.fullmatch(r"[0-9a-f]{16}", event["id"]), event
            assert event.get("bp") == ("e" if event["ph"] == "f" else None), event
        else:
            argument = {"process_name": ("name", str), "thread_name": ("name", str),
                        "process_sort_index": ("sort_index", int), "thread_sort_index": ("sort_index", int)}
            key, kind = argument[event["name"]]
            assert event["ph"] == "M" and type(event["args"][key]) is kind, event


class Rank:
    """The events of one pid in the trace."""

    def __init__(self, trace, pid):
        events = [event for event in trace["traceEvents"] if event["pid"] == pid]
        metadata = [event for event in events if event["ph"] == "M"]
        self.name = next(event["args"]["name"] for event in metadata if event["name"] == "process_name")
        self.rows = {event["tid"]: event["args"]["name"] for event in metadata if event["name"] == "thread_name"}
        self.events = [event for event in events if event["ph"] == "X"]
        self.arrows = [event for event in events if event["ph"] in "sf"]
        assert {event["tid"] for event in self.events} <= self.rows.keys()
        assert len(set(self.rows.values())) == len(self.rows)

    def row(self, name):
        found = [event for event in self.events if self.rows[event["tid"]] == name]
        return sorted(found, key=lambda event: (event["ts"], -event["dur"]))

    def of(self, category):
        return [event for event in self.events if event["cat"] == category]

    def steps(self):
        laps = collections.defaultdict(list)
        for event in self.row("trainer"):
            laps[event["args"]["step"]].append(event)
        return laps


def end(event):
    return event["ts"] + event["dur"]


def load(out):
    trace = json.loads((out / "trace.json").read_text())
    check_format(trace)
    assert not list(out.glob("trace-rank-*"))
    return trace


@pytest.fixture(scope="module", params=[(1, 2), (2, 1)], ids=["single", "ddp"])
def profiled(request, cache, tmp_path_factory):
    """A profile of steps 10 to 29 of 30, with two evaluations and checkpoints between them. Returns trace, ranks, workers, output."""
    rank_count, workers = request.param
    out = tmp_path_factory.mktemp("runs") / "run"
    flags = ["--mode", "ddp", "--nproc", rank_count] if rank_count > 1 else []
    printed = run(cache, *RUN, "-j", workers, *flags, "--profile", "--out", out).stdout
    trace = load(out)
    assert {event["pid"] for event in trace["traceEvents"]} == set(range(rank_count))
    return trace, [Rank(trace, pid) for pid in range(rank_count)], workers, printed


def test_it_says_what_it_holds(profiled):
    trace, ranks, workers, printed = profiled
    assert trace["otherData"] == {"first_step": 10, "last_step": 29, "world_size": len(ranks), "workers": workers,
                                  "device": "cpu", "emulated": False}
    assert [rank.name for rank in ranks] == [f"rank {i}" for i in range(len(ranks))]
    assert re.search(r"^profile: steps 10 to 29 in \S+/trace\.json; open it at ui\.perfetto\.dev", printed, re.MULTILINE)


def test_steps_have_neither_gaps_nor_overlaps(profiled):
    for rank in profiled[1]:
        steps = rank.steps()
        assert sorted(steps) == list(range(10, 30))
        for laps in steps.values():
            assert {"wait", "forward", "backward", "optimizer", "other"} <= {lap["name"] for lap in laps} <= set(PHASES)
            assert all(lap["cat"] == "step" for lap in laps)
            assert {lap["args"]["epoch"] for lap in laps} == {1 + (laps[0]["args"]["step"] - 1) // STEPS_PER_EPOCH}
            for one, next_one in zip(laps, laps[1:]):
                assert abs(next_one["ts"] - end(one)) <= 1
        for step in range(10, 29):
            assert steps[step + 1][0]["ts"] >= end(steps[step][-1]) - NS


def test_events_of_a_row_lie_beside_or_within_one_another(profiled):
    for rank in profiled[1]:
        for name in rank.rows.values():
            around = []
            for event in rank.row(name):
                while around and end(around[-1]) <= event["ts"] + NS / 2:
                    around.pop()
                assert not around or (event["cat"] == "op" and end(event) <= end(around[-1]) + NS / 2), (name, event)
                around.append(event)


def test_every_worker_of_every_rank_has_a_row(profiled):
    _, ranks, workers, _ = profiled
    for rank in ranks:
        assert [name for name in rank.rows.values() if name.startswith("loader")] == [
            f"loader worker {i}" for i in range(workers)]
        chunks = rank.of("loader")
        rows = collections.Counter()
        for chunk in chunks:
            assert re.fullmatch(r"batch \d+", chunk["name"]) and rank.rows[chunk["tid"]].startswith("loader worker ")
            rows[chunk["args"]["epoch"], chunk["name"]] += chunk["args"]["rows"]
        # Batches at either end of the profile may have chunks outside of it.
        assert len(rows) > 8 and max(rows.values()) == 40 // len(ranks)
        assert list(rows.values()).count(40 // len(ranks)) > len(rows) - 5


def test_operators_stand_where_they_ran(profiled):
    """Kineto has another clock than we: an error in aligning the two would move operators into other phases."""
    tolerance = 20
    for rank in profiled[1]:
        steps = rank.steps()
        assert all(rank.rows[op["tid"]].startswith("ops of thread ") for op in rank.of("op"))
        # Operators near the begin and the end of each phase, and some between.
        for name, phase in (("aten::conv2d", "forward"), ("aten::addmm", "forward"),
                            ("aten::cross_entropy_loss", "forward"), ("SumBackward0", "backward"),
                            ("ConvolutionBackward0", "backward")):
            ops = [op for op in rank.of("op") if op["name"] == name]
            counts = collections.Counter()
            for op in ops:
                inside = [lap["args"]["step"] for laps in steps.values() for lap in laps if lap["name"] == phase
                          and lap["ts"] - tolerance <= op["ts"] and end(op) <= end(lap) + tolerance]
                assert len(inside) == 1, (name, op)
                counts[inside[0]] += 1
            assert len(counts) == 20 and len(set(counts.values())) == 1, (name, counts)
        spans = [(laps[0]["ts"] - tolerance, end(laps[-1]) + tolerance) for laps in steps.values()]
        assert all(any(first <= op["ts"] <= last for first, last in spans) for op in rank.of("op"))


def test_ranks_show_the_same_moments(profiled):
    """No rank has the sum of the gradients before every rank has begun to compute its gradients."""
    ranks = [rank.steps() for rank in profiled[1]]
    for step in range(10, 30):
        firsts = [{lap["name"]: lap for lap in reversed(rank[step])} for rank in ranks]
        lasts = [{lap["name"]: lap for lap in rank[step]} for rank in ranks]
        assert max(lap["backward"]["ts"] for lap in firsts) <= min(end(lap["communication"]) for lap in lasts)


@pytest.mark.parametrize("mode, ranks, hosting, per_step", [
    ("pipeline", 2, "processes", 1 + 2 * 4), ("pipeline(schedule=interleaved,data=2,micro-batches=2)", 4, "threads", 2 * (1 + 12))])
def test_every_message_is_an_arrow_from_one_rank_to_another(cache, tmp_path, mode, ranks, hosting, per_step):
    """The profile spans an evaluation, whose messages are no part of it."""
    run(cache, *RUN, "--mode", mode, "--nproc", ranks, "--hosting", hosting, "--profile", "--out", tmp_path / "run")
    trace = load(tmp_path / "run")
    profiled_ranks = [Rank(trace, pid) for pid in range(ranks)]
    ends = collections.defaultdict(dict)
    for number, rank in enumerate(profiled_ranks):
        for arrow in rank.arrows:
            assert arrow["ph"] not in ends[arrow["id"]], arrow
            ends[arrow["id"]][arrow["ph"]] = arrow
            around = [lap for lap in rank.row("trainer") if lap["ts"] <= arrow["ts"] <= end(lap)]
            assert rank.rows[arrow["tid"]] == "trainer" and around, (number, arrow)
    assert len(ends) == 20 * per_step
    for both in ends.values():
        assert both.keys() == {"s", "f"} and both["s"]["pid"] != both["f"]["pid"] and both["s"]["name"] == both["f"]["name"]
        assert both["s"]["ts"] <= both["f"]["ts"]


def test_a_profile_changes_no_weight(cache, tmp_path):
    run(cache, *FAST, "--out", tmp_path / "plain")
    run(cache, *FAST, "--profile", "5", "--out", tmp_path / "profiled")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("plain", "profiled")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "plain/trace.json").exists()


@pytest.mark.parametrize("asked,first,last", [(1000, 1, 26), (20, 7, 26), (17, 10, 26), (1, 10, 10)])
def test_a_short_run_is_profiled_as_far_as_it_goes(cache, tmp_path, asked, first, last):
    printed = run(cache, *FAST, "-j", "0", "--profile", asked, "--out", tmp_path / "run").stdout
    trace = load(tmp_path / "run")
    assert sorted(Rank(trace, 0).steps()) == list(range(first, last + 1))
    assert "loader worker 0" in Rank(trace, 0).rows.values()
    assert ("26 of the 1000 asked for: the run had no more" in printed) == (asked == 1000)


def test_a_run_that_is_stopped_leaves_a_trace_or_says_why_not(cache, tmp_path):
    for name, asked_at, expected in (("late", 15, "asked for: the run had no more"), ("early", 2, "there is no trace")):
        process = start(cache, *SMALL, "--epochs", "100", "--profile", "500", "--print-freq", "1", "--emulate-step", "20ms",
                        "--out", tmp_path / name)
        wait_for_steps(process, tmp_path / name, asked_at)
        process.send_signal(signal.SIGTERM)
        printed = process.communicate(timeout=100)[0]
        assert process.returncode == 143 and expected in printed
    assert load(tmp_path / "late")["otherData"]["emulated"] is True
    assert not (tmp_path / "early/trace.json").exists()


def test_a_folder_that_takes_no_trace_is_noticed_before_training(cache, tmp_path):
    out = tmp_path / "run"
    run(cache, *FAST, "--out", out)
    metrics = (out / "metrics.jsonl").read_text()
    (out / "trace-rank-0.json").mkdir()
    done = run(cache, *SMALL, "--epochs", "3", "--resume", out / "checkpoint-last.safetensors", "--profile", code=3)
    assert done.stderr == f"train: {out}/trace-rank-0.json: Is a directory; expected to create it\n"
    assert (out / "metrics.jsonl").read_text() == metrics


def test_a_full_disk_is_one_line_and_keeps_the_model(cache, tmp_path):
    """A limit of 400 kB per file stands for a full disk: the model and its checkpoint are smaller, the trace is larger."""
    limit = 400_000
    done = run(cache, *RUN, "--profile", "--out", tmp_path / "run", code=3, restore_signals=False,
               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    said = re.sub(r"USDT:.* profiler_\w+\n", "", done.stderr)  # of LibTorch 2.15, whatever level its log has
    assert re.fullmatch(r"train: \S+/trace-rank-0\.json: File too large; expected to write .*\n", said), said
    assert (tmp_path / "run/model.safetensors").exists() and not list((tmp_path / "run").glob("trace*"))


def test_the_next_run_removes_the_trace(cache, tmp_path):
    out = tmp_path / "run"
    run(cache, *FAST, "--profile", "1", "--out", out)
    (out / "trace-rank-7.json").write_text("left behind")
    run(cache, *SMALL, "--epochs", "1", "--force", "--out", out)
    assert not list(out.glob("trace*"))
