"""Stored messages and dead letters as a node serves them: pages, runs, batches, sending again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec import structs

from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import UpstreamError
from penstock.net.http.server.service import Response
from penstock.net.http.server.v1_api import error_response
from penstock.nsq.dead_letters.listing import (
    OffsetRun,
    dead_letter_page,
    open_letter_page,
    open_runs,
    topics_of,
)
from penstock.nsq.dead_letters.resend import LetterChannel, Resending, Target
from penstock.nsq.dead_letters.topics import CHANNEL
from penstock.nsq.log_reader import LogReader
from penstock.nsq.page import Origin
from penstock.nsq.stored import Stored, StoredRange, as_object
from penstock.storage.batch import iter_batches
from penstock.testing.daemons import Daemon, run_nsqd
from tests.programs.admin.messages.conftest import message
from tests.programs.cluster.conftest import StartFake
from tests.unit.cli.nodes_at_work import (
    ask,
    consume,
    depths,
    fetched,
    kill_letters,
    make,
    publish,
)

DEAD = "orders.dead"
NO_CHANNEL = error_response(404, "CHANNEL_NOT_FOUND")
NS = 1_795_294_921_053_775_026


@pytest.fixture(scope="module")
def nsqd() -> Iterator[Daemon]:
    """With three dead letters, and a topic of batches of 3, 2 and 4 messages."""
    with run_nsqd() as daemon:
        kill_letters(daemon, "orders", "bill", [b"a", b"b", b"c"])
        make(daemon, "t")
        for bodies in ([b"a", b"bb", b"c"], [b"d"] * 2, [b"e"] * 4):
            publish(daemon, "t", bodies)
        yield daemon


# --- pages of dead letters


async def test_all_of_the_log_before_there_is_a_channel(fake: StartFake, http: HttpClient) -> None:
    node = await fake()
    node.answers = {"/channel/peek": NO_CHANNEL, "/topic/peek": {"messages": [message(1)]}}
    assert await open_letter_page(http, node.address, "t.dead", limit=5) is None
    page = await dead_letter_page(http, node.address, "t.dead", limit=5)
    assert [each.offset for each in page.messages] == [1]
    await dead_letter_page(http, node.address, "%DLQ%g")
    assert node.asked[1:] == [
        "GET /channel/peek?topic=t.dead&channel=penstock-dlq&limit=5",
        "GET /topic/peek?topic=t.dead&limit=5",
        "GET /topic/peek?topic=%25DLQ%25g",
    ]


async def test_runs_of_letters_page_by_page(fake: StartFake, http: HttpClient) -> None:
    node = await fake()
    offsets = {"/log/offsets": {"queues": [{"start": 2, "end": 9}]}}
    node.answers = offsets | {
        "/channel/peek": {"messages": [message(offset) for offset in (3, 4, 7)], "next": None}
    }
    found = [runs async for runs in open_runs(http, node.address, "t.dead")]
    assert found == [[OffsetRun(3, 5), OffsetRun(7, 8)]]
    node.answers = offsets | {"/channel/peek": NO_CHANNEL}
    assert [runs async for runs in open_runs(http, node.address, "t.dead")] == [[OffsetRun(2, 9)]]


async def test_what_a_real_node_shows_and_sends_again(nsqd: Daemon, http: HttpClient) -> None:
    (topic,) = await topics_of(http, nsqd.http)
    assert (topic.topic, topic.letters, topic.is_rocketmq) == (DEAD, 3, False)
    page = await dead_letter_page(http, nsqd.http, DEAD, limit=2)
    assert ([each.body for each in page.messages], page.next) == (["a", "b"], 2)
    channel = LetterChannel(http, nsqd.http, DEAD)
    async with channel.opened():
        assert depths(nsqd, DEAD) == {CHANNEL: 3}, "it gets all that the log holds"
    resending = Resending()

    async def aim(letters: Sequence[Any]) -> None:
        resending.targets.update((each.id.decode(), Target("orders")) for each in letters)

    def goes_on(waits: int) -> bool:
        return resending.result.sent.total() < 3

    async with channel.opened():  # it is there
        await channel.resend(nsqd.tcp, resending, goes_on, in_flight=1, aim=aim)
    assert resending.result.sent == Counter(orders=3)
    assert consume(nsqd, "orders", "bill", 3) == [b"a", b"b", b"c"]


async def test_to_the_channel_that_failed_alone_at_a_pace(nsqd: Daemon, http: HttpClient) -> None:
    kill_letters(nsqd, "backs", "bill", [b"a", b"b", b"c"])
    make(nsqd, "backs", "ship")
    channel = LetterChannel(http, nsqd.http, "backs.dead")
    resending = Resending(to_channel=True)

    async def aim(letters: Sequence[Any]) -> None:
        for each in letters:
            resending.choose(each.id.decode(), Target("backs", "bill"))

    def goes_on(waits: int) -> bool:
        return resending.result.sent.total() < 3

    begun = time.monotonic()
    async with channel.opened():
        await channel.resend(nsqd.tcp, resending, goes_on, in_flight=9, aim=aim, pace=2)
    assert time.monotonic() - begun > 1
    assert depths(nsqd, "backs") == {"bill": 3, "ship": 0}
    assert consume(nsqd, "backs", "bill", 3) == [b"a", b"b", b"c"]
    publish(nsqd, "backs", [b"for all"])
    assert consume(nsqd, "backs", "ship", 1) == [b"for all"]


async def test_discarded(nsqd: Daemon, http: HttpClient) -> None:
    kill_letters(nsqd, "tossed", "bill", [b"a", b"b", b"c"])
    channel = LetterChannel(http, nsqd.http, "tossed.dead")
    resending = Resending(discards=True)

    async def aim(letters: Sequence[Any]) -> None:
        for each in letters:
            resending.choose(each.id.decode(), Target("tossed", "bill"))

    def goes_on(waits: int) -> bool:
        return resending.result.sent.total() < 3

    async with channel.opened():
        await channel.resend(nsqd.tcp, resending, goes_on, in_flight=9, aim=aim)
    assert depths(nsqd, "tossed.dead") == {CHANNEL: 0}
    assert depths(nsqd, "tossed") == {"bill": 0}


# --- stored messages


def stored(nsqd: Daemon, topic: str, first: int, next_: int) -> list[Stored]:
    batch = next(iter(iter_batches(fetched(nsqd, topic))))
    return list(StoredRange(batch, first, next_).messages())


def test_a_part_of_a_batch(nsqd: Daemon) -> None:
    shown = ask(nsqd, "GET", "/topic/peek?topic=t")["messages"][1:3]
    found = stored(nsqd, "t", 1, 3)
    assert [each.body for each in found] == [b"bb", b"c"]
    assert [(each.offset, each.id) for each in found] == [(m["offset"], m["id"]) for m in shown]
    assert all(each.origin is None for each in found)


def test_a_dead_letter_says_where_it_came_from(nsqd: Daemon) -> None:
    shown = ask(nsqd, "GET", f"/topic/peek?topic={DEAD}")["messages"][0]
    (found,) = stored(nsqd, DEAD, 0, 1)
    assert found.origin is not None
    assert structs.asdict(found.origin) == shown["origin"]


def test_as_json() -> None:
    origin = Origin("orders", "bill", "4d20c5c6ea06f0d4", 5, NS)
    assert as_object(Stored(7, "4d20c5c6ea0f049a", NS, "\u00e4".encode(), origin)) == {
        "offset": 7, "id": "4d20c5c6ea0f049a", "time": "2026-11-21T21:02:01.053775Z",
        "timestamp_ns": NS, "body": "\u00e4", "origin": structs.asdict(origin),
    }  # fmt: skip
    assert as_object(Stored(7, "4d20c5c6ea0f049a", NS, b"\xff"))["body_base64"] == "/w=="


# --- batch by batch


async def test_batches_are_remembered(nsqd: Daemon, fake: StartFake, http: HttpClient) -> None:
    node = await fake()
    node.answers["/log/fetch"] = Response(200, fetched(nsqd, "t"))
    log = LogReader(http, node.address, "t")
    found = [await log.batch(offset) for offset in (4, 0, 2, 8, 5)]
    assert [each and each.first_offset for each in found] == [3, 0, 0, 5, 5]
    assert node.asked == ["GET /log/fetch?topic=t&offset=4&max_bytes=262144"]
    node.answers["/log/fetch"] = Response(200, b"")
    assert await log.batch(9) is None
    assert len(node.asked) == 2


async def test_what_a_disk_has_lost_is_stepped_over(
    nsqd: Daemon, fake: StartFake, http: HttpClient
) -> None:
    _, second, _ = iter_batches(fetched(nsqd, "t"))
    node = await fake()
    node.answers["/log/fetch"] = Response(200, bytes(second.raw))
    found = await LogReader(http, node.address, "t").batch(1)
    assert found is not None
    assert found.first_offset == 3


async def test_nonsense_is_an_error_of_the_node(fake: StartFake, http: HttpClient) -> None:
    node = await fake()
    node.answers["/log/fetch"] = Response(200, b"nonsense" * 20)
    with pytest.raises(UpstreamError, match="sent damaged data of topic 't'"):
        await LogReader(http, node.address, "t").batch(0)


async def test_messages_of_runs(nsqd: Daemon, http: HttpClient) -> None:
    found = LogReader(http, nsqd.http, "t").messages([(1, 2), (2, 4)])
    assert [message.body async for message in found] == [b"bb", b"c", b"d"]
