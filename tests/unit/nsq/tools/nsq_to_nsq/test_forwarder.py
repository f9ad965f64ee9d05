from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence

import pytest

from penstock.nsq.client import Delivery
from penstock.nsq.client.errors import (
    BadBody,
    BadMessage,
    ClientError,
    NotConnected,
    Unauthorized,
)
from penstock.nsq.tools.nsq_to_nsq import forwarder
from penstock.nsq.tools.nsq_to_nsq.forwarder import Forwarder, Picked, Run
from penstock.nsq.tools.nsq_to_nsq.json_filter import JsonFilter

from .fakes import FakeLink, delivery

BODIES = [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("is_picked", [False, True])
def test_shares_are_answered_by_themselves(is_picked: bool) -> None:
    whole, link = delivery(*BODIES)
    run = Run(Picked(list(whole.messages())) if is_picked else whole, BODIES)
    shares = list(run.shares(3))
    assert [list(share.bodies) for share in shares] == [BODIES[:2], BODIES[2:4], BODIES[4:]]
    assert [share.first_id for share in shares] == [f"{number:016d}" for number in (0, 2, 4)]
    shares[1].messages.finish()
    shares[2].messages.requeue()
    assert (link.finished(), link.requeued()) == ([2, 3], [4, 5, 6])
    assert link.in_flight == 2


def test_one_share_is_the_run_itself() -> None:
    whole, link = delivery(*BODIES)
    (share,) = Run(whole, BODIES).shares(1)
    assert share.messages is whole
    share.messages.finish()
    assert link.finished() == list(range(7))


def test_fewer_messages_than_shares() -> None:
    whole, _ = delivery(b"a", b"b")
    assert [list(share.bodies) for share in Run(whole, [b"a", b"b"]).shares(5)] == [[b"a"], [b"b"]]


def test_halves() -> None:
    whole, _ = delivery(*BODIES)
    left, right = Run(whole, BODIES).halves()
    assert (len(left), len(right)) == (3, 4)
    assert [*left.bodies, *right.bodies] == BODIES


def test_no_share_is_too_much_for_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarder, "BYTES_MAX", 10)
    bodies = [b"x" * size for size in (1, 1, 9, 20, 3, 3, 3)]
    whole, link = delivery(*bodies)
    shares = list(Run(whole, bodies).shares(1))
    assert [body for share in shares for body in share.bodies] == bodies
    assert all(len(share) == 1 or sum(map(len, share.bodies)) <= 10 for share in shares)
    for share in shares:
        share.messages.finish()
    assert link.finished() == list(range(7))


class FakeDestinations:
    """Takes everything but what is too big, and fails with `error` if there is one."""

    shares = 1

    def __init__(self) -> None:
        self.commands: list[list[bytes]] = []
        self.taken: list[bytes] = []
        self.error: ClientError | None = None

    async def publish(self, topic: str, bodies: Sequence[bytes]) -> None:
        assert topic == "to"
        self.commands.append(list(bodies))
        if self.error is not None:
            raise self.error
        if any(len(body) > 10 for body in bodies):
            kind = BadMessage if len(bodies) == 1 else BadBody
            raise kind("E_BAD_BODY too big" if kind is BadBody else "E_BAD_MESSAGE too big")
        self.taken += bodies


class FakeConsumer:
    topic, channel = "from", "c"

    def __init__(self, *deliveries: Delivery) -> None:
        self._deliveries = deliveries

    async def deliveries(self) -> AsyncIterator[Delivery]:
        for each in self._deliveries:
            yield each


async def forward(
    destinations: FakeDestinations, *bodies: bytes, json_filter: JsonFilter | None = None
) -> FakeLink:
    whole, link = delivery(*bodies)
    at_work = Forwarder(
        FakeConsumer(whole),  # type: ignore[arg-type]
        "to",
        destinations,  # type: ignore[arg-type]
        json_filter or JsonFilter(),
    )
    await at_work.run()
    return link


async def test_a_delivery_is_one_command() -> None:
    destinations = FakeDestinations()
    link = await forward(destinations, b"a", b"b", b"c")
    assert destinations.commands == [[b"a", b"b", b"c"]]
    assert (link.finished(), link.requeued(), link.in_flight) == ([0, 1, 2], [], 0)


async def test_it_is_shared_among_destinations() -> None:
    destinations = FakeDestinations()
    destinations.shares = 2
    link = await forward(destinations, b"a", b"b", b"c")
    assert destinations.commands == [[b"a"], [b"b", b"c"]]
    assert sorted(link.finished()) == [0, 1, 2]


async def test_one_that_is_refused_is_left_over_alone(caplog: pytest.LogCaptureFixture) -> None:
    destinations = FakeDestinations()
    bodies = [b"%d" % number for number in range(100)]
    bodies[37] = b"x" * 11
    link = await forward(destinations, *bodies)
    assert sorted(destinations.taken) == sorted(body for body in bodies if len(body) < 11)
    assert link.requeued() == [37]
    assert sorted([*link.finished(), 37]) == list(range(100))
    assert len(destinations.commands) <= 16
    text = "[from/c] Handler returned error (E_BAD_MESSAGE too big) for msg 0000000000000037"
    assert [record.getMessage() for record in caplog.records] == [text]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (NotConnected("h:1", "dial tcp h:1: connect: connection refused"), "dial tcp h:1: connect"),
        (NotConnected("h:1", "the connection ended"), "h:1: the connection ended"),
        (Unauthorized("E_UNAUTHORIZED no"), "E_UNAUTHORIZED no"),
    ],
)
async def test_a_failure_requeues_all_and_is_told_once(
    error: ClientError, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    destinations = FakeDestinations()
    destinations.error = error
    link = await forward(destinations, b"a", b"b", b"c")
    assert (link.finished(), link.requeued()) == ([], [0, 1, 2])
    assert len(destinations.commands) == 1
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"[from/c] Handler returned error ({shown}")
    assert record.getMessage().endswith(") for msg 0000000000000000 and 2 more")


async def test_filtering(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    destinations = FakeDestinations()
    bodies = [b'{"a":1}', b"no json", b'{"b":2}', b'{"a":2}', b'{"a":1.0}']
    link = await forward(destinations, *bodies, json_filter=JsonFilter("a", "1"))
    assert destinations.commands == [[b'{"a":1}', b'{"a":1.0}']]
    assert sorted(link.finished()) == [0, 1, 3, 4]
    assert link.requeued() == [2]
    said = [line.split(" ", 2)[2] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "ERROR: Unable to decode json: no json",
        "ERROR: missing field to check required value",
    ]
    (record,) = caplog.records
    text = "[from/c] Handler returned error (backoff) for msg 0000000000000002"
    assert record.getMessage() == text


async def test_nothing_passes() -> None:
    destinations = FakeDestinations()
    link = await forward(destinations, b"null", b"{}", json_filter=JsonFilter("a"))
    assert destinations.commands == []
    assert link.finished() == [0, 1]
