"""Sending at least once, in every dialect: requests under way, and pauses while nobody takes rows.

A request that failed may have been stored all the same, and a task that is tried again sends its
rows a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Final, TypeVar

from penstock.core.clock import SYSTEM_CLOCK
from penstock.core.counted import counted
from penstock.spark.errors import SinkError
from penstock.spark.sink.in_flight import InFlight
from penstock.spark.sink.pieces import Piece
from penstock.spark.sink.request_buffers import in_requests
from penstock.spark.sink.sink_settings import WriteOptions

_Key = TypeVar("_Key", bound=Hashable)
_PAUSE_S: Final = 0.1
_PAUSE_S_MAX: Final = 1.0


def send_rows(
    rows: Iterable[tuple[_Key, Piece]], send: Callable[[_Key, Piece], int], settings: WriteOptions
) -> int:
    """Send messages under keys, those of one key together; their number.

    Raises SinkError, which says how many rows are published nevertheless.
    """
    with InFlight(settings.in_flight) as requests:
        try:
            for key, piece in in_requests(rows, settings.request_bytes):
                requests.submit(partial(send, key, piece))
            requests.finish()
        except SinkError as error:
            raise SinkError(f"{error}{published(requests.done)}") from error
    return requests.done


def published(count: int) -> str:
    """The end of an error's sentence, when rows are there all the same."""
    if not count:
        return ""
    rows = f"{counted(count, 'row')} of the partition {'is' if count == 1 else 'are'} published"
    return f"; {rows}, and again when it is tried again"


class RetryTime:
    """Pauses between tries, for ``timeout_s`` seconds from the first one that failed."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._pause_s = _PAUSE_S
        self._deadline_ns = 0

    def renew(self) -> None:
        """Count the seconds from the next failure: some messages were taken."""
        self._deadline_ns = 0

    def pause(self) -> bool:
        """Wait before the next try, longer each time; False if the time is up."""
        now_ns = SYSTEM_CLOCK.monotonic_ns()
        self._deadline_ns = self._deadline_ns or now_ns + int(self._timeout_s * 1e9)
        if now_ns + int(self._pause_s * 1e9) > self._deadline_ns:
            return False
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, _PAUSE_S_MAX)
        return True

    def nobody(self, kind: str, topic: str, where: str, failures: Mapping[str, str]) -> SinkError:
        """The error when the time is up: what each address has answered, or why it has not."""
        said = "; ".join(f"{address}: {failure}" for address, failure in failures.items())
        return SinkError(
            f"{where}: no {kind} takes messages of topic {topic} ({said}; tried for "
            f"{self._timeout_s:g} s, option timeout)"
        )
