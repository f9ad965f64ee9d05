"""Dead letters as one node tells of them."""

from __future__ import annotations

from penstock.cluster.asker import Asker
from penstock.cluster.exchange import Timeouts
from penstock.net.http.server.api import error_response
from penstock.nsq.dead_letters.letters import Run, letters, open_letters, open_runs, topics_of
from penstock.testing.daemons import run_nsqd
from tests.programs.admin.messages.conftest import message
from tests.programs.cluster.conftest import StartFake
from tests.unit.cli.nodes_at_work import kill_letters

NO_CHANNEL = error_response(404, "CHANNEL_NOT_FOUND")


async def test_all_of_the_log_before_there_is_a_channel(fake: StartFake, asker: Asker) -> None:
    node = await fake()
    node.answers = {"/channel/peek": NO_CHANNEL, "/topic/peek": {"messages": [message(1)]}}
    assert await open_letters(asker, node.address, "t.dead", limit=5) is None
    page = await letters(asker, node.address, "t.dead", limit=5)
    assert [each.offset for each in page.messages] == [1]
    await letters(asker, node.address, "%DLQ%g")
    assert node.asked[1:] == [
        "GET /channel/peek?topic=t.dead&channel=penstock-dlq&limit=5",
        "GET /topic/peek?topic=t.dead&limit=5",
        "GET /topic/peek?topic=%25DLQ%25g",
    ]


async def test_runs_of_letters_page_by_page(fake: StartFake, asker: Asker) -> None:
    node = await fake()
    offsets = {"/log/offsets": {"queues": [{"start": 2, "end": 9}]}}
    node.answers = offsets | {
        "/channel/peek": {"messages": [message(offset) for offset in (3, 4, 7)], "next": None}
    }
    found = [runs async for runs in open_runs(asker, node.address, "t.dead")]
    assert found == [[Run(3, 5), Run(7, 8)]]
    node.answers = offsets | {"/channel/peek": NO_CHANNEL}
    assert [runs async for runs in open_runs(asker, node.address, "t.dead")] == [[Run(2, 9)]]


async def test_a_real_node() -> None:
    with run_nsqd() as nsqd:
        kill_letters(nsqd, "orders", "bill", [b"a", b"b", b"c"])
        async with Asker(Timeouts(60, 60), agent="test") as asker:
            (topic,) = await topics_of(asker, nsqd.http)
            assert (topic.topic, topic.letters, topic.is_rocketmq) == ("orders.dead", 3, False)
            page = await letters(asker, nsqd.http, "orders.dead", limit=2)
            assert ([each.body for each in page.messages], page.next) == (["a", "b"], 2)
