"""LonePublishes finds what the parser would find, or leaves it to the parser."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.nsq.nsqd.tcp.lone_publishes import LINES_MAX, LONE_BYTES_MAX, LonePublishes
from penstock.nsq.protocol.commands import CommandReader
from penstock.nsq.protocol.encode import deferred_publish, multi_publish, publish
from penstock.nsq.protocol.events import MpubLine, Publish
from penstock.nsq.protocol.limits import Limits

LIMITS = Limits(max_msg_size=100, max_body_size=90)
ALONE = {
    "PUB": publish("t", b"body"),
    "MPUB": multi_publish("t", [b"body"]),
}


@pytest.fixture
def lone() -> LonePublishes:
    lone = LonePublishes(LIMITS.max_msg_size, LIMITS.max_body_size)
    for command in ("PUB", "MPUB", "DPUB"):
        lone.expect(command, "t")
    return lone


def parsed(data: bytes) -> list[tuple[str, str, bytes]] | None:
    """The publishes that the parser finds; None if there is anything else."""
    reader = CommandReader(LIMITS)
    reader.announce_mpub = True
    reader.receive_data(data)
    found = []
    while (event := reader.next_event()) is not None:
        if isinstance(event, Publish):
            assert not event.delay_ns
            found += [(event.command, event.topic, body) for body in event.bodies.to_list()]
        elif not isinstance(event, MpubLine):
            return None
    return found if reader.is_at_a_command else None


@pytest.mark.parametrize("command", ALONE)
def test_one_message_is_found(lone: LonePublishes, command: str) -> None:
    assert lone.find(ALONE[command]) == (command, "t", b"body")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"PUB t",
        b"PUB t\n",
        publish("u", b"body"),
        publish("t", b"body") * 2,
        publish("t", b"body")[:-1],
        publish("t", b"body") + b"\n",
        publish("t", b"body").replace(b"\n", b"\r\n"),
        publish("t", b"body").replace(b"PUB t", b"PUB  t"),
        b"PUB t\n" + struct.pack(">i", 0),
        b"PUB t\n" + struct.pack(">i", -1) + b"body",
        publish("t", b"x" * 101),
        multi_publish("t", [b"x" * 83]),
        multi_publish("t", [b"body", b"body"]),
        multi_publish("t", [b"body"])[:-1],
        multi_publish("t", [b"body"]) + b"NOP\n",
        b"MPUB t\n" + struct.pack(">iii", 12, 2, 4) + b"body",
        b"MPUB t\n" + struct.pack(">iii", 12, 1, 3) + b"body",
        deferred_publish("t", 0, b"body"),
        b"DPUB t\n" + struct.pack(">i", 4) + b"body",
        b"SUB t c\n",
    ],
)
def test_anything_else_is_left_to_the_parser(lone: LonePublishes, data: bytes) -> None:
    assert lone.find(data) is None


@given(data=st.data())
def test_the_parser_finds_the_same(data: st.DataObject) -> None:
    lone = LonePublishes(LIMITS.max_msg_size, LIMITS.max_body_size)
    for command in ("PUB", "MPUB"):
        lone.expect(command, "t")
    body = data.draw(st.binary(min_size=0, max_size=110))
    whole = data.draw(st.sampled_from([publish("t", body), multi_publish("t", [body])]))
    at = data.draw(st.integers(0, len(whole)))
    gone = data.draw(st.sampled_from([0, 0, 0, 1, 4]))
    sent = whole[:at] + data.draw(st.binary(max_size=2)) + whole[at + gone :]
    found = lone.find(sent)
    if found is not None:
        assert parsed(sent) == [found]


def test_the_lines_that_are_known_are_bounded() -> None:
    lone = LonePublishes(1 << 20, 5 << 20)
    for number in range(LINES_MAX + 1):
        lone.expect("PUB", f"t{number}")
    assert lone.find(publish("t0", b"x")) == ("PUB", "t0", b"x")
    assert lone.find(publish(f"t{LINES_MAX}", b"x")) is None


def test_large_messages_are_left_to_the_parser() -> None:
    lone = LonePublishes(1 << 20, 5 << 20)
    lone.expect("PUB", "t")
    assert lone.find(publish("t", b"x" * LONE_BYTES_MAX)) is not None
    assert lone.find(publish("t", b"x" * (LONE_BYTES_MAX + 1))) is None
