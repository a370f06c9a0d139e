"""A Batch keeps its columns on its way through other libraries."""
import copy
import pickle

import numpy
import penstock
import pytest
import torch

MIX = {"batch_size": 8, "augment": "mixup(alpha=1)", "columns": "", "workers": 0}


def same(one, other):
    assert list(one.columns) == list(other.columns) and (one.epoch, one.index, one.count, one.global_count) == (
        other.epoch, other.index, other.count, other.global_count)
    assert all(numpy.array_equal(column, other.columns[name]) for name, column in one.columns.items())
    assert numpy.array_equal(one.indices, other.indices) and len(one.views) == len(other.views) and type(one) is penstock.Batch
    return True


@pytest.mark.parametrize("options", [MIX, {"views": ["flip", "normalize"]}, {"arrays": "numpy"}])
def test_pickled_and_copied_batches_have_all_columns(digits, options):
    batch = next(iter(penstock.Loader(digits, **options)))
    expected = {name: numpy.asarray(column).copy() for name, column in batch.columns.items()}
    copies = [pickle.loads(pickle.dumps(batch)), copy.deepcopy(batch), copy.copy(batch)]
    assert all(same(one, batch) and same(pickle.loads(pickle.dumps(one)), batch) for one in copies)
    batch.images[:] = 0
    assert all(numpy.array_equal(one.images, expected["images"]) for one in copies[:2]) and not numpy.asarray(copies[2].images).any()


def test_a_batch_on_another_device_has_all_columns(digits):
    batch = next(iter(penstock.Loader(digits, **MIX)))
    images, labels = there = batch.to("meta", non_blocking=True)
    assert images is there.images and labels is there.labels and there.second_labels.shape == (8,)
    assert {name: column.device.type for name, column in there.columns.items()} == {
        **dict.fromkeys(batch.columns, "meta"), "ids": "cpu"}
    assert torch.equal(there.ids, batch.ids) and torch.equal(there.indices, batch.indices) and there.global_count == 8
    assert same(batch.to("cpu"), batch) and batch.to("cpu").images.data_ptr() == batch.images.data_ptr()
    arrays = next(iter(penstock.Loader(digits, arrays="numpy")))
    assert arrays.to("cpu").images is not None and same(arrays.to("cpu"), arrays)


def test_a_batch_that_was_made_of_images_and_labels_alone_says_so(digits):
    batch = next(iter(penstock.Loader(digits, **MIX)))
    rebuilt = type(batch)([part.double() for part in batch])  # as Lightning does it for precision="64-true"
    assert rebuilt.images.dtype == torch.float64 and len(rebuilt.labels) == 8
    for name in ("ids", "columns", "views", "mix_weights", "count", "global_count", "indices"):
        with pytest.raises(AttributeError, match="batch: another library has made this one anew, of images and labels alone; expected "):
            getattr(rebuilt, name)
    moved = rebuilt.to("meta")
    assert [part.device.type for part in moved] == ["meta", "meta"] and type(pickle.loads(pickle.dumps(rebuilt))) is penstock.Batch
