"""What compiled code takes of a connection's bytes, against the parser alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock import lane
from penstock.nsq.protocol import encode
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.events import Drop, Failure, Publish
from penstock.nsq.protocol.frames import OK_FRAME
from penstock.nsq.protocol.params import parse_name
from tools.fuzz.streams import same_however_cut
from tools.fuzz.targets import commands
from tools.fuzz.targets.commands import LIMITS
from tools.harness.naive_nsq import plain

from . import Target

Found = tuple[dict[str, list[bytes]], list[tuple[Any, ...]]]
"""Bodies by topic, and all other events."""


@dataclass
class _Topic:
    name: str
    staged: list[Any] = field(default_factory=list)
    joins: bool = True


@dataclass
class _Node:
    """Commits at once, and notes what that was."""

    bodies: dict[str, list[bytes]]

    def publish(self, topic: _Topic, records: Any, delay: int, done: Callable[..., None]) -> None:
        frames, positions = records.encode(1 << 60, 1)
        bodies = records.to_list()
        assert (positions is None) == (len(set(map(len, bodies))) == 1)
        assert len(frames) == sum(map(len, bodies)) + 34 * records.count
        self.bodies.setdefault(topic.name, []).extend(bodies)
        done(None)

    def joined(self) -> None:
        raise AssertionError("nothing stays staged here")


class _Connection(lane.Commands):
    """A connection whose session takes all, and does nothing else."""

    held = 0

    def __init__(self, found: Found) -> None:
        self.found = found
        self.reader = CommandReader(LIMITS, expect_magic=True)
        self.phase, self.blocked_since, self.turn = "handling", None, self
        self.owed = self.told = self.oks = 0
        self.early: dict[int, Any] = {}
        self.behind: list[bytes] = []
        self.pub_counts: dict[str, int] = {}
        self.session = self.outbox = self
        self.is_at_end = self.is_over = False

    def count(self, topic: str, messages: int) -> None:
        self.pub_counts[topic] = messages

    def answer(self, frames: bytes, more_owed: bool) -> None:
        self.oks += frames.count(OK_FRAME)

    def published(self, command: str, turn: int, failure: object, count: int) -> None:
        """Answer in turn, as a session does: those of another topic may come too early."""
        assert failure is None
        self.early[turn] = count
        while (count := self.early.pop(self.told + 1, 0)) > 0:
            self.told += count
            self.owed -= count
            self.answer(OK_FRAME * count, self.owed > 0)

    def parse(self, data: bytes) -> None:
        bodies, others = self.found
        self.reader.receive_data(data)
        while not self.is_over and (event := self.reader.next_event()) is not None:
            if isinstance(event, Publish) and not event.delay_ns:
                bodies.setdefault(event.topic, []).extend(event.bodies.to_list())
            else:
                others += plain(event)
            if isinstance(event, Drop) or (isinstance(event, Failure) and event.fatal):
                self.is_over, self.phase = True, "ended"


def lane_commands(data: bytes) -> None:
    """The stream of one connection: what is published, and what else is found, either way."""
    if lane.COMPILED is not None:
        assert _taken(data, compiled=True) == _taken(data, compiled=False)


def _taken(data: bytes, *, compiled: bool) -> Found:
    def read(pieces: Any) -> Found:
        found: Found = ({}, [])
        connection = _Connection(found)
        if compiled:
            names = ("t", "u", "t#ephemeral")
            way = lane.publisher(_Node(found[0]), {name: _Topic(name) for name in names})
            connection.take_plain(way, "handling", OK_FRAME, parse_name, int, LIMITS)
        for piece in pieces:
            if not connection.is_over:
                connection.data_received(piece)
        assert connection.owed == 0
        assert connection.oks == connection.told
        return found

    return same_however_cut(data, read)


_STREAMS = [
    encode.publish("t", b"body") * 3 + encode.publish("u", b"other") + encode.publish("t", b"x"),
    encode.multi_publish("u", [b"one", b"two"] * 8) + encode.NOP + encode.publish("t", b"y"),
    encode.multi_publish("t", [b"a", b"bb", b"ccc"] * 8) + b"PUB t\r\n\0\0\0\1z",
    encode.publish("unknown", b"body") + encode.publish("t", b"b" * 64) + b"PUB t \n\0\0\0\1z",
    encode.publish("t", b"b" * 65) + encode.publish("t", b"behind it"),
]

TARGETS = {
    "lane_commands": Target(
        lane_commands,
        [encode.MAGIC_V2 + stream for stream in _STREAMS],
        [*commands.TARGETS["commands"].words, b"PUB u\n", b"MPUB u\n", b"\0\0\0\x0a"],
    ),
}
