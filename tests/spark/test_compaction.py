"""An archive of Spark's writer, compacted between two runs: the same rows, and it goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.compaction import compact
from penstock.spark.pipelines import Pipeline, archive
from tools.harness.fake_log_server import FakeLogServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH = 50


def test_an_archive_has_the_same_rows_and_goes_on(
    spark: SparkSession, server: FakeLogServer, tmp_path: Path
) -> None:
    source = {
        "topic": "t", "nsqd_http_address": server.address, "maxRecordsPerTrigger": str(BATCH),
    }  # fmt: skip
    lake = tmp_path / "lake"

    def run(batches: int) -> None:
        for _ in range(batches):
            server.queue("t").append([b"x"] * BATCH)
        spec = archive.pipeline(source, str(lake), str(tmp_path / "checkpoint")).spec
        spec = replace(spec, sink=replace(spec.sink, writer="spark"))
        (query,) = Pipeline(spec).start(spark, {"availableNow": True})
        assert query.awaitTermination(500)

    def read() -> DataFrame:
        return spark.read.parquet(str(lake)).orderBy("offset")

    spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "2")
    try:
        run(2)
        before, files = read().collect(), len(list(lake.rglob("*.parquet")))
        schema = read().schema
        result = compact(lake)
        assert result.rows == 2 * BATCH
        assert result.files_before == files > result.files_after
        assert read().schema == schema
        assert read().collect() == before
        run(2)
    finally:
        spark.conf.unset("spark.sql.streaming.fileSink.log.compactInterval")
    assert [row.offset for row in read().select("offset").collect()] == list(range(4 * BATCH))
    assert compact(lake).rows == 4 * BATCH
    assert [row.offset for row in read().select("offset").collect()] == list(range(4 * BATCH))
