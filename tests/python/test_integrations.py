"""penstock.integrations on the real Ray, Dask and Spark, which script/setup integrations installs."""
import contextlib
import io
import json
import os
import sys

import numpy
import penstock
import pytest
from PIL import Image

from conftest import command
from penstock.integrations import discard_rows, merge_rows, pack_rows

NAMES = ["even", "odd"]


def rows(count=30):
    return [{"image": numpy.full((8, 8 + number % 3, 3), number, "u1"), "label": number % 2} for number in range(count)]


def png_rows(count=30):
    """The same pictures as files: what crosses an engine."""
    found = []
    for row in rows(count):
        data = io.BytesIO()
        Image.fromarray(row["image"]).save(data, "png")
        found.append({"image": data.getvalue(), "label": row["label"]})
    return found


def holds(out, count=30):
    """Whether the data set has exactly these pictures, each under its class."""
    assert sorted(path.name for path in out.iterdir()) == ["train"]
    found = [(int(sample.image.flat[0]), sample.class_name) for sample in penstock.Dataset(out)]
    return sorted(found) == [(number, NAMES[number % 2]) for number in range(count)]


def test_attempts_that_do_not_count_leave_nothing(tmp_path):
    out = tmp_path / "out"
    parts = [rows()[:10], rows()[10:12], [], rows()[12:]]
    attempts = [pack_rows(iter(part), out, index, class_names=NAMES) for index, part in enumerate(parts)]
    pack_rows(rows()[:10], out, 0, class_names=NAMES)  # a second attempt at part 0, whose result the engine drops
    assert attempts[2] is None and not (out / "train").exists()
    merge_rows(out, attempts)
    assert holds(out)
    pack_rows(rows(), out, 0, class_names=NAMES, split="test")
    discard_rows(out, split="test")
    assert holds(out)


def test_what_no_task_can_know_is_asked_for(tmp_path):
    with pytest.raises(penstock.ConfigError, match="class_names is None; expected the names of all classes"):
        pack_rows(rows(), tmp_path, 0, class_names=None)
    first, second = (pack_rows(rows(4), tmp_path / "out", 0, class_names=names) for names in (NAMES, ["a", "b"]))
    with pytest.raises(penstock.ConfigError, match="has other classes than"):
        merge_rows(tmp_path / "out", [first, second])
    with pytest.raises(penstock.ConfigError, match="is part 0, as"):
        merge_rows(tmp_path / "out", [first, first])
    with pytest.raises(penstock.IoError, match="no rows were packed"):
        merge_rows(tmp_path / "out", [None])


def partitions():
    """png_rows() as the four partitions that the engines get."""
    return [png_rows()[begin:begin + 8] for begin in range(0, 30, 8)]


@pytest.fixture
def expected(tmp_path):
    """What every engine must write, file by file: the same as without one."""
    out = tmp_path / "by hand"
    merge_rows(out, [pack_rows(part, out, index, class_names=NAMES) for index, part in enumerate(partitions())])
    assert holds(out)
    penstock.pack(png_rows(), tmp_path / "one pack", class_names=NAMES, progress=False)
    files = [stored_files(folder, tmp_path / f"files of {folder.name}") for folder in (out, tmp_path / "one pack")]
    assert files[0] == files[1] == sorted(row["image"] for row in png_rows())
    return contents(out)


def stored_files(data, out):
    assert command("shardprep", "unpack", data, "--out", out).returncode == 0
    return sorted(path.read_bytes() for path in out.rglob("*") if path.is_file())


def contents(out):
    assert sorted(path.name for path in out.iterdir()) == ["train"]  # no attempt is left
    return {path.name: path.read_bytes() for path in (out / "train").iterdir()}


def left_nothing(out):
    return not out.exists() or not list(out.iterdir())


