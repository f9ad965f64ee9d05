"""Browsing without consuming: /topic/peek, /channel/peek, /channel/deferred, /deadletters.

A page has at most ``limit`` messages, and fewer when too many places of the log would have to be
read or its bodies are large; ``next`` says how to go on, null that there is no more.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from penstock.broker import browse
from penstock.broker.browse import PageEndError, State
from penstock.broker.channels.deferred import DeferredRange
from penstock.broker.dead_letters import are_dead_letters, decode_origins
from penstock.broker.dialects import nsq_view
from penstock.broker.topic import Topic
from penstock.core.clock import Clock
from penstock.core.errors import StorageError
from penstock.core.ids import format_id
from penstock.core.malformed import MALFORMED
from penstock.core.units import MILLISECOND
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, ApiRouter, Query, all_values
from penstock.node.http.api_arguments import (
    existing_channel,
    existing_topic,
    number,
    topic_named,
)
from penstock.nsq.nsqd.http.write_down import write_down
from penstock.nsq.page import shown_body
from penstock.nsq.protocol.frames import BODY_AT
from penstock.storage.batch import Batch

LIMIT: Final = 100
LIMIT_MAX: Final = 1000
PREVIEW: Final = 1024
PREVIEW_MAX: Final = 64 * 1024
# Previews of 64 KiB for each of 1,000 messages would be an answer of 64 MB.
PAGE_BYTES_MAX: Final = 4 * 1024 * 1024
LOOKED_AT_MAX: Final = 20_000  # messages, most of which nobody asked for
_IDS_BODY_MAX: Final = 1024 * 1024
_TIMESTAMP_AT: Final = 8
_timestamp = struct.Struct(">q")
_ID = re.compile(r"[0-9a-f]{16}")
_TOKEN = re.compile(r"(-?[0-9]{1,20})\.([0-9]{1,19})")


class Found(NamedTuple):
    """A message of a page before it is read. ``deadline`` is monotonic ns."""

    offset: int
    state: str
    attempts: int = 0
    deadline: int | None = None


class BrowseApi:
    """The browsing endpoints of one nsqd."""

    def __init__(self, topics: Mapping[str, Topic], clock: Clock) -> None:
        self._topics = topics
        self._clock = clock

    def add_routes(self, router: ApiRouter) -> None:
        router.v1("GET", "/topic/peek", self._peek_topic)
        router.v1("GET", "/channel/peek", self._peek_channel)
        router.v1("GET", "/deadletters", self._dead_letters)
        router.v1("GET", "/channel/deferred", self._deferred)
        router.v1("POST", "/channel/deferred/cancel", self._cancel, max_body=_IDS_BODY_MAX)
        router.v1("POST", "/channel/deferred/release", self._release, max_body=_IDS_BODY_MAX)

    # --- peeking -------------------------------------------------------------------------------

    def _peek_topic(self, request: Request) -> Any:
        """List what the log holds, consumed or not; ``waiting`` is what no channel was given yet.

        Also of topics with names that are not NSQ's, such as RocketMQ's dead letters.
        """
        query = Query.parse(request.query)
        topic = topic_named(self._topics, query.required("topic"))
        page = _Page(query, topic)
        page.fill(self._logged(topic, page), self._clock)
        return {"topic": topic.name, **page.answer()}

    def _dead_letters(self, request: Request) -> Any:
        """The messages of a topic that came as dead letters, with where they came from."""
        query = Query.parse(request.query)
        topic = existing_topic(self._topics, query)
        page = _Page(query, topic, dead_letters=True)
        page.fill(self._logged(topic, page), self._clock)
        return {"topic": topic.name, **page.answer()}

    def _logged(self, topic: Topic, page: _Page) -> Iterator[Found]:
        log = topic.log
        low = log.start_offset
        if page.newest:
            low = max(low, log.next_offset - page.limit)
        for offset in range(max(low, page.low), log.next_offset):
            waiting = offset >= topic.head
            yield Found(offset, "waiting" if waiting else "distributed")

    def _peek_channel(self, request: Request) -> Any:
        """List the messages that a channel still needs, in the log's order, with their state."""
        query = Query.parse(request.query)
        topic, channel = existing_channel(self._topics, query)
        page = _Page(query, topic)
        if page.newest:
            stretches = browse.newest(channel.state, page.limit)
        else:  # one more, to see whether there is another page
            stretches = browse.oldest(channel.state, page.low, page.limit + 1)
        found = (
            Found(offset, state.value, attempts, deadline)
            for first, next_, state, attempts, deadline in stretches
            for offset in range(first, next_)
        )
        page.fill(found, self._clock)
        return {"topic": topic.name, "channel": channel.name, **page.answer()}

    # --- deferred messages ---------------------------------------------------------------------

    def _deferred(self, request: Request) -> Any:
        """The deferred messages of a channel, those that come next first."""
        query = Query.parse(request.query)
        topic, channel = existing_channel(self._topics, query)
        page = _Page(query, topic, by_deadline=True)
        entries = channel.state.deferred.soonest(page.limit + 1, page.after)
        found = (Found(e.first, State.DEFERRED.value, e.attempts, e.deadline) for e in entries)
        page.fill(found, self._clock)
        return {
            "topic": topic.name,
            "channel": channel.name,
            "count": channel.state.deferred_count,
            **page.answer(),
        }

    def _cancel(self, request: Request) -> Any:
        topic, channel = existing_channel(self._topics, Query.parse(request.query))
        offsets = _wanted(request, topic)
        return self._settled(topic, offsets, channel.state.cancel_deferred(offsets), "cancelled")

    def _release(self, request: Request) -> Any:
        topic, channel = existing_channel(self._topics, Query.parse(request.query))
        offsets = _wanted(request, topic)
        released = channel.release_deferred(offsets)
        channel.dispatch(self._clock.monotonic_ns())  # they are released, written down or not
        return self._settled(topic, offsets, released, "released")

    def _settled(
        self, topic: Topic, offsets: list[int] | None, taken: list[DeferredRange], done: str
    ) -> dict[str, Any]:
        """The answer, once it is written down."""
        write_down(topic)
        found = {entry.first for entry in taken}
        missing = [offset for offset in offsets or () if offset not in found]
        base = topic.log.id_base
        return {
            done: sum(entry.next - entry.first for entry in taken),
            "not_found": [_shown_id(base + offset) for offset in missing],
        }


