"""The archive as a pipeline like any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.core.errors import LockedError
from penstock.spark import compaction
from penstock.spark.pipelines import archive
from penstock.spark.pipelines.spec import Source

SOURCE = {"topic": "t", "nsqd_http_address": "h:4151"}


def test_the_archive_is_a_pipeline_into_folders_of_topic_date_and_hour() -> None:
    spec = archive.pipeline(SOURCE, "/lake", "/checkpoint").spec
    assert spec.name == "archive"
    assert spec.source == Source("nsq", {"startingOffsets": "earliest", **SOURCE}, archive.COLUMNS)
    assert (spec.sink.format, spec.sink.options["path"]) == ("parquet", "/lake")
    assert spec.sink.partition_by == ("topic", "date", "hour")
    assert spec.run.checkpoint == "/checkpoint"
    latest = archive.pipeline(SOURCE | {"startingOffsets": "latest"}, "/lake", "/c").spec
    assert latest.source.options["startingOffsets"] == "latest"
    since = archive.pipeline(SOURCE | {"startingTimestamp": "-1h"}, "/lake", "/c").spec
    assert since.source.options == SOURCE | {"startingTimestamp": "-1h"}


def test_lines_are_gzipped_texts() -> None:
    spec = archive.pipeline(SOURCE, "/lake", "/checkpoint", "lines").spec
    assert spec.sink.format == "text"
    assert spec.sink.options == {"compression": "gzip", "path": "/lake"}
    assert "as value" in str(spec.query)


def test_a_folder_that_is_in_use_is_refused_before_spark_starts(tmp_path: Path) -> None:
    arguments = ["--topic=t", f"--to={tmp_path}", "--checkpoint=/c", "--nsqd-http-address=h:4151"]
    with compaction.held(tmp_path), pytest.raises(LockedError, match="is in use"):
        archive.main(arguments)
