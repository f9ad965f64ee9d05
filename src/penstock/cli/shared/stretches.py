"""Reading a node's log, stretch by stretch. Needs numpy; import it late."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.errors import PenstockError
from penstock.log_api.errors import LogError, OffsetOutOfRange
from penstock.log_api.log_client import LogClient
from penstock.nsq.stored import Stretch
from penstock.storage.batch import Batch, CorruptBatchError


class OffsetGone(PenstockError):
    """Retention has let go of what was to be read."""


class NoLog(PenstockError):
    """The node is an nsqd without a log to read."""


def stretches(
    client: LogClient, topic: str, first: int, end: int, *, queue: int = 0
) -> Iterator[Stretch]:
    """Stretches of the log at offsets ``[first, end)``; what a damaged disk has lost is left out.

    Raises OffsetGone, NoLog, and what ``LogClient.fetch`` does.
    """
    while first < end:
        try:
            fetched = client.fetch(topic, first, queue=queue)
        except OffsetOutOfRange as error:
            raise OffsetGone(
                f"offset {first} of topic {topic!r} is gone from {client.node}, "
                f"which holds {error.start} to {error.end - 1}"
            ) from error
        except LogError as error:
            raise no_log(error) from error
        read = first
        for batch in _batches(fetched.data, topic, client.node):
            low, high = max(first, batch.first_offset), min(end, batch.next_offset)
            read = max(read, batch.next_offset)
            if low < high:
                yield Stretch(batch, low, high)
        if read == first:
            return
        first = read


def no_log(error: LogError) -> PenstockError:
    """An error for users: NoLog for another nsqd, else the error as it is."""
    if error.status == 404 and error.reason == "NOT_FOUND":
        return NoLog(f"{error.node} is no Penstock node: it keeps no log that can be read")
    return error


def _batches(data: bytes, topic: str, node: str) -> Iterator[Batch]:
    from penstock.storage.batch import iter_batches

    try:
        yield from iter_batches(data)
    except CorruptBatchError as error:
        raise PenstockError(f"{node} sent damaged data of topic {topic!r}: {error}") from error
