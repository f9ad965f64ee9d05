"""A whole cluster: what its nodes tell, and what they are told to do."""

from __future__ import annotations

import pytest

from penstock.cluster.cluster import Addresses
from penstock.cluster.fanout import Strict, Warnings
from penstock.cluster.producers import Producer
from penstock.cluster.stats import channels_named, whole_channel
from penstock.cluster.upstream_errors import NoAnswerError
from penstock.cluster.writes import Changes
from penstock.net.http.server.v1_api import EMPTY, error_response
from tests.programs.cluster.conftest import Two, channel, topic

DEAD = "127.0.0.1:9"
NSQD = "/stats?format=json"


async def test_topics(two: Two) -> None:
    warnings = Warnings()
    assert await two.cluster.topics(warnings) == ["t"]
    two.nsqds[1].answers["/stats"] = {"topics": [topic("a"), topic("t")]}
    assert await two.direct.topics(warnings) == ["a", "t"]
    assert warnings.errors == []
    assert two.nsqds[1].asked == [f"GET {NSQD}"]


async def test_one_nsqlookupd_of_two_is_dead(two: Two) -> None:
    warnings = Warnings()
    two.cluster.addresses = Addresses((DEAD, two.lookupd.address), ())
    assert await two.cluster.topics(warnings) == ["t"]
    assert warnings.message.startswith(f'WARNING: Get "http://{DEAD}/topics": dial tcp')


async def test_inactive_topics(two: Two) -> None:
    two.lookupd.answers |= {
        "/lookup?topic=lone": {"producers": []},
        "/lookup?topic=bare": {"producers": []},
        "/channels?topic=bare": {"channels": []},
    }
    warnings = Warnings()
    found = await two.cluster.inactive_topics(["t", "lone", "bare"], warnings)
    assert found == {"lone": ["c"], "bare": None}
    assert await two.direct.inactive_topics(["t"], warnings) == {}
    assert warnings.errors == []


async def test_a_topic_nobody_tells_about_is_not_called_inactive(two: Two) -> None:
    """Upstream calls it so, and offers to delete it."""
    two.lookupd.answers["/lookup?topic=u"] = error_response(500, "INTERNAL_ERROR")
    warnings = Warnings()
    assert await two.cluster.inactive_topics(["t", "u"], warnings) == {}
    assert "500 Internal Server Error" in warnings.message


async def test_nodes(two: Two) -> None:
    warnings = Warnings()
    by_lookup = await two.cluster.producers(warnings)
    assert [each.hostname for each in by_lookup] == ["a", "b"]
    assert by_lookup[0].remote_addresses == [f"{two.lookupd.address}/127.0.0.1:9"]
    direct = await two.direct.producers(warnings)
    assert {each.http_address for each in direct} == {each.address for each in two.nsqds}
    assert direct[0].remote_addresses is None
    assert [each.topic for each in direct[0].topics or ()] == ["t"]
    assert two.nsqds[0].asked == ["GET /info", f"GET {NSQD}&include_clients=false"]


async def test_an_old_node_may_be_asked_at_a_url(two: Two) -> None:
    address = two.nsqds[0].address
    two.nsqds[0].answers["/info"] = {"version": "0.2.16"}
    for asked in (f"http://{address}", f"user:password@{address}", f"http://user@{address}/nsqd"):
        two.nsqds[0].answers["/nsqd/info"] = two.nsqds[0].answers["/info"]
        two.direct.addresses = Addresses((), (asked,))
        (found,) = await two.direct.producers(Warnings(), with_topics=False)
        assert (found.http_address, found.hostname) == (address, "127.0.0.1")


async def test_an_old_node_is_where_it_was_asked(two: Two) -> None:
    two.nsqds[0].answers["/info"] = {"version": "0.2.30"}
    (found, _) = await two.direct.topic_producers("t", Warnings())
    assert found.http_address == two.nsqds[0].address
    assert found.hostname == "127.0.0.1"


async def test_nodes_of_a_topic(two: Two) -> None:
    warnings = Warnings()
    assert len(await two.cluster.topic_producers("t", warnings)) == 2
    two.nsqds[0].answers["/stats"] = {"topics": None}
    (found,) = await two.direct.topic_producers("t", warnings)
    assert found.http_address == two.nsqds[1].address
    assert two.nsqds[0].asked == [f"GET {NSQD}&topic=t&include_clients=false"]


async def test_stats(two: Two) -> None:
    warnings = Warnings()
    producers = await two.cluster.producers(warnings)
    found = await two.cluster.stats(producers, warnings, "t", "c#ephemeral", clients=True)
    assert [(each.hostname, each.message_count) for each in found] == [("a", 5), ("b", 3)]
    assert two.nsqds[0].asked == [f"GET {NSQD}&topic=t&channel=c%23ephemeral"]


async def test_figures_of_a_channel_are_summed(two: Two) -> None:
    producers = await two.cluster.topic_producers("t", Strict())
    stats = await two.cluster.stats(producers, Strict(), "t", "c", clients=False)
    whole = whole_channel("c", channels_named("c", stats))
    assert (whole.depth, whole.memory_depth, whole.message_count) == (8, 6, 8)
    assert channels_named("other", stats) == []


async def test_one_of_two_nodes_does_not_answer(two: Two) -> None:
    producers = [*await two.cluster.topic_producers("t", Strict()), Producer(
        broadcast_address="127.0.0.1", http_port=9)]  # fmt: skip
    warnings = Warnings()
    assert len(await two.cluster.stats(producers, warnings, "t", "c", clients=False)) == 2
    (said,) = warnings.errors
    assert said.endswith("dial tcp 127.0.0.1:9: connect: connection refused")
    with pytest.raises(NoAnswerError, match=r"^Get .*: connection refused$"):
        await two.cluster.stats(producers, Strict(), "t", "c", clients=False)


async def test_a_node_with_other_data(two: Two) -> None:
    """An nsqd without latencies, fields of a later version, null for lists."""
    two.nsqds[0].answers["/stats"] = {
        "topics": [
            topic("t", channel("c", clients=None, later=[{}])),
            topic("u") | {"channels": None},
        ],
        "memory": {},
    }
    warnings = Warnings()
    producers = await two.cluster.producers(warnings)
    found = await two.cluster.stats(producers, warnings, clients=False)
    assert [each.topic_name for each in found] == ["t", "u", "t"]
    assert warnings.errors == []


async def test_nobody_answers(two: Two) -> None:
    two.cluster.addresses = Addresses((DEAD,), ())
    with pytest.raises(NoAnswerError, match="failed to query any nsqlookupd: Get"):
        await two.cluster.producers(Warnings())
    with pytest.raises(NoAnswerError, match=r"failed to query any nsqd: $"):
        await two.cluster.stats([], Warnings(), clients=False)


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
