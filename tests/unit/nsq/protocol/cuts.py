"""Streams cut anywhere, and what a layer makes of the parts."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.net.tls.layers import PIECE, Layer


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """The data in parts of these sizes, the rest as the last."""
    parts, at = [], 0
    for size in places:
        parts.append(data[at : at + size])
        at += size
    return [*parts, data[at:]]


def read_all(layer: Layer, parts: Iterable[bytes]) -> bytes:
    """All that a layer gives when these come one after the other."""
    found = []
    for part in parts:
        layer.receive_data(part)
        while piece := layer.read():
            assert len(piece) <= PIECE
            found.append(piece)
    return b"".join(found)
