"""Publishing at least once: rows go to whichever node takes them.

A request that failed may have been stored all the same, and a task that is tried again publishes
its rows a second time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa

from penstock.core.chance import SystemChance
from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.counted import counted
from penstock.log_api.errors import LogError, NodeUnreachable, TlsNeeded
from penstock.log_api.write_client import WriteClient
from penstock.spark.access import tls_needed, why
from penstock.spark.errors import OptionError, SinkError, SourceError
from penstock.spark.sink.in_flight import InFlight
from penstock.spark.sink.nodes import Connections, Nodes
from penstock.spark.sink.pieces import Piece, groups
from penstock.spark.sink.piles import Piles
from penstock.spark.sink.refusals import refusal, too_big
from penstock.spark.sink.request_bodies import publish_body
from penstock.spark.sink.rows import RowReader
from penstock.spark.sink.settings import Settings

_PAUSE_S = 0.1
_PAUSE_S_MAX = 1.0
# A node that is down is left to the next before its HTTPS port is asked for again and again.
_PORT_S = 1.0


def publish_rows(batches: Iterable[pa.RecordBatch], reader: RowReader, settings: Settings) -> int:
    """Publish all rows of a partition; their number.

    Raises SinkError, which says how many rows are published nevertheless.
    """
    to_nodes = Connections(settings.access, _PORT_S)
    with to_nodes as connections, InFlight(settings.in_flight) as requests:
        publisher = Publisher(settings, reader.partition, connections)
        try:
            for topic, delay_ms, piece in _to_send(batches, reader, settings.request_bytes):
                requests.submit(partial(publisher.publish, topic, delay_ms, piece))
            requests.finish()
        except SinkError as error:
            raise SinkError(f"{error}{published(requests.done)}") from error
    return requests.done


def published(count: int) -> str:
    """The end of an error's sentence, when rows are there all the same."""
    if not count:
        return ""
    rows = f"{counted(count, 'row')} of the partition {'is' if count == 1 else 'are'} published"
    return f"; {rows}, and again when it is tried again"


def _said(error: Exception) -> str:
    """The reason without the node's address, which stands before it."""
    return f"{error.status} {error.reason}" if isinstance(error, LogError) else why(error)


def _to_send(
    batches: Iterable[pa.RecordBatch], reader: RowReader, request_bytes: int
) -> Iterator[tuple[str, int, Piece]]:
    """Topic, delay in milliseconds and messages of each request."""
    piles: Piles[tuple[str, int]] = Piles(request_bytes)
    for batch in batches:
        for topic, whole in reader.read(batch):
            for delay_ms, piece in _by_delay(whole):
                for key, full in piles.add((topic, delay_ms), piece):
                    yield *key, full
    for key, rest in piles.rest():
        yield *key, rest


def _by_delay(piece: Piece) -> Iterator[tuple[int, Piece]]:
    first = int(piece.delays[0])
    if (piece.delays == first).all():
        yield first, piece
        return
    for delay_ms, indices in groups(piece.delays):
        yield delay_ms, piece.take(indices)


class Publisher:
    """A publisher to the nodes by turns; for several threads."""

    def __init__(self, settings: Settings, partition: int, connections: Connections) -> None:
        self._settings = settings
        self._partition = partition
        self._connections = connections
        self._nodes = Nodes(settings, SystemChance().below(1 << 16))
        self._delays_many: dict[str, bool] = {}

    def publish(self, topic: str, delay_ms: int, piece: Piece) -> int:
        """Publish messages; their number. A node that fails is followed by the next.

        Raises SinkError when one refuses them, and when none has answered for ``timeout``.
        """
        deadline_ns = 0
        pause_s = _PAUSE_S
        while True:
            failures: dict[str, str] = {}
            for address in self._nodes.by_turns():
                try:
                    return self._at(address, topic, delay_ms, piece)
                except (NodeUnreachable, SourceError, LogError) as error:
                    if isinstance(error, OptionError):
                        raise
                    failures[address] = _said(error)
                    self._nodes.failed(address)
            now_ns = SYSTEM_CLOCK.monotonic_ns()
            deadline_ns = deadline_ns or now_ns + int(self._settings.timeout_s * 1e9)
            if now_ns + int(pause_s * 1e9) > deadline_ns:
                raise SinkError(self._no_node(topic, piece, failures))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)
            self._nodes.look_again()

    def _no_node(self, topic: str, piece: Piece, failures: dict[str, str]) -> str:
        said = "; ".join(f"{address}: {failure}" for address, failure in failures.items())
        return (
            f"{piece.where(self._partition)}: no node takes messages of topic {topic} ({said}; "
            f"tried for {self._settings.timeout_s:g} s, option timeout)"
        )

    def _at(self, address: str, topic: str, delay_ms: int, piece: Piece) -> int:
        """Publish at a node, in several requests where it takes no more at once."""
        try:
            with self._connections.to(address) as client:
                if piece.count == 1 or not delay_ms or self._takes_delays(client):
                    self._send(client, topic, delay_ms, piece)
                    return piece.count
            parts = [piece.slice(index, index + 1) for index in range(piece.count)]
        except TlsNeeded as error:
            raise SinkError(tls_needed(error.node)) from None
        except LogError as error:
            if error.status >= 500:
                raise
            if not too_big(error) or piece.count == 1:
                raise refusal(error, piece, self._partition) from None
            parts = list(piece.halves())
        return sum(self.publish(topic, delay_ms, part) for part in parts)

    def _send(self, client: WriteClient, topic: str, delay_ms: int, piece: Piece) -> None:
        if piece.count == 1 and delay_ms:
            client.publish(topic, piece.bodies[0].as_py(), delay_ms)
        else:
            client.publish_many(topic, publish_body(piece), delay_ms)

    def _takes_delays(self, client: WriteClient) -> bool:
        """True if the node knows delays of many messages; asked once a task."""
        if client.node not in self._delays_many:
            self._delays_many[client.node] = client.delays_many()
        return self._delays_many[client.node]
