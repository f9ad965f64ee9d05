"""Requests of the log API that name many topics: each topic gets its own answer or error.

A reader of hundreds of topics would otherwise make as many requests, one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sized
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from penstock.broker.topic import Topic
from penstock.core.malformed import MALFORMED
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError, Query

TOPICS_MAX: Final = 1000
"""The most topics of one request: with a few groups each, nsqd answers it within some 10 ms."""

_TURN: Final = 50


class _Names(Struct):
    topics: list[str] | UnsetType = UNSET


class _Offsets(Struct):
    topics: dict[str, dict[str, int]] | UnsetType = UNSET


_BodyT = TypeVar("_BodyT", _Names, _Offsets)


def names_in(request: Request, query: Query) -> list[str] | None:
    """The topics that the body lists; None if the query names one, or nothing does.

    ApiError 400 INVALID_BODY or TOO_MANY_TOPICS.
    """
    return _topics(_body(request, query, _Names).topics)


def offsets_in(request: Request, query: Query) -> dict[str, dict[str, int]] | None:
    """The offsets by topic and queue in the body; None and errors as for ``names_in``."""
    return _topics(_body(request, query, _Offsets).topics)


def _body(request: Request, query: Query, kind: type[_BodyT]) -> _BodyT:
    if query.get("topic") is not None or not request.body:
        return kind()
    try:
        return msgspec.json.decode(request.body, type=kind)
    except MALFORMED:
        raise ApiError(400, "INVALID_BODY") from None


_TopicsT = TypeVar("_TopicsT", list[str], dict[str, dict[str, int]])


def _topics(given: _TopicsT | UnsetType) -> _TopicsT | None:
    if given is UNSET:
        return None
    check_number(given)
    return given


def check_number(topics: Sized) -> None:
    """ApiError 400 TOO_MANY_TOPICS, with the limit."""
    if len(topics) > TOPICS_MAX:
        raise ApiError(400, "TOO_MANY_TOPICS", limit=TOPICS_MAX)


async def change_each(
    topics: Iterable[str],
    change: Callable[[str], Topic | None],
    write_down: Callable[[Collection[Topic]], Awaitable[set[str]]],
) -> dict[str, Any]:
    """Change topic after topic; the answer for each is empty or its error.

    What ``change`` gives is to be written down durably, with all others at the end; ``write_down``
    gives the names of topics for which that failed. Others have their turn meanwhile.
    """
    answers: dict[str, Any] = {}
    changed: list[Topic] = []
    for count, topic in enumerate(dict.fromkeys(topics)):
        if count % _TURN == _TURN - 1:
            await asyncio.sleep(0)
        try:
            found = change(topic)
            answers[topic] = {}
        except ApiError as error:
            answers[topic] = error.content
            continue
        if found is not None:
            changed.append(found)
    failed = await write_down(changed) if changed else ()
    return {"topics": answers | {name: {"message": "INTERNAL_ERROR"} for name in failed}}
