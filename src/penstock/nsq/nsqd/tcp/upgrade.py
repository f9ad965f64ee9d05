"""From the answer to IDENTIFY to a connection with layers (NSQ spec 1.6).

The answer went out on the connection as it was. Then TLS, if agreed on, with an ``OK`` inside it;
then a compression, with an ``OK`` inside that. What the client sent after its IDENTIFY is for the
first layer.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.net.tls.layers import Layer
from penstock.net.tls.tls_layer import ServerTls, TlsError
from penstock.nsq.protocol.frames import OK_FRAME
from penstock.nsq.protocol.identify import Negotiated

if TYPE_CHECKING:
    from penstock.nsq.nsqd.tcp.connection import Connection

logger = logging.getLogger(__name__)


class Layering:
    """The layers that were agreed on, put on a connection; ``tls`` is there if TLS is among them.

    As upstream, a later IDENTIFY that agrees on a compression replaces the one there was, and one
    that agrees on TLS begins again, on the bare connection.
    """

    def __init__(self, connection: Connection, outcome: Negotiated, tls: ServerTls | None) -> None:
        self._connection = connection
        self._outcome = outcome
        self._tls = tls.layer() if tls is not None and outcome.tls_v1 else connection.tls

    def begin(self) -> None:
        """Do all that can be done at once; the connection is suspended while TLS shakes hands."""
        # Go may lose what comes before the upgrade is done; here it is kept (NSQ spec 1.6).
        unread = self._connection.reader.take_unread()
        if self._tls is not None and self._outcome.tls_v1:
            self._log("TLS")
            self._connection.suspend()
            # The handshake has its own deadline (NSQ spec 1.6).
            self._connection.pause_heartbeats()
            self._connection.layered().start_tls(self._tls, unread, self._on_shaken)
        else:
            self._compress(unread)

    def _on_shaken(self, error: TlsError | None) -> None:
        connection = self._connection
        if error is not None:
            connection.fail(f"E_IDENTIFY_FAILED IDENTIFY failed {error}")
            return
        connection.tls = self._tls
        connection.compression = ""
        connection.reader.tls_required = False
        connection.outbox.send(OK_FRAME)
        self._compress()
        connection.resume_heartbeats()
        connection.resume()

    def _compress(self, unread: bytes = b"") -> None:
        outcome, connection = self._outcome, self._connection
        layer: Layer
        if outcome.snappy:
            from penstock.nsq.protocol.snappy import SnappyLayer

            layer, connection.compression = SnappyLayer(), "snappy"
            self._log("snappy")
        elif outcome.deflate:
            from penstock.nsq.protocol.deflate import DeflateLayer

            layer, connection.compression = DeflateLayer(outcome.deflate_level), "deflate"
            self._log(f"deflate (level {outcome.deflate_level})")
        else:
            return
        outer: list[Layer] = [] if self._tls is None else [self._tls]
        connection.layered().set_layers([*outer, layer], unread)
        connection.outbox.send(OK_FRAME)

    def _log(self, what: str) -> None:
        address = self._connection.remote_address
        logger.info("PROTOCOL(V2): [%s] upgrading connection to %s", address, what)
