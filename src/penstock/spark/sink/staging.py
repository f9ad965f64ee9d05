"""Exactly once, in the tasks: rows are staged at the nodes, where nobody sees them yet.

Each attempt of a task stages under a number that it makes itself, so chunks of two attempts never
mix, whatever order their rows come in; the driver commits those of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import uuid4
from zlib import crc32

import numpy as np
import pyarrow as pa

from penstock.log_api.errors import (
    BatchCommitted,
    BatchDecided,
    LogError,
    NoDialect,
    NoLog,
    TopicNotFound,
)
from penstock.log_api.write_client import Part
from penstock.spark.access import Access, no_dialect, persist
from penstock.spark.errors import SinkError, SourceError
from penstock.spark.sink.in_flight import InFlight
from penstock.spark.sink.node_rotation import Connections
from penstock.spark.sink.pieces import Longs, Piece, groups
from penstock.spark.sink.refusals import refusal, too_big
from penstock.spark.sink.request_bodies import staged_body
from penstock.spark.sink.request_buffers import in_requests
from penstock.spark.sink.rows import RowReader
from penstock.spark.sink.sink_settings import SinkSettings


class Batch(NamedTuple):
    """A batch as nodes remember it; ``scope`` is its topic if a writer may have several under one
    number, each of which is decided on by itself.
    """

    writer: str
    number: int
    scope: str = ""


class Place(NamedTuple):
    """A topic on a node."""

    address: str
    topic: str


@dataclass(frozen=True)
class StagedRows:
    """The parts that one attempt has staged; ``done`` are places that take none, as the batch is
    committed there, or its attempts are decided.
    """

    batch: Batch
    parts: dict[Place, Part] = field(default_factory=dict)
    done: frozenset[Place] = frozenset()


def stage_rows(
    batches: Iterable[pa.RecordBatch], reader: RowReader, settings: SinkSettings, batch: Batch
) -> StagedRows:
    """Stage all rows of a partition. Raises SinkError, or SourceError for a silent node."""
    rows = (each for some in batches for each in reader.read(some))
    return stage_pieces(rows, reader.partition, settings, batch, Form(settings.access))


def stage_pieces(
    rows: Iterable[tuple[str, Piece]],
    partition: int,
    settings: SinkSettings,
    batch: Batch,
    form: Form,
) -> StagedRows:
    """Stage messages of topics. Raises SinkError, or SourceError for a silent node."""
    with Connections(form.access) as connections, InFlight(settings.in_flight) as requests:
        stager = Stager(settings, partition, batch, connections, form)
        placed = (
            (Place(address, topic), piece)
            for topic, whole in rows
            for address, piece in by_node(whole, settings.nodes, form.hashes)
        )
        for place, piece in in_requests(placed, settings.request_bytes):
            # Rows before these may become several chunks, whose numbers come before theirs.
            requests.await_room()
            requests.submit(partial(stager.stage, place, stager.next_chunk(place), piece))
        requests.finish()
    return stager.staged()


def by_body(piece: Piece) -> Longs:
    """A hash of each message's body."""
    return np.fromiter(map(crc32, piece.bodies.to_pylist()), np.int64, piece.count)


class Form(NamedTuple):
    """Staged messages of one dialect: the endpoint that takes them, the body of a chunk, the choice
    of a node, and the setting of nodes that limits a message.
    """

    access: Access
    body: Callable[[Piece], bytes] = staged_body
    hashes: Callable[[Piece], Longs] = by_body
    size_setting: str = "--max-msg-size"


def by_node(
    piece: Piece, nodes: tuple[str, ...], hashes: Callable[[Piece], Longs] = by_body
) -> Iterator[tuple[str, Piece]]:
    """The messages of each node, which depends on the messages alone.

    Nodes that keep no decisions (``commits``) may have a batch at one of them only, which comes
    again in other partitions and another order; so what is left out and what is written still fit
    together, if the same messages come and the list of nodes is as it was.
    """
    if len(nodes) == 1:
        yield nodes[0], piece
        return
    for index, indices in groups(hashes(piece) % len(nodes)):
        yield nodes[index], piece.take(indices)


