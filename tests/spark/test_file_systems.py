"""Archives on Hadoop's file systems: Spark writes where it is not this machine's, or says why not.

Hadoop's ``viewfs`` is a file system of another name and other paths, over folders of this machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.spark.archive.names import FileName
from penstock.spark.errors import SourceError
from penstock.spark.pipelines import Pipeline, archive
from penstock.spark.pipelines.spec import Run, Sink, Source, Spec
from tests.spark.test_exactly_once import forget_last_batch
from tools.harness.fake_log_server import FakeLogServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCH = 100


@pytest.fixture
def store(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The folder that is ``viewfs://lake/store``."""
    folder, link = tmp_path / "store", "fs.viewfs.mounttable.lake.link./store"
    folder.mkdir()
    spark.conf.set(link, folder.as_uri())
    yield folder
    spark.conf.unset(link)


def run(
    spark: SparkSession, server: FakeLogServer, path: str, checkpoint: str, writer: str = ""
) -> None:
    """Archive all there is."""
    source = {"topic": "t", "nsqd_http_address": server.address, "startingOffsets": "earliest"}
    sink = Sink("parquet", {"path": path}, ("topic",), writer=writer or None)
    spec = Spec("lake", Source("nsq", source, archive.COLUMNS), sink, Run(1000, checkpoint))
    (query,) = Pipeline(spec).start(spark, {"availableNow": True})
    assert query.awaitTermination(500)


def test_spark_writes_to_a_file_system_of_hadoop_s_exactly_once(
    spark: SparkSession, server: FakeLogServer, store: Path
) -> None:
    root, checkpoint = "viewfs://lake/store/lake", "viewfs://lake/store/checkpoint"
    for _ in range(2):
        server.queue("t").append([b"x"] * BATCH)
        run(spark, server, root, checkpoint)
    # The driver ended before it had noted that the batch was done.
    forget_last_batch(store / "checkpoint")
    server.queue("t").append([b"x"] * BATCH)
    run(spark, server, root, checkpoint)
    offsets = [row.offset for row in spark.read.parquet(root).collect()]
    assert sorted(offsets) == list(range(3 * BATCH))
    assert (store / "lake" / "_spark_metadata").is_dir()
    server.owners.clear()
    with pytest.raises(SourceError, match="were written with another checkpoint"):
        run(spark, server, root, f"{checkpoint}-new")


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_a_uri_of_this_machine_is_a_path(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path, scheme: str
) -> None:
    server.queue("t").append([b"x"] * BATCH)
    run(spark, server, f"{scheme}{tmp_path}/lake", f"{scheme}{tmp_path}/checkpoint")
    (file,) = (tmp_path / "lake" / "topic=t").glob("*.parquet")
    assert FileName.read(file.name)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("s3a://b/lake", 'S3AFileSystem not found.*, such as "org.apache.hadoop:hadoop-aws:3'),
        (
            "dbfs:/lake",
            r'No FileSystem for scheme "dbfs"\. Name the jar of .* packages of \[run\]$',
        ),
    ],
)
def test_a_file_system_that_spark_lacks_is_refused_with_the_remedy(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path, path: str, wanted: str
) -> None:
    server.queue("t")
    with pytest.raises(SourceError, match=f"^Spark cannot open {path}.*{wanted}"):
        run(spark, server, path, str(tmp_path))
    with pytest.raises(SourceError, match=f"^Spark cannot open {path}.*{wanted}"):
        run(spark, server, str(tmp_path / "lake"), path)
