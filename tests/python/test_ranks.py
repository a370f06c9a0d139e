"""A loader that is made before torch.distributed begins has the rows of its rank all the same."""
import copy
import json
import pickle

import penstock
import pytest
import torch

from conftest import python

# Two processes, as torch.multiprocessing starts them; the loaders are made before the group, one of them in the parent.
TWO_RANKS = """
import json, pickle, sys
import penstock, torch
folder, out = sys.argv[1:]

def main(rank, pickled):
    made, begun = (penstock.Loader(folder, batch_size=50, workers=0) for _ in range(2))
    begun.batch(0)
    next(iter(begun))
    torch.distributed.init_process_group("gloo", init_method=f"file://{out}/meeting", rank=rank, world_size=2)
    found = {name: [batch.ids.tolist() for batch in loader] for name, loader in (("made", made), ("pickled", pickle.loads(pickled)))}
    try:
        next(iter(begun))
    except penstock.ConfigError as error:
        found["begun"] = str(error)
    with open(f"{out}/rank{rank}", "w") as file:
        json.dump(found, file)
    torch.distributed.destroy_process_group()

given = pickle.dumps(penstock.Loader(folder, batch_size=50, workers=0))
torch.multiprocessing.start_processes(main, (given,), nprocs=2, start_method="fork")
"""


def test_loaders_that_were_made_before_the_group_have_the_rows_of_their_rank(digits, tmp_path):
    done = python(TWO_RANKS, digits, tmp_path)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        found = json.loads((tmp_path / f"rank{rank}").read_text())
        expected = [batch.ids.tolist() for batch in penstock.Loader(digits, batch_size=50, workers=0, rank=rank, world_size=2)]
        assert [len(ids) for ids in expected] == 20 * [25]
        assert found["made"] == found["pickled"] == expected
        assert found["begun"] == (f"loader: it has given batches of rank 0 of 1, and torch.distributed now says rank {rank} of 2; expected a "
                                  "loader that is made, or first iterated, after init_process_group(), or rank= and world_size=")


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Loaders take rank 1 of 4 from the environment; begin() makes this process rank 0 of 1."""
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    yield lambda: torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def test_everything_that_a_rank_has_follows_torch(digits, group):
    made = [penstock.Loader(digits, batch_size_per_rank=10, workers=0, **options) for options in ({}, {}, {}, {"rank": 1, "world_size": 4})]
    assert [(one.rank, one.world_size, one.batch_size, one.batch(0).count) for one in made] == 4 * [(1, 4, 40, 10)]
    group()
    first, second, third, given = made
    whole = penstock.Loader(digits, batch_size=10)
    assert torch.equal(next(iter(first)).ids, whole.batch(0).ids) and (first.rank, first.world_size, first.batch_size) == (0, 1, 10)
    assert torch.equal(second.batch(3).ids, whole.batch(3).ids) and second.sample_count == 1000
    assert third.digest() == whole.digest()
    assert next(iter(given)).count == 10 and (given.rank, given.world_size) == (1, 4)


def test_a_place_in_the_epoch_is_kept_when_the_rank_is_found(digits, group):
    loader = penstock.Loader(digits, batch_size=50, workers=1)
    loader.load_state_dict({**loader.state_dict(), "epoch": 2, "batch": 7})
    group()
    assert [(batch.epoch, batch.index, batch.count) for batch in loader] == [(2, index, 50) for index in range(7, 20)]


@pytest.mark.parametrize("again", [lambda loader: pickle.loads(pickle.dumps(loader)), copy.deepcopy])
def test_a_loader_is_pickled_with_its_place_and_without_its_threads(pictures, again, monkeypatch):
    monkeypatch.chdir(pictures.parent)
    options = {"batch_size": 5, "augment": ["random-resized-crop(size=32)", "flip", "normalize"], "subset": "percent(0-70)", "workers": 1,
               "sampler": "weighted", "weights": list(range(1, 16)), "seed": 5, "tail": "drop"}
    loader = penstock.Loader("packed", **options)
    loader.set_epoch(3)
    steps = iter(loader)
    next(steps)
    monkeypatch.chdir("/")
    second = again(loader)
    assert second.state_dict() == loader.state_dict() and second.digest() == loader.digest()
    for batch, expected in zip(second, steps, strict=True):
        assert all(torch.equal(batch.columns[name], column) for name, column in expected.columns.items())
    views = penstock.Loader(pictures, views=["resize(height=16,width=16),normalize", "random-resized-crop(size=32)"], quarantine=None)
    assert again(views).digest() == views.digest() and len(again(views).batch(0).views) == 2


def test_a_batch_size_is_that_of_all_ranks_or_of_each(digits):
    ranks = {"rank": 1, "world_size": 4}
    assert penstock.Loader(digits, **ranks).batch_size == 64
    per_rank = penstock.Loader(digits, batch_size_per_rank=32, **ranks)
    assert per_rank.batch_size == 128 and per_rank.batch(0).count == 32
    with pytest.raises(penstock.ConfigError, match="both batch_size and batch_size_per_rank are given"):
        penstock.Loader(digits, batch_size=64, batch_size_per_rank=16)
