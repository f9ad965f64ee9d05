"""POST /api/deadletters/:topic: letters of a node, or of all, are published again and finished."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from msgspec import Struct, field

from penstock.admin.messages.choice import chosen_ids, read_body
from penstock.admin.messages.letters import Letters
from penstock.admin.messages.sending import Outcome, Sending, Wish
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.cluster.asker import Asker
from penstock.cluster.fanout import Warnings
from penstock.core.names import is_valid_name
from penstock.net.http.server.api import ApiError
from penstock.net.http.server.service import Request
from penstock.nsq.dead_letters.topics import CHANNEL, is_rocketmq

RESEND_S: Final = 20.0
"""The seconds that one request sends for; it reports what is left, and the next one sends that."""
AT_ONCE: Final = 4
"""Topics that are sent at the same time."""


class ResendBody(Struct):
    """The body of a request: letters to send again, and where to if not where they came from."""

    action: str = ""
    node: str = ""
    ids: list[str] = field(default_factory=list)
    all: bool = False
    to: str = ""


class Resend:
    """The endpoint."""

    def __init__(self, asker: Asker, found: Letters, access: Access, notifier: Notifier) -> None:
        self._asker = asker
        self._letters = found
        self._access = access
        self._notifier = notifier
        self._under_way: set[str] = set()

    async def act(self, topic: str, request: Request) -> Any:
        """Send, and answer how many; a node's failure is a warning beside what was sent."""
        self._access.check_admin(request)
        body = read_body(request, ResendBody)
        wish = _wish(topic, body)
        warnings = Warnings()
        with self._one_at_a_time(topic):
            found = await self._letters.having(topic, body.node, warnings)
            ends_at = asyncio.get_running_loop().time() + RESEND_S
            outcome = Outcome()
            try:
                for node, count in found:
                    sending = Sending(self._asker, node, wish, outcome, ends_at)
                    await sending.run(count)
            finally:
                action = Action("resend_dead_letters", topic, CHANNEL, body.node)
                self._notifier.tell(action, request)
        warnings.add(outcome.remarks)
        return {
            "sent": outcome.sent,
            "left": outcome.left,
            "not_found": outcome.not_found,
            "message": warnings.message,
        }

    @contextmanager
    def _one_at_a_time(self, topic: str) -> Iterator[None]:
        """ApiError 503 RESEND_UNDER_WAY for a second request about a topic, and for too many."""
        if topic in self._under_way or len(self._under_way) >= AT_ONCE:
            raise ApiError(503, "RESEND_UNDER_WAY")
        self._under_way.add(topic)
        try:
            yield
        finally:
            self._under_way.discard(topic)


def _wish(topic: str, body: ResendBody) -> Wish:
    """The letters that the body asks for, and where to; ApiError 400 for an invalid body."""
    if body.action != "resend":
        raise ApiError(400, "INVALID_ACTION")
    if is_rocketmq(topic):
        raise ApiError(400, "ROCKETMQ_NOT_RESENDABLE")
    ids = chosen_ids(body.ids, body.all)
    if ids and not body.node:
        raise ApiError(400, "MISSING_NODE")
    if body.to and (not is_valid_name(body.to) or body.to == topic):
        raise ApiError(400, "INVALID_TO")
    return Wish(topic, tuple(ids), body.to)
