"""The selection of messages: by their place in the log, and by their bodies."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.cli.shared.times import moment_ns
from penstock.core.errors import UsageError
from penstock.log_api.errors import OffsetOutOfRange
from penstock.log_api.log_client import LogClient


@dataclass(frozen=True, slots=True)
class LogRange:
    """Part of a queue as people give it: offsets, or times (wall-clock ns); None for its ends.

    The ``to`` is not included.
    """

    from_offset: int | None = None
    from_ns: int | None = None
    to_offset: int | None = None
    to_ns: int | None = None

    @classmethod
    def parse(
        cls,
        from_offset: int | None,
        from_time: str | None,
        to_offset: int | None,
        to_time: str | None,
        now_ns: int,
    ) -> LogRange:
        """From the flags. Raises UsageError."""
        for name, offset, time in (("from", from_offset, from_time), ("to", to_offset, to_time)):
            if offset is not None and time is not None:
                raise UsageError(f"give --{name}-offset or --{name}-time, not both")
            if offset is not None and offset < 0:
                raise UsageError(f"--{name}-offset {offset}: offsets start at 0")
        return cls(
            from_offset,
            None if from_time is None else moment_ns("--from-time", from_time, now_ns),
            to_offset,
            None if to_time is None else moment_ns("--to-time", to_time, now_ns),
        )

    @property
    def has_offsets(self) -> bool:
        """Offsets are those of one node."""
        return self.from_offset is not None or self.to_offset is not None

    def bounds(
        self, client: LogClient, topic: str, queue: int, start: int, end: int
    ) -> tuple[int, int]:
        """The offsets ``[first, next)`` of a queue that holds ``[start, end)``.

        Raises OffsetOutOfRange for an offset that the queue does not hold.
        """
        first, last = start, end
        if self.from_offset is not None:
            first = self.from_offset
        elif self.from_ns is not None:
            first = client.offset_at(topic, self.from_ns, queue=queue)
        if self.to_offset is not None:
            last = min(end, self.to_offset)
        elif self.to_ns is not None:
            last = client.offset_at(topic, self.to_ns, queue=queue)
        if not start <= first <= end:
            raise OffsetOutOfRange(topic, client.node, first, start, end)
        return first, max(first, last)


class BodyFilter:
    """Conditions on a body: a match of a regular expression, and JSON fields of these values."""

    def __init__(self, grep: str | None, fields: Sequence[str] = ()) -> None:
        try:
            wanted = None if grep is None else os.fsencode(grep)  # any bytes may be looked for
            self._pattern = None if wanted is None else re.compile(wanted)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(f"--grep {grep}: {error}") from error
        self._fields = dict(_field(text) for text in fields)

    @property
    def takes_all(self) -> bool:
        """True if there are no conditions."""
        return self._pattern is None and not self._fields

    def takes(self, body: bytes) -> bool:
        """True if a message with this body is wanted."""
        if self._pattern is not None and self._pattern.search(body) is None:
            return False
        if not self._fields:
            return True
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):  # whatever somebody has published
            return False
        return isinstance(found, dict) and all(
            name in found and _text(found[name]) == value for name, value in self._fields.items()
        )


def _field(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise UsageError(f"--filter {text}: give the name and the value of a JSON field, as a=b")
    return name, value


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
