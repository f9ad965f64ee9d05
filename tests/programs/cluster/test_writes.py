from __future__ import annotations

import pytest

from penstock.cluster.cluster import Addresses
from penstock.cluster.errors import NoAnswerError
from penstock.cluster.writes import Changes
from penstock.net.http.server.api import EMPTY, error_response
from tests.programs.cluster.conftest import Two

PATHS = [f"/{what}/{verb}" for what in ("topic", "channel")
         for verb in ("create", "delete", "pause", "unpause", "empty", "tombstone")]  # fmt: skip


@pytest.fixture(autouse=True)
def _all_do_as_they_are_told(two: Two) -> None:
    for daemon in (two.lookupd, *two.nsqds):
        daemon.answers |= dict.fromkeys(PATHS, EMPTY)


def posts(two: Two) -> list[list[str]]:
    """What nsqlookupd and the nodes were told."""
    return [
        [each.removeprefix("POST ") for each in daemon.asked if each.startswith("POST")]
        for daemon in (two.lookupd, *two.nsqds)
    ]


async def test_create(two: Two) -> None:
    assert await Changes(two.cluster).create("t", "") == []
    assert posts(two) == [["/topic/create?topic=t"], [], []]


async def test_create_with_a_channel(two: Two) -> None:
    assert await Changes(two.cluster).create("t", "c#ephemeral") == []
    channel = "/channel/create?topic=t&channel=c%23ephemeral"
    assert posts(two) == [["/topic/create?topic=t", channel], [channel], [channel]]


async def test_create_without_nsqlookupds(two: Two) -> None:
    """Upstream does nothing, or fails."""
    assert await Changes(two.direct).create("n", "c") == []
    both = ["/topic/create?topic=n", "/channel/create?topic=n&channel=c"]
    assert posts(two) == [[], both, both]


async def test_delete(two: Two) -> None:
    assert await Changes(two.cluster).delete("t") == []
    assert await Changes(two.cluster).delete("t", "c") == []
    both = ["/topic/delete?topic=t", "/channel/delete?topic=t&channel=c"]
    assert posts(two) == [both, both, both]
    assert two.lookupd.asked[0].startswith("GET /lookup")  # before they are gone


@pytest.mark.parametrize("action", ["pause", "unpause", "empty"])
async def test_act(two: Two, action: str) -> None:
    assert await Changes(two.cluster).act(action, "t") == []
    assert await Changes(two.direct).act(action, "t", "c") == []
    both = [f"/topic/{action}?topic=t", f"/channel/{action}?topic=t&channel=c"]
    assert posts(two) == [[], both, both]


async def test_what_some_fail_of(two: Two) -> None:
    two.nsqds[1].answers["/channel/pause"] = error_response(404, "CHANNEL_NOT_FOUND")
    errors = await Changes(two.cluster).act("pause", "t", "c")
    assert errors == ['got response 404 Not Found "{\\"message\\":\\"CHANNEL_NOT_FOUND\\"}"']
    assert len(posts(two)[1]) == 1


async def test_nothing_is_done_when_the_nodes_are_not_known(two: Two) -> None:
    two.lookupd.answers["/lookup"] = error_response(404, "TOPIC_NOT_FOUND")
    for change in (Changes(two.cluster).act("empty", "t"), Changes(two.cluster).delete("t")):
        with pytest.raises(NoAnswerError):
            await change
    assert posts(two) == [[], [], []]


async def test_tombstone(two: Two) -> None:
    node = two.nsqds[1].address
    assert await Changes(two.cluster).tombstone("t", node) == []
    asked = f"/topic/tombstone?topic=t&node={node.replace(':', '%3A')}"
    assert posts(two) == [[asked], [], ["/topic/delete?topic=t"]]


async def test_tombstone_of_a_dead_node(two: Two) -> None:
    with pytest.raises(NoAnswerError, match="failed to query any nsqd: Get"):
        await Changes(two.cluster).tombstone("t", "127.0.0.1:9")
    assert len(posts(two)[0]) == 1  # hidden all the same
    two.cluster.addresses = Addresses(("127.0.0.1:9",), ())
    (error,) = await Changes(two.cluster).tombstone("t", two.nsqds[0].address)
    assert error.startswith('Post "http://127.0.0.1:9/topic/tombstone?topic=t&node=127.0.0.1%3A')