class Stager:
    """A stager of the chunks of one attempt; for several threads."""

    def __init__(
        self,
        settings: SinkSettings,
        partition: int,
        batch: Batch,
        connections: Connections,
        form: Form,
    ) -> None:
        self._settings = settings
        self._form = form
        self._partition = partition
        self._batch = batch
        self._connections = connections
        # Spark's own numbers begin again with each driver, while an old one's task may still run.
        self._attempt = uuid4().int >> 66
        self._chunks: dict[Place, int] = {}
        self._done: set[Place] = set()
        self._lock = Lock()

    def next_chunk(self, place: Place) -> int:
        """The number of one more chunk."""
        with self._lock:
            number = self._chunks.get(place, 0)
            self._chunks[place] = number + 1
            return number

    def staged(self) -> StagedRows:
        """All that was staged."""
        parts = {
            place: Part(self._partition, self._attempt, chunks)
            for place, chunks in self._chunks.items()
            if place not in self._done
        }
        return StagedRows(self._batch, parts, frozenset(self._done))

    def stage(self, place: Place, chunk: int, piece: Piece) -> int:
        """Stage messages, in several chunks where the node takes no more at once; their number.

        Raises SinkError for a refusal, SourceError when the node has been silent for ``timeout``.
        """
        # The batch is decided there without this attempt: whatever it stages would be dropped.
        if place in self._done:
            return 0
        try:
            persist(
                partial(self._send, place, chunk, self._form.body(piece)),
                f"{piece.where(self._partition)}: topic {place.topic} cannot be staged at node "
                f"{place.address}",
                self._settings.timeout_s,
            )
        except (BatchCommitted, BatchDecided):
            self._done.add(place)
            return 0
        except NoLog:
            raise SinkError(
                f"node {place.address} cannot stage: it is Go's nsqd, or none at all. Leave "
                "exactlyOnce out to write to it at least once"
            ) from None
        except NoDialect as error:
            raise SinkError(no_dialect(error)) from None
        except TopicNotFound:
            raise SinkError(
                f"node {place.address} has no topic {place.topic} and makes none: make it "
                "(mqadmin updateTopic), or set its autoCreateTopicEnable=true"
            ) from None
        except LogError as error:
            return self._refused(error, place, chunk, piece)
        except SourceError as error:
            raise _unless_full(error, self._batch) from error
        return piece.count

    def _send(self, place: Place, chunk: int, body: bytes) -> None:
        writer, number, scope = self._batch
        with self._connections.to(place.address) as client:
            client.stage(place.topic, writer, number, self._partition, self._attempt, chunk, body,
                         scope=scope)  # fmt: skip

    def _refused(self, error: LogError, place: Place, chunk: int, piece: Piece) -> int:
        """Try the halves of what was too big. Raises SinkError."""
        if not too_big(error) or piece.count == 1:
            raise refusal(error, piece, self._partition, self._form.size_setting) from None
        first, second = piece.halves()
        # Each chunk has its number once: the first half keeps it, the second takes a new one.
        return self.stage(place, chunk, first) + self.stage(place, self.next_chunk(place), second)


def _unless_full(error: SourceError, batch: Batch) -> SourceError | SinkError:
    """The error, with the remedy if the node has no room for staged messages."""
    if isinstance(error.__cause__, LogError) and error.__cause__.reason.startswith("STAGE_FULL"):
        named = urlencode({"writer": batch.writer, "batch": batch.number})
        return SinkError(
            f"{error}: raise its --max-staged-bytes, or write smaller batches (a source's "
            "maxRecordsPerTrigger). If attempts that failed have filled it, POST "
            f"/stage/abort?{named} there makes room once no task runs"
        )
    return error
