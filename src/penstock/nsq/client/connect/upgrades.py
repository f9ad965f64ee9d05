"""The compression that a connection may get after IDENTIFY, imported when it comes."""

from __future__ import annotations

from penstock.net.tls.layers import Layer
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo


def compression(name: str, config: Config, server: ServerInfo) -> Layer:
    """A new layer of ``deflate`` or ``snappy``."""
    if name == "snappy":
        from penstock.nsq.protocol.snappy import SnappyLayer

        return SnappyLayer()
    from penstock.nsq.protocol.deflate import DeflateLayer

    # The node may have lowered the level that was asked for.
    level = server.deflate_level if 1 <= server.deflate_level <= 9 else config.deflate_level
    return DeflateLayer(level)
