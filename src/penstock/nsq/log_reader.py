"""Reading a topic's log on one node; what was read last is remembered. Needs numpy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterable
from operator import attrgetter
from typing import Final

from penstock.cluster.exchange import target
from penstock.cluster.http_client import HttpClient
from penstock.cluster.upstream_errors import UpstreamError
from penstock.nsq.stored import Stored, StoredRange
from penstock.storage.batch import Batch, CorruptBatchError, iter_batches

_FETCH_BYTES: Final = 256 * 1024
_FIRST_OFFSET: Final = attrgetter("first_offset")


class LogReader:
    """The batches of a topic; holds about 256 KiB of them, or one that is larger."""

    def __init__(self, http: HttpClient, address: str, topic: str) -> None:
        self._http = http
        self._address = address
        self._topic = topic
        self._batches: list[Batch] = []

    async def batch(self, offset: int) -> Batch | None:
        """The batch that holds this offset, or the next where a damaged disk has lost that.

        None at the end of the log. Raises UpstreamError.
        """
        place = bisect_right(self._batches, offset, key=_FIRST_OFFSET) - 1
        if place >= 0 and offset < self._batches[place].next_offset:
            return self._batches[place]
        self._batches = await self._fetched(offset)
        return next((batch for batch in self._batches if batch.next_offset > offset), None)

    async def _fetched(self, offset: int) -> list[Batch]:
        asked = target("/log/fetch", topic=self._topic, offset=offset, max_bytes=_FETCH_BYTES)
        data = await self._http.get_bytes(self._address, asked)
        try:
            return list(iter_batches(data))
        except CorruptBatchError as error:
            text = f"{self._address} sent damaged data of topic {self._topic!r}: {error}"
            raise UpstreamError(text) from error

    async def messages(self, runs: Iterable[tuple[int, int]]) -> AsyncGenerator[Stored, None]:
        """The messages at offsets ``[first, next)`` of each run, without what a damaged disk lost.

        Raises UpstreamError.
        """
        for at, next_ in runs:
            while at < next_:
                batch = await self.batch(at)
                if batch is None:
                    return
                first, at = max(at, batch.first_offset), min(next_, batch.next_offset)
                if first < at:
                    for message in StoredRange(batch, first, at).messages():
                        yield message
