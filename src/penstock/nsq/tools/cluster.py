"""The tools' queries to nsqd and nsqlookupd over HTTP, and Go's words when they fail.

Several daemons are asked at the same time. One that fails spoils the whole answer, because a sum
over the others would be wrong without saying so.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote_plus, urlsplit

from penstock.core.errors import PenstockError
from penstock.core.quote import quote
from penstock.core.redaction import without_secrets
from penstock.net.address import join_host_port, split_host_port
from penstock.net.http_client import Answer, HttpError, request
from penstock.nsq.http_query import ACCEPT, LATE, Timeouts, status_text
from penstock.nsq.version import NSQ_VERSION

T = TypeVar("T")


class QueryFailed(PenstockError):
    """A daemon gave no usable answer, or none at all; the text is Go's, without secrets."""

    def __init__(self, text: str) -> None:
        super().__init__(without_secrets(text))


class Figures(NamedTuple):
    """A channel's figures, over all the nodes that have it."""

    depth: int = 0
    backend_depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    requeue_count: int = 0
    timeout_count: int = 0
    message_count: int = 0
    client_count: int = 0

    @property
    def memory_depth(self) -> int:
        """Messages that no file holds."""
        return self.depth - self.backend_depth

    def plus(self, other: Figures) -> Figures:
        """The sums."""
        return Figures(*map(sum, zip(self, other, strict=True)))


class Cluster:
    """Some nsqds or nsqlookupds, asked over HTTP. All methods raise QueryFailed."""

    def __init__(self, timeouts: Timeouts, user_agent: str = f"nsq/{NSQ_VERSION}") -> None:
        self._timeouts = timeouts
        self._headers = {"Accept": ACCEPT, "User-Agent": user_agent}

    async def topics(self, lookupds: Sequence[str]) -> list[str]:
        """The topics that these nsqlookupds know, sorted."""

        async def ask(address: str) -> list[str]:
            answer = await self._get(f"http://{address}/topics")
            return [str(topic) for topic in answer.get("topics") or []]

        answers = await _together("nsqlookupd", map(ask, lookupds))
        return sorted({topic for answer in answers for topic in answer})

    async def producers_by_lookup(self, lookupds: Sequence[str], topic: str) -> list[str]:
        """The HTTP addresses of the nodes that have the topic, as these nsqlookupds know them."""

        async def ask(address: str) -> list[str]:
            answer = await self._get(f"http://{address}/lookup?topic={quote_plus(topic)}")
            return [
                join_host_port(each["broadcast_address"], each["http_port"])
                for each in answer.get("producers") or []
            ]

        answers = await _together("nsqlookupd", map(ask, lookupds))
        return list(dict.fromkeys(address for answer in answers for address in answer))

    async def producers_by_stats(self, nsqds: Sequence[str], topic: str) -> list[str]:
        """The HTTP addresses, as the nodes call themselves, of those that have the topic."""

        async def ask(address: str) -> list[str]:
            answer = await self._get(_stats_url(address, topic))
            if not any(each["topic_name"] == topic for each in answer.get("topics") or []):
                return []
            told = await self._get(f"http://{address}/info")
            if not told.get("broadcast_address"):
                return [address]
            return [join_host_port(told["broadcast_address"], told["http_port"])]

        answers = await _together("nsqd", map(ask, nsqds))
        return list(dict.fromkeys(address for answer in answers for address in answer))

    async def channel(self, nsqds: Sequence[str], topic: str, channel: str) -> Figures | None:
        """The channel's figures over these nodes; None when none of them has it."""

        async def ask(address: str) -> list[Figures]:
            answer = await self._get(_stats_url(address, topic, channel))
            return [
                Figures(*(int(found.get(name, 0)) for name in Figures._fields))
                for each in answer.get("topics") or []
                if each["topic_name"] == topic
                for found in each.get("channels") or []
                if found["channel_name"] == channel
            ]

        answers = await _together("nsqd", map(ask, nsqds))
        found = [figures for answer in answers for figures in answer]
        total = Figures()
        for figures in found:
            total = total.plus(figures)
        return total if found else None

    async def _get(self, url: str) -> dict[str, Any]:
        """The JSON object at `url`; of a node that wants TLS, at its HTTPS address."""
        answer = await self._exchange(url)
        if answer.status == 403 and url.startswith("http:"):
            url = _https_url(url, answer.body)
            answer = await self._exchange(url)
        if answer.status != 200:
            raise QueryFailed(f"got response {status_text(answer.status)} {quote(answer.body)}")
        return _object(url, answer.body)

    async def _exchange(self, url: str) -> Answer:
        try:
            return await request(
                "GET",
                url,
                self._timeouts.request,
                headers=self._headers,
                connect_timeout=self._timeouts.connect,
            )
        except HttpError as error:
            raise QueryFailed(f"Get {quote(url)}: {_reason(error, url)}") from error


async def _together(kind: str, asking: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The answers of all of them. Raises QueryFailed with every failure, in order."""
    answers = await asyncio.gather(*(_understanding(each) for each in asking))
    failures = [str(each) for each in answers if isinstance(each, QueryFailed)]
    good = [each for each in answers if not isinstance(each, QueryFailed)]
    if not good:
        raise QueryFailed(f"failed to query any {kind}: " + "\n".join(failures))
    if failures:
        raise QueryFailed("\n".join(failures))
    return good


async def _understanding(asked: Coroutine[Any, Any, T]) -> T | QueryFailed:
    """Somebody else's server may listen there, and answer 200 to anything."""
    try:
        return await asked
    except QueryFailed as error:
        return error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return QueryFailed(f"unexpected answer ({type(error).__name__}: {error})")


def _stats_url(address: str, topic: str, channel: str = "") -> str:
    chosen = f"&topic={quote_plus(topic)}"
    if channel:
        chosen += f"&channel={quote_plus(channel)}"
    return f"http://{address}/stats?format=json{chosen}&include_clients=false"


def _https_url(url: str, refusal: bytes) -> str:
    port = _object(url, refusal).get("https_port", 0)
    parts = urlsplit(url)
    netloc = join_host_port(split_host_port(parts.netloc)[0], port)
    return parts._replace(scheme="https", netloc=netloc).geturl()


def _object(url: str, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise QueryFailed(f"Get {quote(url)}: the answer is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise QueryFailed(f"Get {quote(url)}: the answer is no JSON object")
    return found


def _reason(error: HttpError, url: str) -> str:
    address = urlsplit(url).netloc
    cause = error.__cause__
    if isinstance(cause, ConnectionRefusedError):
        return f"dial tcp {address}: connect: connection refused"
    if isinstance(cause, socket.gaierror):
        return f"dial tcp: lookup {urlsplit(url).hostname}: no such host"
    if isinstance(cause, OSError) and cause.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return f"dial tcp {address}: connect: {error.reason}"
    if error.reason == "connecting timed out":
        return f"dial tcp {address}: i/o timeout"
    return LATE if error.reason == "timed out" else error.reason