class _Page:
    """The parameters of a page, and the messages that go on it."""

    def __init__(
        self, query: Query, topic: Topic, *, by_deadline: bool = False, dead_letters: bool = False
    ) -> None:
        self.limit = max(1, number(query, "limit", LIMIT, LIMIT_MAX))
        self.newest = False
        self.low = 0
        self.after: tuple[int, int] | None = None
        self._preview = number(query, "preview", PREVIEW, PREVIEW_MAX)
        self._log = topic.log
        self._by_deadline = by_deadline
        self._dead_letters = dead_letters
        self._messages: list[dict[str, Any]] = []
        self._next: int | str | None = None
        self._room = PAGE_BYTES_MAX
        self._start(query.get("from"))

    def _start(self, text: str | None) -> None:
        if text is None or (text == "oldest" and not self._by_deadline):
            return
        if text == "newest" and not self._by_deadline:
            self.newest = True
        elif self._by_deadline and (token := _TOKEN.fullmatch(text)):
            self.after = int(token[1]), int(token[2])
        elif not self._by_deadline and text.isascii() and text.isdecimal() and len(text) < 20:
            self.low = int(text)
        else:
            raise ApiError(400, "INVALID_ARG_FROM")

    def fill(self, found: Iterable[Found], clock: Clock) -> None:
        """Read messages until the page is full. ApiError 500 when the disk cannot be read."""
        reader = browse.PageReader(self._log)
        now, wall = clock.monotonic_ns(), clock.wall_ns()
        last = None
        try:
            for looked_at, each in enumerate(found):
                full = len(self._messages) == self.limit or self._room <= 0
                if full or looked_at == LOOKED_AT_MAX:
                    raise PageEndError
                self._read(reader, each, now, wall)
                last = each
        except PageEndError:
            self._next = self._token(last, each)
        except StorageError:
            raise ApiError(500, "INTERNAL_ERROR") from None

    def _read(self, reader: browse.PageReader, found: Found, now: int, wall: int) -> None:
        batch = reader.batch(found.offset)
        if batch is not None and (are_dead_letters(batch) or not self._dead_letters):
            message = self._shown(batch, found)
            if found.deadline is not None:
                message["deadline"] = found.deadline - now + wall
                message["remaining_ms"] = max(0, found.deadline - now) // MILLISECOND
            self._messages.append(message)

    def _token(self, last: Found | None, each: Found) -> int | str:
        if not self._by_deadline:
            return each.offset
        assert last is not None, "a page has read one message at least"
        return f"{last.deadline}.{last.offset}"

    def _shown(self, batch: Batch, found: Found) -> dict[str, Any]:
        frame = nsq_view(batch).slice(found.offset, found.offset + 1)
        message: dict[str, Any] = {
            "offset": found.offset,
            "id": _shown_id(self._log.id_base + found.offset),
            "timestamp": _timestamp.unpack_from(frame, _TIMESTAMP_AT)[0],
            "state": found.state,
            "attempts": found.attempts,
            "size": len(frame) - BODY_AT,
        }
        if self._preview:
            # one byte more tells that there is more
            body = bytes(frame[BODY_AT : BODY_AT + self._preview + 1])
            message |= shown_body(body, self._preview)
        self._room -= self._preview and min(len(frame), self._preview)
        origins = decode_origins(batch.note)
        if origins is not None:
            place = found.offset - batch.first_offset
            message["origin"] = {
                "topic": origins.topic,
                "channel": origins.channel,
                "id": _shown_id(origins.ids[place]),
                "attempts": origins.attempts[place],
                "dead_since": batch.timestamp_ns,
            }
        return message

    def answer(self) -> dict[str, Any]:
        return {"messages": self._messages, "next": self._next}


def _shown_id(message_id: int) -> str:
    return format_id(message_id).decode()


def _wanted(request: Request, topic: Topic) -> list[int] | None:
    """The offsets of the ids in the query or in the body, a JSON list; None: ``all=true``."""
    ids = all_values(request.query, "id")
    if request.body:
        try:
            ids += msgspec.json.decode(request.body, type=list[str])
        except MALFORMED:
            raise ApiError(400, "INVALID_BODY") from None
    if "true" in all_values(request.query, "all"):
        if ids:
            raise ApiError(400, "INVALID_ARG_ALL")
        return None
    if not ids:
        raise ApiError(400, "MISSING_ARG_ID")
    if not all(_ID.fullmatch(each) for each in ids):
        raise ApiError(400, "INVALID_ARG_ID")
    return [int(each, 16) - topic.log.id_base for each in ids]
