"""The stack of layers, without any network."""

from __future__ import annotations

import pytest

from penstock.net.tls.layers import Bytes, Layer, LayerError, Layers


class Quoted(Layer):
    """Plain text in quotes; a piece is what lies between two of them."""

    def __init__(self, quote: bytes) -> None:
        self.quote = quote
        self._held = b""

    def receive_data(self, data: Bytes) -> None:
        self._held += bytes(data)

    def read(self) -> bytes:
        if self._held and not self._held.startswith(self.quote):
            raise LayerError("no quote")
        start, found, rest = self._held[1:].partition(self.quote)
        if not found:
            return b""
        self._held = rest
        return start

    def send(self, data: Bytes) -> bytes:
        return self.quote + bytes(data) + self.quote

    def end(self) -> bytes:
        self.eof = True
        return b"bye" + self.quote


def test_the_first_layer_is_next_to_the_socket() -> None:
    layers = Layers()
    layers.set([Quoted(b"<"), Quoted(b"'")])
    assert layers.send(b"x") == b"<'x'<"
    layers.receive_data(b"<'x'")
    assert layers.read() == b""
    layers.receive_data(b"'y<<'<")
    assert [layers.read() for _ in range(3)] == [b"x", b"y", b""]


def test_what_was_read_already_is_for_the_innermost() -> None:
    layers, outer = Layers(), Quoted(b"<")
    layers.set([outer], b"<a<<'b<")
    assert layers.read() == b"a"
    layers.set([outer, Quoted(b"'")], b"'early'")
    assert [layers.read() for _ in range(2)] == [b"early", b""]
    layers.receive_data(b"<'<")
    assert layers.read() == b"b"


def test_failures_and_ends_come_through() -> None:
    layers = Layers()
    layers.set([Quoted(b"<"), Quoted(b"'")])
    assert (layers.take_output(), layers.eof) == (b"", False)
    assert (layers.end(), layers.eof) == (b"bye<", True)
    layers.receive_data(b"<nonsense<")
    with pytest.raises(LayerError, match="no quote"):
        layers.read()


def test_without_layers_bytes_go_as_they_are() -> None:
    layers = Layers()
    assert (layers.send(b"x"), layers.end(), layers.take_output()) == (b"x", b"", b"")
