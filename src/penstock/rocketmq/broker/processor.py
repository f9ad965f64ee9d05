"""The broker's dispatch of requests: it looks up who answers, and sees to failures."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock import lane
from penstock.core.errors import PenstockError
from penstock.net.tasks import spawn
from penstock.rocketmq.broker.answering import RefusedError
from penstock.rocketmq.broker.send.plain_sends import PlainSends
from penstock.rocketmq.broker.slaves.refusals import refusal
from penstock.rocketmq.protocol.codes import ResponseCode
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError
from penstock.rocketmq.protocol.ids import host_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.commits import Commits
    from penstock.rocketmq.broker.acl.check import Acl
    from penstock.rocketmq.broker.answering import AnswerTable, LaterAnswerer
    from penstock.rocketmq.broker.send.sending import Sends
    from penstock.rocketmq.remoting import Connection

logger = logging.getLogger("penstock.mqbroker")

UNDER_WAY_MAX: Final = 10_000
"""Requests whose answers take time; beyond, clients are told to come again."""
_OVERLOAD: Final = "[OVERLOAD]system busy, start flow control for a while"


class Processor:
    """The handler of the broker's connections."""

    def __init__(
        self,
        table: AnswerTable,
        acl: Acl | None,
        sends: Sends,
        commits: Commits,
        ended: Callable[[Connection], None],
    ) -> None:
        """``ended`` is called when a connection has ended."""
        self._at_once, self._later = table.at_once, table.later
        self._acl = acl
        self._store = sends.store
        self._ended = ended
        self._is_slave = sends.settings.is_slave
        self._publisher = lane.publisher(commits, sends.store.topics)
        if self._publisher is not None and PlainSends.are_served(sends, acl):
            self._plain_sends = PlainSends(sends)
        else:
            self._publisher = None
        self._under_way = 0

    def handle(self, connection: Connection, request: Command) -> Command | None:
        """The answer; None when it comes later or never."""
        try:
            # First of all, so that a refusal says nothing about topics and groups.
            if self._acl is not None:
                self._acl.check(self._store, connection, request)
            # What would change a slave's tables, which are copies of its master's.
            if self._is_slave and (refused := refusal(request)) is not None:
                return refused
            answerer = self._at_once.get(request.code)
            if answerer is not None:
                return answerer(connection, request)
            later = self._later.get(request.code)
            if later is None:
                # RocketMQ spec 2.8, code 3: after 400, clients share queues by themselves.
                return request.unsupported()
        except PenstockError as error:
            return failure(connection, request, error)
        except Exception:
            # The connection stays: its other requests, and those of other clients, are not to
            # blame.
            return bug(connection, request)
        # Each is a task with its request's body; these words are Java's (RocketMQ spec 1.7).
        if self._under_way >= UNDER_WAY_MAX:
            return request.answer(ResponseCode.SYSTEM_BUSY, _OVERLOAD)
        self._under_way += 1
        spawn(self._answer_later(later, connection, request), f"request {request.code}")
        return None

    async def _answer_later(
        self, answerer: LaterAnswerer, connection: Connection, request: Command
    ) -> None:
        try:
            answer = await answerer(connection, request)
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
        if self._publisher is not None:
            born_host = host_bytes(connection.host)
            connection.take_plain(self._publisher, self._plain_sends, born_host)

    def disconnected(self, connection: Connection) -> None:
        self._ended(connection)


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
