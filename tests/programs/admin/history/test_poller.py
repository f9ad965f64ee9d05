from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock.admin.history.history import History
from penstock.admin.history.poller import Poller
from penstock.admin.history.row_numbers import Key
from penstock.cluster.cluster import Addresses
from penstock.core.clock import SYSTEM_CLOCK
from penstock.net.http.server.api import plain_response
from tests.unit.admin.conftest import Two, until


class Told:
    """A poller over the two nodes, and what it told."""

    def __init__(self, two: Two, interval: float = 1000.0) -> None:
        self.times: list[float] = []
        self.messages: list[str] = []
        self.looks: list[tuple[float, list[str]]] = []
        self.history = History(10)
        self.poller = Poller(
            two.cluster, self.history, interval, SYSTEM_CLOCK, self.refreshed, self.beside
        )

    async def beside(self, time: float, addresses: Iterable[str]) -> None:
        self.looks.append((time, list(addresses)))

    def refreshed(self, time: float, message: str) -> None:
        self.times.append(time)
        self.messages.append(message)


async def test_a_look_at_all_nodes(two: Two) -> None:
    told = Told(two)
    assert await told.poller.refresh() == ""
    series = told.history.series(Key("t", "c"))
    assert series is not None
    assert series.values[0] == [8]
    assert series.times == told.times
    assert told.looks == [(told.times[0], [each.address for each in two.nsqds])]
    assert two.nsqds[0].asked == [
        "GET /stats?format=json&include_clients=false&include_mem=false&packed=true"
    ]


async def test_a_node_that_answers_nonsense(two: Two) -> None:
    told = Told(two)
    two.nsqds[0].answers["/stats"] = plain_response("oops")
    message = await told.poller.refresh()
    assert message.startswith("WARNING: Get ")
    assert told.messages == [message]
    series = told.history.series(Key("t", "c"))
    assert series is not None
    assert series.values[0] == [3]


async def test_a_cluster_that_cannot_be_asked(two: Two) -> None:
    told = Told(two)
    two.cluster.addresses = Addresses(("127.0.0.1:9",), ())
    message = await told.poller.refresh()
    assert message.startswith("UPSTREAM_ERROR: failed to query any nsqlookupd")
    assert told.history.series(Key("t")) is None


async def test_again_and_again(two: Two, caplog: pytest.LogCaptureFixture) -> None:
    told = Told(two, interval=0.01)
    two.cluster.addresses = Addresses((two.lookupd.address, "127.0.0.1:9"), ())
    told.poller.start()
    await until(lambda: len(told.messages) >= 3)
    two.cluster.addresses = Addresses((two.lookupd.address,), ())
    await until(lambda: told.messages[-1] == "")
    await told.poller.close()
    assert caplog.text.count("history: WARNING: Get") == 1  # not with every refresh
    seen = len(told.messages)
    await told.poller.close()
    assert len(told.messages) == seen


async def test_a_mistake_of_ours_costs_one_look(
    two: Two, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, looks = Told(two, interval=0.01), 0
    take = told.history.take

    def stumble(*args: Any) -> None:
        nonlocal looks
        looks += 1
        if looks <= 3:
            raise ZeroDivisionError("by nothing")
        take(*args)

    monkeypatch.setattr(told.history, "take", stumble)
    told.poller.start()
    await until(lambda: bool(told.messages))
    await told.poller.close()
    assert caplog.text.count("history: no figures this time: ZeroDivisionError: by nothing") == 1
    assert "history: all nodes answer again" in caplog.text
    assert "Traceback" not in caplog.text
