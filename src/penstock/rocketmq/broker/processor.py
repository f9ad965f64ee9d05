"""The broker's dispatch of requests: it looks up who answers, and sees to failures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.net.tasks import spawn
from penstock.rocketmq.broker.acl import commands as acl_commands
from penstock.rocketmq.broker.admin import (
    cleaning,
    client_relays,
    config,
    connections,
    consume_stats,
    groups,
    message_queries,
    offset_reset,
    queue_view,
    runtime_info,
    topic_stats,
    topics,
)
from penstock.rocketmq.broker.answering import ANSWERERS, LATER_ANSWERERS, RefusedError
from penstock.rocketmq.broker.clients import heartbeats, orderly
from penstock.rocketmq.broker.delays import recalls
from penstock.rocketmq.broker.delays import requests as delays
from penstock.rocketmq.broker.pop import pop_acks, pop_notices, request_modes
from penstock.rocketmq.broker.pop import popping as pop
from penstock.rocketmq.broker.pull import offsets_api
from penstock.rocketmq.broker.pull import pulling as pull
from penstock.rocketmq.broker.send import request_reply, send_back
from penstock.rocketmq.broker.send import sending as send
from penstock.rocketmq.broker.send.plain_sends import PlainSends
from penstock.rocketmq.broker.slaves.refusals import refusal
from penstock.rocketmq.broker.transactions import requests as transactions
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError

if TYPE_CHECKING:
    from penstock.rocketmq.broker.answering import LaterAnswerer
    from penstock.rocketmq.broker.controller import Controller
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

ANSWERING: Final = (
    acl_commands, cleaning, client_relays, config, connections, consume_stats, delays, groups,
    heartbeats, message_queries, offset_reset, offsets_api, orderly, pop, pop_acks, pop_notices,
    pull, queue_view, recalls, request_modes, request_reply, runtime_info, send, send_back,
    topic_stats, topics, transactions,
)  # fmt: skip
"""The modules that answer; importing them fills the registry."""

UNDER_WAY_MAX: Final = 10_000
"""Requests whose answers take time; beyond, clients are told to come again."""
_OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"


class Processor:
    """The handler of the broker's connections."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._is_slave = controller.settings.is_slave
        self._has_fast_path = PlainSends.are_served(controller)
        self._under_way = 0

    def handle(self, connection: Connection, request: Command) -> Command | None:
        """The answer; None when it comes later or never."""
        try:
            if self._controller.acl is not None:
                self._controller.acl.check(self._controller.store, connection, request)
            if self._is_slave and (refused := refusal(request)) is not None:
                return refused
            answerer = ANSWERERS.get(request.code)
            if answerer is send.send and self._has_fast_path:
                self._open_fast_path(connection)
            if answerer is not None:
                return answerer(self._controller, connection, request)
            later = LATER_ANSWERERS.get(request.code)
            if later is None:
                return request.unsupported()
        except PenstockError as error:
            return failure(connection, request, error)
        except Exception:
            return bug(connection, request)
        if self._under_way >= UNDER_WAY_MAX:
            return request.answer(ResponseCode.SYSTEM_BUSY, _OVERLOAD)
        self._under_way += 1
        spawn(self._answer_later(later, connection, request), f"request {request.code}")
        return None

    async def _answer_later(
        self, answerer: LaterAnswerer, connection: Connection, request: Command
    ) -> None:
        try:
            answer = await answerer(self._controller, connection, request)
        except PenstockError as error:
            answer = failure(connection, request, error)
        except Exception:
            answer = bug(connection, request)
        finally:
            self._under_way -= 1
        if answer is not None and not request.is_one_way:
            connection.send(answer)

    def connected(self, connection: Connection) -> None:
        logger.debug("%s connected", connection.address)

    def _open_fast_path(self, connection: Connection) -> None:
        """Give a producer's later sends their straight line; a consumer's pulls pay nothing."""
        if connection.fast_path is None:
            connection.fast_path = PlainSends(self._controller, connection)

    def disconnected(self, connection: Connection) -> None:
        self._controller.held_pulls.forget(connection)
        self._controller.pops.forget(connection)
        heartbeats.connection_ended(self._controller, connection)


def failure(connection: Connection, request: Command, error: PenstockError) -> Command:
    """The answer to a request that was refused or went wrong.

    It has fields, though none in them: some clients look at a send's without asking.
    """
    if isinstance(error, RefusedError):
        return request.answer(error.code, str(error), ext={})
    if not isinstance(error, BodyError):
        logger.error("%s: request %d failed - %s", connection.address, request.code, error)
    return request.answer(ResponseCode.SYSTEM_ERROR, str(error), ext={})


def bug(connection: Connection, request: Command) -> Command:
    """The answer to a request that met a mistake of ours, which goes to the log."""
    logger.exception("%s: request %d failed", connection.address, request.code)
    return request.answer(ResponseCode.SYSTEM_ERROR, "the broker failed; see its log")