def is_first(marker):
    """Whether this is the first call with this marker, of all processes."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def with_a_wrong_one():
    """partitions(), of which the last cannot be packed when the others have been."""
    *others, last = partitions()
    return [*others, [{**row, "label": 7} for row in last]]


def test_ray(tmp_path, expected):
    ray = pytest.importorskip("ray")
    import pyarrow
    from penstock.integrations.ray import PenstockDatasink
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import this file

    class Killed(PenstockDatasink):
        """The process of task 1 ends when it has written its rows, so that Ray tries the task again."""

        def write(self, blocks, ctx):
            attempt = super().write(blocks, ctx)
            if ctx.task_idx == 1 and is_first(tmp_path / "killed"):
                os._exit(1)
            return attempt

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        def write(parts, sink, out):
            data = ray.data.from_arrow([pyarrow.Table.from_pylist(part) for part in parts])
            data.write_datasink(sink(str(tmp_path / out), class_names=NAMES))

        for name, sink in (("out", PenstockDatasink), ("killed once", Killed)):
            write(partitions(), sink, name)
            assert contents(tmp_path / name) == expected
        assert (tmp_path / "killed").exists()
        with pytest.raises(Exception, match="label is 7; expected 0 to 1"):
            write(with_a_wrong_one(), PenstockDatasink, "wrong")
        assert left_nothing(tmp_path / "wrong")
    finally:
        ray.shutdown()


@pytest.mark.parametrize("cluster", ["threads", "processes"])
def test_dask(tmp_path, expected, cluster):
    dask = pytest.importorskip("dask")
    from dask import bag
    from penstock.integrations.dask import pack_collection

    def a_bag(parts):
        return bag.from_delayed([dask.delayed(part) for part in parts])

    def with_a_death(row):
        if cluster == "processes" and row["image"] == partitions()[2][3]["image"] and is_first(tmp_path / "killed"):
            os._exit(1)
        return row

    with processes_of_dask() if cluster == "processes" else contextlib.nullcontext():
        pack_collection(a_bag(partitions()).map(with_a_death), str(tmp_path / "out"), class_names=NAMES)
        assert contents(tmp_path / "out") == expected
        assert (tmp_path / "killed").exists() == (cluster == "processes")
        with pytest.raises(penstock.ConfigError, match="label is 7"):
            pack_collection(a_bag(with_a_wrong_one()), str(tmp_path / "wrong"), class_names=NAMES)
        assert left_nothing(tmp_path / "wrong")


@contextlib.contextmanager
def processes_of_dask():
    """Two processes as a cluster, which dask.compute() then uses."""
    distributed = pytest.importorskip("distributed")
    import cloudpickle
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster):
        yield


def test_spark(tmp_path, expected, monkeypatch):
    pytest.importorskip("pyspark")
    from pyspark import TaskContext, cloudpickle
    from pyspark.sql import SparkSession
    from penstock.integrations.spark import PenstockDataSource, PenstockWriter
    cloudpickle.register_pickle_by_value(sys.modules[__name__])

    class FailingWriter(PenstockWriter):
        """Task 1 fails when it has written its rows, so that Spark tries it again."""

        def write(self, iterator):
            message = super().write(iterator)
            if TaskContext.get().partitionId() == 1 and is_first(tmp_path / "failed"):
                raise RuntimeError("after the rows were written")
            return message

    class Failing(PenstockDataSource):
        @classmethod
        def name(cls):
            return "failing"

        def writer(self, schema, overwrite):
            writer = super().writer(schema, overwrite)
            writer.__class__ = FailingWriter
            return writer

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2, 3]").config("spark.ui.enabled", "false").getOrCreate()  # three attempts
    try:
        spark.dataSource.register(PenstockDataSource)
        spark.dataSource.register(Failing)

        def write(parts, form, out, **options):
            rows = spark.sparkContext.parallelize(range(4), 4).flatMap(lambda part: [(row["image"], row["label"]) for row in parts[part]])
            frame = spark.createDataFrame(rows, "image binary, label int")
            frame.write.format(form).mode("append").options(**options).save(str(tmp_path / out))

        names = {"class_names": json.dumps(NAMES)}
        for form in ("penstock", "failing"):
            write(partitions(), form, form, **names)
            assert contents(tmp_path / form) == expected
        assert (tmp_path / "failed").exists()
        with pytest.raises(Exception, match="label is 7; expected 0 to 1"):
            write(with_a_wrong_one(), "penstock", "wrong", **names)
        assert left_nothing(tmp_path / "wrong")
        with pytest.raises(Exception, match="class_names is None"):
            write(partitions(), "penstock", "wrong")
    finally:
        spark.stop()
