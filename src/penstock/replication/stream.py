"""One follower's connection at a primary: answers go out, its word of each comes back.

An answer is sent when there is news, or to show that the primary is there. At most ``AHEAD`` are
without the follower's word: one is on its way while another is taken, and what is published
meanwhile shares the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.units import SECOND
from penstock.net.budget import Budget, MemoryShare
from penstock.net.http.server.streaming import StreamingResponse
from penstock.net.http.server.v1_api import ApiError
from penstock.replication.feed import NBYTES_MAX, Feed
from penstock.replication.messages import (
    ACK_MAX,
    Frames,
    ReplicationError,
    decode_ack,
    framed,
)

AHEAD: Final = 2
"""Answers that may be without the follower's word."""
WAIT_NS: Final = SECOND // 2
"""The time after which a follower is sent an answer without news: half of what a copy may lag by
default, so that an idle node's copy does not."""
SILENT_NS: Final = 10 * SECOND
"""A follower that owes its word for longer is gone."""


class CopyStream(StreamingResponse):
    """The answers to one follower. ``heard`` is called with each word of it, and ``closed`` once
    when its connection has ended.
    """

    __slots__ = ("_blocked", "_clock", "_ended", "_frames", "_has_news", "_is_finite",
                 "_on_heard", "_sent_ns", "_share", "_sizes", "address", "feed", "heard_ns",
                 "is_paced", "room", "sent")  # fmt: skip

    def __init__(
        self,
        feed: Feed,
        address: str,
        clock: Clock,
        budget: Budget,
        *,
        heard: Callable[[CopyStream], None],
        closed: Callable[[CopyStream], None],
        is_finite: bool = False,
    ) -> None:
        """``is_finite``: it ends when everything was sent, as of a node that grows no more."""
        super().__init__("application/octet-stream", closed=lambda: self._lost(closed))
        self.feed = feed
        self.address = address
        self.room = NBYTES_MAX
        """The bytes of the next answer."""
        self.is_paced = False
        """True if one that catches up gets its next answer with the next tick."""
        self.heard_ns = self._sent_ns = clock.monotonic_ns()
        self.sent = 0
        """Bytes since this was last set to 0."""
        self._clock = clock
        self._share = MemoryShare(budget)
        self._on_heard = heard
        self._is_finite = is_finite
        self._frames = Frames(ACK_MAX)
        self._sizes: deque[int] = deque()  # of the answers without the follower's word
        self._has_news = self._blocked = self._ended = False

    def with_first_answer(self) -> CopyStream:
        """The stream itself, with its first answer made. Raises ApiError 500."""
        try:
            self.answer(self.heard_ns)
        except StorageError:
            raise ApiError(500, "INTERNAL_ERROR") from None
        return self

    def push(self, now: int, *, is_tick: bool = False) -> None:
        """Send what is known to be new, and with a tick look whether anything is."""
        while not (self._blocked or self._ended) and len(self._sizes) < AHEAD:
            is_behind = self.feed.more
            if is_behind and self.is_paced and not is_tick:
                return
            if is_behind and not self._share.budget.has_room(self.room):
                return  # until the next tick
            try:
                if not (is_behind or self._has_news or (is_tick and self._is_due(now))):
                    return
                self.answer(now)
            except StorageError:  # the answer when the follower asks again
                self.end()
            if self.is_paced or not self.feed.more:
                return

    def news(self, now: int) -> None:
        """Send what has come, or with the follower's next word."""
        self._has_news = True
        self.push(now)

    def _is_due(self, now: int) -> bool:
        return now - self._sent_ns >= WAIT_NS or self.feed.has_news()

    def answer(self, now: int) -> None:
        """Send the next answer. Raises StorageError."""
        pieces = framed(self.feed.answer(now - self.heard_ns, self.room))
        data = b"".join(pieces)
        self._has_news = False
        self._sent_ns = now
        self.sent += len(data)
        self._sizes.append(len(data))
        self._share.hold(sum(self._sizes))
        if self._transport is None:
            self._early.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)
        if not self.feed.is_known or (self._is_finite and not self.feed.more):
            self._ended = True
            if self._transport is not None:
                self._transport.close()

    def look(self, now: int) -> None:
        """Send all news, or end the connection of a follower that is silent."""
        if self._sizes and now - self.heard_ns > SILENT_NS and now - self._sent_ns > SILENT_NS:
            self.end()
        else:
            self.push(now, is_tick=True)

    def end(self) -> None:
        """Close the connection at once; the follower asks again."""
        self._ended = True
        if self._transport is not None:
            self._transport.abort()

    # -- the connection's side

    def begin(self, transport: asyncio.Transport, date: bytes) -> None:
        super().begin(transport, date)
        if self._ended:
            transport.close()

    def received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self.feed.acknowledge(decode_ack(frame))
                if not self._sizes:
                    raise ReplicationError("an acknowledgement of nothing")
                self._sizes.popleft()
                self._share.hold(sum(self._sizes))
                self.heard_ns = self._clock.monotonic_ns()
                self._on_heard(self)
        except ReplicationError:
            self.end()
        else:
            self.push(self.heard_ns)

    def pause(self) -> None:
        self._blocked = True

    def resume(self) -> None:
        self._blocked = False
        self.push(self._clock.monotonic_ns())

    def _lost(self, closed: Callable[[CopyStream], None]) -> None:
        self._ended = True
        self._share.hold(0)
        closed(self)
