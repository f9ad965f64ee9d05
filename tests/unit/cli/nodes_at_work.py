"""Real nodes with something in them, and the command run within this process."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pytest

from penstock.cli import penstock
from penstock.cli.live.small_client import Wire
from penstock.log_api.log_client import LogClient
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.frames import MessageBlock
from penstock.testing.daemons import Daemon
from tests.forwarding import wait_until


class Ended(NamedTuple):
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


class Commands:
    """Runs ``penstock`` here and catches what it prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ended:
        before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
        self._capsys.readouterr()
        code = 0
        try:
            penstock.main(arguments)
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return Ended(code, *self._capsys.readouterr())


def ask(node: Daemon, method: str, target: str, body: bytes | None = None) -> Any:
    """One request to a node, which must be answered 200."""
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=30)
    try:
        connection.request(method, target, body)
        response = connection.getresponse()
        data = response.read()
        assert response.status == 200, data
        return json.loads(data) if data[:1] in (b"{", b"[") and data else data.decode()
    finally:
        connection.close()


def fetched(node: Daemon, topic: str) -> bytes:
    """The batches of a topic's log, from its start."""
    with LogClient(node.http) as log:
        return log.fetch(topic, 0).data


def publish(node: Daemon, topic: str, bodies: Sequence[bytes]) -> None:
    """One MPUB, over a connection of its own."""
    wire = Wire(node.tcp)
    wire.send(encode.multi_publish(topic, list(bodies)))
    next(wire.frames())
    wire.close()


def make(node: Daemon, topic: str, *channels: str) -> None:
    """A topic with these channels."""
    ask(node, "POST", f"/topic/create?topic={topic}")
    for channel in channels:
        ask(node, "POST", f"/channel/create?topic={topic}&channel={channel}")


def subscribed(
    node: Daemon, topic: str, channel: str, count: int
) -> tuple[Wire, Iterator[MessageBlock]]:
    """A consumer that takes so many messages at once, and what it gets."""
    wire = Wire(node.tcp)
    wire.send(encode.subscribe(topic, channel))
    frames = wire.frames()
    next(frames)
    wire.send(encode.ready(count))
    return wire, (frame for frame in frames if isinstance(frame, MessageBlock))


def consume(node: Daemon, topic: str, channel: str, count: int) -> list[bytes]:
    """The bodies of so many messages, finished."""
    bodies: list[bytes] = []
    wire, blocks = subscribed(node, topic, channel, count)
    while len(bodies) < count:
        block = next(blocks)
        bodies += [message.body for message in block]
        wire.send(block.finish_commands())
    wire.close()
    return bodies


def kill_letters(node: Daemon, topic: str, channel: str, bodies: Sequence[bytes]) -> None:
    """Publish messages that this channel gives up: they end in the topic's dead letters."""
    make(node, topic, channel)
    ask(node, "POST", f"/channel/config?topic={topic}&channel={channel}", b'{"max_attempts":1}')
    publish(node, topic, bodies)
    wire, blocks = subscribed(node, topic, channel, len(bodies))
    seen = 0
    while seen < len(bodies):
        block = next(blocks)
        seen += len(block)
        wire.send(b"".join(encode.requeue(message.id, 0) for message in block))
    wait_until(lambda: dead(node, topic, channel) >= len(bodies), node.log)
    wire.close()


def dead(node: Daemon, topic: str, channel: str) -> int:
    """How many messages a channel has given up."""
    config = ask(node, "GET", f"/channel/config?topic={topic}&channel={channel}")
    return int(config["dead_letter_count"])


def depths(node: Daemon, topic: str) -> dict[str, int]:
    """What the channels of a topic have not finished."""
    stats = ask(node, "GET", f"/stats?format=json&topic={topic}")
    return {
        channel["channel_name"]: channel["depth"]
        + channel["in_flight_count"]
        + channel["deferred_count"]
        for channel in stats["topics"][0]["channels"]
    }
