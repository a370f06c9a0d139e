"""shuffle="shards(...)": an order that uses few shards at a time."""
import collections

import penstock
import pytest
from conftest import command


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    assert command("shardprep", "pack", "--source", "digits(count=600)", "--out", folder, "--shards", 30).returncode == 0
    return folder


def ids_of(loader):
    return [sample for batch in loader for sample in batch.ids.tolist()]


def test_an_epoch_has_every_sample_once_at_any_number_of_ranks(many):
    options = {"workers": 0, "shuffle": "shards(window=8,lanes=4)", "batch_size": 32, "seed": 3}
    loader = penstock.Loader(many, **options)
    assert loader.selection == ("shuffle shards(window=8,lanes=4): 600 rows per epoch of 600 samples; 4 of 30 shards in use at a time, "
                                "1 shard in each of 4 lanes")
    whole = ids_of(loader)
    assert sorted(whole) == list(range(600)) and whole != sorted(whole)
    parts = [ids_of(penstock.Loader(many, rank=rank, world_size=2, **options)) for rank in range(2)]
    assert collections.Counter(sum(parts, [])) == collections.Counter(whole)


def test_the_loader_of_loadbench_has_the_same_digest(many):
    loader = penstock.Loader(many, workers=2, shuffle="shards(window=8,lanes=4)", read_ahead="on")
    done = command("loadbench", "--data", many, "--digest", "--epochs", 1, "--shuffle", "shards(window=8,lanes=4)", "--augment", "normalize")
    assert done.returncode == 0, done.stderr
    assert loader.digest()[0] in done.stdout


def test_a_state_goes_on_where_it_was(many):
    loader = penstock.Loader(many, workers=0, shuffle="shards(window=8,lanes=4)")
    steps = iter(loader)
    next(steps)
    state = loader.state_dict()
    rest = [batch.ids.tolist() for batch in steps]
    other = penstock.Loader(many, workers=0, shuffle="shards(lanes=4,window=8)")
    other.load_state_dict(state)
    assert [batch.ids.tolist() for batch in other] == rest
    with pytest.raises(penstock.ConfigError):
        penstock.Loader(many, workers=0, shuffle="shards(window=12,lanes=4)").load_state_dict(state)


@pytest.mark.parametrize(("options", "message"), [
    ({"shuffle": "shards(window=0)"}, "shuffle shards: window is 0; expected 1 to 1048576 shards"),
    ({"shuffle": "shards(lanes=3.5)"}, 'shuffle shards: lanes is "3.5"; expected a whole number'),
    ({"shuffle": "shards", "sampler": "uniform"}, "loader: sampler uniform with shuffle shards(window=256,lanes=8), which has every sample once; "
     "expected shuffle global or none, or no sampler"),
    ({"shuffle": "shards(window=8)", "batch_size": 4}, "loader: shuffle shards(window=8,lanes=8) with a batch size of 4; expected lanes of at "
     "most the batch size, one row or more for each"),
    ({"read_ahead": "on"}, "loader: read-ahead on with shuffle global of 30 shards, which uses all of them at once; expected shuffle "
     "shards(...) with a smaller window"),
    ({"read_ahead": True}, "loader: read_ahead is True; expected one of auto, off, on"),
])
def test_what_does_not_fit_is_refused_in_one_line(many, options, message):
    with pytest.raises(penstock.ConfigError) as caught:
        penstock.Loader(many, workers=0, **options)
    assert str(caught.value) == message
