"""A connection of an nsqd that has auth servers: AUTH first, then what they allow (NSQ spec 1.10).

The answer to AUTH is kept for as long as it says; the first SUB or publish after that asks again,
and waits, with everything behind it, for the new answer. RDY, FIN, REQ and TOUCH are not checked: a
subscribed consumer goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Final

from penstock.core.quote import quote
from penstock.net.address import host_of
from penstock.net.tasks import spawn
from penstock.nsq.nsqd.tcp.auth_servers import AuthServers
from penstock.nsq.nsqd.tcp.connection import ENDED, Connection, Handlers
from penstock.nsq.nsqd.tcp.session import Session
from penstock.nsq.protocol.auth import Credentials, auth_answer
from penstock.nsq.protocol.authorizations import Authorizations
from penstock.nsq.protocol.events import Auth, Event, Failure, MpubLine, Publish, Subscribe
from penstock.nsq.protocol.frames import response

logger = logging.getLogger(__name__)

SECRET_BYTES_MAX: Final = 64 * 1024
"""Longer ones would keep the loop busy with escapes before anybody has vouched for the client."""
TOPICS_MAX: Final = 1000
"""Topics that a connection may publish to without a look at the patterns."""
_FAILED = "E_AUTH_FAILED AUTH failed"

Granted = Callable[[Authorizations | None], None]


class GuardedSession(Session):
    """A client, and what the auth servers let it do."""

    # Each publish is asked for.
    takes_plain: ClassVar[bool] = False

    def __init__(
        self, connection: Connection, sessions: dict[Session, None], servers: AuthServers
    ) -> None:
        super().__init__(connection, sessions)
        self._servers = servers
        self._secret = b""
        self._expires_ns = 0
        self._publishes_to: set[str] = set()
        self._query: asyncio.Task[Authorizations | None] | None = None

    # --- commands ------------------------------------------------------------------------------

    def _on_auth(self, event: Auth) -> None:
        if self.authorizations is not None:
            # V2 protocol, AUTH row 7 (NSQ spec 1.3).
            self.connection.fail("E_INVALID AUTH already set")
        elif len(event.body) > SECRET_BYTES_MAX:
            logger.warning(
                "PROTOCOL(V2): [%s] AUTH failed the secret has %d bytes, more than %d",
                self.connection.remote_address,
                len(event.body),
                SECRET_BYTES_MAX,
            )
            self.connection.fail(_FAILED)
        else:
            self._secret = event.body
            self._ask(self._on_first_answer)

    def _on_first_answer(self, granted: Authorizations | None) -> None:
        if granted is None:
            self.connection.fail(_FAILED)
        # A valid answer that allows nothing has an error apart (NSQ spec 1.10).
        elif not granted.entries:
            self._servers.denial_count += 1
            self.connection.fail("E_UNAUTHORIZED AUTH no authorizations found")
        else:
            self._take(granted)
            self._outbox.send(response(auth_answer(granted)))
            self.connection.resume()

    def _on_subscribe(self, event: Subscribe) -> None:
        if self._admit(event, "SUB", event.topic, event.channel):
            super()._on_subscribe(event)

    def _on_mpub_line(self, event: MpubLine) -> None:
        if self._admit_publish(event, "MPUB", event.topic):
            super()._on_mpub_line(event)

    def _on_publish(self, event: Publish) -> None:
        # An MPUB was checked before its body came.
        if event.command == "MPUB" or self._admit_publish(event, event.command, event.topic):
            super()._on_publish(event)

    # --- permissions ---------------------------------------------------------------------------

    def _admit_publish(self, event: Event, command: str, topic: str) -> bool:
        if topic in self._publishes_to and self.connection.heard_ns < self._expires_ns:
            return True
        allowed = self._admit(event, command, topic, "")
        if allowed:
            if len(self._publishes_to) >= TOPICS_MAX:
                self._publishes_to.clear()
            self._publishes_to.add(topic)
        return allowed

    def _admit(self, event: Event, command: str, topic: str, channel: str) -> bool:
        """Admit a command; else fail it or have it handled again later, and return False."""
        if self.authorizations is None:
            self.connection.fail_in_turn(f"E_AUTH_FIRST AUTH required before {command}")
        elif self.connection.heard_ns >= self._expires_ns:
            self._ask(self._on_later_answer, event)
        elif self.authorizations.allows(topic, channel):
            return True
        else:
            self._servers.denial_count += 1
            names = f"{quote(topic)} {quote(channel)}"
            self.connection.fail_in_turn(f"E_UNAUTHORIZED AUTH failed for {command} on {names}")
        return False

    def _on_later_answer(self, granted: Authorizations | None) -> None:
        if granted is None:
            self.connection.resume(Failure("E_AUTH_FAILED", _FAILED, True, "AUTH"))
        else:
            self._take(granted)
            self.connection.resume()

    def _take(self, granted: Authorizations) -> None:
        self.authorizations = granted
        self._expires_ns = self.connection.clock.monotonic_ns() + granted.ttl_ns
        # The new answer may allow less.
        self._publishes_to.clear()

    # --- asking --------------------------------------------------------------------------------

    def _ask(self, then: Granted, again: Event | None = None) -> None:
        """Suspend the connection until the auth servers have answered, or failed to."""
        connection = self.connection
        connection.suspend(again)
        peer = connection.transport.get_extra_info("peername")
        credentials = Credentials(
            self._secret, host_of(peer), connection.is_tls, connection.tls_common_name
        )
        query = self._servers.ask(credentials, connection.remote_address)
        self._query = spawn(query, f"auth of {connection.remote_address}")
        self._query.add_done_callback(partial(self._asked, then))

    def _asked(self, then: Granted, query: asyncio.Task[Authorizations | None]) -> None:
        self._query = None
        if self.connection.phase is not ENDED:
            # Whatever went wrong, the connection is suspended and needs an answer.
            failed = query.cancelled() or query.exception() is not None
            then(None if failed else query.result())

    def ended(self) -> None:
        """Give the channel back, and wait for no answer."""
        if self._query is not None:
            self._query.cancel()
        super().ended()

    handlers: ClassVar[Handlers] = {
        **Session.handlers,
        Auth: _on_auth,
        Subscribe: _on_subscribe,
        MpubLine: _on_mpub_line,
        Publish: _on_publish,
    }
