"""train study: its table, charts and page, continuing after a stop, and its messages about impossible commands."""
import csv
import html.parser
import json
import re
import shutil
import signal
import statistics
import subprocess
import urllib.parse
import xml.etree.ElementTree

import pytest
from PIL import Image

from train_tool import DATA, TRAIN, run, start

# 25 steps per epoch: the page draws steps 10 to 29, with the turn from epoch 1 to epoch 2 between them.
COMMAND = ["study", "--workers", "0,1", "--data", DATA, "-b", "16", "--epochs", "2", "--threads", "1", "--device", "cpu",
           "--emulate-step", "2ms"]
STUDY = [*COMMAND, "--repeat", "2", "--augment", "affine(degrees=10)", "--ablate", "augment"]
PHASES = {"wait", "host_to_device", "forward", "backward", "communication", "bubble", "optimizer", "other"}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def study(cache, tmp_path_factory):
    """One finished study. Returns its folder and what it printed."""
    out = tmp_path_factory.mktemp("study") / "out"
    return out, run(cache, *STUDY, "--out", out)


def csv_rows(out):
    with open(out / "study.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def markdown_rows(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()
            if line.startswith("|")]


def summaries(out, row):
    """One summary per repeat of row `row`, counted from 1."""
    return [json.loads((path / "summary.json").read_text()) for path in sorted(out.glob(f"runs/{row:02}-*"))
            if path.is_dir()]


def last_line(text):
    return text.strip().splitlines()[-1]


