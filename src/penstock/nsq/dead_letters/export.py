"""Dead letters whole, as a node's log holds them, and as lines of a file. Needs numpy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import msgspec

from penstock.cluster.http_client import HttpClient
from penstock.nsq.dead_letters.listing import open_runs
from penstock.nsq.log_reader import LogReader
from penstock.nsq.stored import Stored, as_object


def described(node: str, topic: str, letter: Stored) -> dict[str, Any]:
    """A letter with where it lies, as JSON has it."""
    return {"node": node, "topic": topic, **as_object(letter)}


def _json(node: str, topic: str, letter: Stored) -> bytes:
    return msgspec.json.encode(described(node, topic, letter)) + b"\n"


def _raw(node: str, topic: str, letter: Stored) -> bytes:
    return letter.body + b"\n"


FORMS: Final[dict[str, Callable[[str, str, Stored], bytes]]] = {"json": _json, "raw": _raw}
"""Functions that turn a letter into a line: JSON with where it came from, or the body alone."""


async def stored_letters(
    http: HttpClient, address: str, topic: str
) -> AsyncGenerator[Stored, None]:
    """The letters that are left on a node, whole and in order. Raises UpstreamError."""
    log = LogReader(http, address, topic)
    async for runs in open_runs(http, address, topic):
        async for letter in log.messages(runs):
            yield letter
