"""Changes that were answered 200 survive SIGKILL; those that cannot be written are answered 500."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest

from penstock.testing.daemons import Daemon, run_nsqd
from tests.programs.nsq.nsqd.conftest import TIMEOUT_S, Start, faulty_disk

Stats = dict[str, dict[str, Any]]
"""The figures of /stats: of topics by name, and of channels by `topic/channel`."""


def call(daemon: Daemon, path: str, method: str = "POST", body: bytes = b"") -> bytes:
    """The body of the answer, which must be 200."""
    request = Request(f"http://{daemon.http}{path}", body if method == "POST" else None)
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        assert answer.status == 200
        content: bytes = answer.read()
    return content


def stats(daemon: Daemon) -> Stats:
    found: Stats = {}
    for topic in json.loads(call(daemon, "/stats?format=json", "GET"))["topics"]:
        found[topic["topic_name"]] = topic
        for channel in topic["channels"]:
            found[f"{topic['topic_name']}/{channel['channel_name']}"] = channel
    return found


def of(topic: str, channel: str = "c") -> str:
    return f"?topic={topic}&channel={channel}"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Topics a to h with a channel c and 3 messages, deferred in h; topic i without a channel."""
    with run_nsqd() as started:
        for name in "abcdefgh":
            call(started, f"/topic/create?topic={name}")
            call(started, f"/channel/create{of(name)}")
            later = "&defer=3600000" if name == "h" else ""
            call(started, f"/mpub?topic={name}{later}", body=b"1\n2\n3")
        call(started, "/mpub?topic=i", body=b"1\n2\n3")
        yield started


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        (f"/channel/empty{of('a')}", "a/c", {"depth": 0}),
        (f"/channel/delete{of('b')}", "b/c", None),
        ("/topic/delete?topic=c", "c", None),
        ("/topic/pause?topic=d", "d", {"paused": True}),
        ("/topic/unpause?topic=d", "d", {"paused": False}),
        (f"/channel/pause{of('e')}", "e/c", {"paused": True}),
        (f"/channel/unpause{of('e')}", "e/c", {"paused": False}),
        (f"/channel/seek{of('f')}&from=latest", "f/c", {"depth": 0}),
        (f"/channel/create{of('g', 'new')}", "g/new", {"depth": 0}),
        (f"/channel/create{of('g', 'whole')}&from=oldest", "g/whole", {"depth": 3}),
        (f"/channel/deferred/release{of('h')}&all=true", "h/c", {"deferred_count": 0, "depth": 3}),
        ("/topic/empty?topic=i", "i", {"depth": 0}),
        ("/topic/create?topic=new", "new", {"depth": 0}),
    ],
)
def test_what_was_answered_is_so_after_a_kill(
    daemon: Daemon, path: str, name: str, expected: dict[str, Any] | None
) -> None:
    call(daemon, path)
    daemon.kill()
    daemon.start()
    found = stats(daemon).get(name)
    if found is None or expected is None:
        assert found == expected
    else:
        assert {key: found[key] for key in expected} == expected


def test_what_was_cancelled_is_so_after_a_kill(daemon: Daemon) -> None:
    call(daemon, "/topic/create?topic=j")
    call(daemon, f"/channel/create{of('j')}")
    call(daemon, "/mpub?topic=j&defer=3600000", body=b"1\n2\n3")
    call(daemon, f"/channel/deferred/cancel{of('j')}&all=true")
    daemon.kill()
    daemon.start()
    channel = stats(daemon)["j/c"]
    assert (channel["depth"], channel["deferred_count"]) == (0, 0)


def test_what_was_set_is_so_after_a_kill(daemon: Daemon) -> None:
    for path, body in (
        ("/topic/config?topic=a", {"max_depth": 7}),
        (f"/channel/config{of('a')}", {"max_attempts": 7}),
    ):
        call(daemon, path, body=json.dumps(body).encode())
        daemon.kill()
        daemon.start()
        found = json.loads(call(daemon, path, "GET"))["set"]
        assert {key: found[key] for key in body} == body


@pytest.mark.parametrize(
    ("path", "within"),
    [
        (f"/channel/empty{of('t')}", "journal"),
        (f"/channel/delete{of('t')}", "journal"),
        (f"/channel/delete{of('t')}", "nsqd.dat"),
        (f"/channel/create{of('t', 'new')}", "journal"),
        (f"/channel/seek{of('t')}&from=latest", "journal"),
        ("/topic/empty?topic=u", "journal"),
        ("/topic/delete?topic=t", "nsqd.dat"),
        ("/topic/pause?topic=t", "journal"),
        ("/log/commit?topic=t&group=g", "journal"),
    ],
)
async def test_what_cannot_be_written_is_no_success(
    start: Start, monkeypatch: pytest.MonkeyPatch, path: str, within: str
) -> None:
    disk = faulty_disk(monkeypatch)
    nsqd = await start(data_path="/data")
    await nsqd.publish("t", b"x")
    await nsqd.publish("u", b"x")
    await nsqd.post(f"/channel/create{of('t')}")
    for operation in ("append", "replace"):
        disk.fail(operation, times=-1, within=within)
    assert await nsqd.post(path) == (500, b'{"message":"INTERNAL_ERROR"}')
    disk.heal()
