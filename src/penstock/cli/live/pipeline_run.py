"""One run of a pipeline on an embedded Spark, watched by whoever shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.spark.errors import SourceError, explain
from penstock.spark.pipelines.pipeline import Pipeline
from penstock.spark.read.progress import BatchDone, Follower

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


_NO_JAVA: Final = (
    "Spark's process of Java has ended (killed, or out of memory), its log may say why; run the "
    "same command to go on"
)
_NOT_CONNECTED: Final = "Python worker failed to connect back"
"""Spark gives a worker ten seconds to start, which no setting changes and a busy machine misses."""
_STARTS_MAX: Final = 6


class PipelineRun:
    """Session and queries. ``log`` takes everything that Spark and its workers write."""

    def __init__(
        self, pipeline: Pipeline, log: Path, trigger: Mapping[str, Any] | None = None
    ) -> None:
        self._pipeline = pipeline
        self._trigger = trigger
        self._log = log
        self._spark: SparkSession | None = None
        self._queries: list[StreamingQuery] = []
        self._follower: Follower | None = None
        self._stop_after: dict[StreamingQuery, int] | None = None
        self._error = ""
        self._starts = 0

    def start_session(self) -> SparkSession:
        """Start Java and Spark: 5-10 s. Raises NoJavaError or SparkStartError."""
        from penstock.spark.session import say_errors_once, session

        with self._log.open("ab") as log:
            # Four tries of a task, as on a cluster; a local Spark gives it one unless told.
            self._spark = session("local[*,4]", settings=self._pipeline.settings, log=log)
        say_errors_once()
        return self._spark

    def start_query(self) -> None:
        """Start the pipeline, as often as it takes workers to start in time. Raises SourceError."""
        assert self._spark is not None
        self._queries = []
        while not self._queries:
            self._starts += 1
            try:
                with _java():
                    self._queries = self._pipeline.start(self._spark, self._trigger)
            except Exception as error:
                if not self._may_start_again(said := explain(error)):
                    raise SourceError(said) from error
        self._follower = Follower(self._queries[0])

    def finished(self) -> list[BatchDone]:
        """Batches that Java reports as written since the last call."""
        with suppress(SourceError), _java():
            return self._follower.finished() if self._follower else []
        return []

    def keep_active(self) -> bool:
        """Start queries again whose workers could not start in time, for a minute; True while a
        query runs. Raises SourceError when one failed.
        """
        try:
            with _java():
                return self._keep_active()
        except SourceError as error:
            self._error = str(error)
            raise

    def _keep_active(self) -> bool:
        active = [query for query in self._queries if query.isActive]
        for query in self._queries:
            error = None if query in active else query.exception()
            if error is not None:
                if not self._may_start_again(said := explain(error)):
                    raise SourceError(said)
                self._stop_queries()
                self.start_query()
                return True
        return bool(active)

    def _may_start_again(self, said: str) -> bool:
        """True if nothing was done before this error, which may not come again."""
        begun = any(_last_batch(query) >= 0 for query in self._queries)
        return said.startswith(_NOT_CONNECTED) and not begun and self._starts < _STARTS_MAX

    @property
    def working(self) -> bool:
        """True while a batch of messages is under way. Raises SourceError."""
        with _java():
            told = [query.status for query in self._queries if query.isActive]
        return any(each["isTriggerActive"] and each["isDataAvailable"] for each in told)

    def ask_for_end(self) -> None:
        """Have ``at_rest`` tell when the batches under way are done. Raises SourceError."""
        with _java():
            self._stop_after = {query: _last_batch(query) for query in self._queries}

    @property
    def at_rest(self) -> bool:
        """True if each query has ended a batch since ``ask_for_end``, or had none under way.

        The next may have begun: it is planned again after the next start, and loses nothing.
        Raises SourceError.
        """
        with _java():
            return all(
                not query.isActive
                or not query.status["isTriggerActive"]
                or _last_batch(query) > last
                for query, last in (self._stop_after or {}).items()
            )

    def stop(self) -> None:
        """End queries and session; safe at any time."""
        self._stop_queries()
        if self._spark is not None:
            from penstock.spark.listener import farewell
            from penstock.spark.session import stop

            farewell(self._spark, self._error)
            stop(self._spark)

    def _stop_queries(self) -> None:
        from py4j.protocol import Py4JError

        for query in self._queries:
            # When Java is gone or does not answer, so is the query: the checkpoint holds its state.
            with suppress(Py4JError, OSError):
                query.stop()


@contextmanager
def _java() -> Iterator[None]:
    """Raise SourceError where Java does not answer any more."""
    from py4j.protocol import Py4JNetworkError

    try:
        yield
    except (Py4JNetworkError, OSError) as error:
        raise SourceError(_NO_JAVA) from error


def _last_batch(query: StreamingQuery) -> int:
    progress = query.lastProgress
    return -1 if progress is None else int(progress["batchId"])
