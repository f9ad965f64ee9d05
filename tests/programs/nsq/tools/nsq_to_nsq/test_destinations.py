from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from penstock.nsq.client import Config
from penstock.nsq.client.errors import BadMessage, ClientError, Unauthorized
from penstock.nsq.tools.nsq_to_nsq.destinations import Destinations
from penstock.testing.daemons import Daemon, run_nsqd
from tests.forwarding import bodies_in, channel, create

CONFIG = Config()
DEAD = "127.0.0.1:1"


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    with run_nsqd("--max-msg-size=100") as daemon:
        yield daemon


class Making:
    """Makes destinations, and closes them at the end."""

    def __init__(self) -> None:
        self.made: list[Destinations] = []

    def __call__(
        self, *addresses: str, mode: str = "hostpool", status_every: int = 0
    ) -> Destinations:
        self.made.append(
            Destinations(addresses, CONFIG, mode=mode, status_every=status_every, max_pending=100)
        )
        return self.made[-1]


@pytest.fixture
async def make() -> AsyncIterator[Making]:
    making = Making()
    yield making
    for each in making.made:
        await each.close()


async def test_messages_arrive(nsqd: Daemon, make: Making) -> None:
    create(nsqd, "arrive", "c")
    destinations = make(nsqd.tcp)
    await destinations.publish("arrive", [b"a", b"b"])
    await destinations.publish("arrive", [b"c"])
    assert bodies_in(nsqd, "arrive", "c", 3) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(("mode", "fails"), [("hostpool", [0]), ("round-robin", [1, 3])])
async def test_a_dead_address(nsqd: Daemon, make: Making, mode: str, fails: list[int]) -> None:
    destinations = make(DEAD, nsqd.tcp, mode=mode)
    failed = []
    for number in range(4):
        try:
            await destinations.publish("t", [b"x"])
        except ClientError:
            failed.append(number)
    assert failed == fails


async def test_a_message_that_is_too_big_is_no_fault_of_the_address(
    nsqd: Daemon, make: Making
) -> None:
    create(nsqd, "big", "c")
    destinations = make(nsqd.tcp, DEAD)
    with pytest.raises(BadMessage):
        await destinations.publish("big", [b"a", b"x" * 101])
    with pytest.raises(ClientError):
        await destinations.publish("big", [b"b"])  # to the dead one
    for _ in range(3):
        await destinations.publish("big", [b"c"])
    assert channel(nsqd, "big", "c")["message_count"] == 3


def test_shares(nsqd: Daemon) -> None:
    for mode, shares in (("hostpool", 2), ("round-robin", 2), ("epsilon-greedy", 1)):
        destinations = Destinations(
            [nsqd.tcp, DEAD, nsqd.tcp], CONFIG, mode=mode, status_every=0, max_pending=1
        )
        assert destinations.shares == shares


async def test_status_lines(nsqd: Daemon, make: Making, capsys: pytest.CaptureFixture[str]) -> None:
    destinations = make(nsqd.tcp, nsqd.tcp.replace("127.0.0.1", "localhost"), status_every=100)
    for _ in range(2):
        await destinations.publish("t", [b"x"] * 101)
    said = capsys.readouterr().err
    assert said.count("[aggregate]: finished 100 - 99th: ") == 2
    assert said.count(f"[{nsqd.tcp}]: finished 100 - 99th: ") == 1


async def test_refusals_count_for_status_lines_but_lost_connections_do_not(
    nsqd: Daemon, make: Making, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    destinations = make(DEAD, status_every=1)
    with pytest.raises(ClientError):
        await destinations.publish("t", [b"x"] * 3)
    assert "finished" not in capsys.readouterr().err

    async def refuse(*_: object) -> None:
        raise Unauthorized("E_UNAUTHORIZED no")

    monkeypatch.setattr("penstock.nsq.client.Producer.multi_publish", refuse)
    with pytest.raises(Unauthorized):
        await destinations.publish("t", [b"x"] * 3)
    assert capsys.readouterr().err.count("finished 1 ") == 2
