"""The auth servers of an nsqd: who says what a client may do (NSQ spec 1.10).

One server after the other is asked, from a random one on, until one gives a valid answer. Each has
its time, and no more than ``QUERIES_MAX`` clients are asked about at once; what went wrong is told
to the log alone, one line a server.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Sequence
from typing import Final

from penstock.core.chance import Chance, SystemChance
from penstock.core.redaction import without_secrets
from penstock.core.units import MINUTE, SECOND, format_duration
from penstock.net.http.client import once as http_client
from penstock.net.tls.tls_layer import client_context
from penstock.nsq.nsqd.nsqd_options import NsqdOptions
from penstock.nsq.protocol.auth import (
    AuthError,
    Credentials,
    Question,
    follow,
    grants,
    question,
)
from penstock.nsq.protocol.authorizations import Authorizations

logger = logging.getLogger(__name__)

QUERIES_MAX: Final = 64
ANSWER_BYTES_MAX: Final = 1024 * 1024
# Go's HTTP client stops after as many.
STEPS_MAX: Final = 10
"""Requests that one server may make of a query, by redirects and the way to its https port."""
TIME_MAX: Final = 1 * MINUTE
"""The time-out if it is 0 or less, which Go takes for none: a client must not wait for ever."""


class AuthServers:
    """All servers that ``--auth-http-address`` names; there must be one."""

    def __init__(
        self,
        addresses: Sequence[str],
        method: str,
        connect_timeout_ns: int,
        request_timeout_ns: int,
        tls: ssl.SSLContext | None = None,
        chance: Chance | None = None,
    ) -> None:
        """``method`` is "get" or "post"; ``tls`` says whom to trust over https, by default
        whom the system trusts.
        """
        self.query_count = 0
        self.failure_count = 0  # queries that no server gave a valid answer to
        self.denial_count = 0  # commands of clients that the answers did not allow
        self._addresses = list(addresses)
        self._method = method
        self._connect_ns = connect_timeout_ns if connect_timeout_ns > 0 else TIME_MAX
        self._request_ns = request_timeout_ns if request_timeout_ns > 0 else TIME_MAX
        self._tls = tls
        self._chance = chance or SystemChance()
        self._slots = asyncio.Semaphore(QUERIES_MAX)

    @classmethod
    def of(cls, options: NsqdOptions) -> AuthServers | None:
        """The servers of the options; None without any. Raises ConfigError for a bad CA file."""
        if not options.auth_http_addresses and not options.tls_root_ca_file:
            return None
        # Without servers too: a CA file that is missing ends the start, as in Go (NSQ spec 3.15).
        tls = client_context(options.tls_root_ca_file, min_version=options.tls_min_version)
        if not options.auth_http_addresses:
            return None
        return cls(
            options.auth_http_addresses,
            options.auth_http_request_method,
            options.http_client_connect_timeout,
            options.http_client_request_timeout,
            tls,
        )

    async def ask(self, credentials: Credentials, client: str) -> Authorizations | None:
        """The client's permissions; None if no server gives them: the log then has the reasons.

        ``client`` is its address, for the log.
        """
        self.query_count += 1
        try:
            async with asyncio.timeout(self._request_ns / SECOND):
                # With a time-out too: a client must not wait behind servers that hang.
                await self._slots.acquire()
        except TimeoutError:
            self.failure_count += 1
            logger.warning(
                "PROTOCOL(V2): [%s] AUTH failed too many clients (%d) are asked about",
                client,
                QUERIES_MAX,
            )
            return None
        try:
            return await self._ask_any(credentials, client)
        finally:
            self._slots.release()

    async def _ask_any(self, credentials: Credentials, client: str) -> Authorizations | None:
        # As in Go: from a random one, then each in turn until one succeeds (NSQ spec 1.10).
        start = self._chance.below(len(self._addresses))
        for address in self._addresses[start:] + self._addresses[:start]:
            try:
                async with asyncio.timeout(self._request_ns / SECOND):
                    return await self._ask_one(address, credentials)
            except TimeoutError:
                reason = f"no answer within {format_duration(self._request_ns)}"
            except AuthError as error:
                reason = str(error)
            logger.warning(
                "PROTOCOL(V2): [%s] AUTH failed to auth against %s - %s",
                client,
                without_secrets(address),
                reason,
            )
        self.failure_count += 1
        return None

    async def _ask_one(self, address: str, credentials: Credentials) -> Authorizations:
        first = asked = question(address, credentials, self._method)
        for _ in range(STEPS_MAX):
            try:
                status, headers, body = await self._send(asked)
            except http_client.HttpError as error:
                sent_on = "" if asked is first else f" (sent on to {asked.origin})"
                raise AuthError(error.reason + sent_on) from error
            following = follow(asked, status, headers, body)
            if following is None:
                # Thousands of patterns may take a while to compile.
                return await asyncio.to_thread(grants, status, body)
            asked = following
        raise AuthError(f"stopped after {STEPS_MAX} redirects")

    async def _send(self, asked: Question) -> http_client.Answer:
        return await http_client.request(
            asked.method,
            asked.url,
            self._request_ns / SECOND,
            body=asked.body,
            headers=dict(asked.headers),
            connect_timeout=self._connect_ns / SECOND,
            max_body=ANSWER_BYTES_MAX,
            tls=self._tls,
        )
