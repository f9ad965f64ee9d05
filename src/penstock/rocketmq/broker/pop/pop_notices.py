"""Waiting until there is something to pop, without popping it (RocketMQ spec 2.7, NOTIFICATION)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.rocketmq.broker.answering import answers
from penstock.rocketmq.broker.pop.popping import POLL_MS_MAX, checked
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection

_AGAIN_S: Final = 0.01
"""The least time until it is looked again for messages that are visible again about now."""


@answers(RequestCode.NOTIFICATION)
async def notification(controller: Controller, connection: Connection, request: Command) -> Command:
    """Tell if a group has messages to pop, as soon as some come or when the time is over."""
    topic, group = checked(controller, connection, request)
    poll_ms = min(max(0, request.int64("pollTime")), POLL_MS_MAX)
    if request.boolean("order"):
        return await _in_order(controller, request, (topic, group), poll_ms)
    loop = asyncio.get_running_loop()
    end = loop.time() + poll_ms / 1000
    while not _has_messages(controller, topic, group) and loop.time() < end:
        seconds = end - loop.time()
        hidden_s = controller.pops.hidden_s(topic, group)
        if hidden_s is not None:
            seconds = min(seconds, max(_AGAIN_S, hidden_s))
        if not await controller.arrivals.wait(topic, seconds):
            return _answer(request, _has_messages(controller, topic, group), True)
    return _answer(request, _has_messages(controller, topic, group), False)


def _answer(request: Command, has_messages: bool, polling_full: bool) -> Command:
    return request.answer(
        ext={"hasMsg": str(has_messages).lower(), "pollingFull": str(polling_full).lower()}
    )


async def _in_order(
    controller: Controller, request: Command, key: tuple[str, str], poll_ms: int
) -> Command:
    """Tell if a queue has messages of which no batch is out, as soon as one has."""
    attempt, queue = request.optional("attemptId") or None, request.int32("queueId")
    ordered = controller.pops.ordered

    def has_messages() -> bool:
        config = controller.topics.get(key[0])
        queues = range(config.read_queues if config is not None else 0)
        return any(ordered.has_messages(key, each, attempt)
                   for each in queues if queue < 0 or queue == each)  # fmt: skip

    loop = asyncio.get_running_loop()
    end = loop.time() + poll_ms / 1000
    while not has_messages() and loop.time() < end:
        free_ms = ordered.table.free_ms(key, controller.now_ms)
        seconds = end - loop.time()
        if free_ms is not None:
            seconds = min(seconds, max(1, free_ms - controller.now_ms) / 1000)
        if not await controller.arrivals.wait(key[0], seconds):
            return _answer(request, has_messages(), True)
    return _answer(request, has_messages(), False)


def _has_messages(controller: Controller, topic: str, group: str) -> bool:
    return any(next_ > first for first, next_, _ in controller.pops.waiting(topic, group))
