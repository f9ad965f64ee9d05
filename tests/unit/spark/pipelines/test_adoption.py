"""An archive's folder before its query starts, where no Spark is needed to look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from penstock.spark.archive.store import Store
from penstock.spark.archive.target import Target
from penstock.spark.errors import SourceError
from penstock.spark.pipelines import adoption


def test_an_archive_of_spark_s_writer_on_another_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "_spark_metadata").mkdir()
    here = Store(fs.LocalFileSystem(), str(tmp_path))
    monkeypatch.setattr(Store, "open", lambda _: here)
    # Only pyarrow is asked: Spark may have no jar of that file system.
    no_spark: Any = None
    with pytest.raises(SourceError, match=r"s3a://b/lake .* carried over only on this machine"):
        adoption.prepare(no_spark, Target("s3a://b/lake", "parquet", (), ()), "checkpoint")
