"""Actions of administrators, POSTed to --notification-http-endpoint (NSQ spec 5.4).

One at a time and in order, beside the requests that caused them. An endpoint that cannot be reached
is logged; while it is slow a bounded number waits, and what comes on top is dropped and logged.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from penstock.core.clock import Clock
from penstock.core.gojson import dumps
from penstock.core.redaction import without_secrets
from penstock.core.settings.version import NSQ_VERSION
from penstock.core.units import SECOND
from penstock.net.http.client import once as http_client
from penstock.net.http.server.service import Request
from penstock.net.tasks import spawn

logger = logging.getLogger("penstock.nsqadmin")

WAITING_MAX: Final = 1000
LAST_WORDS_S: Final = 2.0
"""The seconds for which a shutdown waits for notifications still to be sent."""
_ANSWER_MAX: Final = 64 * 1024


class Action(NamedTuple):
    """An action, and the topic, channel or node it was done to."""

    action: str
    topic: str
    channel: str = ""
    node: str = ""


class Notifier:
    """A sender of notifications to one endpoint, or (empty) to none."""

    def __init__(self, endpoint: str, connect_s: float, request_s: float, clock: Clock) -> None:
        self._endpoint = endpoint
        self._connect_s = connect_s
        self._request_s = request_s
        self._clock = clock
        self.posted_count = 0
        self.failed_count = 0
        """The notifications that the endpoint did not take, and those that were dropped."""
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(WAITING_MAX)
        self._task = spawn(self._run(), "notifications") if endpoint else None

    def tell(self, action: Action, request: Request) -> None:
        """Send a notification later; ``request`` is the one that asked for the change."""
        if self._task is None:
            return
        body = dumps(described(action, request, self._clock.wall_ns() // SECOND))
        try:
            self._waiting.put_nowait(body)
        except asyncio.QueueFull:
            self.failed_count += 1
            logger.error("dropped a notification - %d are waiting already", WAITING_MAX)

    async def close(self) -> None:
        """Send the notifications that wait, within a short time."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await self._waiting.join()
        except TimeoutError:
            logger.error("%d notifications are lost", self._waiting.qsize())
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            body = await self._waiting.get()
            await self._post(body)
            self._waiting.task_done()

    async def _post(self, body: bytes) -> None:
        self.posted_count += 1
        logger.info("POSTing notification to %s", without_secrets(self._endpoint))
        headers = {"Content-Type": "application/json", "User-Agent": f"nsqadmin/{NSQ_VERSION}"}
        try:
            answer = await http_client.request(
                "POST",
                self._endpoint,
                self._request_s,
                body=body,
                headers=headers,
                connect_timeout=self._connect_s,
                max_body=_ANSWER_MAX,
            )
        # Go's nsqadmin ends here with a nil dereference (NSQ spec 5.4).
        except http_client.HttpError as error:
            self.failed_count += 1
            logger.error("failed to POST notification - %s", error)
        else:
            if answer.status >= 400:
                self.failed_count += 1
                logger.error("failed to POST notification - got response %d", answer.status)


def described(action: Action, request: Request, timestamp: int) -> dict[str, Any]:
    """The notification as its receivers read it; ``timestamp`` in unix seconds."""
    found: dict[str, Any] = {"action": action.action, "topic": action.topic}
    if action.channel:
        found["channel"] = action.channel
    if action.node:
        found["node"] = action.node
    found["timestamp"] = timestamp
    user = _basic_user(request.headers.get(b"authorization", b""))
    if user:
        found["user"] = user
    # With the port, despite its name, as Go's has it (NSQ spec 5.4).
    found["remote_ip"] = request.remote
    found["user_agent"] = _text(request.headers.get(b"user-agent", b""))
    found["url"] = _url(request)
    found["via"] = os.uname().nodename
    return found


def _basic_user(authorization: bytes) -> str:
    kind, _, encoded = authorization.partition(b" ")
    if kind != b"Basic":
        return ""
    try:
        user, colon, _ = base64.b64decode(encoded, validate=True).partition(b":")
    except binascii.Error:
        return ""
    return _text(user) if colon else ""


def _url(request: Request) -> str:
    """The whole address, the path decoded and escaped again."""
    # The header of a proxy that has ended TLS (NSQ spec 5.4).
    scheme = "https" if request.headers.get(b"x-scheme") == b"https" else "http"
    path = quote(request.path, safe="$&+,/:;=@", errors="surrogateescape")
    query = f"?{_text(request.query)}" if request.query else ""
    return f"{scheme}://{_text(request.headers.get(b'host', b''))}{path}{query}"


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
