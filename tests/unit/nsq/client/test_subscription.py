"""What both consumers are made of: when nsqlookupds are asked and nodes are connected to."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.core.chance import SystemChance
from penstock.core.errors import ConfigError
from penstock.core.units import MILLISECOND, SECOND
from penstock.nsq.client.config import Config
from penstock.nsq.client.connect.server_info import ServerInfo
from penstock.nsq.client.consume.discovery import Discovery, checked_url
from penstock.nsq.client.consume.reconnect import START_MIN, TRIES, Reconnect
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
from penstock.testing.clock import FakeClock
from tests.unit.nsq.client.fakes import lookup_answer
from tests.unit.nsq.client.links import FakeLink, block

# --- when nsqlookupds are asked


ONE = "http://one:4161/lookup?topic=t"
TWO = "http://two:4161/lookup?topic=t"


class Asking:
    def __init__(self, *lookupds: str, **options: Any) -> None:
        self.clock = FakeClock(0)
        self.made = Discovery(lookupds, "t", Config(**options), self.clock, SystemChance(1))

    def wait(self) -> float:
        """Until the next round; how long that was, in seconds."""
        assert self.made.due is not None
        waited = self.made.due - self.clock.monotonic_ns()
        self.clock.advance(max(0, waited))
        return waited / SECOND


def test_nobody_to_ask() -> None:
    case = Asking()
    assert case.made.due is None
    case.made.soon()
    assert case.made.due is None
    assert case.made.begin() == []


@pytest.mark.parametrize(("given", "seconds"), [(0.0, 3600.0), (-1.0, 3600.0), (0.5, 0.5)])
def test_no_time_out_is_a_long_one(given: float, seconds: float) -> None:
    assert Asking("one:4161", lookupd_poll_timeout=given).made.timeout_s == seconds


def test_at_once_then_by_chance_then_every_interval() -> None:
    case = Asking("one:4161", "two:4161")
    assert case.wait() == 0
    assert case.made.begin() == [ONE, TWO]
    assert case.made.begin() == []
    for url in (ONE, TWO):
        case.made.answered(url)
    assert 60 <= case.wait() < 60 + 0.3 * 60
    assert case.made.begin() == [ONE, TWO]
    assert case.wait() == 60


def test_consumers_started_together_spread() -> None:
    waits = set()
    for seed in range(5):
        case = Asking("one:4161")
        case.made._chance = SystemChance(seed)
        case.made.begin()
        waits.add(case.wait())
    assert len(waits) == 5


def test_one_that_hangs_holds_up_nobody() -> None:
    case = Asking("one:4161", "two:4161")
    case.made.begin()
    case.made.answered(TWO)
    case.wait()
    assert case.made.begin() == [TWO]
    case.made.answered(ONE)
    case.wait()
    assert case.made.begin() == [ONE]


def test_soon_but_not_all_the_time() -> None:
    case = Asking("one:4161")
    case.made.begin()
    case.made.answered(ONE)
    case.made.soon()
    assert case.wait() == 1
    assert case.made.begin() == [ONE]
    case.made.answered(ONE)
    case.clock.advance(SECOND)
    case.made.soon()
    assert case.wait() == 0


def test_after_a_loss_ever_less_often() -> None:
    case = Asking("one:4161")
    case.made.begin()
    case.made.answered(ONE)
    case.wait()
    case.made.soon()
    waits = []
    for _ in range(9):
        waits.append(case.wait())
        case.made.begin()
        case.made.answered(ONE)
    assert waits == [0, 1, 2, 4, 8, 16, 32, 60, 60]


def test_when_nobody_answers_they_are_asked_before_long() -> None:
    case = Asking("one:4161", "two:4161")
    waits = []
    for _ in range(8):
        case.made.begin()
        case.made.failed(ONE)
        case.made.failed(TWO)
        waits.append(case.wait())
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]


def test_one_answer_is_enough() -> None:
    case = Asking("one:4161", "two:4161")
    case.made.begin()
    case.made.answered(ONE)
    case.made.failed(TWO)
    assert case.wait() >= 60


@pytest.mark.parametrize("address", ["one", "http://one/", "one:many"])
def test_bad_urls(address: str) -> None:
    with pytest.raises(ValueError, match=r"port|Port"):
        checked_url(address, "t")


# --- when to connect to which node


class Still(SystemChance):
    """No jitter."""

    def __init__(self) -> None:
        super().__init__(1)
        self.fraction = lambda: 0.0


def nodes(
    *direct: str, start: float = 1.0, jitter: bool = False, interval: float = 60.0
) -> tuple[Reconnect, FakeClock]:
    clock = FakeClock(0)
    config = Config(lookupd_poll_interval=interval)
    chance = SystemChance(1) if jitter else Still()
    return Reconnect(direct, config, clock, chance, start), clock


def test_each_address_once() -> None:
    made, _ = nodes("a:1", "b:1", "a:1")
    assert made.deadline == 0
    assert made.begin() == ["a:1", "b:1"]
    assert made.begin() == []
    assert made.deadline is None
    assert made.found(["b:1", "c:1", "c:1"]) == ["c:1"]
    assert made.begin() == ["c:1"]
    assert made.is_direct("a:1")
    assert not made.is_direct("c:1")


def test_a_direct_node_is_tried_for_ever_and_ever_less_often() -> None:
    made, clock = nodes("a:1")
    waits = []
    for _ in range(40):
        assert made.begin() == ["a:1"]
        waits.append(made.failed("a:1"))
        assert made.begin() == []
        clock.advance((made.deadline or 0) - clock.monotonic_ns())
    seconds = [(wait or 0) / SECOND for wait in waits]
    assert seconds[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(seconds[8:]) == {60}


def test_a_connection_starts_the_delays_anew() -> None:
    made, clock = nodes("a:1")
    for _ in range(5):
        made.begin()
        made.failed("a:1")
        clock.advance(60 * SECOND)
    assert not made.is_proven("a:1")
    made.begin()
    made.connected("a:1")
    assert made.is_proven("a:1")
    assert made.lost("a:1") == SECOND
    clock.advance(SECOND)
    assert made.begin() == ["a:1"]
    assert made.failed("a:1") == SECOND


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        ({"start": 0.0}, [START_MIN, 2 * START_MIN, 4 * START_MIN]),
        ({"start": -1.0}, [START_MIN, 2 * START_MIN, 4 * START_MIN]),
        ({"start": float("inf")}, [60 * SECOND] * 3),
        ({"interval": 0.01}, [10 * MILLISECOND] * 3),
    ],
    ids=["none", "negative", "endless", "longer-than-the-poll-interval"],
)
def test_the_first_delay_has_bounds(options: dict[str, float], waits: list[int]) -> None:
    made, clock = nodes("a:1", **options)  # type: ignore[arg-type]
    found = []
    for _ in waits:
        made.begin()
        found.append(made.failed("a:1"))
        clock.advance((made.deadline or 0) - clock.monotonic_ns())
    assert found == waits


def test_jitter() -> None:
    made, _ = nodes(*(f"a:{port}" for port in range(50)), jitter=True)
    waits = {made.failed(address) or 0 for address in made.begin()}
    assert len(waits) == 50
    assert 0.7 * SECOND <= min(waits) < max(waits) <= SECOND


def test_a_found_node_whose_connection_ends_is_left_to_nsqlookupd() -> None:
    made, _ = nodes()
    made.found(["a:1"])
    made.begin()
    made.connected("a:1")
    assert made.lost("a:1") is None
    assert made.deadline is None
    assert made.found(["a:1"]) == ["a:1"]


def test_a_found_node_that_is_gone_is_given_up() -> None:
    made, clock = nodes()
    made.found(["a:1"])
    waits = []
    for _ in range(TRIES):
        assert made.begin() == ["a:1"]
        waits.append(made.failed("a:1"))
        clock.advance(60 * SECOND)
    assert waits[-1] is None
    assert None not in waits[:-1]
    assert made.deadline is None
    assert made.found(["a:1"]) == ["a:1"]
    assert made.begin() == ["a:1"]


# --- all of it, with connections that only write down


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

    def _connect_to(self, address: str) -> None: ...

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

    def _connect_to(self, address: str) -> None:
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


def found(*addresses: str) -> bytes:
    return json.dumps(lookup_answer(*addresses)).encode()


@pytest.mark.parametrize(
    ("names", "options", "error", "text"),
    [
        (("no topic", "c"), {}, BadTopic, "no topic"),
        (("t", "no channel"), {}, BadChannel, "no channel"),
        (("t", "c"), {"config": Config(heartbeat_interval=90)}, ConfigError, "HeartbeatInterval"),
        (("t", "c"), {"lookupd_http_addresses": ["nowhere"]}, ValueError, "missing port"),
        (("t", "c"), {"nsqd_tcp_addresses": ["nowhere"]}, ValueError, "port"),
        (("t", "c"), {}, ConfigError, "no address"),
    ],
    ids=["topic", "channel", "config", "lookupd", "nsqd", "nobody"],
)
def test_bad_arguments(
    names: tuple[str, str], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        Bare(*names, **options)


def test_a_shell_has_its_duties() -> None:
    with pytest.raises(TypeError, match=r"'?_ask'?, '?_connect_to'?, '?_soon"):
        Subscription("t", "c", nsqd_tcp_addresses=["n:1"])  # type: ignore[abstract]


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


def test_a_node_that_allows_little_is_told(caplog: pytest.LogCaptureFixture) -> None:
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


def test_what_comes_late_goes_back() -> None:
    shell = Shell("n:1")
    shell.wait()
    node = shell.join("n:1")
    shell._closing = True
    shell._take(node, block(b"late"))
    assert node.sent[-1] == b"REQ %016x 0\n" % 0
    assert node.in_flight == 0
    assert shell._deadline is None
    shell._tick()
    shell._lost(node, NotConnected("n:1", "EOF"))
    shell._failed("n:1", NotConnected("n:1", "EOF"))
    assert shell.last_error is None