def test_runs_are_interleaved_with_a_line_each(study):
    out, done = study
    lines = done.stderr.splitlines()
    order = [re.match(r"study: run (\d) of 8, single, (augmented|not augmented), (\d) workers?, repeat (\d): "
                      r"total \d+\.\d\d s \[emulated\]$", line).groups() for line in lines]
    rows = [("augmented", "0"), ("augmented", "1"), ("not augmented", "0"), ("not augmented", "1")]
    assert order == [(str(i + 1), *rows[i % 4], str(i // 4 + 1)) for i in range(8)]
    assert len([path for path in (out / "runs").iterdir() if path.is_dir()]) == 8


def test_the_table_holds_medians_and_ranges_of_the_runs(study):
    out, _ = study
    rows = csv_rows(out)
    keys = [(row["mode"], row["ranks"], row["augment"], row["workers"]) for row in rows]
    assert keys == [("single", "1", augment, workers) for augment in ("on", "off") for workers in ("0", "1")]
    for number, row in enumerate(rows, 1):
        found = summaries(out, number)
        assert [one["workers"] for one in found] == [int(row["workers"])] * 2
        assert found[0]["configuration"] == found[1]["configuration"]  # although the last run is profiled
        assert {one["configuration"]["augment"] == "" for one in found} == {row["augment"] == "off"}
        for column, key in (("load_ms", "load_ms_per_step"), ("update_ms", "update_ms_per_step"),
                            ("total_s", "train_seconds"), ("accuracy", "accuracy")):
            values = [one[key] for one in found]
            if values[0] is None:  # an emulated step learns nothing
                assert column == "accuracy" and row[column] == ""
                continue
            assert float(row[column]) == pytest.approx(statistics.median(values), rel=1e-6)
            assert float(row[f"{column}_low"]) == pytest.approx(min(values), rel=1e-6)
            assert float(row[f"{column}_high"]) == pytest.approx(max(values), rel=1e-6)


def test_a_row_is_predicted_from_another_row_of_its_group(study):
    out, _ = study
    rows = csv_rows(out)
    for number, base in ((1, 2), (2, 1), (3, 4), (4, 3)):
        row, workers = rows[number - 1], int(rows[number - 1]["workers"])
        found = summaries(out, base)
        gains = [one["limit"]["predictions"][workers]["images_per_second"] / one["images_per_second"] for one in found]
        expected = statistics.median(one["train_seconds"] for one in found) / statistics.median(gains)
        assert float(row["predicted_s"]) == pytest.approx(expected, rel=1e-6)
        assert float(row["error"]) == pytest.approx(expected / float(row["total_s"]) - 1, rel=1e-5)


def test_every_table_and_summary_line_says_emulated(study):
    out, done = study
    text = (out / "study.md").read_text()
    head, _, *body = markdown_rows(text)
    assert head == ["mode", "ranks", "augment", "workers", "load ms per batch", "update ms per batch", "total s", "accuracy",
                    "predicted s", "error", "times"]
    assert len(body) == 4 and all(row[-1] == "emulated" for row in body)
    assert all(re.fullmatch(r"[\d.]+ \([\d.]+-[\d.]+\)", row[6]) for row in body)
    assert markdown_rows(done.stdout) == [head, markdown_rows(text)[1], *body]
    told = [line for line in done.stdout.splitlines() if "-bound: " in line]  # the fastest row of each group
    assert len(told) == 2 and all("- " + line in text.splitlines() for line in told)
    fastest = re.findall(r"^single, (?:not )?augmented: fastest with (\d workers?)", done.stdout, re.MULTILINE)
    assert [re.match(r"single, (?:not )?augmented, (\d workers?): ", line)[1] for line in told] == fastest
    said = [line for line in text.splitlines() if line.startswith(("#", "- "))]
    busy = sum("ran while other programs had" in line for line in said)  # this depends on what else the machine does
    assert busy <= 1 and len(said) == 2 + 3 + 4 + busy and all("[emulated]" in line for line in said), said
    assert sum("bound: " in line for line in said) == 4
    assert [row["times"] for row in csv_rows(out)] == ["emulated"] * 4


class Page(html.parser.HTMLParser):
    """The parts of a drawn page that tests look at: headings, sections of rows with their rectangles, rows of tables, charts, words, links
    to elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.tables, self.headings, self.words, self.attributes, self.tags, self.charts = [], [], [], "", [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.attributes.append(attributes)
        classes = (attributes.get("class") or "").split()
        if tag == "section" and "row" in classes:
            self.rows.append([])
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag == "h2":
            self.headings.append("")
        if tag == "rect" and self.rows:
            self.rows[-1].append(classes)
        if attributes.get("download"):
            self.charts.append((attributes["download"], urllib.parse.unquote(attributes["href"].removeprefix("data:image/svg+xml,"))))

    def handle_data(self, data):
        tag = self.tags[-1] if self.tags else ""
        if tag in ("td", "th", "wbr"):
            self.tables[-1][-1][-1] += data
        if tag == "h2":
            self.headings[-1] += data
        if tag not in ("script", "style"):
            self.words += data


def chromium(tmp_path, page, *flags):
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                           f"--user-data-dir={tmp_path / 'browser'}", *flags, page.as_uri()],
                          capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def drawn(tmp_path, out):
    """The page of a study as a browser shows it."""
    return Page(chromium(tmp_path, out / "report.html", "--dump-dom"))


def values(out):
    """The values that the page draws."""
    (text,) = re.findall(r'<script type="application/json" id="study">(.*?)</script>', (out / "report.html").read_text(), re.DOTALL)
    return json.loads(text)


def bars(svg):
    """The bars of a chart by their classes: (top, bottom, left, right), from the top."""
    found = {}
    for rect in xml.etree.ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect"):
        if rect.get("class").startswith("bar "):
            x, y, width, height = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
            found.setdefault(rect.get("class").split()[1], []).append((y, y + height, x, x + width))
    return found


def check_bars(svg, lengths):
    """A bar for each of `lengths`, none over another one and all in one scale, and loads before updates."""
    found = bars(svg)
    assert all(above[1] < below[0] for above, below in zip(found["c0"], found["c0"][1:])), found
    rows = [found["c1"], found["c0"]] if "c1" in found else [found["c0"]]
    assert [len(row) for row in rows] == [len(lengths)] * len(rows)
    scale = max(bar[3] - rows[0][0][2] for bar in found["c0"]) / max(map(sum, lengths))
    for row, parts in zip(zip(*rows), lengths, strict=True):
        assert [bar[3] - bar[2] for bar in row] == pytest.approx([part * scale for part in parts], abs=0.05)
        assert all(first[:2] == then[:2] and first[3] == pytest.approx(then[2], abs=0.02) for first, then in zip(row, row[1:]))


def overflowing(tmp_path, report, width):
    """How far the page, and the widest of its tables, reach beyond the window or its place, in pixels."""
    copy = tmp_path / f"wide-{width}.html"
    copy.write_text(report.read_text().replace("</body>", """<script>
        const beyond = element => element.scrollWidth - element.clientWidth;
        document.body.dataset.page = beyond(document.documentElement);
        document.body.dataset.table = Math.max(...Array.from(document.querySelectorAll(".table"), beyond));
        </script></body>"""))
    found = Page(chromium(tmp_path, copy, "--dump-dom", f"--window-size={width},2000")).attributes
    body = next(attributes for attributes in found if "data-page" in attributes)
    return int(body["data-page"]), int(body["data-table"])


def test_charts_show_every_row(study, tmp_path):
    out, _ = study
    rows = csv_rows(out)
    charts = dict(drawn(tmp_path, out).charts)
    assert list(charts) == ["chart-total.svg", "chart-stages.svg"] and all("[emulated]" in svg for svg in charts.values())
    check_bars(charts["chart-stages.svg"], [(float(row["load_ms"]), float(row["update_ms"])) for row in rows])
    total = xml.etree.ElementTree.fromstring(charts["chart-total.svg"])
    height = {}  # by class and radius; those in a row are left and right of the key
    for circle in total.iter("{http://www.w3.org/2000/svg}circle"):
        if circle.get("cx") != "255":
            height.setdefault((circle.get("class"), circle.get("r")), []).append(float(circle.get("cy")))
    zero = max(float(line.get("y1")) for line in total.iter("{http://www.w3.org/2000/svg}line") if line.get("class") == "grid")
    for radius, column in (("3.5", "total_s"), ("7", "predicted_s")):
        found = [y for key in height if key[1] == radius for y in height[key]]
        scale = (zero - height[("c0", "3.5")][0]) / float(rows[0]["total_s"])
        assert [(zero - y) / scale for y in found] == pytest.approx([float(row[column]) for row in rows], rel=0.02, abs=0.02)


def test_the_page_in_a_browser(study, tmp_path):
    out, _ = study
    page = drawn(tmp_path, out)
    assert len(page.tables) == 1 and len(page.tables[0]) == 5 and len(page.rows) == 4 and page.tags.count("svg") >= 2 + 4
    head, _, *body = markdown_rows((out / "study.md").read_text())
    assert page.tables[0] == [head, *([re.sub(r" \(.*\)", "", cell) for cell in row] for row in body)]
    for rectangles in page.rows:
        lanes = [classes[1] for classes in rectangles if classes[0] == "lane"]
        assert lanes == ["loader", "trainer"]  # without workers the trainer's thread does both
        phases = [classes[1] for classes in rectangles if classes[0] == "phase"]
        # At the end of an epoch the trainer asks for one more batch, which does not come.
        assert set(phases) <= PHASES and phases.count("forward") == 20 and phases.count("wait") == 21
        assert [classes for classes in rectangles if classes[0] == "gap"].count(["gap"]) >= 1
        assert sum(classes[0] == "load" for classes in rectangles) >= 10
    assert page.words.count("20 steps (10 to 29) in") == 4 and page.words.count("bound: ") == 4
    assert page.words.count("between epochs 1 and 2: ") == 4
    assert page.words.count("emulated") >= 4 * 3
    for line in (line[2:] for line in (out / "study.md").read_text().splitlines() if line.startswith("- ")):
        assert line.split(": ", 1)[1] in page.words


def test_the_page_needs_no_other_file(study, tmp_path):
    out, _ = study
    text = (out / "report.html").read_text()
    for page in (Page(text), drawn(tmp_path, out)):
        assert not {"link", "img", "iframe", "object"} & set(page.tags) and page.tags.count("script") == 2
        for attributes in page.attributes:
            for name in ("src", "href", "xlink:href"):
                assert (attributes.get(name) or "study.md").startswith(("study.md", "data:")), attributes
    assert '<a href="study.md">' in text.split("<noscript>")[1].split("</noscript>")[0]


def test_a_value_cannot_end_the_script(study, cache, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(study[0], out)
    evil = "<!--<script></script><img src=x>"
    last = sorted(path for path in out.glob("runs/01-*") if path.is_dir())[-1]
    trace = json.loads((last / "trace.json").read_text())
    thread = next(event for event in trace["traceEvents"] if event["name"] == "thread_name" and event["args"]["name"] == "loader worker 0")
    thread["args"]["name"] += evil
    (last / "trace.json").write_text(json.dumps(trace))
    run(cache, *STUDY, "--out", out)
    assert values(out)["rows"][0]["timeline"]["lanes"][0]["name"] == "loader worker 0" + evil
    page = drawn(tmp_path, out)
    assert len(page.rows) == 4 and "img" not in page.tags


def test_the_page_shows_what_came_over_the_link_where_data_were_far(study, cache, tmp_path):
    """The counts are put into the summaries of runs that are finished, as runs over a link have them."""
    assert [table["heading"] for table in values(study[0])["tables"]] == [""]
    out = tmp_path / "out"
    shutil.copytree(study[0], out)
    counts = {"emulated": False, "fetched_bytes": 45_000_000, "over_bytes": 5_000_000, "bytes_per_second": 2e7, "hit_count": 1234, "hit_bytes": 9,
              "miss_count": 17, "miss_bytes": 9, "ahead_count": 23, "ahead_bytes": 9, "eviction_count": 31, "request_count": 60, "stall_count": 41,
              "stall_ms": 5678.9, "transfer_ms": 2250, "retries": {"503": 4, "lost": 1}, "origin_bytes": {"s3://bucket": 45_000_000}}
    last = sorted(path for path in out.glob("runs/01-*") if path.is_dir())[-1] / "summary.json"
    last.write_text(json.dumps({**json.loads(last.read_text()), "link": counts}))
    run(cache, *STUDY, "--out", out)
    page = drawn(tmp_path, out)
    assert page.headings == ["Link [emulated]", "Charts [emulated]", "Timelines [emulated]"]
    assert page.tables[1][1] == ["single, augmented, 0 workers", "s3://bucket 45.0 MB", "20", "5.0 MB", "1,234", "17", "23", "31", "41", "5,678", "503 4, lost 1", "measured"]
    last.write_text(json.dumps({**json.loads(last.read_text()), "link": {"hit_count": 1}}))
    assert f"{last}: " in run(cache, *STUDY, "--out", out, code=4).stderr


def test_the_page_shows_its_colours(study, tmp_path):
    out, _ = study
    chromium(tmp_path, out / "report.html", f"--screenshot={tmp_path / 'page.png'}", "--window-size=1120,2400")
    colours = dict((colour, count) for count, colour in
                   Image.open(tmp_path / "page.png").convert("RGB").getcolors(1 << 24))
    assert colours[(255, 255, 255)] > 500_000
    for colour in ((0x56, 0xb4, 0xe9), (0xd5, 0x5e, 0x00), (0xf3, 0xf3, 0xf3)):  # forward, wait, an empty lane
        assert colours.get(colour, 0) > 100, colour


def test_a_report_without_traces_says_so(study, cache, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(study[0], out)
    for trace in out.glob("runs/*/trace.json"):
        trace.unlink()
    done = run(cache, *STUDY, "--out", out)
    assert done.stderr.count("finished earlier") == 8
    page = drawn(tmp_path, out)
    assert page.words.count("no timeline: ") == 4 and page.rows == [[]] * 4


def test_a_trace_without_durations_has_no_timeline(study, cache, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(study[0], out)
    traces = sorted(out.glob("runs/*/trace.json"))
    content = json.loads(traces[0].read_text())
    for event in content["traceEvents"]:
        if event.get("cat") == "step":
            event["dur"] = 0
    traces[0].write_text(json.dumps(content))
    run(cache, *STUDY, "--out", out)
    first, *others = (row["timeline"] for row in values(out)["rows"])
    assert first == f"no timeline: {traces[0]}: no event of category step takes any time; expected durations"
    assert all(len(timeline["lanes"]) == 2 for timeline in others)


def test_a_study_that_was_stopped_goes_on(cache, tmp_path):
    out = tmp_path / "out"
    command = [*COMMAND, "--modes", "single,ddp", "--nproc", "1,2", "--out", out]
    process = start(cache, *command)
    said = [process.stderr.readline(), process.stderr.readline()]
    assert "left out, because there are no such runs: single with 2 ranks, ddp with 1 rank" in said[0]
    assert "run 1 of 4, single, 0 workers: total" in said[1]
    second = run(cache, *command, code=2).stderr.splitlines()
    assert len(second) == 2 and second[1].startswith(f"train: --out {out}: another study is writing into it; expected")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode in (143, -signal.SIGTERM)  # the latter if it was between two runs
    finished = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/summary.json")}
    assert 1 <= len(finished) < 4 and not (out / "study.md").exists()

    lines = run(cache, *command).stderr.splitlines()
    assert sum("finished earlier" in line for line in lines) == len(finished)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert [(row["mode"], row["ranks"]) for row in csv_rows(out)] == [("single", "1")] * 2 + [("ddp", "2")] * 2
    lines = (out / "study.md").read_text().splitlines()
    assert sum(": fastest of one run each: " in line for line in lines) == 2 and not any("fastest with" in line for line in lines)
    ranks = [one["world_size"] for number in range(1, 5) for one in summaries(out, number)]
    assert ranks == [1, 1, 2, 2]
    assert drawn(tmp_path, out).words.count("; rank 0 of 2") == 2


def test_a_run_that_fails_ends_the_study_with_its_own_words(cache, tmp_path):
    done = run(cache, "study", "--data", "digits(count=400,size=16)", "--workers", 0, "--epochs", 4, "--print-freq", 1, "--lr", "1e30",
               "--out", tmp_path / "out", code=2, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert re.match(r"train: study: single, 0 workers: epoch 1, step \d+: the loss has become ", last_line(done.stderr)), done.stderr
    assert done.stderr.splitlines()[-2].endswith("single, 0 workers: exit code 2") and not done.stdout


def test_every_row_is_checked_before_the_first_run(cache, tmp_path):
    out = tmp_path / "out"
    done = run(cache, *COMMAND, "--out", out, "--data", "nowhere:dir", code=2,
               preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.stderr.startswith('train: study: single, 1 worker: --data: unknown source "nowhere"; ')
    assert done.stderr.count("\n") == 1 and not done.stdout and not out.exists()
    command = [*COMMAND, "--epochs", 1, "--out", out, "--modes", "mp,pipeline(cut=conv9)", "--nproc", 2]
    done = run(cache, *command, "--arch", "lenet", code=2)
    assert done.stderr.startswith("train: study: pipeline(cut=conv9), 2 ranks, 1 worker: --mode pipeline: unknown place to cut"), done.stderr
    assert not out.exists()


def test_without_workers_and_folder_it_is_one_worker_in_study(cache, tmp_path):
    run(cache, "study", *COMMAND[3:], "--epochs", 1, "--modes", "ddp", cwd=tmp_path)
    assert "train study --workers 1 --modes ddp --nproc 2" in (tmp_path / "study/study.md").read_text()
    assert [path.name for path in (tmp_path / "study/runs").iterdir() if path.is_dir()] == ["01-ddp-2-ranks-1-worker.1"]


def test_a_folder_of_something_else_is_refused(study, cache, tmp_path):
    out, _ = study
    before = sorted(path.name for path in out.iterdir())
    said = run(cache, *COMMAND, "--out", out, code=2).stderr
    assert said.startswith(f"train: --out {out}: holds the study `train study --workers 0,1 --modes single --nproc 1 "
                           "--ablate augment --repeat 2 --data 'digits(count=400,size=16)' ") and said.count("\n") == 1
    assert sorted(path.name for path in out.iterdir()) == before
    (tmp_path / "notes.txt").write_text("mine")
    said = run(cache, *COMMAND, "--out", tmp_path, code=2).stderr
    assert said.startswith(f"train: --out {tmp_path}: holds files, but no study.json") and said.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def predicted_ms(mode, single, one):
    """The step of a mode over a network of 1 ms and 1 GB/s, from the summary of `single`: a wait, which has no update to divide."""
    phase = single["phase_ms"]
    fixed, load, compute = phase["host_to_device"] + phase["other"], phase["wait"], phase["forward"] + phase["backward"]
    update, parameters = phase["optimizer"], single["tensor_memory"]["parameters"]["bytes"][0]
    if mode == "dp":  # the parameters to the other replica, and its gradients back
        return fixed + load + update + compute / 2 + 2 * (parameters / 1e6 + 1)
    if mode.startswith("ddp"):  # one bucket of 16-bit numbers, which backward cannot hide; two ranks, two delays
        return fixed + load / 2 + update + compute / 2 + parameters / 2 / 1e6 + 2
    # 1f1b, two parts, four micro-batches: a message takes longer than a forward and a backward of a part, so that each
    # rank's four of these hide behind nothing, and five messages follow one another.
    return fixed + load + update + compute / 2 + 5 * (one["activation_bytes"] / 1e6 + 1)


def test_a_mode_whose_batch_norm_sees_other_rows_is_not_called_the_same(cache, tmp_path):
    modes = ["single", "ddp", "ddp(sync-bn=true)", "mp", "ddp(compress=fp16)"]
    done = run(cache, *COMMAND[:1], "--workers", "1", *COMMAND[3:], "--epochs", 1, "--arch", "lenet(batch-norm=true)",
               "--modes", ",".join(modes), "--nproc", "1,2", "--out", tmp_path / "out")
    trained = re.findall(r"\| (same(?: but for BatchNorm)?|within [\d.e-]+(?: but for BatchNorm)?) +\|", done.stdout)
    assert [text.split(" but ")[-1] for text in trained] == ["same", "for BatchNorm", "same", "same", "for BatchNorm"], done.stdout


def test_modes_stand_beside_each_other_with_what_they_train(cache, tmp_path):
    out = tmp_path / "out"
    modes = ["single", "dp", "ddp(compress=fp16)", "pipeline", "zero(stage=3)"]
    done = run(cache, *COMMAND[:1], "--workers", "1", *COMMAND[3:], "--modes", ",".join(modes), "--nproc", "1,2",
               "--sim-net", "1ms,1GB/s", "--threads", "2", "--out", out)
    text = markdown_rows(done.stdout)
    table = [dict(zip(text[len(modes) + 2], row)) for row in text[len(modes) + 4:]]
    assert [(row["mode"], row["ranks"]) for row in table] == [(mode, "1" if i < 2 else "2") for i, mode in enumerate(modes)]
    found = [summaries(out, number)[-1] for number in range(1, len(modes) + 1)]
    for row, one in zip(table, found):
        assert row["images/s"] == f"{one['images_per_second']:.0f}"
        assert row["speed-up over single"] == f"{one['images_per_second'] / found[0]['images_per_second']:.2f}x"
        assert len(row["peak memory of every rank"].split(", ")) == one["world_size"]
        assert sum(one["peak_memory_bytes_of_ranks"]) == one["peak_memory_bytes"]
        assert float(row["total s"]) == pytest.approx(one["train_seconds"], abs=6e-4)
    # `single` waits for nobody: what it has of communication (2 us, or a turn of other programs) is no part of its step.
    single_ms = sum(ms for phase, ms in found[0]["phase_ms"].items() if phase not in ("communication", "bubble"))
    for row, one in list(zip(table, found))[1:4]:
        expected = found[0]["train_seconds"] * predicted_ms(row["mode"], found[0], one) / single_ms
        assert float(row["simulated s"]) == pytest.approx(expected, abs=6e-4), row
        assert int(row["simulation error"].rstrip(" %")) == pytest.approx(100 * (float(row["simulated s"]) / float(row["total s"]) - 1), abs=1), row
    assert [(row["simulated s"], row["simulation error"]) for row in (table[0], table[4])] == [("-", "-"), ("no prediction", "-")]
    trained = [row["trains as single"] for row in table]
    assert trained[:2] + trained[3:] == ["same"] * 4 and re.fullmatch(r"within 0\.000\d+", trained[2]), trained
    assert "## Modes [emulated]" in (out / "study.md").read_text()
    page = drawn(tmp_path, out)
    assert page.headings == ["Modes [emulated]", "Charts [emulated]", "Timelines [emulated]"]
    assert "trains as single" in page.tables[1][0] and "stages take equally long" in page.words
    labels = [attributes.get("aria-label") for attributes in page.attributes]
    assert "speed-up of every mode over single" in labels and "load and update per batch of every row" in labels
    # The bubble of the table is the one that the run itself has told, which is of all ranks.
    assert [row["bubble"] for row in table] == [f"{100 * one.get('bubble', {}).get('measured', 0):.0f} %" for one in found]
    assert found[3]["bubble"]["measured"] > 0.05
    charts, rows = dict(page.charts), csv_rows(out)
    check_bars(charts["chart-total.svg"], [(float(row["total_s"]),) for row in rows])
    check_bars(charts["chart-stages.svg"], [(float(row["load_ms"]), float(row["update_ms"])) for row in rows])
    check_bars(charts["chart-modes.svg"], [(one["images_per_second"] / found[0]["images_per_second"],) for one in found])
    for width in (1300, 800):
        assert overflowing(tmp_path, out / "report.html", width) == (0, 0)
