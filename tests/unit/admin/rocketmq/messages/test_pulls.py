from __future__ import annotations

import zlib

import pytest

from penstock.admin.rocketmq.messages.pulls import (
    PULLS_MAX,
    backward,
    onward,
    pull,
    queues_of,
)
from penstock.rocketmq.client.admin.errors import Refused
from penstock.rocketmq.protocol.codes import RequestCode, ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.ids import Host
from penstock.rocketmq.protocol.messages.message import StoredMessage, SysFlag, encode
from tests.unit.admin.rocketmq.scripted import A, Keeping, Scripted, route

PULL = RequestCode.PULL_MESSAGE


async def test_a_pull_commits_nothing_and_waits_for_nothing() -> None:
    scripted = Scripted({RequestCode.GET_ROUTEINFO_BY_TOPIC: route(), PULL: Command(0, 0)})
    queue = queues_of(await scripted.route("t"), "t")[0]
    assert await pull(scripted, queue, 5, 3, 1) == []
    address, _, fields = scripted.asked[-1]
    assert (address, fields["queueOffset"], fields["maxMsgNums"]) == (A, "5", "3")
    assert (fields["sysFlag"], fields["suspendTimeoutMillis"]) == ("4", "0")


async def test_an_end_is_no_failure_but_a_refusal_is() -> None:
    scripted = Scripted({RequestCode.GET_ROUTEINFO_BY_TOPIC: route()})
    queue = queues_of(await scripted.route("t"), "t")[0]
    scripted.answers[PULL] = Refused(ResponseCode.PULL_OFFSET_MOVED, "moved")
    assert await pull(scripted, queue, 5, 3, 1) == []
    scripted.answers[PULL] = Refused(ResponseCode.NO_PERMISSION, "no")
    with pytest.raises(Refused):
        await pull(scripted, queue, 5, 3, 1)


async def test_a_few_kilobytes_are_not_unpacked_to_gigabytes() -> None:
    """Anybody who may send to a topic could end nsqadmin otherwise."""
    host = Host.parse(A)
    packed = zlib.compress(bytes(600 << 10))
    bomb = zlib.compress(bytes(5 << 20))
    messages = [
        StoredMessage("t", body, 0, n, n, host, host, 1, 1, "", sys_flag=int(SysFlag.COMPRESSED))
        for n, body in enumerate([bomb, *[packed] * 31])
    ]
    answer = Command(0, 0, None, b"".join(map(encode, messages)))
    scripted = Scripted({RequestCode.GET_ROUTEINFO_BY_TOPIC: route(), PULL: answer})
    queue = queues_of(await scripted.route("t"), "t")[0]
    found = await pull(scripted, queue, 0, 32, 1 << 20)
    assert [len(each.body) for each in found] == [len(bomb), 600 << 10, 600 << 10]
    (first,) = await pull(scripted, queue, 0, 32, 1)
    assert first.body == bomb


async def test_only_queues_that_can_be_read_are_looked_into() -> None:
    scripted = Scripted({RequestCode.GET_ROUTEINFO_BY_TOPIC: route(perm=2)})
    assert queues_of(await scripted.route("t"), "t") == []


async def test_a_look_back_goes_over_what_is_lost_and_not_for_ever() -> None:
    keeping = Keeping({A: [*range(1000)]})
    queue = queues_of(await keeping.route("t"), "t")[0]
    keeping.lost = range(900, 990)
    part = await backward(keeping, queue, 20, 1 << 20)
    assert [each.queue_offset for each in part.messages] == [*range(890, 900), *range(990, 1000)]
    keeping.lost = range(1000)
    keeping.asked.clear()
    assert await backward(keeping, queue, 2, 1 << 20) == ([], False)
    assert len(keeping.asked) == PULLS_MAX


async def test_the_end_of_a_queue_is_known() -> None:
    keeping = Keeping({A: [*range(40)]})
    queue = queues_of(await keeping.route("t"), "t")[0]
    assert (await onward(keeping, queue, 0, 50, 1 << 20)).is_all
    assert not (await onward(keeping, queue, 0, 40, 1 << 20)).is_all
    assert (await backward(keeping, queue, 50, 1 << 20)).is_all
    assert not (await backward(keeping, queue, 39, 1 << 20)).is_all
