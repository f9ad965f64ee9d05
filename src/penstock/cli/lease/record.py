"""The lease as it is stored: who holds it, in which epoch, and which copies have everything."""

from __future__ import annotations

import json
import ssl
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Protocol
from urllib.error import HTTPError

import msgspec

from penstock.core.errors import PenstockError

ASK_S = 2.0
"""The time for an answer of a store."""


class LeaseError(PenstockError):
    """The store does not answer, refuses, or holds what is not a lease."""


class Record(msgspec.Struct, kw_only=True):
    """A lease; each change of it is a new version of what the store has.

    ``holder`` is the HTTP address of a node. ``in_sync`` are those of the copies that have whatever
    it acknowledged; None where it acknowledges without any, so nobody knows. ``nodes`` are all that
    follow it. ``served`` is the newest epoch in which a holder was primary; the one that takes the
    lease is to be. ``is_released`` is set by a holder that is gone, so that nobody waits for the
    end.
    """

    holder: str = ""
    epoch: int = 0
    served: int = 0
    history: str = ""
    seconds: float = 15.0
    renewals: int = 0
    in_sync: list[str] | None = None
    nodes: list[str] = []
    is_released: bool = False


class Version(msgspec.Struct):
    """A record as a store has it; ``mark`` identifies this version of it to the store."""

    record: Record | None
    mark: str = ""


class Store(Protocol):
    """A store that changes the record only if it is still the version that was read."""

    name: str

    def read(self) -> Version:
        """The newest version that a majority has. Raises LeaseError."""
        ...

    def write(self, seen: Version, record: Record) -> bool:
        """Put it in the place of what was seen; False if another version is there. Raises
        LeaseError, after which it may or may not be there.
        """
        ...


class RefusedError(LeaseError):
    """A store answered with a status that is not a success."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def ask(
    url: str,
    method: str,
    content: Mapping[str, Any] | None,
    fields: Mapping[str, str],
    tls: ssl.SSLContext | None,
) -> dict[str, Any]:
    """The JSON object of an answer. Raises RefusedError, LeaseError."""
    body = None if content is None else json.dumps(content).encode()
    headers = {"Content-Type": "application/json", **fields}
    request = urllib.request.Request(url, body, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ASK_S, context=tls) as answer:
            return dict(json.load(answer))
    except HTTPError as error:
        with error:
            said = error.read(300).decode(errors="replace")
        raise RefusedError(f"{url} refuses: {error}: {said}", error.code) from error
    except (OSError, HTTPException, ValueError, TypeError) as error:
        raise LeaseError(f"{url} cannot be asked: {error}") from error
