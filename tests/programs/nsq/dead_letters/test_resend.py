"""The channel from which dead letters are sent again, over a real nsqd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from penstock.cluster.asker import Asker
from penstock.cluster.exchange import Timeouts
from penstock.nsq.dead_letters.resend import LetterChannel, Resending
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.testing.daemons import Daemon, run_nsqd
from tests.unit.cli.nodes_at_work import consume, depths, kill_letters

DEAD = "orders.dead"


@pytest.fixture
def nsqd() -> Iterator[Daemon]:
    with run_nsqd() as daemon:
        kill_letters(daemon, "orders", "bill", [b"a", b"b"])
        yield daemon


async def test_the_channel_gets_all_that_the_log_holds(nsqd: Daemon) -> None:
    async with Asker(Timeouts(60, 60), agent="test") as asker:
        channel = LetterChannel(asker, nsqd.http, DEAD)
        async with channel.opened():
            assert depths(nsqd, DEAD) == {CHANNEL: 2}
        resending = Resending()

        async def aim(letters: Sequence[Any]) -> None:
            resending.targets.update((letter.id.decode(), "orders") for letter in letters)

        def goes_on(waits: int) -> bool:
            return resending.result.sent.total() < 2

        async with channel.opened():  # it is there
            await channel.resend(nsqd.tcp, resending, goes_on, in_flight=1, aim=aim)
        assert resending.result.sent == Counter(orders=2)
    assert consume(nsqd, "orders", "bill", 2) == [b"a", b"b"]
