"""Notifications go one after another, within bounds, and an endpoint that is out holds nothing up."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from penstock.admin import notifications
from penstock.admin.notifications import Action, Notifier
from penstock.net.http.server.api import EMPTY, error_response
from penstock.testing import FakeClock
from tests.unit.admin.conftest import UPSTREAM_S, StartFake, hang, until
from tests.unit.admin.test_changes import request


@pytest.fixture(autouse=True)
def _last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits at the end is told, however long that takes on a busy machine."""
    monkeypatch.setattr(notifications, "LAST_WORDS_S", UPSTREAM_S)


def notifier(endpoint: str) -> Notifier:
    return Notifier(endpoint, UPSTREAM_S, UPSTREAM_S, FakeClock())


async def test_nobody_to_tell() -> None:
    teller = notifier("")
    teller.tell(Action("create_topic", "t"), request())
    await teller.close()


async def test_one_after_another(fake: StartFake) -> None:
    daemon = await fake()
    daemon.answers["/n"] = EMPTY
    teller = notifier(f"http://{daemon.address}/n")
    for number in range(5):
        teller.tell(Action("create_topic", f"t{number}"), request())
    await teller.close()  # tells what waits
    told = [json.loads(body)["topic"] for body in daemon.bodies]
    assert told == [f"t{number}" for number in range(5)]


async def test_an_endpoint_that_is_not_there(
    fake: StartFake, caplog: pytest.LogCaptureFixture
) -> None:
    daemon = await fake()
    daemon.answers["/n"] = error_response(500, "NO")
    for endpoint in (f"http://{daemon.address}/n", "http://127.0.0.1:9/", "nonsense"):
        with caplog.at_level(logging.ERROR):
            caplog.clear()
            teller = notifier(endpoint)
            teller.tell(Action("create_topic", "t"), request())
            await until(lambda: "failed to POST notification" in caplog.text)
            teller.tell(Action("create_topic", "t"), request())
            await teller.close()
            assert caplog.text.count("failed to POST") == 2


async def test_a_slow_endpoint_holds_a_bounded_number(
    fake: StartFake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(notifications, "WAITING_MAX", 3)
    monkeypatch.setattr(notifications, "LAST_WORDS_S", 0.01)
    daemon = await fake()
    daemon.answers["/n"] = hang()
    teller = notifier(f"http://{daemon.address}/n")
    teller.tell(Action("create_topic", "t"), request())
    await until(lambda: len(daemon.asked) == 1)
    for _ in range(5):
        teller.tell(Action("create_topic", "t"), request())
    assert caplog.text.count("dropped a notification") == 2
    await asyncio.wait_for(teller.close(), 30)
    assert "3 notifications are lost" in caplog.text
