from __future__ import annotations

import pytest

from penstock.rocketmq.client.consume.pulling import Pulled, PullStatus
from penstock.rocketmq.mqadmin.queues import Reader
from penstock.rocketmq.protocol.message_queue import MessageQueue

from .fake_admin import FakeAdmin

QUEUE = MessageQueue("a", 0, "T")


def test_each_pull_goes_on_where_the_one_before_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    async def pull(self: Reader, queue: MessageQueue, at: int, wanted: object, most: int) -> Pulled:
        asked.append(at)
        return Pulled(PullStatus.FOUND, [], at + 2, 0, 9)

    monkeypatch.setattr(Reader, "pull", pull)
    admin = FakeAdmin()

    async def read() -> list[Pulled]:
        return [each async for each in Reader(admin).pulls(QUEUE, 3, 7, "*", 32)]

    found = admin.do(read())
    assert (asked, [each.next_offset for each in found]) == ([3, 5], [5, 7])


def test_queues_in_their_order() -> None:
    admin = FakeAdmin()
    assert admin.do(Reader(admin).queues("T")) == [QUEUE, QUEUE._replace(queueId=1)]
