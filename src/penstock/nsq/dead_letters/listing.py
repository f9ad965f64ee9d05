"""Dead letters that are still to be dealt with, as one node lists them, and as runs of offsets.

Whatever a node does becomes an UpstreamError; another nsqd does not know the requests
(``RefusedError.is_unknown``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from penstock.cluster.exchange import target
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import RefusedError, UpstreamError
from penstock.log_api.bounds import bounds_of
from penstock.nsq.dead_letters.topics import CHANNEL, is_rocketmq
from penstock.nsq.page import Page

_PAGE: Final = 1000


class DeadTopic(Struct):
    """A dead-letter topic of a node."""

    topic: str
    letters: int
    is_rocketmq: bool


class DeadTopics(Struct):
    """The answer of a node: its dead-letter topics."""

    topics: list[DeadTopic]


async def topics_of(http: HttpClient, address: str) -> list[DeadTopic]:
    """The dead-letter topics of a node, by name."""
    return (await http.get(address, "/deadletters/topics", DeadTopics)).topics


async def dead_letter_page(
    http: HttpClient, address: str, topic: str, **query: str | int | None
) -> Page:
    """A page of those that are left, with these parameters of nsqd's peek."""
    page = await open_letter_page(http, address, topic, **query)
    if page is not None:
        return page
    return await http.get(address, target("/topic/peek", topic=topic, **query), Page)


async def open_letter_page(
    http: HttpClient, address: str, topic: str, **query: str | int | None
) -> Page | None:
    """A page of those left; None while no channel says what is left: all that the log holds."""
    if is_rocketmq(topic):
        return None
    try:
        asked = target("/channel/peek", topic=topic, channel=CHANNEL, **query)
        return await http.get(address, asked, Page)
    except RefusedError as error:
        if error.code != "CHANNEL_NOT_FOUND":
            raise
        return None


async def open_runs(
    http: HttpClient, address: str, topic: str
) -> AsyncGenerator[Sequence[OffsetRun], None]:
    """The offsets that are left, page by page; all that the log holds while there is no channel."""
    bounds = await bounds_of(http, address, topic)
    at: int | str | None = bounds.start
    while isinstance(at, int) and at < bounds.end:
        page = await open_letter_page(http, address, topic, from_=at, limit=_PAGE, preview=0)
        if page is None:
            yield [OffsetRun(at, bounds.end)]
            return
        yield joined(each.offset for each in page.messages if each.offset < bounds.end)
        # A node that gives the same page again would keep this going for ever.
        if isinstance(page.next, int) and page.next <= at:
            raise UpstreamError(f"{address}: the page after {at} is that of {page.next}")
        at = page.next


class OffsetRun(NamedTuple):
    """Offsets ``[first, next)``."""

    first: int
    next: int


def joined(offsets: Iterable[int]) -> list[OffsetRun]:
    """The runs of these offsets, which ascend."""
    runs: list[OffsetRun] = []
    for offset in offsets:
        if runs and runs[-1].next == offset:
            runs[-1] = OffsetRun(runs[-1].first, offset + 1)
        else:
            runs.append(OffsetRun(offset, offset + 1))
    return runs


def first_of(runs: Sequence[OffsetRun]) -> list[OffsetRun]:
    """A run of the first offset; none of none."""
    return [OffsetRun(runs[0].first, runs[0].first + 1)] if runs else []


def newest_of(runs: Sequence[OffsetRun], count: int) -> list[OffsetRun]:
    """The runs of the last ``count`` offsets."""
    taken: list[OffsetRun] = []
    for run in reversed(runs):
        if count <= 0:
            break
        taken.append(OffsetRun(max(run.first, run.next - count), run.next))
        count -= run.next - run.first
    return taken[::-1]


def count_of(runs: Sequence[OffsetRun]) -> int:
    """The number of offsets."""
    return sum(run.next - run.first for run in runs)
