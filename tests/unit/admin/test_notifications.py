from __future__ import annotations

import asyncio
import base64
import json
import logging
import os

import pytest

from penstock.admin import notifications
from penstock.admin.notifications import Action, Notifier, described
from penstock.net.http import Request
from penstock.net.http_head import parse_head
from penstock.nsq.http_api import EMPTY, error_response
from penstock.testing import FakeClock

from .conftest import StartFake, hang, until


def request(*headers: str, target: str = "/api/topics") -> Request:
    lines = [f"POST {target} HTTP/1.1", "Host: h:1", *headers]
    head = parse_head("\r\n".join([*lines, "", ""]).encode())
    return Request(head, "", b"", lambda: "127.0.0.1:5")


def test_what_receivers_read() -> None:
    user = base64.b64encode(b"user:pass").decode()
    asked = request(
        f"Authorization: Basic {user}", "User-Agent: ua", "X-Scheme: https",
        target="/api/topics/t%23ephemeral/c?x=1",
    )  # fmt: skip
    found = described(Action("pause_channel", "t#ephemeral", "c"), asked, 7)
    assert list(found.items()) == [
        ("action", "pause_channel"),
        ("topic", "t#ephemeral"),
        ("channel", "c"),
        ("timestamp", 7),
        ("user", "user"),
        ("remote_ip", "127.0.0.1:5"),
        ("user_agent", "ua"),
        ("url", "https://h:1/api/topics/t%23ephemeral/c?x=1"),
        ("via", os.uname().nodename),
    ]


@pytest.mark.parametrize("authorization", ["Basic", "Basic !", "Basic dQ==", "Bearer dTpw", "x"])
def test_no_user(authorization: str) -> None:
    found = described(Action("a", "t", node="n"), request(f"Authorization: {authorization}"), 7)
    assert list(found)[:5] == ["action", "topic", "node", "timestamp", "remote_ip"]
    assert found["user_agent"] == ""


def notifier(endpoint: str) -> Notifier:
    return Notifier(endpoint, 1, 5, FakeClock())


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


async def test_nobody_to_tell() -> None:
    teller = notifier("")
    teller.tell(Action("create_topic", "t"), request())
    await teller.close()
