"""One run of the archive pipeline on an embedded Spark, watched by whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark.errors import SourceError, explain
from penstock.spark.progress import BatchDone, Follower

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class ArchiveRun:
    """Session and query. ``log`` takes everything that Spark and its workers write."""

    def __init__(
        self,
        source: Mapping[str, str],
        to: Path,
        checkpoint: Path,
        log: Path,
        trigger: dict[str, Any] | None = None,
    ) -> None:
        self._source = source
        self._to = to
        self._checkpoint = checkpoint
        self._trigger = trigger
        self._log = log
        self._spark: SparkSession | None = None
        self._query: StreamingQuery | None = None
        self._follower: Follower | None = None

    def start_session(self) -> SparkSession:
        """Start Java and Spark: 5-10 s. Raises NoJavaError or SparkStartError."""
        from penstock.spark.session import session

        with self._log.open("ab") as log:
            self._spark = session("local[*,4]", log=log)
        return self._spark

    def start_query(self) -> None:
        """Start archiving."""
        from penstock.spark.pipelines import archive

        assert self._spark is not None
        self._query = archive.start(
            self._spark, self._source, str(self._to), str(self._checkpoint), self._trigger
        )
        self._follower = Follower(self._query)

    def finished(self) -> list[BatchDone]:
        """Batches that were written since the last call."""
        return self._follower.finished() if self._follower else []

    @property
    def active(self) -> bool:
        """Whether the query still runs. Raises SourceError when it failed."""
        assert self._query is not None
        if self._query.isActive:
            return True
        error = self._query.exception()
        if error is not None:
            raise SourceError(explain(error))
        return False

    def stop(self) -> None:
        """End query and session; safe at any time."""
        if self._query is not None:
            from py4j.protocol import Py4JError

            # When Java is gone or does not answer, so is the query: the checkpoint holds its state.
            with suppress(Py4JError, OSError):
                self._query.stop()
        if self._spark is not None:
            from penstock.spark.session import stop

            stop(self._spark)
