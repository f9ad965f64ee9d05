from __future__ import annotations

import base64
import os

import pytest

from penstock.admin.notifications import Action, Notifier, described
from penstock.net.http.server.service import Request
from penstock.testing import FakeClock
from tests.http_heads import parse_head

from .conftest import UPSTREAM_S


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
    return Notifier(endpoint, UPSTREAM_S, UPSTREAM_S, FakeClock())


async def test_nobody_to_tell() -> None:
    teller = notifier("")
    teller.tell(Action("create_topic", "t"), request())
    await teller.close()
