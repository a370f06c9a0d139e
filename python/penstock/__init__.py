"""Penstock: a native loader for training on images.

    import penstock

    loader = penstock.Loader("data/photos", batch_size=256, workers=8,
                             augment="random-resized-crop(size=224),flip,trivial-augment,normalize")
    for epoch in range(90):
        loader.set_epoch(epoch)
        for images, labels in loader:
            ...
"""
from penstock import augment
from penstock._native import version as __version__
from penstock.errors import BugError, ConfigError, CorruptError, DeviceError, IoError
from penstock._batch import Batch
from penstock._dataset import Dataset, Sample
from penstock._limit import Limit, Watch
from penstock._loader import Loader
from penstock._fields import Field
from penstock._pack import Packed, pack
from penstock._parts import merge
from penstock._plan import Plan, render
from penstock._sheet import Sheet, show

__all__ = ["Batch", "BugError", "ConfigError", "CorruptError", "Dataset", "DeviceError", "Field", "IoError", "Limit", "Loader",
           "Packed", "Plan", "Sample", "Sheet", "Watch", "__version__", "augment", "merge", "pack", "render", "show"]
