"""The server's half of a connection over memory, with every layer that a node can put on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from penstock.net.tls.layers import Layer, Layers
from penstock.net.tls.tls_layer import ServerTls, TlsLayer
from penstock.nsq.client.connect.wire import Wire
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.deflate import DeflateLayer
from penstock.nsq.protocol.events import Auth, Event, Identify, Publish, State, Subscribe
from penstock.nsq.protocol.frames import Frame
from penstock.nsq.protocol.snappy import SnappyLayer

OK = frames.OK_FRAME


class MemoryNode:
    """Says yes to everything, and what ``answers`` has for a kind of command instead.

    ``offers`` are the layers it has: a client that asks for one gets it.
    """

    def __init__(self, *offers: str, tls: ServerTls | None = None, **info: Any) -> None:
        self.info = {"max_rdy_count": 2500, "version": "1.3.0", **info}
        self.answers: dict[type, bytes] = {}
        self.asked: list[Event] = []
        self.upgrade_answer = OK
        self.out = bytearray()
        self._offers = offers
        self._tls = tls
        self._reader = CommandReader(expect_magic=True)
        self._stack: list[Layer] = []
        self._layers = Layers()
        self._shaking: TlsLayer | None = None
        self._after_tls: list[str] = []

    def receive(self, data: bytes) -> None:
        if self._shaking is not None:
            self._shaking.receive_data(data)
            self._shake()
            return
        if not self._stack:
            self._read(data)
            return
        self._layers.receive_data(data)
        while piece := self._layers.read():
            self._read(piece)

    def say(self, data: bytes) -> None:
        self.out += self._layers.send(data) if self._stack else data

    def take(self) -> bytes:
        said = bytes(self.out)
        self.out.clear()
        return said

    def _read(self, data: bytes) -> None:
        self._reader.receive_data(data)
        while (event := self._reader.next_event()) is not None:
            self.asked.append(event)
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Identify):
            asked = json.loads(event.body)
            names = [name for name in self._offers if asked[name]]
            self.say(
                self.answers.get(Identify)
                or frames.response(json.dumps(self.info | dict.fromkeys(names, True)).encode())
            )
            self._upgrade(names)
            return
        if isinstance(event, Subscribe):
            self._reader.state = State.SUBSCRIBED
        if answer := self.answers.get(type(event)):
            self.say(answer)
        elif isinstance(event, Auth):
            self.say(frames.response(b'{"identity":"me","identity_url":"","permission_count":2}'))
        elif isinstance(event, Subscribe | Publish):
            self.say(OK)

    def _upgrade(self, names: list[str]) -> None:
        if "tls_v1" in names:
            assert self._tls is not None
            self._shaking = self._tls.layer()
            self._after_tls = names
            return
        for name, layer in LAYERS.items():
            if name in names:
                self._put_on(layer())

    def _shake(self) -> None:
        layer = self._shaking
        assert layer is not None
        done = layer.shake_hands()
        self.out += layer.take_output()
        if done:
            self._shaking = None
            self._put_on(layer)
            self._upgrade([name for name in self._after_tls if name != "tls_v1"])

    def _put_on(self, layer: Layer) -> None:
        self._stack.append(layer)
        self._layers.set(self._stack)
        self.say(self.upgrade_answer)


LAYERS: dict[str, Callable[[], Layer]] = {"deflate": DeflateLayer, "snappy": SnappyLayer}


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """The data in parts of these sizes, the rest as the last."""
    parts, at = [], 0
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    return [*parts, data[at:]]


def talk(wire: Wire, node: MemoryNode, sizes: Iterable[int] = ()) -> list[Frame]:
    """Carry what either has to say until both are silent; the node's bytes come in parts of these
    sizes. The frames that the wire gave.
    """
    found: list[Frame] = []
    sizes = list(sizes)
    while (said := wire.take_output()) or node.out:
        if said:
            node.receive(said)
        for part in cut(node.take(), sizes):
            wire.receive_data(part)
            found += all_events(wire)
            if more := wire.take_output():
                node.receive(more)
    return found


def all_events(wire: Wire) -> list[Frame]:
    found: list[Frame] = []
    while frames := wire.events():
        found += frames
    return found
