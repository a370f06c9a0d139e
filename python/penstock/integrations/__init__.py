"""Packing rows that Ray Data, Dask or Spark has: penstock.integrations.ray, .dask and .spark, each of which imports its engine.

Every task of the engine packs its rows as a part of the data set; when all are done, the driver makes one of those attempts that the
engine counts. `out` must be a folder that all workers and the driver see.
"""
from penstock._parts import discard_rows, merge_rows, pack_rows

__all__ = ["discard_rows", "merge_rows", "pack_rows"]
