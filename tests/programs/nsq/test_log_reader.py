from __future__ import annotations

import pytest

from penstock.cluster.asker import Asker
from penstock.cluster.errors import UpstreamError
from penstock.net.http.server.service import Response
from penstock.nsq.log_reader import LogReader
from penstock.storage.batch import iter_batches
from penstock.testing.daemons import run_nsqd
from tests.programs.cluster.conftest import StartFake
from tests.unit.cli.nodes_at_work import fetched, make, publish


async def test_batches_are_remembered(fake: StartFake, asker: Asker) -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t")
        for count in (3, 2, 4):
            publish(nsqd, "t", [b"x"] * count)
        data = fetched(nsqd, "t")
    node = await fake()
    node.answers["/log/fetch"] = Response(200, data)
    log = LogReader(asker, node.address, "t")
    found = [await log.batch(offset) for offset in (4, 0, 2, 8, 5)]
    assert [each and each.first_offset for each in found] == [3, 0, 0, 5, 5]
    assert node.asked == ["GET /log/fetch?topic=t&offset=4&max_bytes=262144"]
    node.answers["/log/fetch"] = Response(200, b"")
    assert await log.batch(9) is None
    assert len(node.asked) == 2


async def test_what_a_disk_has_lost_is_stepped_over(fake: StartFake, asker: Asker) -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t")
        for count in (3, 2):
            publish(nsqd, "t", [b"x"] * count)
        _, second = iter_batches(fetched(nsqd, "t"))
    node = await fake()
    node.answers["/log/fetch"] = Response(200, bytes(second.raw))
    found = await LogReader(asker, node.address, "t").batch(1)
    assert found is not None
    assert found.first_offset == 3


async def test_nonsense_is_an_error_of_the_node(fake: StartFake, asker: Asker) -> None:
    node = await fake()
    node.answers["/log/fetch"] = Response(200, b"nonsense" * 20)
    with pytest.raises(UpstreamError, match="sent damaged data of topic 't'"):
        await LogReader(asker, node.address, "t").batch(0)


async def test_messages_of_runs(asker: Asker) -> None:
    with run_nsqd() as nsqd:
        make(nsqd, "t")
        publish(nsqd, "t", [b"a", b"b", b"c"])
        publish(nsqd, "t", [b"d"])
        found = LogReader(asker, nsqd.http, "t").messages([(1, 2), (2, 4)])
        assert [message.body async for message in found] == [b"b", b"c", b"d"]
