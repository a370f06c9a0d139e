"""train --mode zero, pipeline, mp and dp: what they print, write, refuse, and go on from."""
import csv
import re

import pytest

from train_tool import FAST, SMALL, metrics, run, summary


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def single(cache, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "single"
    run(cache, *FAST, "--out", out)
    return out


@pytest.mark.parametrize("mode, ranks", [("zero", 2), ("zero", 3), ("zero(stage=2)", 2), ("zero(stage=3)", 2), ("pipeline", 2),
                                         ("pipeline(schedule=gpipe)", 3), ("pipeline(data=2,zero=1,micro-batches=2)", 4),
                                         ("mp(devices=cpu:2)", 2),
                                         ("pipeline(schedule=interleaved,recompute=always)", 2), ("ddp(accumulate=2)", 2)])
def test_a_mode_trains_what_single_trains(cache, single, tmp_path, mode, ranks):
    """f32 sums in another order drift apart, so that losses are compared after few steps; tests/train/parallel/modes/modes_test.cpp has
    the proof in f64."""
    printed = run(cache, *FAST, "--mode", mode, "--nproc", ranks, "--out", tmp_path / "run").stdout
    expected, found = summary(single), summary(tmp_path / "run")
    assert found["world_size"] == ranks and found["mode"] == mode and found["steps"] == expected["steps"]
    assert found["test_loss"] == pytest.approx(expected["test_loss"], rel=1e-3)
    assert found["accuracy"] == pytest.approx(expected["accuracy"], abs=0.01)
    opening = re.search(rf"^mode {re.escape(mode)}, {ranks} ranks (.*)$", printed, re.MULTILINE)[1]
    whole = r"with conv1\.\.fc3 \([\d,]+ parameters\) each"
    parts = r"as \d data x \d pipe, .*, \d micro-batch(es)?.*, bubble \d+ %; stage 0( at rank 0)?: conv1.* parameters\)"
    slices = rf"that keep 1 / {ranks} of the parameters each; 1 unit of blocks is gathered .*"
    assert re.fullmatch(slices if "stage=3" in mode else whole if mode.startswith(("zero", "ddp")) else parts, opening)
    assert ("bubble: ranks waited" in printed) == (not mode.startswith(("zero", "ddp")))
    assert "memory of the fullest rank: parameters " in printed
    assert all(0.97 <= kind["formula_share"] <= 1.001 for kind in found["tensor_memory"].values())


def weights(out):
    return (out / "model.safetensors").read_bytes()


def test_parts_start_from_the_weights_that_single_starts_from(cache, single, tmp_path):
    """With --lr 0 the weights at the end are those of the start: of the file, but for a new head, which is drawn."""
    still = [*FAST, "--epochs", 1, "--lr", 0, "--pretrained", single / "model.safetensors", "--new-head", "--seed", 3]
    run(cache, *still, "--out", tmp_path / "single")
    assert weights(tmp_path / "single") != weights(single)
    for mode, *flags in (("zero(stage=3)",), ("pipeline(schedule=interleaved)",), ("mp", "--hosting", "threads")):
        out = tmp_path / re.sub(r"\W", "", mode)
        run(cache, *still, "--mode", mode, "--nproc", 2, *flags, "--out", out)
        assert weights(out) == weights(tmp_path / "single"), mode


def test_a_checkpoint_goes_into_parts(cache, single, tmp_path):
    for mode in ("zero(stage=3)", "pipeline"):
        out = tmp_path / mode[:4]
        run(cache, *FAST, "--epochs", 3, "--lr", 0, "--resume", single, "--mode", mode, "--nproc", 2, "--out", out)
        assert weights(out) == weights(single), mode


def test_the_memory_of_slices_is_told(cache, tmp_path):
    printed = run(cache, *FAST, "--mode", "zero(stage=3)", "--nproc", 2, "--out", tmp_path / "run").stdout
    assert ("mode zero(stage=3), 2 ranks that keep 1 / 2 of the parameters each; 1 unit of "
            "blocks is gathered in turn, the largest of ") in printed
    memory = summary(tmp_path / "run")["tensor_memory"]
    assert [memory[kind]["formula"] for kind in ("parameters", "gradients", "optimizer")] == ["phi / 2"] * 3
    assert all(len(kind["bytes"]) == 2 for kind in memory.values())
    assert memory["parameters"]["peak_bytes"][0] > 2.9 * memory["parameters"]["bytes"][0]  # the slice, and all in one unit


def test_the_parts_and_the_bubble_are_told(cache, tmp_path):
    printed = run(cache, *FAST, "--mode", "pipeline(cut=fc1,micro-batches=8)", "--out", tmp_path / "run").stdout
    assert ("mode pipeline(cut=fc1,micro-batches=8), 2 ranks as 1 data x 2 pipe, 1f1b, 8 micro-batches, bubble 11 %; "
            "stage 0: conv1..conv2 (2,572 parameters), stage 1: fc1..fc3") in printed
    bubble = summary(tmp_path / "run")["bubble"]
    assert bubble["predicted"] == pytest.approx(1 / 9) and 0 < bubble["measured"] < 1
    assert f"bubble: ranks waited {100 * bubble['measured']:.0f} % of the time for their neighbours; 11 % is the bubble" in printed
    assert summary(tmp_path / "run")["phase_ms"]["bubble"] > 0


@pytest.mark.parametrize("balance, cost", [("time", r"\d+(\.\d+)? ms"), ("memory", r"\d+(\.\d+)? [KM]B")])
def test_what_was_measured_of_each_part_is_told(cache, single, tmp_path, balance, cost):
    printed = run(cache, *FAST, "--mode", f"pipeline(balance={balance})", "--out", tmp_path / "run").stdout
    assert re.search(rf"stage 0: conv1.* \([\d,]+ parameters, {cost}\), stage 1: .*fc3 \([\d,]+ parameters, {cost}\)\n", printed)
    assert summary(tmp_path / "run")["test_loss"] == pytest.approx(summary(single)["test_loss"], rel=1e-3)


def test_activations_that_were_alive_are_counted_and_parts_name_their_ranks(cache, tmp_path):
    printed = run(cache, *FAST, "--mode", "pipeline(schedule=interleaved,recompute=except-last,cut=conv2:fc1:fc2)", "--out",
                  tmp_path / "run").stdout
    assert ("2 ranks as 1 data x 2 pipe, interleaved, 4 micro-batches, recompute except-last, bubble 6 %; "
            "stage 0 at rank 0: conv1 (156 parameters), stage 1 at rank 1: conv2") in printed
    assert summary(tmp_path / "run")["most_alive_activations"] == [1, 1]
    run(cache, *FAST, "--mode", "pipeline(schedule=zero-bubble)", "--nproc", 3, "--out", tmp_path / "zb")
    assert summary(tmp_path / "zb")["most_alive_activations"] == [3, 3, 3]


def test_a_schedule_is_drawn_without_data(cache):
    done = run(cache, "--data", "/nowhere", "--mode", "pipeline(schedule=1f1b,data=2)", "--nproc", 4, "--print-schedule")
    assert done.stdout == (
        "mode pipeline(schedule=1f1b,data=2): 1f1b of 4 micro-batches over 2 ranks, the same in each of 2 copies of the model\n"
        "F: forward, B: backward; F takes 1, B 2; = goes on with it; a dot is a time in which a rank waits\n"
        "rank 0  F0 F1 .  .  B0 =  F2 B1 =  F3 B2 =  .  B3 =\n"
        "rank 1  .  F0 B0 =  F1 B1 =  F2 B2 =  F3 B3 =  .  .\n"
        "bubble 20.0 % of the time; most alive activations per rank: 2, 1\n")
    assert "rank 2  .  .  F0 B0 =  .  .  .  .\n" in run(cache, "--mode", "mp", "--nproc", 3, "--print-schedule").stdout
    refused = run(cache, "--mode", "ddp", "--nproc", 2, "--print-schedule", code=2)
    assert refused.stderr.startswith("train: --print-schedule with --mode ddp: every rank runs its rows forward and backward")
    assert refused.stderr.count("\n") == 1


def test_compressed_gradients_say_what_they_cost_and_train_all_the_same(cache, tmp_path):
    """One column per step is sent of gradients of rank up to 84. Without error feedback this stays far behind."""
    flags = [*FAST, "--epochs", 20, "--lr", 0.02, "--print-freq", 13]
    printed = run(cache, *flags, "--mode", "ddp(compress=powersgd,rank=1)", "--nproc", 2, "--out", tmp_path / "run").stdout
    assert "mode ddp(compress=powersgd,rank=1), 2 ranks that send 915 numbers per step for 21,386 of gradients\n" in printed
    lines = re.findall(r"^Epoch \[(\d+)/20\], step (\d+), Loss: [\d.]+, compression error ([\d.]+)$", printed, re.MULTILINE)
    told = [line for line in metrics(tmp_path / "run") if "compression_error" in line]
    assert [int(step) for _, step, _ in lines] == [13 * n for n in range(1, 21)] == [line["step"] for line in told]
    # What was not sent is added to the next gradient, so that a small gradient may have an error of twice its size.
    assert all(0.01 < line["compression_error"] < 5 for line in told)
    assert summary(tmp_path / "run")["accuracy"] > 0.7


def test_what_ranks_keep_goes_on_bit_for_bit_and_other_modes_say_that_they_leave_it_out(cache, tmp_path):
    mode = ["--schedule", "constant", "--mode", "ddp(compress=powersgd)", "--nproc", 2]
    run(cache, *FAST, *mode, "--out", tmp_path / "whole")
    run(cache, *FAST, *mode, "--epochs", 1, "--out", tmp_path / "part")
    resumed = run(cache, *FAST, *mode, "--resume", tmp_path / "part", "--out", tmp_path / "resumed").stdout
    names = [tmp_path / name / "model.safetensors" for name in ("whole", "resumed")]
    assert names[0].read_bytes() == names[1].read_bytes() and "left out" not in resumed
    other = run(cache, *FAST, "--mode", "single", "--resume", tmp_path / "part", "--out", tmp_path / "other").stdout
    assert "left out of the checkpoint: what each rank kept for powersgd, which only the same mode" in other


def test_ranks_that_take_steps_alone_learn_and_say_how_they_meet(cache, tmp_path):
    """13 steps per epoch: they meet after 5 and 10 of them, and at its end."""
    mode = ["--mode", "ddp(local-steps=5,outer=nesterov,accumulate=2)", "--nproc", 2, "--clip-grad", "norm=1"]
    printed = run(cache, *FAST, "--epochs", 8, "--optimizer", "adamw", "--lr", 0.003, *mode, "--print-freq", 13, "--out", tmp_path / "run").stdout
    assert "2 ranks that take 5 steps alone, then an outer step of nesterov (rate 0.7, momentum 0.9)\n" in printed
    found = summary(tmp_path / "run")
    assert found["tensor_memory"]["outer"]["formula"] == "2 phi" and found["accuracy"] > 0.3
    assert all(len(line["gradient_norms"]) == 13 for line in metrics(tmp_path / "run") if line["kind"] == "step")


@pytest.mark.parametrize("flags, message", [
    (["--average", "ema"], "--average ema with --mode ddp(local-steps=2), which keeps no average of the weights"),
    (["--precision", "f16"], "--precision f16 with --mode ddp(local-steps=2), which lets ranks take steps alone"),
    (["--exact", 8], "--mode ddp: local-steps is 2 with --exact 8; expected one of them"),
])
def test_what_needs_all_ranks_in_every_step_is_refused_with_local_steps(cache, tmp_path, flags, message):
    done = run(cache, *FAST, "--mode", "ddp(local-steps=2)", "--nproc", 2, *flags, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_replicas_train_what_single_trains_and_are_told(cache, single, tmp_path):
    flags = [*FAST, "--mode", "dp(devices=cpu:3)", "--threads", 3, "--out", tmp_path / "run"]
    printed = run(cache, *flags).stdout
    assert "mode dp(devices=cpu:3), 1 rank with 3 replicas on threads of the CPU, which share the parameters\n" in printed
    assert ("replica 0: in 11 x 1 x 16 x 16, out 11 x 10\nreplica 1: in 11 x 1 x 16 x 16, out 11 x 10\n"
            "replica 2: in 10 x 1 x 16 x 16, out 10 x 10\n") in printed
    assert len(re.findall(r"replica \d on cpu: busy \d+ %, peak memory of the whole process [\d.]+ MB\n", printed)) == 3
    found, expected = summary(tmp_path / "run"), summary(single)
    assert found["test_loss"] == pytest.approx(expected["test_loss"], rel=1e-3)
    assert [replica["device"] for replica in found["replicas"]] == ["cpu"] * 3
    assert all(0 < replica["busy_share"] <= 1 for replica in found["replicas"])
    assert found["world_size"] == 1 and found["threads"] == 3 and "replicas" not in expected


def test_the_last_part_evaluates_and_rank_0_writes(cache, single, tmp_path):
    weights = ["--pretrained", single / "model.safetensors"]
    run(cache, *FAST, "-e", *weights, "--out", tmp_path / "one")
    run(cache, *FAST, "-e", *weights, "--mode", "pipeline", "--nproc", 3, "--out", tmp_path / "three")
    rows = [list(csv.reader(open(tmp_path / name / "evaluation.csv", newline="", encoding="utf-8")))
            for name in ("one", "three")]
    assert len(rows[0]) == 401 and [row[:4] for row in rows[0]] == [row[:4] for row in rows[1]]


def test_a_run_goes_on_in_other_modes_and_world_sizes(cache, single, tmp_path):
    """Three epochs with zero, the fourth with pipeline, the fifth with single."""
    run(cache, *FAST, "--epochs", 3, "--out", tmp_path / "whole")
    run(cache, *FAST, "--epochs", 3, "--mode", "zero", "--nproc", 3, "--out", tmp_path / "a")
    checkpoint = tmp_path / "a" / "checkpoint-last.safetensors"
    run(cache, *FAST, "--epochs", 4, "--mode", "pipeline", "--nproc", 2, "--resume", checkpoint, "--out", tmp_path / "b")
    run(cache, *FAST, "--epochs", 5, "--resume", tmp_path / "b", "--mode", "single", "--out", tmp_path / "c")
    assert summary(tmp_path / "a")["test_loss"] == pytest.approx(summary(tmp_path / "whole")["test_loss"], rel=1e-3)
    assert [summary(tmp_path / name)["epochs"] for name in "abc"] == [3, 4, 5]
    losses = [summary(tmp_path / name)["test_loss"] for name in "abc"]
    assert losses[2] < losses[0]


@pytest.mark.parametrize("mode", ["ddp", "pipeline(data=1)"])
def test_a_simulated_network_is_waited_for_and_every_line_says_emulated(cache, tmp_path, mode):
    printed = run(cache, *FAST, "--mode", mode, "--sim-net", "1ms,1GB/s", "--out", tmp_path / "run").stdout
    assert "emulated: a network of 1ms,1GB/s between ranks\n" in printed
    lines = [line for line in printed.splitlines()
             if line.startswith(("Epoch", "Total training time", "memory", "bubble", "co", "load"))]
    assert len(lines) >= 5 and all("[emulated]" in line for line in lines)
    found = summary(tmp_path / "run")
    assert found["emulated"] and found["limit"]["emulated"] and all(line["emulated"] for line in metrics(tmp_path / "run"))
    # An all-reduce of two ranks takes two delays; a rank of a pipeline waits for two that are made one after the other.
    waited = found["phase_ms"]["bubble"] + found["phase_ms"]["communication"] + found["hidden_communication_ms"]
    assert waited >= 2


def test_one_rank_has_no_network_to_simulate(cache, tmp_path):
    printed = run(cache, *SMALL, "--epochs", 1, "--sim-net", "1s,1GB/s", "--out", tmp_path / "run").stdout
    assert "--sim-net 1s,1GB/s: one rank has nobody to talk to, so no network is emulated\n" in printed
    assert "[emulated]" not in printed and summary(tmp_path / "run")["emulated"] is False


@pytest.mark.parametrize("mode, setting, values", [
    ("ddp", "-b", (32, 64)), ("pipeline(cut=fc1,micro-batches={})", "micro-batches", (2, 4))])
def test_the_next_run_with_another_batch_or_other_micro_batches_checks_the_prediction(cache, tmp_path, mode, setting, values):
    for value in values:
        flags = ["-b", value] if setting == "-b" else []
        printed = run(cache, *FAST, *flags, "--mode", mode.format(value), "--sim-net", "2ms,1GB/s", "--out",
                      tmp_path / str(value)).stdout
    said = [f"-b {value}" if setting == "-b" else f"{setting}={value}" for value in values]
    line = next(line for line in printed.splitlines() if line.startswith("prediction: "))
    assert f"{tmp_path / str(values[0])} ({said[0]}) said " in line and f" images/s for {said[1]}; it was " in line
    first, second = (summary(tmp_path / str(value)) for value in values)
    promised = next(one for one in first["limit"]["setting_predictions"] if one["value"] == values[1])
    assert second["prediction"]["images_per_second"] == promised["images_per_second"]
    if setting == "-b":
        assert 0 <= second["hidden_share"] <= 1 and f"hidden share {second['hidden_share']:.2f} [emulated]" in printed


@pytest.mark.parametrize("flags, message", [
    (["--sim-net", "1ms"], '--sim-net is "1ms"; expected a delay up to 3600s and a rate of 1B/s or more'),
    (["--sim-net", "1ms,1GB/s", "--rank", 0, "--world-size", 2, "--dist-url", "tcp://10.0.0.7:29500"],
     "--sim-net is 1ms,1GB/s with rank 0 at 10.0.0.7; expected all ranks on one machine, as with --nproc"),
])
def test_a_network_that_cannot_be_simulated_is_one_line(cache, tmp_path, flags, message):
    done = run(cache, *FAST, "--mode", "ddp", *flags, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("mode, ranks, message", [
    ("pipeline(micro-batches=5)", 2, "--mode pipeline: 5 micro-batches for --batch-size 32; expected micro-batches of "
                                     "equal size, as 4 or 8"),
    ("pipeline(data=2)", 3, "--mode pipeline: data is 2 with 3 ranks; expected ranks = data x stages, as 2 x 2 = 4"),
    ("pipeline(zero=1)", 2, "--mode pipeline: zero is 1 with one copy of the model; expected data=2 or more"),
    ("mp(devices=cpu:3)", 2, "--mode mp: devices is cpu:3 with 2 ranks on this machine; expected 3 ranks, one for each device"),
    ("mp(devices=0:1)", 2, "--mode mp: devices is 0:1 in a run on the CPU; expected threads, such as cpu:2"),
    ("pipeline(cut=fc1)", 3, "--mode pipeline: 1 cut with 3 ranks; expected 2 ranks, one for each stage"),
    ("pipeline(schedule=2f2b)", 2, "--mode pipeline: unknown schedule \"2f2b\""),
    ("pipeline(micro-batches=6,schedule=interleaved)", 4, "--mode pipeline: 6 micro-batches with schedule=interleaved over 4 "
                                                          "ranks; expected a multiple of 4, such as 4"),
    ("pipeline(micro-batches=12,schedule=interleaved)", 4, "--mode pipeline: 12 micro-batches for --batch-size 32; expected "
                                                           "micro-batches of equal size, as 8 or 16"),
    ("pipeline(schedule=interleaved)", 3, "--mode pipeline: 6 micro-batches for --batch-size 32; expected micro-batches of "
                                          "equal size, as a batch that 3 divides"),
    ("pipeline(schedule=interleaved)", 1, "--mode pipeline: schedule=interleaved with 1 rank for 1 copy of the model; "
                                          "expected 2 ranks or more per copy"),
    ("pipeline(schedule=interleaved,cut=fc1)", 2, "--mode pipeline: 1 cut with 2 ranks and interleave 2; expected 3 cuts, for "
                                                  "2 model chunks per rank"),
    ("pipeline(schedule=interleaved,interleave=1)", 2, "--mode pipeline: interleave is 1; expected 2 or more"),
    ("pipeline(interleave=2)", 2, "--mode pipeline: interleave with schedule 1f1b; expected it with schedule=interleaved"),
    ("pipeline(recompute=often)", 2, "--mode pipeline: unknown recompute \"often\""),
    ("pipeline(micro-batches=0)", 2, "--mode pipeline: micro-batches is 0; expected 1 to 65536"),
    ("pipeline(data=1500000000,cut=fc1)", 2, "--mode pipeline: data is 1500000000; expected 1 to 65536"),
    ("mp(micro-batches=2)", 2, "mode mp: unknown key \"micro-batches\""),
    ("pipeline(schedule=interleaved,cut=conv2)", 1, "--mode pipeline: schedule=interleaved with 1 rank for 1 copy of the model; "
                                                    "expected 2 ranks or more per copy"),
    ("pipeline(balance=speed)", 2, "--mode pipeline: unknown balance \"speed\""),
    ("mp(balance=time,cut=fc1)", 2, "--mode mp: balance is time with cut fc1; expected one of the two"),
    ("zero(stage=4)", 2, "--mode zero: stage is 4; expected 1, 2 or 3"),
    ("zero(stage=3,accumulate=2)", 2, "--mode zero: stage is 3 and accumulate is 2; expected stage 1 or 2"),
    ("zero(stage=2,step-in-backward=true)", 2, "--mode zero: step-in-backward is no key any more, because it saved no time; expected "
                                               "--mode 'zero(stage=2)', which has the same bits"),
    ("ddp(step-in-backward=true)", 2, "--mode ddp: step-in-backward is no key any more, because it saved no time; expected --mode 'ddp', "
                                      "which has the same bits"),
    ("pipeline(step-in-backward=true)", 2, "mode pipeline: unknown key \"step-in-backward\""),
    ("ddp(local-steps=0)", 2, "--mode ddp: local-steps is 0; expected 1 to 65536"),
    ("ddp(outer=nesterov)", 2, "--mode ddp: outer is nesterov, which is of local-steps; expected local-steps, or no outer"),
    ("ddp(local-steps=2,compress=fp16)", 2, "--mode ddp: local-steps is 2 with compress=fp16; expected one of them: no gradients are sent"),
    ("single(accumulate=3)", 1, "--mode single: accumulate is 3 for --batch-size 32; expected micro-batches of equal size, as "
                                "2 or 4"),
    ("ddp(accumulate=32)", 2, "--mode ddp: accumulate is 32 for --batch-size 32 over 2 ranks; expected micro-batches of equal "
                              "size, as 16"),
    ("zero(accumulate=2)", 3, "--mode zero: accumulate is 2 for --batch-size 32 over 3 ranks; expected micro-batches of equal "
                              "size, as a batch that 3 divides"),
    ("ddp(accumulate=0)", 2, "--mode ddp: accumulate is 0; expected 1 to 65536"),
    ("single", 2, "--mode single: launched with 2 ranks; expected 1"),
    ("dp", 2, "--mode dp: launched with 2 ranks; expected 1, whose replicas are threads (use --mode ddp)"),
    ("dp(devices=0:1)", 1, "--mode dp: devices is 0:1 in a run on the CPU; expected threads, such as cpu:2"),
    ("dp(devices=cpu:33)", 1, "--mode dp: 33 replicas for --batch-size 32, each with up to 1 row; expected 32"),
    ("dp(devices=cpu:2)", 1, "--threads is 1 with --mode dp(devices=cpu:2); expected 2 or more, one for each of its"),
])
def test_what_does_not_fit_is_refused_before_anything_is_opened(cache, tmp_path, mode, ranks, message):
    done = run(cache, *FAST, "--data", "/nowhere", "--mode", mode, "--nproc", ranks, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1


def test_rows_that_batch_norm_cannot_normalise_alone_are_refused_or_left_out(cache, tmp_path):
    """A ResNet-18 ends in maps of 1 x 1 for 20 x 20 pixels. Of 9 samples the last batch has one."""
    flags = ["--data", "digits(count=9,size=20)", "--arch", "resnet18", "--epochs", 1, "--device", "cpu", "-j", 0, "--threads", 1,
             "--augment", "normalize"]
    why = "layer4.0.bn1 normalises over maps of one place, where one row of 1 x 20 x 20 has no variance"
    done = run(cache, *flags, "-b", 2, "--mode", "ddp", "--nproc", 2, "--out", tmp_path / "refused", code=2)
    assert done.stderr == (f"train: --mode ddp with --batch-size 2: in every step some row goes through the model alone, and {why}; "
                           "expected two rows or more at a time (a larger batch, or fewer micro-batches, ranks, replicas or shards), "
                           "or larger pictures\n")
    done = run(cache, *flags, "-b", 4, "--clip-grad", "norm=1", "--out", tmp_path / "run")
    assert f"note: a row that goes through the model alone, as in a short last batch, is left out of training: {why}\n" in done.stdout
    assert summary(tmp_path / "run")["steps"] == 3


def test_a_part_of_which_everything_is_frozen_passes_its_activations_on(cache, tmp_path):
    flags = [*FAST, "--freeze", "conv1,conv2,fc1"]
    run(cache, *flags, "--out", tmp_path / "single")
    for mode, ranks in (("mp(cut=fc2)", 2), ("pipeline(cut=conv2:fc2)", 3), ("pipeline(cut=fc2,data=2)", 4)):
        out = tmp_path / mode
        run(cache, *flags, "--mode", mode, "--nproc", ranks, "--out", out)
        assert summary(out)["test_loss"] == pytest.approx(summary(tmp_path / "single")["test_loss"], rel=1e-3)


def test_a_rank_that_is_slow_is_named_by_the_one_that_waits_for_its_message(cache, tmp_path):
    """Ranks 0 and 2 load for longer than the time-out; rank 1 waits for the labels of rank 0, and rank 3 for those of 2."""
    done = run(cache, *FAST, "--emulate-load", "1s", "--timeout", 4, "--mode", "pipeline(data=2)", "--nproc", 4, "--out",
               tmp_path / "run", code=5)
    lines = [line for line in done.stderr.splitlines() if "waiting for the labels from rank" in line]
    assert all(("from rank 2:" in line) == ("rank 3: gloo" in line) for line in lines)
    assert lines and all("rank 0 did not come past step 1 within 4 s, it is alive" in line
                         or "rank 2 did not come past step 1 within 4 s, it is alive" in line for line in lines)


@pytest.mark.parametrize("mode, ranks, message", [
    ("mp(cut=fc1:fc1)", 3, "--mode mp: cut fc1 is given twice; expected it once"),
    ("mp(cut=fc9)", 2, "--mode mp: unknown place to cut \"fc9\""),
    ("pipeline(balance=time)", 6, "--mode pipeline: 6 stages of a model of 5 blocks; expected one block or more for each"),
    ("pipeline", 6, "--mode pipeline: 6 stages of a model of 5 blocks; expected one block or more for each"),
    ("pipeline(schedule=interleaved,interleave=3)", 2, "--mode pipeline: 6 stages of a model of 5 blocks; expected one block"),
])
def test_what_the_model_does_not_have_is_refused_before_ranks_start(cache, tmp_path, mode, ranks, message):
    done = run(cache, *FAST, "--mode", mode, "--nproc", ranks, "--out", tmp_path / "run", code=2)
    assert message in done.stderr and done.stderr.count("\n") == 1
