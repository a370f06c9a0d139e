"""penstock.integrations on the real Ray, Dask and Spark, which script/setup integrations installs."""
import io

import numpy
import penstock
import pytest
from PIL import Image

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


def test_ray(tmp_path):
    ray = pytest.importorskip("ray")
    from penstock.integrations.ray import PenstockDatasink
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        ray.data.from_items(png_rows()).repartition(4).write_datasink(PenstockDatasink(str(tmp_path / "out"), class_names=NAMES))
        assert holds(tmp_path / "out")
        with pytest.raises(Exception, match="expected one of class_names|label is 7"):
            wrong = ray.data.from_items([{**row, "label": 7} for row in png_rows()]).repartition(2)
            wrong.write_datasink(PenstockDatasink(str(tmp_path / "wrong"), class_names=NAMES))
        assert not list(tmp_path.glob("wrong/*")) and not list(tmp_path.glob("wrong/.*"))
    finally:
        ray.shutdown()


def test_dask(tmp_path):
    pytest.importorskip("dask")
    from dask import bag
    from penstock.integrations.dask import pack_collection
    pack_collection(bag.from_sequence(rows(), npartitions=4), str(tmp_path / "out"), class_names=NAMES)
    assert holds(tmp_path / "out")
    with pytest.raises(penstock.ConfigError, match="label is 7"):
        pack_collection(bag.from_sequence([{**row, "label": 7} for row in rows()]), str(tmp_path / "wrong"), class_names=NAMES)
    assert not list(tmp_path.glob("wrong/*")) and not list(tmp_path.glob("wrong/.*"))


def test_spark(tmp_path):
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession
    from penstock.integrations.spark import PenstockDataSource
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        spark.dataSource.register(PenstockDataSource)
        frame = spark.createDataFrame([(row["image"], row["label"]) for row in png_rows()], "image binary, label int")
        write = frame.repartition(4).write.format("penstock").mode("append").option("class_names", '["even", "odd"]')
        write.save(str(tmp_path / "out"))
        assert holds(tmp_path / "out")
        with pytest.raises(Exception, match="class_names is None"):
            frame.write.format("penstock").mode("append").save(str(tmp_path / "wrong"))
    finally:
        spark.stop()
