"""Publishing at least once: rows go to whichever node takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from penstock.core.chance import SystemChance
from penstock.log_api.errors import LogError, NodeUnreachable, TlsNeeded
from penstock.log_api.write_client import WriteClient
from penstock.spark.access import tls_needed, why
from penstock.spark.errors import OptionError, SinkError, SourceError
from penstock.spark.sink.node_rotation import Connections, NodeRotation
from penstock.spark.sink.pieces import Piece, groups
from penstock.spark.sink.refusals import refusal, too_big
from penstock.spark.sink.request_bodies import publish_body
from penstock.spark.sink.rows import RowReader
from penstock.spark.sink.sending import RetryTime, send_rows
from penstock.spark.sink.sink_settings import SinkSettings

# A node that is down is left to the next before its HTTPS port is asked for again and again.
_PORT_S = 1.0


def publish_rows(
    batches: Iterable[pa.RecordBatch], reader: RowReader, settings: SinkSettings
) -> int:
    """Publish all rows of a partition; their number. Raises SinkError."""
    with Connections(settings.access, _PORT_S) as connections:
        publisher = Publisher(settings, reader.partition, connections)
        return send_rows(
            _by_delay(batches, reader), lambda key, piece: publisher.publish(*key, piece), settings
        )


def _said(error: Exception) -> str:
    """The reason without the node's address, which stands before it."""
    return f"{error.status} {error.reason}" if isinstance(error, LogError) else why(error)


def _by_delay(
    batches: Iterable[pa.RecordBatch], reader: RowReader
) -> Iterator[tuple[tuple[str, int], Piece]]:
    """Messages by topic and delay in milliseconds."""
    for batch in batches:
        for topic, piece in reader.read(batch):
            first = int(piece.delays[0])
            if (piece.delays == first).all():
                yield (topic, first), piece
                continue
            for delay_ms, indices in groups(piece.delays):
                yield (topic, delay_ms), piece.take(indices)


class Publisher:
    """A publisher to the nodes by turns; for several threads."""

    def __init__(self, settings: SinkSettings, partition: int, connections: Connections) -> None:
        self._settings = settings
        self._partition = partition
        self._connections = connections
        # A first turn by chance: else the tasks of a batch would all begin with the same node.
        self._nodes = NodeRotation(settings, SystemChance().below(1 << 16))
        self._delays_many: dict[str, bool] = {}

    def publish(self, topic: str, delay_ms: int, piece: Piece) -> int:
        """Publish messages; their number. A node that fails is followed by the next.

        Raises SinkError when one refuses them, and when none has answered for ``timeout``.
        """
        patience = RetryTime(self._settings.timeout_s)
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
            if not patience.pause():
                raise patience.nobody("node", topic, piece.where(self._partition), failures)
            self._nodes.look_again()

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
            # The node's trouble, not the messages': the next node may take them.
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
