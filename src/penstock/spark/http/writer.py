"""``df.writeStream.format("http")``: at least once, as a task that is tried again posts again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import BinaryType, StringType, StructType

from penstock.spark import worker_memory
from penstock.spark.cluster_options import cluster_options_of
from penstock.spark.errors import OptionError, SinkError
from penstock.spark.http.http_settings import HttpSettings
from penstock.spark.http.posting import Poster, Refused
from penstock.spark.sink.columns import Columns
from penstock.spark.sink.publishing import publish_rows
from penstock.spark.sink.rows import RowReader
from penstock.spark.sink.sink_settings import SinkSettings as NsqSettings

_BODIES = ("body", "value")
# Rows that are Python objects at one time.
_CHUNK = 1000


class HttpDataSource(DataSource):
    """The facade that Spark meets; ``register`` makes it known to a session."""

    @classmethod
    def name(cls) -> str:
        return "http"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        settings = HttpSettings.parse(self.options)
        return HttpStreamWriter(settings, dict(self.options), body_column(schema, settings.url))


def body_column(schema: StructType, url: str) -> str:
    """The column to post. Raises OptionError for columns that do not fit."""
    kinds = {field.name: field.dataType for field in schema}
    bodies = [name for name in _BODIES if isinstance(kinds.get(name), BinaryType | StringType)]
    if len(bodies) != 1:
        raise OptionError(
            "format http posts the column body (or value), binary or string: name it so, as in "
            "to_json(struct(*)) as body"
        )
    if not url and "url" not in kinds:
        raise OptionError("say where to post: the option url, or a column url")
    if not isinstance(kinds.get("url", StringType()), StringType):
        raise OptionError(f"column url must be string, not {kinds['url'].simpleString()}")
    for name in kinds:
        if name not in (*_BODIES, "url"):
            raise OptionError(f"format http posts no column {name}: put it into the body")
    return bodies[0]


@dataclass(frozen=True)
class Posted(WriterCommitMessage):
    """The word of a task."""

    delivered: int
    refused: int


class HttpStreamWriter(DataSourceStreamArrowWriter):
    """A micro-batch at a time; ``write`` runs in each task."""

    def __init__(self, settings: HttpSettings, options: Mapping[str, str], body: str) -> None:
        self._settings = settings
        self._options = options
        self._body = body

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        posted = failed = 0
        with Poster(self._settings) as poster:
            for batch in iterator:
                for first in range(0, batch.num_rows, _CHUNK):
                    rows = self._rows(batch.slice(first, _CHUNK))
                    refused = list(poster.post_all(rows))
                    self._put_aside(refused)
                    failed += len(refused)
                    posted += len(rows) - len(refused)
        worker_memory.settle()
        return Posted(posted, failed)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: what was posted is delivered."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Do nothing: bodies that were posted stay so."""

    def _rows(self, batch: pa.RecordBatch) -> list[tuple[str, bytes]]:
        bodies = batch.column(self._body).to_pylist()
        urls = [self._settings.url] * len(bodies)
        if "url" in batch.schema.names:
            urls = batch.column("url").to_pylist()
        if None in urls or None in bodies:
            raise SinkError("a row has no body, or no url")
        return [
            (url, body.encode() if isinstance(body, str) else bytes(body))
            for url, body in zip(urls, bodies, strict=True)
        ]

    def _put_aside(self, refused: Sequence[Refused]) -> None:
        """Publish the bodies to the dead-letter topic. Raises SinkError if no such topic is set."""
        if not refused:
            return
        topic = self._settings.dead_letters
        if not topic:
            first = refused[0]
            raise SinkError(
                f"{first.url} does not take a body of {len(first.body)} bytes: {first.reason}; "
                f"{len(refused)} in this task. The option deadLetters names a topic for such"
            )
        task = TaskContext.get()
        reader = RowReader(Columns("body", None, None), topic, task.partitionId() if task else 0)
        letters = pa.record_batch({"body": [letter(each) for each in refused]})
        publish_rows([letters], reader, _nsq_settings(self._options, topic))


def letter(refused: Refused) -> bytes:
    """A dead letter: JSON with reason, URL and body; ``body_base64`` if it is not UTF-8 text."""
    told = {"reason": refused.reason, "url": refused.url}
    try:
        told["body"] = refused.body.decode()
    except UnicodeDecodeError:
        told["body_base64"] = base64.b64encode(refused.body).decode()
    return json.dumps(told, ensure_ascii=False).encode()


def _nsq_settings(options: Mapping[str, str], topic: str) -> NsqSettings:
    return NsqSettings.parse({**cluster_options_of(options), "topic": topic})
