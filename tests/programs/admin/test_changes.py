"""Changes that are asked of nsqadmin, its configuration, and who is told of them.

tests/conformance has what nsqadmin of NSQ does, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator

import pytest

from penstock.admin import notifications
from penstock.admin.notifications import Action, Notifier
from penstock.net.http.server.v1_api import EMPTY, error_response
from penstock.testing import FakeClock
from tests.unit.admin.conftest import UPSTREAM_S, Running, StartAdmin, StartFake, Two, hang, until
from tests.unit.admin.test_changes import request

DONE = (200, '{"message":""}')
FORBIDDEN = (403, '{"message":"FORBIDDEN"}')


@pytest.fixture
async def running(running: Running, two: Two) -> Running:
    """Nodes that do all that they are asked."""
    paths = ("/topic/create", "/topic/delete", "/topic/pause", "/topic/tombstone",
             "/topic/damage/accept", "/channel/create", "/channel/delete",
             "/channel/empty")  # fmt: skip
    for daemon in (two.lookupd, *two.nsqds):
        daemon.answers |= dict.fromkeys(paths, EMPTY)
    return running


def posts(two: Two) -> int:
    asked = (each for daemon in (two.lookupd, *two.nsqds) for each in daemon.asked)
    return sum(each.startswith("POST") for each in asked)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/topics", {"topic": "t"}),
        ("POST", "/api/topics/t", {"action": "pause"}),
        ("POST", "/api/topics/t", {"action": "accept_damage"}),
        ("POST", "/api/topics/t/c", {"action": "empty"}),
        ("DELETE", "/api/topics/t", b""),
        ("DELETE", "/api/topics/t/c", b""),
        ("DELETE", "/api/nodes/{node}", {"topic": "t"}),
    ],
)
async def test_administrators_may_and_others_not(
    running: Running, two: Two, method: str, path: str, body: object
) -> None:
    path = path.format(node=two.nsqds[0].address)
    for headers in ({}, {"X_Forwarded_User": "eve"}):
        assert await running.ask(method, path, body, **headers) == FORBIDDEN
    assert posts(two) == 0
    assert await running.ask(method, path, body, X_Forwarded_User="alice") == DONE
    assert posts(two) > 0


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/api/topics", {"topic": "a b"}, 400, "INVALID_TOPIC"),
        ("POST", "/api/topics/t/c", {"action": "accept_damage"}, 400, "INVALID_ACTION"),
        ("DELETE", "/api/nodes/n:1", {"topic": "!"}, 400, "INVALID_TOPIC"),
        ("POST", "/api/topics", b"x" * (2 << 20), 413, ""),
    ],
)
async def test_what_is_refused_changes_nothing(
    running: Running, two: Two, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = await running.ask(method, path, body, X_Forwarded_User="alice")
    assert (answer[0], code in answer[1]) == (status, True)
    assert posts(two) == 0


async def test_damage_is_accepted_where_there_is_some(running: Running, two: Two) -> None:
    two.nsqds[0].answers["/topic/damage/accept"] = error_response(404, "NOT_FOUND")  # one of Go's
    body = {"action": "accept_damage"}
    assert await running.ask("POST", "/api/topics/t", body, X_Forwarded_User="alice") == DONE
    assert "POST /topic/damage/accept?topic=t" in two.nsqds[1].asked
    two.nsqds[1].answers["/topic/damage/accept"] = error_response(500, "INTERNAL_ERROR")
    _, answer = await running.ask("POST", "/api/topics/t", body, X_Forwarded_User="alice")
    assert "INTERNAL_ERROR" in answer


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("t/~.", "topic=t&channel=."), ("~./t", "topic=.&channel=t"), ("~..", "topic=.."),
        ("~../~.", "topic=..&channel=."), ("~...", "topic=~..."),
    ],
)  # fmt: skip
async def test_names_that_no_path_can_have(
    running: Running, two: Two, path: str, query: str
) -> None:
    assert await running.ask("DELETE", f"/api/topics/{path}", X_Forwarded_User="alice") == DONE
    what = "channel" if "channel" in query else "topic"
    assert two.lookupd.asked[-1] == f"POST /{what}/delete?{query}"


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    log = logging.getLogger("penstock")
    before = log.level
    yield
    log.setLevel(before)


@pytest.mark.parametrize("option", ["config", "LOG_LEVEL"])
async def test_options_that_are_none(running: Running, option: str) -> None:
    invalid = (400, '{"message":"INVALID_OPTION"}')
    assert await running.ask("GET", f"/config/{option}") == invalid
    assert await running.ask("PUT", f"/config/{option}", b"x") == invalid


async def test_changes_of_the_configuration_have_an_effect(running: Running, two: Two) -> None:
    assert await running.ask("PUT", "/config/log_level", b"WARN") == (200, "3")
    assert logging.getLogger("penstock").level == logging.WARNING
    invalid = (400, '{"message":"INVALID_VALUE"}')
    assert await running.ask("PUT", "/config/log_level", b"\xff") == invalid
    path = "/config/nsqlookupd_http_addresses"
    assert (await running.ask("PUT", path, ["127.0.0.1:9"]))[0] == 200
    assert (await running.ask("GET", "/api/topics"))[0] == 502
    assert (await running.ask("PUT", path, [two.lookupd.address]))[0] == 200
    assert (await running.get("/api/topics"))["topics"] == ["t"]
    for body in (b"[1]", b"{}", b"[" * 100_000):
        assert (await running.ask("PUT", path, body))[0] == 400


async def test_secrets_of_rocketmq_are_shown_to_nobody(admin: StartAdmin) -> None:
    secret = ("access_key,me", "secret_key,s3cret")
    configured = await admin(
        rocketmq_namesrv_addresses=("127.0.0.1:1",), rocketmq_client_opts=secret
    )
    status, text = await configured.ask("GET", "/config/rocketmq_client_opts")
    assert (status, "s3cret" in text) == (400, False)
    assert await configured.get("/config/rocketmq_namesrv_addresses") == ["127.0.0.1:1"]


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
