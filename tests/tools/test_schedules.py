"""train --mode 'pipeline(schedule=...)': schedules in PyTorch's format, held against torch.distributed.pipelining."""
import csv
import functools
import json
import types

import pytest
import torch
from torch.distributed.pipelining import schedules as theirs

from train_tool import FAST, run


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@functools.cache
def printed(cache, schedule, ranks, micro_batches):
    mode = f"pipeline(schedule={schedule},micro-batches={micro_batches})"
    return run(cache, "-b", 2 * micro_batches, "--mode", mode, "--nproc", ranks, "--print-schedule", "csv").stdout


def actions(text):
    """As PyTorch's _load_csv() reads them."""
    return {rank: [theirs._Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(text.splitlines()))}


def computed(order):
    """Without waits, and with what overlaps one after the other."""
    return [str(one) for action in order if action is not None for one in action.sub_actions or [action]]


def torch_schedule(kind, ranks, micro_batches, stages_per_rank=2):
    """PyTorch's object at rank 0. It knows the operations of all ranks, and asks its stages for nothing but these fields."""
    count = ranks * stages_per_rank
    stages = [types.SimpleNamespace(num_stages=count, group_size=ranks, group_rank=0, stage_index=index * ranks, is_first=False,
                                    is_last=False, submod=None) for index in range(stages_per_rank)]
    return kind(stages, micro_batches, loss_fn=torch.nn.functional.cross_entropy)


SHAPES = [(2, 4), (3, 6), (4, 8)]


@pytest.mark.parametrize("name, stages", [("gpipe", 1), ("1f1b", 1), ("zero-bubble", 1), ("interleaved", 2), ("zb-v", 2),
                                          ("dualpipe-v", 2)])
def test_pytorch_accepts_what_is_printed(cache, name, stages):
    for ranks, micro_batches in SHAPES:
        found = actions(printed(cache, name, ranks, micro_batches))
        mapping = theirs._validate_schedule(found, ranks, ranks * stages, micro_batches)
        assert sorted(mapping) == list(range(ranks * stages))
        # It also finds an order of the messages, in which no rank waits for ever.
        with_messages = theirs._add_send_recv(found, lambda stage: mapping[stage], ranks * stages)
        theirs._simulate_comms_compute(with_messages, lambda stage: mapping[stage], ranks * stages)


@pytest.mark.parametrize("name, kind", [("zb-v", theirs.ScheduleZBVZeroBubble), ("dualpipe-v", theirs.ScheduleDualPipeV),
                                        ("interleaved", theirs.ScheduleInterleaved1F1B)])
def test_operations_are_those_of_pytorch(cache, name, kind):
    for ranks, micro_batches in [*SHAPES, (4, 12)]:
        ours, order = actions(printed(cache, name, ranks, micro_batches)), torch_schedule(kind, ranks, micro_batches).pipeline_order
        assert {rank: computed(row) for rank, row in ours.items()} == {rank: computed(row) for rank, row in order.items()}


@pytest.mark.parametrize("form", ["compute_only", "compute_comms"])
@pytest.mark.parametrize("kind", [theirs.ScheduleInterleavedZeroBubble, theirs.ScheduleDualPipeV, theirs.ScheduleLoopedBFS])
def test_a_file_of_pytorch_trains_what_one_rank_trains(cache, tmp_path, kind, form):
    file = tmp_path / "schedule.csv"
    torch_schedule(kind, 2, 6)._dump_csv(file, format=form)
    pairs = json.loads(run(cache, "verify-modes", "--modes", f"pipeline(schedule={file})", "--arch", "lenet", "--nproc", 2, "-b", 12,
                           "--hosting", "processes", "--steps", 3, "--json").stdout)["pairs"]
    assert {pair["class"] for pair in pairs} == {"one-step", "fp64"} and all(pair["holds"] for pair in pairs), pairs


def test_a_file_that_cannot_be_run_is_one_line(cache, tmp_path):
    file = tmp_path / "schedule.csv"
    for text, message in [("0F0,0B0\n1F0,1B0,1F0\n", "schedule.csv: row 2 (rank 1), column 3: 1F0 comes twice, first in column 1"),
                          ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "row 1 (rank 0), column 2: 0B0 waits for ever")]:
        file.write_text(text)
        done = run(cache, *FAST, "--mode", f"pipeline(schedule={file})", "--nproc", 2, "--out", tmp_path / "run", code=2)
        assert message in done.stderr and done.stderr.count("\n") == 1
    file.write_text("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    for mode, ranks, message in [
            ("", 3, "has 2 rows, one per rank, with 3 ranks; expected 2"),
            (",data=2", 2, "has 2 rows, one per rank of each of 2 copies of the model, with 2 ranks; expected 4"),
            (",micro-batches=4", 2, "has 2 ranks and 2 micro-batches, and micro-batches is 4; expected no micro-batches"),
            (",interleave=2", 2, "expected it with schedule=interleaved alone, as the file says what each rank holds"),
            (",cut=conv2:fc1", 2, "2 cuts with schedule " + str(file) + ", which has 2 stages; expected 1 cut")]:
        done = run(cache, *FAST, "--mode", f"pipeline(schedule={file}{mode})", "--nproc", ranks, "--out", tmp_path / "run", code=2)
        assert message in done.stderr and done.stderr.count("\n") == 1
    missing = run(cache, *FAST, "--mode", "pipeline(schedule=nowhere.csv)", "--nproc", 2, "--out", tmp_path / "run", code=3)
    assert "nowhere.csv" in missing.stderr and missing.stderr.count("\n") == 1


def test_what_does_not_fit_a_v_is_refused(cache, tmp_path):
    for mode, ranks, message in [
            ("pipeline(schedule=dualpipe-v,micro-batches=4)", 4, "4 micro-batches with schedule=dualpipe-v over 4 ranks; expected 8 or more"),
            ("pipeline(schedule=zb-v,interleave=3)", 2, "interleave is 3 with schedule zb-v; expected 2, or no interleave"),
            ("pipeline(schedule=zb-v)", 1, "schedule=zb-v with 1 rank for 1 copy of the model; expected 2 ranks or more per copy")]:
        done = run(cache, *FAST, "--mode", mode, "--nproc", ranks, "--out", tmp_path / "run", code=2)
        assert message in done.stderr and done.stderr.count("\n") == 1


def test_the_forms_of_print_schedule(cache):
    assert printed(cache, "1f1b", 2, 2) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"
    refused = run(cache, "--mode", "pipeline", "--nproc", 2, "--print-schedule", "svg", code=2)
    assert refused.stderr == 'train: --print-schedule is "svg"; expected csv, or nothing, which draws\n'
