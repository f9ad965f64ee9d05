"""What both consumers are made of, with connections that only write down."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import ConfigError
from penstock.core.units import SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.consume.subscription import Subscription
from penstock.nsq.client.errors import (
    AuthFailed,
    BadChannel,
    BadTopic,
    LookupFailed,
    NotConnected,
    SubFailed,
)
from penstock.nsq.client.state import ConnectionState
from penstock.nsq.protocol import frames
from penstock.nsq.protocol.frames import FrameReader, MessageBlock
from penstock.testing.clock import FakeClock
from tests.unit.nsq.client.consume.test_replies import FakeLink
from tests.unit.nsq.client.fakes import lookup_answer


class Node(FakeLink):
    """A connection with all that a consumer asks of it."""

    def __init__(self, address: str, most: int = 2500) -> None:
        super().__init__()
        self.address = address
        self.server = ServerInfo(max_rdy_count=most)
        self.state = ConnectionState(address)

    def add_in_flight(self, count: int) -> None:
        self.in_flight += count


class Bare(Subscription[Node]):
    """A shell that does nothing."""

    def _dial(self, address: str) -> None: ...

    def _ask(self, url: str) -> None: ...

    def _soon(self, flush: Callable[[], None]) -> None: ...


class Shell(Subscription[Node]):
    """A shell that writes down what it is to do."""

    def __init__(self, *addresses: str, lookupds: tuple[str, ...] = (), **more: Any) -> None:
        self.dialled: list[str] = []
        self.asked: list[str] = []
        self.clock = FakeClock(SECOND)
        config = Config(**{"max_in_flight": 10, **more.pop("options", {})})
        super().__init__(
            "t",
            "c",
            nsqd_tcp_addresses=addresses,
            lookupd_http_addresses=lookupds,
            config=config,
            clock=self.clock,
            chance=SystemChance(1),
            **more,
        )

    def _dial(self, address: str) -> None:
        self.dialled.append(address)

    def _ask(self, url: str) -> None:
        self.asked.append(url)

    def _soon(self, flush: Callable[[], None]) -> None:
        flush()

    def join(self, address: str, **more: int) -> Node:
        node = Node(address, **more)
        self._joined(node)
        return node

    def wait(self) -> float:
        """Until something is due, and do it; how many seconds that took."""
        deadline = self._deadline
        assert deadline is not None
        waited = max(0, deadline - self.clock.monotonic_ns())
        self.clock.advance(waited)
        self._tick()
        return waited / SECOND


def block(*bodies: bytes) -> MessageBlock:
    reader = FrameReader()
    reader.receive_data(b"".join(frames.message(1, 1, b"%016x" % 1, body) for body in bodies))
    (found,) = reader.events()
    assert isinstance(found, MessageBlock)
    return found


def found(*addresses: str) -> bytes:
    return json.dumps(lookup_answer(*addresses)).encode()


def test_bad_arguments() -> None:
    with pytest.raises(BadTopic):
        Bare("no topic", "c")
    with pytest.raises(BadChannel):
        Bare("t", "no channel")
    with pytest.raises(ConfigError):
        Bare("t", "c", config=Config(heartbeat_interval=90))
    with pytest.raises(ValueError, match="missing port"):
        Bare("t", "c", lookupd_http_addresses=["nowhere"])
    with pytest.raises(ValueError, match="port"):
        Bare("t", "c", nsqd_tcp_addresses=["nowhere"])


def test_a_shell_has_its_duties() -> None:
    with pytest.raises(TypeError, match="_ask, _dial, _soon"):
        Subscription("t", "c", nsqd_tcp_addresses=["n:1"])  # type: ignore[abstract]


def test_there_must_be_somebody_to_ask() -> None:
    with pytest.raises(ConfigError, match="no address"):
        Shell()


def test_connecting_and_the_first_ready() -> None:
    shell = Shell("n:1", "n:2", max_in_flight=4)
    assert shell.wait() == 0
    assert shell.dialled == ["n:1", "n:2"]
    assert shell._deadline is None
    first = shell.join("n:1")
    assert first.sent == [b"RDY 4\n"]
    second = shell.join("n:2")
    assert (first.sent, second.sent) == ([b"RDY 4\n", b"RDY 2\n"], [b"RDY 2\n"])
    assert list(shell.connections) == ["n:1", "n:2"]


def test_a_node_that_allows_little(caplog: pytest.LogCaptureFixture) -> None:
    shell = Shell("n:1", max_in_flight=200)
    shell.wait()
    assert shell.join("n:1", most=5).sent == [b"RDY 5\n"]
    line = "[t/c] (n:1) max RDY count 5 < consumer max in flight 200, truncation possible"
    assert line in caplog.messages


def test_losing_and_coming_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shell = Shell("n:1", "n:2")
    shell.wait()
    first, second = shell.join("n:1"), shell.join("n:2")
    shell._take(first, block(b"a", b"b"))
    shell._take(second, block(b"c"))
    assert shell.in_flight == 3
    shell._lost(first, NotConnected("n:1", "EOF"))
    shell._lost(first, NotConnected("n:1", "EOF"))
    assert second.sent[-1] == b"RDY 10\n"
    message = shell._inbox.message()
    assert message is not None
    assert message.body == b"c"
    assert shell._inbox.is_empty
    assert str(shell.last_error) == "n:1: EOF"
    assert "[t/c] (n:1) IO error - EOF" in caplog.messages
    assert "[t/c] there are 1 connections left alive" in caplog.messages
    assert 0.5 < shell.wait() <= 1
    assert shell.dialled == ["n:1", "n:2", "n:1"]
    assert shell.join("n:1").sent == [b"RDY 5\n"]


def test_a_node_that_cannot_be_reached(caplog: pytest.LogCaptureFixture) -> None:
    shell = Shell("n:1")
    shell.wait()
    shell._failed("n:1", NotConnected("n:1", "dial tcp n:1: connect: connection refused"))
    text = "error connecting to nsqd - dial tcp n:1: connect: connection refused"
    assert f"[t/c] (n:1) {text}" in caplog.messages
    assert shell._fatal is None
    shell.wait()
    assert shell.dialled == ["n:1", "n:1"]


def test_no_way_to_go_on() -> None:
    shell = Shell("n:1")
    shell.wait()
    shell._failed("n:1", SubFailed("E_SUB_FAILED"))
    assert isinstance(shell._fatal, SubFailed)
    required = Shell("n:1", required=True)
    required.wait()
    required._failed("n:1", NotConnected("n:1", "refused"))
    assert isinstance(required._fatal, NotConnected)
    proven = Shell("n:1", required=True)
    proven.wait()
    node = proven.join("n:1")
    proven._lost(node, NotConnected("n:1", "EOF"))
    proven.wait()
    for error in (NotConnected("n:1", "refused"), AuthFailed("E_AUTH_FAILED")):
        proven._failed("n:1", error)
        assert proven._fatal is None
        proven.wait()


def test_discovery(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    shell = Shell(lookupds=("one:4161", "two:4161"))
    shell.wait()
    one, two = shell.asked
    assert f"[t/c] querying nsqlookupd {one}" in caplog.messages
    shell._answered(one, 200, found("n:1", "n:2"))
    shell._answered(two, 200, found("n:2", "n:3"))
    shell._tick()
    assert shell.dialled == ["n:1", "n:2", "n:3"]
    shell.wait()
    shell._not_answered(one, LookupFailed("connection refused"))
    shell._answered(two, 404, b'{"message": "TOPIC_NOT_FOUND"}')
    assert f"[t/c] error querying nsqlookupd ({one}) - connection refused" in caplog.messages
    shell.wait()
    shell._answered(one, 500, b"no JSON")
    assert f"error querying nsqlookupd ({one}) - status 500, no answer" in caplog.text
    assert shell.dialled == ["n:1", "n:2", "n:3"]


def test_nsqlookupd_is_asked_soon_when_a_node_is_lost() -> None:
    shell = Shell(lookupds=("one:4161",))
    shell.wait()
    shell._answered(shell.asked[0], 200, found("n:1"))
    shell._tick()
    node = shell.join("n:1")
    shell.clock.advance(10 * SECOND)
    shell._lost(node, NotConnected("n:1", "EOF"))
    assert shell.wait() == 0
    assert len(shell.asked) == 2


def test_a_found_node_that_is_gone_is_left_to_nsqlookupd() -> None:
    shell = Shell(lookupds=("one:4161",))
    shell.wait()
    shell._answered(shell.asked[0], 200, found("n:1"))
    failures = 0
    for _ in range(12):
        shell._tick()
        if len(shell.dialled) > failures:
            failures += 1
            shell._failed("n:1", SubFailed("E_SUB_FAILED"))
        shell.clock.advance(SECOND)
    assert shell.dialled == ["n:1"] * 3
    assert shell._fatal is None


def test_backoff_and_what_can_be_seen() -> None:
    shell = Shell("n:1")
    shell.wait()
    node = shell.join("n:1")
    shell._take(node, block(*[b"x"] * 9))
    assert shell.is_starved
    message = shell._inbox.message()
    assert message is not None
    message.requeue(0)
    assert node.sent[1:] == [b"RDY 0\n", b"REQ %016x 0\n" % 1]
    assert shell.backoff == (1, 2.0)
    assert shell.wait() == 2
    assert node.sent[-1] == b"RDY 1\n"
    assert shell.backoff == (1, 0)
    delivery = shell._inbox.message()
    assert delivery is not None
    delivery.finish()
    assert node.sent[-2:] == [b"RDY 10\n", b"FIN %016x\n" % 1]
    assert shell.in_flight == 7
    assert not shell.is_starved


def test_changing_the_bound() -> None:
    shell = Shell("n:1")
    shell.max_in_flight = 5
    shell.wait()
    node = shell.join("n:1")
    shell.max_in_flight = 0
    shell.max_in_flight = 7
    assert node.sent == [b"RDY 5\n", b"RDY 0\n", b"RDY 7\n"]


def test_what_comes_late_goes_back() -> None:
    shell = Shell("n:1")
    shell.wait()
    node = shell.join("n:1")
    shell._closing = True
    shell._take(node, block(b"late"))
    assert node.sent[-1] == b"REQ %016x 0\n" % 1
    assert node.in_flight == 0
    assert shell._deadline is None
    shell._tick()
    shell._lost(node, NotConnected("n:1", "EOF"))
    shell._failed("n:1", NotConnected("n:1", "EOF"))
    assert shell.last_error is None
