"""POST /api/deadletters/:topic: letters of a node, or of all, are sent again or discarded."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from penstock.admin.messages.choice import chosen_ids, read_body
from penstock.admin.messages.dead_letters import DeadLetters
from penstock.admin.notifications import Action, Notifier
from penstock.admin.permissions import Access
from penstock.cluster.fanout import Warnings
from penstock.cluster.http_client import HttpClient
from penstock.cluster.producers import Producer as Node
from penstock.cluster.upstream_errors import UpstreamError
from penstock.core.counted import counted
from penstock.core.errors import PenstockError
from penstock.core.names import is_valid_name
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError
from penstock.nsq.client.message import Message
from penstock.nsq.dead_letters.listing import dead_letter_page
from penstock.nsq.dead_letters.resend import LetterChannel, Resending, Target, did_not_come
from penstock.nsq.dead_letters.topics import CHANNEL, is_rocketmq
from penstock.nsq.page import Message as Letter

IN_FLIGHT: Final = 250
"""Letters in hand at the same time."""
QUIET_MAX: Final = 3
"""The waits in a row without a letter before it gives up: others hold what is missing."""
_PAGE_MAX: Final = 1000


class ResendRequest(NamedTuple):
    """Letters of a topic: those with these ids, or (none) all; where to (empty: back).

    ``to_channel``: only to the channel that gave them up. ``pace``: letters a second at most, 0 for
    any number.
    """

    topic: str
    ids: tuple[str, ...]
    to: str
    to_channel: bool = False
    discards: bool = False
    pace: int = 0


@dataclass(slots=True)
class Outcome:
    """The outcome for the letters of all nodes; ``remarks`` name the nodes."""

    sent: int = 0
    left: int = 0
    """Letters that were meant and not sent."""
    not_found: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class Sending:
    """The letters of one node; adds to ``outcome``. ``ends_at`` is a time of the running loop."""

    def __init__(
        self, http: HttpClient, node: Node, chosen: ResendRequest, outcome: Outcome, ends_at: float
    ) -> None:
        from penstock.nsq.log_reader import LogReader  # these load numpy
        from penstock.nsq.stored import origin_of

        self._http = http
        self._node = node
        self._chosen = chosen
        self._outcome = outcome
        self._ends_at = ends_at
        self._resending = Resending(
            chosen.to, to_channel=chosen.to_channel, discards=chosen.discards
        )
        self._channel = LetterChannel(http, node.http_address, chosen.topic)
        self._log = LogReader(http, node.http_address, chosen.topic)
        # Neighbours are mostly of one batch, whose origin is then read once.
        self._origin_of = functools.lru_cache(maxsize=1)(origin_of)
        self._todo = 0
        self._id_base = 0

    async def run(self, count: int) -> None:
        """Send the letters; ``count`` is how many there are. Errors become remarks."""
        self._todo = count
        result = self._resending.result
        try:
            async with self._channel.opened():
                if await self._choose():
                    await self._consume()
        except (PenstockError, ValueError) as error:  # ValueError: an invalid address
            self._remark(str(error))
        if result.orphans:
            self._remark(f'{counted(result.orphans, "letter")} without an origin; give "to"')
        self._outcome.sent += result.sent.total()
        self._outcome.left += self._left

    @property
    def _left(self) -> int:
        result = self._resending.result
        if self._chosen.ids:
            return len(self._resending.targets)
        return max(0, self._todo - result.sent.total() - result.orphans)

    # --- which letters, and where to -----------------------------------------------------------

    async def _choose(self) -> bool:
        """Find the letters that are named; false if there is nothing to send."""
        page = await dead_letter_page(
            self._http, self._node.http_address, self._chosen.topic, limit=1, preview=0
        )
        if not page.messages:
            self._todo = 0
            self._outcome.not_found += self._chosen.ids
            return False
        first = page.messages[0]
        self._id_base = _number(first.id) - first.offset
        if not self._chosen.ids:
            return True
        found = await self._look_up(self._chosen.ids)
        self._outcome.not_found += [each for each in self._chosen.ids if each not in found]
        for letter in found.values():
            origin = letter.origin
            came_from = Target("") if origin is UNSET else Target(origin.topic, origin.channel)
            self._resending.choose(letter.id, came_from)
        return bool(self._resending.targets)

    async def _look_up(self, ids: Iterable[str]) -> dict[str, Letter]:
        """The letters with these ids that the channel still needs, by id."""
        wanted = set(ids)
        offsets = sorted(_number(each) - self._id_base for each in wanted)
        left = [offset for offset in offsets if offset >= 0]
        found: dict[str, Letter] = {}
        while left:
            page = await dead_letter_page(
                self._http,
                self._node.http_address,
                self._chosen.topic,
                from_=left[0],
                limit=min(_PAGE_MAX, left[-1] - left[0] + 1),
                preview=0,
            )
            found |= {each.id: each for each in page.messages if each.id in wanted}
            if not isinstance(page.next, int) or page.next <= left[0]:
                break
            seen = page.next
            left = [offset for offset in left if offset >= seen]
        return found

    async def _aim_all(self, messages: Sequence[Message]) -> None:
        """Decide where the letters go if all are meant that were not sent yet."""
        for each in (message.id.decode() for message in messages):
            if self._resending.was_sent(each):
                continue
            offset = _number(each) - self._id_base
            needs_origin = not (self._chosen.to or self._chosen.discards)
            batch = await self._log.batch(offset) if needs_origin else None
            origin = Target("")
            if batch is not None and batch.first_offset <= offset:  # else it is lost
                origin = Target(*self._origin_of(batch))
            self._resending.choose(each, origin)

    # --- sending -------------------------------------------------------------------------------

    async def _consume(self) -> None:
        now, waits = asyncio.get_running_loop().time, 0

        def goes_on(fruitless: int) -> bool:
            nonlocal waits
            waits = fruitless
            return bool(self._left) and waits < QUIET_MAX and now() < self._ends_at

        aim = None if self._chosen.ids else self._aim_all
        address = self._node.tcp_address
        await self._channel.resend(
            address, self._resending, goes_on, in_flight=IN_FLIGHT, aim=aim, pace=self._chosen.pace
        )
        if self._left and waits:
            self._remark(did_not_come(self._left))
        elif self._left:
            self._remark(f"{counted(self._left, 'letter')} left, as time was up: ask again")

    def _remark(self, text: str) -> None:
        self._outcome.remarks.append(f"{self._node.http_address}: {text}")


def _number(identifier: str) -> int:
    """An id as a number; UpstreamError if it is not one."""
    try:
        return int(identifier, 16)
    except ValueError:
        raise UpstreamError(f"a letter has the id {identifier[:32]!r}") from None


RESEND_S: Final = 20.0
"""The seconds that one request sends for; it reports what is left, and the next one sends that."""
AT_ONCE: Final = 4
"""Topics that are sent at the same time."""


class ResendBody(Struct):
    """The body of a request: letters to send again, and where to if not where they came from."""

    action: str = ""
    node: str = ""
    ids: list[str] = msgspec.field(default_factory=list)
    all: bool = False
    to: str = ""
    to_channel: bool = False
    pace: int = 0


class Resend:
    """The endpoint."""

    def __init__(
        self, http: HttpClient, found: DeadLetters, access: Access, notifier: Notifier
    ) -> None:
        self._http = http
        self._letters = found
        self._access = access
        self._notifier = notifier
        self._under_way: set[str] = set()

    async def act(self, topic: str, request: Request) -> Any:
        """Send, and answer how many; a node's failure is a warning beside what was sent."""
        self._access.check_admin(request)
        body = read_body(request, ResendBody)
        chosen = _chosen(topic, body)
        warnings = Warnings()
        with self._one_at_a_time(topic):
            found = await self._letters.having(topic, body.node, warnings)
            ends_at = asyncio.get_running_loop().time() + RESEND_S
            outcome = Outcome()
            try:
                for node, count in found:
                    sending = Sending(self._http, node, chosen, outcome, ends_at)
                    await sending.run(count)
            finally:
                # Also after an error: some letters may have been sent.
                action = Action(f"{body.action}_dead_letters", topic, CHANNEL, body.node)
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


def _chosen(topic: str, body: ResendBody) -> ResendRequest:
    """The letters that the body asks for, and where to; ApiError 400 for an invalid body."""
    if body.action not in ("resend", "discard"):
        raise ApiError(400, "INVALID_ACTION")
    if is_rocketmq(topic):
        raise ApiError(400, "ROCKETMQ_NOT_RESENDABLE")
    ids = chosen_ids(body.ids, body.all)
    if ids and not body.node:
        raise ApiError(400, "MISSING_NODE")
    # Sent to the topic it is in, a letter would be there again as a new message without an origin.
    if body.to and (not is_valid_name(body.to) or body.to == topic):
        raise ApiError(400, "INVALID_TO")
    if body.to and body.to_channel:
        raise ApiError(400, "AMBIGUOUS_TO")
    if body.pace < 0:
        raise ApiError(400, "INVALID_PACE")
    discards = body.action == "discard"
    return ResendRequest(topic, tuple(ids), body.to, body.to_channel, discards, body.pace)
