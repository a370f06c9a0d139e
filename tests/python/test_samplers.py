"""Which samples an epoch has, and how often; and what a corrupt sample does. What loadbench says of both, Python says too."""
import collections
import json
import shutil

import penstock
import pytest
from conftest import command


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    assert command("shardprep", "pack", "--source", "digits(count=200)", "--out", folder, "--shards", 5).returncode == 0
    return folder


def failure(kind, function, *arguments, **options):
    with pytest.raises(kind) as caught:
        function(*arguments, **options)
    return str(caught.value)


def ids_of(loader):
    return [sample for batch in loader for sample in batch.ids.tolist()]


def test_weights_decide_how_often(small):
    loader = penstock.Loader(small, workers=0, sampler="weighted(rows=500)", weights=[index % 4 for index in range(200)])
    assert loader.selection.startswith("sampler weighted(rows=500): 500 rows per epoch of 200 samples; a sample occurs 0 to 5 times, 50 never")
    order = [loader.dataset[index].id for index in range(200)]
    for _ in range(2):
        counts = collections.Counter(ids_of(loader))
        assert counts.total() == 500
        for index in range(200):
            assert abs(counts[order[index]] - 500 * (index % 4) / 300) < 1
    numpy = pytest.importorskip("numpy")
    same = penstock.Loader(small, workers=0, sampler="weighted(rows=500)", weights=numpy.arange(200, dtype="float32") % 4)
    assert same.digest() == loader.digest()


def test_ranks_share_what_a_sampler_gives(small):
    for sampler in ("class-balanced(rows=300)", "repeat(n=4)", "uniform(rows=50)"):
        whole = ids_of(penstock.Loader(small, workers=0, sampler=sampler, batch_size=40))
        parts = [ids_of(penstock.Loader(small, workers=2, sampler=sampler, batch_size=40, rank=rank, world_size=3)) for rank in range(3)]
        assert collections.Counter(whole) == collections.Counter(sum(parts, []))


def test_subsets_and_several_data_sets(small, tmp_path):
    loader = penstock.Loader(small, workers=0, subset="percent(0-10)")
    assert len(set(ids_of(loader))) == 20 and collections.Counter(label for _, labels in loader for label in labels.tolist()) == {
        label: 2 for label in range(10)}
    (tmp_path / "ids").write_text("0\n1\n")
    assert len(ids_of(penstock.Loader(small, workers=0, exclude_ids=tmp_path / "ids"))) == 198
    other = tmp_path / "other"
    assert command("shardprep", "pack", "--source", "digits(count=60,seed=5)", "--out", other).returncode == 0
    both = penstock.Loader([small, other], workers=0, sampler="mix(choose=30:90)", batch_size=8)
    assert len(ids_of(both)) == 120 and "30 of " in both.selection and "90 of " in both.selection


def test_a_state_is_that_of_the_same_selection(small):
    loader = penstock.Loader(small, workers=0, subset="percent(0-50)", batch_size=10)
    steps = iter(loader)
    next(steps), next(steps)
    state = json.loads(json.dumps(loader.state_dict()))
    again = penstock.Loader(small, workers=0, subset="percent(0-50)", batch_size=10)
    again.load_state_dict(state)
    assert next(iter(again)).ids.tolist() == next(steps).ids.tolist()
    for others in ({}, {"subset": "percent(50-100)"}, {"subset": "percent(0-50)", "sampler": "uniform"}):
        said = failure(penstock.ConfigError, penstock.Loader(small, workers=0, batch_size=10, **others).load_state_dict, state)
        assert said.startswith("loader: selection is "), said


@pytest.mark.parametrize("options, message", [
    ({"sampler": "weighted", "weights": [1, -1] * 100}, "sampler weighted: the weight of sample 1 (id "),
    ({"sampler": "weighted", "weights": [float("nan")] * 200}, "sampler weighted: the weight of sample 0 (id "),
    ({"sampler": "weighted", "weights": [0] * 200}, "sampler weighted: all 200 weights are 0; expected some that are more"),
    ({"sampler": "weighted", "weights": [1, 2]}, "sampler weighted: 2 weights for 200 samples; expected one for each"),
    ({"sampler": "weighted", "weights": "heavy"}, "loader: weights is 'heavy'; expected a number for every sample of the data set"),
    ({"weights": [1] * 200}, "loader: 200 weights without a sampler; expected sampler weighted"),
    ({"sampler": object}, "loader: sampler is <class 'object'>; expected the spec of a sampler"),
    ({"sampler": "class_balanced"}, 'unknown sampler "class_balanced"; did you mean "class-balanced"?'),
    ({"subset": "ids(1,2,3)"}, 'subset "ids(1,2,3)": has several values; expected ids(FILE), a file with an id per line'),
    ({"subset": "percent(0-50),classes(0,1)"}, 'subset "classes(0,1)": has several values; expected classes(cat:dog)'),
    ({"subset": "percent(0-0)"}, "subset percent: range is 0 to 0"),
    ({"exclude_ids": 3.5}, "loader: exclude_ids is 3.5; expected the name of a file"),
])
def test_what_is_wrong_is_one_line(small, options, message):
    said = failure(penstock.ConfigError, penstock.Loader, small, **options)
    assert said.startswith(message) and "\n" not in said, said


def test_corrupt_samples(small, tmp_path):
    folder = tmp_path / "broken"
    shutil.copytree(small, folder)
    shard = sorted((folder / "train").glob("*.safetensors"))[0]
    content = bytearray(shard.read_bytes())
    header = json.loads(content[8:8 + int.from_bytes(content[:8], "little")])
    content[8 + int.from_bytes(content[:8], "little") + header["images"]["data_offsets"][0] + 3 * 28 * 28] ^= 1
    shard.write_bytes(content)
    quarantine = tmp_path / "quarantine.jsonl"
    masked = penstock.Loader(folder, workers=0, on_corrupt="mask", quarantine=quarantine)
    assert sorted(weight for batch in masked for weight in batch.weights.tolist())[:2] == [0, 1]
    line, = [json.loads(line) for line in quarantine.read_text().splitlines()]
    replaced = penstock.Loader(folder, workers=2, on_corrupt="substitute")
    ids = ids_of(replaced)
    assert line["id"] not in ids and len(ids) == 200
    assert replaced.statistics()["substituted_count"] >= 1  # the next epoch may have been begun
    label, = {label for batch in replaced for sample, label in zip(batch.ids.tolist(), batch.labels.tolist())
              if ids.count(sample) == 2}
    assert label == line["label"]
    assert len(ids_of(penstock.Loader(folder, workers=0, exclude_ids=quarantine))) == 199
