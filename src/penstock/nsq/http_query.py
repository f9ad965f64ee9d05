"""Asking nsqd and nsqlookupd over HTTP: what all askers share, Go's words among it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

ACCEPT: Final = "application/vnd.nsq; version=1.0"
"""The header `Accept`: an answer without the wrapping of versions before 1.0."""
LATE: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
"""Go's words for a request that took too long."""


class Timeouts(NamedTuple):
    """Seconds: for the TCP connection, and for a whole request."""

    connect: float
    request: float


def status_text(status: int) -> str:
    """A status as in a status line: `404 Not Found`; one that has no name stays a number."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
