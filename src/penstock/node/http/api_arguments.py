"""The arguments of a request to the HTTP API: existing topics and channels, numbers, positions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.broker.channels.channel import Channel
from penstock.broker.topic import Topic
from penstock.core.errors import OffsetOutOfRangeError, StorageError
from penstock.core.units import parse_duration
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import ApiError, Query, json_response

# ``int`` alone would take signs, blanks and underscores.
_NUMBER = re.compile(r"[0-9]{1,19}")
NUMBER_MAX: Final = (1 << 63) - 1
_POSITIONS = ("offset", "from", "timestamp_ns", "since")


def topic_named(topics: Mapping[str, Topic], name: str) -> Topic:
    """The topic of that name; ApiError 404."""
    topic = topics.get(name)
    if topic is None:
        raise ApiError(404, "TOPIC_NOT_FOUND")
    return topic


def existing_topic(topics: Mapping[str, Topic], query: Query) -> Topic:
    """The topic that is asked for; ApiError 400 or 404."""
    return topic_named(topics, query.topic())


def existing_channel(topics: Mapping[str, Topic], query: Query) -> tuple[Topic, Channel]:
    """The channel that is asked for, and its topic; ApiError 400 or 404."""
    name, channel_name = query.topic_and_channel()
    topic = topic_named(topics, name)
    channel = topic.channels.get(channel_name)
    if channel is None:
        raise ApiError(404, "CHANNEL_NOT_FOUND")
    return topic, channel


def number(query: Query, name: str, default: int | None, most: int = NUMBER_MAX) -> int:
    """A whole number from 0 to ``most``; ApiError 400 INVALID_ARG_<NAME>.

    Without a ``default`` it must be given; ApiError 400 MISSING_ARG_<NAME>.
    """
    text = query.required(name) if default is None else query.get(name)
    if text is None:
        assert default is not None
        return default
    if not _NUMBER.fullmatch(text) or int(text) > most:
        raise ApiError(400, f"INVALID_ARG_{name.upper()}")
    return int(text)


def duration_ns(name: str, text: str) -> int:
    """Nanoseconds of an argument such as ``1h30m``; ApiError 400 INVALID_ARG_<NAME>."""
    try:
        ns = parse_duration(text)
    except ValueError:
        ns = -1
    if ns < 0:
        raise ApiError(400, f"INVALID_ARG_{name.upper()}")
    return ns


def position(query: Query, topic: Topic, wall_ns: int) -> int | None:
    """The offset that ``offset``, ``from``, ``timestamp_ns`` or ``since`` names; None: none given.

    ApiError 400 when it makes no sense, 500 when the log cannot be read; OffsetOutOfRangeError when
    the log does not hold that offset. A time before all that is held is its start.
    """
    given = [name for name in _POSITIONS if query.get(name) is not None]
    if not given:
        return None
    if len(given) > 1:
        raise ApiError(400, "AMBIGUOUS_POSITION")
    name = given[0]
    text = query.required(name)
    log = topic.log
    if name == "offset":
        offset = number(query, name, None)
        if not log.start_offset <= offset <= log.next_offset:
            raise OffsetOutOfRangeError(topic.name, 0, offset, log.start_offset, log.next_offset)
        return offset
    if name == "from":
        if text not in ("oldest", "latest"):
            raise ApiError(400, "INVALID_ARG_FROM")
        return log.start_offset if text == "oldest" else log.next_offset
    if name == "timestamp_ns":
        return offset_at(topic, number(query, name, None))
    return offset_at(topic, wall_ns - duration_ns(name, text))


def offset_at(topic: Topic, timestamp_ns: int) -> int:
    """The first offset published at or after a time (wall ns); ApiError 500 on a bad disk."""
    try:
        return topic.log.offset_at(timestamp_ns)
    except StorageError:
        raise ApiError(500, "INTERNAL_ERROR") from None


def within_log(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """The handler, with 416 for an offset that the log does not hold."""

    def answer_or_refuse(request: Request) -> Any:
        try:
            return answer(request)
        except OffsetOutOfRangeError as error:
            return out_of_range(error)

    return answer_or_refuse


def out_of_range(error: OffsetOutOfRangeError) -> Response:
    """The answer to an offset that the log does not hold: 416, with its bounds."""
    content = {"message": "OFFSET_OUT_OF_RANGE", "start": error.start, "end": error.end}
    return json_response(content, 416)
