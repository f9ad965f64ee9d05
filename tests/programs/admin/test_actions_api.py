from __future__ import annotations

import pytest

from penstock.net.http.server.api import EMPTY, error_response
from tests.unit.admin.conftest import Running, StartAdmin, Two

DONE = (200, '{"message":""}')
FORBIDDEN = (403, '{"message":"FORBIDDEN"}')
CHANGES = [
    ("POST", "/api/topics", {"topic": "t"}),
    ("POST", "/api/topics/t", {"action": "pause"}),
    ("POST", "/api/topics/t", {"action": "accept_damage"}),
    ("POST", "/api/topics/t/c", {"action": "empty"}),
    ("DELETE", "/api/topics/t", b""),
    ("DELETE", "/api/topics/t/c", b""),
    ("DELETE", "/api/nodes/{node}", {"topic": "t"}),
]


@pytest.fixture
async def running(two: Two, admin: StartAdmin) -> Running:
    paths = ("/topic/create", "/topic/delete", "/topic/pause", "/topic/tombstone",
             "/topic/damage/accept", "/channel/create", "/channel/delete",
             "/channel/empty")  # fmt: skip
    for daemon in (two.lookupd, *two.nsqds):
        daemon.answers |= dict.fromkeys(paths, EMPTY)
    return await admin(lookupd_http_addresses=(two.lookupd.address,), admin_users=("alice",))


def posts(two: Two) -> int:
    asked = (each for daemon in (two.lookupd, *two.nsqds) for each in daemon.asked)
    return sum(each.startswith("POST") for each in asked)


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
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
    ("method", "path", "body", "code"),
    [
        ("POST", "/api/topics", b"", "EOF"),
        ("POST", "/api/topics", {}, "INVALID_TOPIC"),
        ("POST", "/api/topics", {"topic": "a b"}, "INVALID_TOPIC"),
        ("POST", "/api/topics", {"topic": "t", "channel": "!"}, "INVALID_CHANNEL"),
        ("POST", "/api/topics/t", {"action": "Pause"}, "INVALID_ACTION"),
        ("POST", "/api/topics/t/c", {"action": ""}, "INVALID_ACTION"),
        ("POST", "/api/topics/t/c", {"action": "accept_damage"}, "INVALID_ACTION"),
        ("POST", "/api/topics/t/c", b"{", "unexpected EOF"),
        ("DELETE", "/api/nodes/n:1", b"x", "INVALID_BODY"),
        ("DELETE", "/api/nodes/n:1", {"topic": "!"}, "INVALID_TOPIC"),
    ],
)
async def test_refused(
    running: Running, two: Two, method: str, path: str, body: object, code: str
) -> None:
    answer = await running.ask(method, path, body, X_Forwarded_User="alice")
    assert answer == (400, f'{{"message":"{code}"}}')
    assert posts(two) == 0


async def test_a_body_that_is_too_large(running: Running) -> None:
    status, _ = await running.ask("POST", "/api/topics", b"x" * (2 << 20), X_Forwarded_User="alice")
    assert status == 413


async def test_what_some_fail_of_is_a_warning(running: Running, two: Two) -> None:
    two.nsqds[0].answers["/topic/pause"] = error_response(404, "TOPIC_NOT_FOUND")
    status, body = await running.ask(
        "POST", "/api/topics/t", {"action": "pause"}, X_Forwarded_User="alice"
    )
    assert status == 200
    assert body.startswith('{"message":"WARNING: got response 404 Not Found')


async def test_nobody_knows_the_topic(running: Running, two: Two) -> None:
    two.lookupd.answers["/lookup"] = error_response(404, "TOPIC_NOT_FOUND")
    status, body = await running.ask("DELETE", "/api/topics/u", X_Forwarded_User="alice")
    assert status == 502
    assert "UPSTREAM_ERROR: failed to query any nsqlookupd: got response 404" in body
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
