"""Requests about messages that wait for their time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.rocketmq.broker.answering import answers, json_answer
from penstock.rocketmq.protocol.codes import RequestCode
from penstock.rocketmq.protocol.command import Command

if TYPE_CHECKING:
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection


@answers(RequestCode.GET_ALL_DELAY_OFFSET)
def all_delay_offsets(controller: Controller, connection: Connection, request: Command) -> Command:
    return json_answer(request, controller.schedule.offsets())
