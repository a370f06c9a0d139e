"""loadbench as a user runs it: table, JSON, digests, and what it refuses."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BIN = Path(os.environ.get("PENSTOCK_BIN", Path(__file__).parents[2] / "build" / "release" / "bin"))
AUGMENT = "affine(degrees=15,translate=0.1),flip(p=0.5),normalize"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run(
        [BIN / "shardprep", "pack", "--source", "digits(count=200)", "--out", folder, "--shards", "5"],
        check=True,
        capture_output=True,
    )
    return folder


def loadbench(*arguments):
    return subprocess.run([BIN / "loadbench", *map(str, arguments)], capture_output=True, text=True, check=False)


def digests(data, *arguments, augment=AUGMENT):
    done = loadbench("--data", data, "--digest", "--batch-size", 16, "--epochs", 2, "--augment", augment, *arguments)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^epoch (\d+) digest ([0-9a-f]{32})$", done.stdout, re.M)
    assert len(found) == len(done.stdout.splitlines())
    assert [int(epoch) for epoch, _ in found] == [0, 1]
    return [int(digest, 16) for _, digest in found]


def test_digests_do_not_depend_on_workers_prefetch_or_ranks(data):
    expected = digests(data, "--workers", "0")
    assert expected[0] != expected[1]
    assert digests(data, "--workers", "0,1,2,7", "--prefetch", 1) == expected
    assert digests(data, "--workers", 2, "--prefetch", 16) == expected
    for ranks in (1, 2, 3, 4):
        assert digests(data, "--workers", 1, "--all-ranks", ranks) == expected
    assert digests(data, "--seed", 1) != expected
    assert digests(data / "train", "--workers", 1) == expected


def test_a_mixed_digest_does_not_depend_on_workers_or_ranks(data):
    for mix in ("mixup(alpha=0.5)", "cutmix"):
        augment = f"{AUGMENT},{mix}"
        expected = digests(data, "--workers", "0", augment=augment)
        assert expected != digests(data, "--workers", "0")
        for ranks in (1, 3):
            assert digests(data, "--workers", 2, "--all-ranks", ranks, augment=augment) == expected


def test_the_parts_of_ranks_add_up_to_the_whole(data):
    expected = digests(data, "--workers", "0")
    for shuffle in ("global", "rank-local"):
        parts = [digests(data, "--rank", rank, "--world-size", 3, "--shuffle", shuffle) for rank in range(3)]
        sums = [sum(part[epoch] for part in parts) % 2**128 for epoch in range(2)]
        if shuffle == "global":
            assert sums == expected
        else:
            assert sums == digests(data, "--all-ranks", 3, "--shuffle", shuffle) != expected


def test_the_table_has_a_line_for_each_worker_count_and_the_json_the_same_numbers(data, tmp_path):
    out = tmp_path / "bench.json"
    done = loadbench("--data", data, "--workers", "0,2", "--epochs", 3, "--batch-size", 16, "--augment", AUGMENT,
                     "--json", out)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    settings = "batch 16, prefetch 4, median of 3 epochs"
    assert lines[0].startswith(f"{data}/train: 200 images in 5 shards; {AUGMENT}; {settings}")
    rows = lines[-4:-2]
    assert [row.split()[0] for row in rows] == ["0", "2"]
    assert lines[-2].startswith("limit: ") and lines[-1].startswith("next: ")
    report = json.loads(out.read_text())
    assert report["samples"] == 200
    assert report["machine"]["cores"] >= 1 and report["machine"]["cpu"] and report["machine"]["simd"]
    assert [run["workers"] for run in report["runs"]] == [0, 2]
    for run, line in zip(report["runs"], rows):
        assert f"{run['images_per_second']:.0f}" == line.split()[1]
        assert len(run["epoch_images_per_second"]) == 3
        assert run["slot_bytes"] >= 6 * 16 * 28 * 28 * 4
        assert run["resident_bytes"] > run["slot_bytes"]
        assert run["first_batch_ms"] > 0
        assert 0 <= run["ready_share"] <= 1
        for stage in ("read", "plan", "decode", "render"):
            assert run["stages"][stage]["count"] == 600
            assert run["stages"][stage]["mean_us"] > 0 and run["stages"][stage]["p99_us"] > 0
        assert run["stages"]["wait"]["count"] == 3 * 13  # only of the epochs measured
    assert report["runs"][0]["ready_share"] == 0


def test_other_programs_are_told(data, tmp_path):
    """A program that keeps every core busy has more than a tenth of one."""
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    try:
        done = loadbench("--data", data, "--workers", 1, "--epochs", 3000, "--batch-size", 16, "--augment", AUGMENT,
                         "--json", tmp_path / "bench.json")
    finally:
        for other in others:
            other.kill()
            other.wait()
    (run,) = json.loads((tmp_path / "bench.json").read_text())["runs"]
    assert run["other_cores"] >= 0.1
    assert f", while other programs had {run['other_cores']:.1f} of " in done.stdout.splitlines()[-2]


def test_layout_tail_and_batches_are_heard(data, tmp_path):
    out = tmp_path / "bench.json"
    done = loadbench("--data", data, "--workers", 1, "--epochs", 1, "--batch-size", 64, "--layout", "u8",
                     "--tail", "drop", "--batches", 2, "--prefetch", 2, "--json", out)
    assert done.returncode == 0, done.stderr
    run = json.loads(out.read_text())["runs"][0]
    assert run["stages"]["wait"]["count"] == 2
    assert 4 * 64 * 28 * 28 <= run["slot_bytes"] < 4 * 64 * 28 * 28 * 2


def broken_copy(data, folder, rows):
    """A copy of the data set in which these samples of its first shard are corrupt, the shard, and where its pictures begin."""
    subprocess.run(["cp", "-r", data, folder], check=True)
    shard = sorted((folder / "train").glob("*.safetensors"))[0]
    content = bytearray(shard.read_bytes())
    header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
    begin = 8 + int.from_bytes(content[:8], "little") + header["images"]["data_offsets"][0]
    for row in rows:
        content[begin + row * 28 * 28 + 100] ^= 4
    shard.write_bytes(content)
    return shard, begin


def test_a_corrupt_sample_fails_or_is_masked_or_substituted(data, tmp_path):
    broken = tmp_path / "broken"
    shard, begin = broken_copy(data, broken, [3])
    failed = loadbench("--data", broken, "--workers", 2, "--epochs", 1)
    assert failed.returncode == 4
    assert re.match(rf"loadbench: {shard}: sample 3 \(id \d+\) at byte {begin + 3 * 28 * 28}: ", failed.stderr)
    assert failed.stderr.count("\n") == 1 and failed.stdout == ""
    out = tmp_path / "bench.json"
    quarantine = tmp_path / "quarantine.jsonl"
    for policy, expected in (("mask", (2, 0)), ("substitute", (0, 2))):  # one per epoch
        done = loadbench("--data", broken, "--workers", 2, "--epochs", 2, "--on-corrupt", policy, "--json", out,
                         "--batch-size", 200, "--quarantine", quarantine)
        assert done.returncode == 0, done.stderr
        run = json.loads(out.read_text())["runs"][0]
        assert (run["masked_count"], run["substituted_count"]) == expected
    lines = [json.loads(line) for line in quarantine.read_text().splitlines()]
    assert {(line["split"], line["index"]) for line in lines} == {("train", 3)} and "crc32c" in lines[0]["error"]
    assert loadbench("--data", broken, "--epochs", 1, "--exclude-ids", quarantine).returncode == 0


def test_the_digest_with_corrupt_samples_is_the_same_for_any_ranks(data, tmp_path):
    broken = tmp_path / "broken"
    broken_copy(data, broken, [3])
    for policy in ("mask", "substitute"):
        digests = [loadbench("--data", broken, "--digest", "--workers", "0,2", "--epochs", 2, "--augment", "affine(degrees=9)",
                             "--on-corrupt", policy, *ranks).stdout for ranks in ([], ["--all-ranks", 3], ["--all-ranks", 8])]
        assert "digest" in digests[0] and len(set(digests)) == 1, digests


def test_too_many_corrupt_samples_end_the_run(data, tmp_path):
    broken = tmp_path / "broken"
    broken_copy(data, broken, range(0, 40, 4))
    for policy in ("mask", "substitute"):
        done = loadbench("--data", broken, "--workers", 1, "--epochs", 20, "--on-corrupt", policy)
        assert done.returncode == 4 and done.stderr.count("\n") == 1, done.stderr
        assert re.match(r"loadbench: loader: \d+ of 1,\d+ rows are of corrupt samples, more than 1 %; expected fewer", done.stderr)


@pytest.mark.parametrize("flags, says", [
    (["--sampler", "class-balanced(rows=300)"], "300 rows per epoch of 200 samples; 10 classes of 30 to 30 rows each"),
    (["--sampler", "uniform(rows=50)"], "50 rows per epoch"),
    (["--sampler", "repeat(n=4)"], "200 samples occur 4 times each, in one batch"),
    (["--subset", "percent(0-50)", "--sampler", "class-balanced(power=0.5)"], "subset percent(0-50), sampler class-balanced"),
    (["--subset", "fraction(0.25,seed=3)"], "50 rows per epoch of 50 samples")])
def test_samplers_say_what_an_epoch_has_and_are_the_same_for_any_ranks(data, flags, says):
    one, *others = [loadbench("--data", data, "--digest", "--workers", 1, "--epochs", 2, "--augment", "affine(degrees=9)", *flags, *ranks)
                    for ranks in ([], ["--all-ranks", 2], ["--all-ranks", 7])]
    assert one.returncode == 0, one.stderr
    assert says in one.stdout.splitlines()[0], one.stdout
    assert {other.stdout for other in others} == {one.stdout}


def test_several_data_sets_are_mixed(data, tmp_path):
    subprocess.run([BIN / "shardprep", "pack", "--source", "digits(count=60,seed=5)", "--out", tmp_path / "other", "--quiet"], check=True)
    done = loadbench("--data", data, "--also", tmp_path / "other", "--digest", "--workers", 1, "--epochs", 1,
                     "--sampler", "mix(proportion=3:1,rows=400)")
    assert done.returncode == 0, done.stderr
    assert f"300 of {data / 'train'} (200 samples, up to 2 times each), 100 of {tmp_path / 'other/train'} (60 samples, up to 2 times each)" in done.stdout
    wrong = loadbench("--data", data, "--also", tmp_path / "other", "--sampler", "mix(proportion=3)")
    assert wrong.returncode == 2 and wrong.stderr.startswith("loadbench: sampler mix: proportion has 1 numbers for 2 data sets")


@pytest.mark.parametrize("arguments, code, message", [
    (["--workers", "-1"], 2, '--workers: "-1" in "-1"; expected counts such as 0,1,2,4'),
    (["--workers", "1,two"], 2, '--workers: "two" in "1,two"; expected counts such as 0,1,2,4'),
    (["--prefetch", "0"], 2, "loader: prefetch is 0; expected 1 or more"),
    (["--batch-size", "2", "--world-size", "3"], 2, "loader: batch size is 2; expected 3 or more, one sample for"),
    (["--rank", "3", "--world-size", "3"], 2, "loader: rank is 3; expected 0 to 2"),
    (["--epochs", "0"], 2, "--epochs: is 0; expected 1 or more"),
    (["--sim-link", ""], 2, '--sim-link: is ""; expected a delay and a rate as in 20ms,100MB/s'),
    (["--cache-limit", ""], 2, '--cache-limit: is ""; expected bytes as in 100gb'),
    (["--cache-dir", ""], 2, '--cache-dir: is ""; expected a folder'),
    (["--all-ranks", "2"], 2, "--all-ranks: is 2; expected 1 or more, and --digest with it"),
    (["--digest", "--all-ranks", "0"], 2, "--all-ranks: is 0; expected 1 or more, and --digest with it"),
    (["--augment", "random-resized-crop(siz=224)"], 2, 'random-resized-crop: unknown key "siz"; did you mean "size"?'),
    (["--shuffle", "globl"], 2, '--shuffle: unknown value "globl"; did you mean "global"? known: global, none'),
    (["--world-size", "6", "--shuffle", "rank-local"], 2, "loader: rank-local shuffling of 5 shards over 6 ranks"),
    (["--augment", "afine"], 2, 'unknown transform "afine"; did you mean "affine"?'),
    (["--batch-size", "999", "--tail", "drop"], 2, "has 0 images; expected a smaller --batch-size, or --tail pad"),
    (["--batch-size", "999", "--rank", "0", "--world-size", "999", "--digest"], 2, "has 0 images"),
    (["--batch-size", "999", "--tail", "drop", "--digest"], 2, "has 0 images; expected a smaller --batch-size"),
    (["--batch-size", "abc"], 2, '--batch-size: is "abc"; expected a whole number'),
    (["--seed", "-1"], 2, '--seed: is "-1"; expected a whole number, 0 or more'),
    (["--seed", "9223372036854775808"], 2, '--seed: is "9223372036854775808"; expected a whole number with fewer digits'),
    (["--digest", "--rank", "1", "--all-ranks", "2"], 2, "--rank: is 1 with --all-ranks 2; expected one of the two"),
    (["--worker", "1"], 2, 'unknown flag "--worker"; did you mean "--workers"?'),
    (["--split", "test"], 3, "no manifest.json and no test/manifest.json"),
    (["--epochs", "1", "--json", "/nowhere/file.json"], 3, "--json: /nowhere/file.json: No such file or directory; exp"),
    (["--json", ""], 2, '--json: is ""; expected a file to write to'),
    (["--epochs", "1", "--json", "/tmp"], 3, "--json: /tmp is a folder; expected a file"),
    (["--epochs", "1", "--json", "x" * 300], 3, "File name too long"),
])
def test_bad_input_gives_one_line_and_its_code(data, arguments, code, message):
    done = loadbench("--data", data, *arguments)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith("loadbench: ") and message in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == ""


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_report_goes_nowhere_into_the_data_set(data, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    shutil.copytree(data / "train", folder / "all")
    (tmp_path / "link").symlink_to(folder / "train")
    before = contents(folder)
    shard = sorted((folder / "train").glob("shard-*"))[0]
    for path in (folder / "train/manifest.json", shard, folder / "train/new.json", tmp_path / "link/manifest.json",
                 folder / "all/manifest.json"):
        done = loadbench("--data", folder, "--workers", 0, "--epochs", 1, "--json", path)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith(f"loadbench: --json: {path} lies in the data set's folder {folder}/")
        assert done.stderr.count("\n") == 1 and contents(folder) == before
    done = loadbench("--data", folder, "--workers", 0, "--epochs", 1, "--json", folder / "bench.json")
    assert done.returncode == 0 and len(json.loads((folder / "bench.json").read_text())["runs"]) == 1


def test_the_report_takes_no_name_that_another_file_has(data, tmp_path):
    others = [tmp_path / f"out.json{end}" for end in (".partial", ".tmp")]
    for other in others:
        other.write_text("somebody's")
    (tmp_path / "link.json").symlink_to("out.json")
    (tmp_path / "out.json").write_text("old")
    done = loadbench("--data", data, "--workers", 0, "--epochs", 1, "--json", tmp_path / "link.json")
    assert done.returncode == 0, done.stderr
    assert [other.read_text() for other in others] == ["somebody's"] * 2
    assert (tmp_path / "link.json").is_symlink() and json.loads((tmp_path / "out.json").read_text())["runs"]
    assert sorted(os.listdir(tmp_path)) == ["link.json", "out.json", "out.json.partial", "out.json.tmp"]


def test_a_data_set_without_samples_is_named(data, tmp_path):
    shutil.copytree(data, tmp_path / "data")
    path = tmp_path / "data/train/manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps(manifest | {"sample_count": 0, "shards": [], "class_counts": [0] * 10}))
    for arguments in ([], ["--digest"]):
        done = loadbench("--data", tmp_path / "data", *arguments)
        assert done.returncode == 2
        assert done.stderr == f"loadbench: {tmp_path}/data/train: 0 samples; expected 1 or more\n"


def test_the_instruction_set_has_the_name_that_documents_use(data):
    flags = set(re.search(r"^flags\s*:(.*)", Path("/proc/cpuinfo").read_text(), re.M)[1].split())
    has_avx512 = {"avx512f", "avx512vl", "avx512dq", "avx512bw", "avx512cd"} <= flags
    first = loadbench("--data", data, "--workers", 0, "--epochs", 1).stdout.splitlines()[0]
    assert first.endswith("AVX-512") == has_avx512 and "AVX3" not in first


def test_numbers_are_decimal(data):
    assert digests(data, "--workers", 0, "--seed", "010") == digests(data, "--workers", 0, "--seed", 10)


def test_a_splits_own_folder_is_no_other_split(data):
    done = loadbench("--data", data / "train", "--split", "test")
    assert done.returncode == 2
    assert f'--split: is "test" with {data}/train, the folder of split train' in done.stderr


def test_the_table_says_that_one_ranks_images_are_its_own(data):
    arguments = ("--data", data, "--workers", 0, "--epochs", 1)
    assert "rank 1 of 2 only: images/s are those of this rank\n" in loadbench(*arguments, "--world-size", 2, "--rank", 1).stdout
    assert "alone" not in loadbench(*arguments).stdout


def test_json_goes_into_a_pipe_that_stays_one(data, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [BIN / "loadbench", "--data", data, "--workers", "0", "--epochs", "1", "--json", pipe]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        report = json.loads(pipe.read_text())
        assert process.wait(timeout=60) == 0
    assert len(report["runs"]) == 1
    assert pipe.is_fifo()


def test_json_goes_to_stdout_where_that_is_named(data, tmp_path):
    link = tmp_path / "stdout"  # made as /dev/stdout is, which a mistake in loadbench might replace
    link.symlink_to("/proc/self/fd/1")
    arguments = ("--data", data, "--workers", "0", "--epochs", "1", "--json", link)
    done = loadbench(*arguments)
    assert done.returncode == 0 and '"runs": [' in done.stdout and "images/s" in done.stdout, done.stderr
    with open(tmp_path / "out", "w") as out:
        subprocess.run([BIN / "loadbench", *map(str, arguments)], stdout=out, check=True)
        assert os.fstat(out.fileno()).st_ino == (tmp_path / "out").stat().st_ino
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["out", "stdout"]


def test_epochs_have_the_sizes_of_a_schedule(data):
    def cropped(size):
        return f"random-resized-crop(size={size}),flip,normalize"
    scheduled = digests(data, "--workers", "0,2", "--size-schedule", "0:12,1:20", augment=cropped(28))
    assert scheduled == [digests(data, augment=cropped(12))[0], digests(data, augment=cropped(20))[1]]
    done = loadbench("--data", data, "--workers", 1, "--epochs", 1, "--augment", cropped(28), "--size-schedule", "0:12,1:20")
    assert done.returncode == 0 and f"{cropped(28)}; sizes 0:12,1:20; batch 64" in done.stdout, done.stderr


@pytest.mark.parametrize("flags, message", [
    (["--size-schedule", "6:160,0:128"], '--size-schedule is "6:160,0:128": it begins with epoch 6; expected EPOCH:SIZE,...'),
    (["--size-schedule", "0:0"], '--size-schedule is "0:0": size is 0, not 1 to 65535'),
    (["--size-schedule", "0:8", "--augment", "flip"], 'size schedule: the transforms "flip" set no size; expected one of center-crop'),
    (["--columns", "field(name=age,view=1)"], "column field(name=age,view=1): view is 1; expected 0 to 0, the number of a view"),
])
def test_a_wrong_schedule_or_view_is_one_line(data, flags, message):
    done = loadbench("--data", data, *flags)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1, done.stderr
