"""Posting bodies: several requests at a time, again while the endpoint is out.

An outage is what passes: no connection, no answer, 408, 425, 429 and 5xx. It is waited for, and all
requests to that endpoint with it, as long as it takes: bodies are as good as they were before. A
body is refused when the endpoint says so (any other answer than 2xx), and at once where its URL
cannot be asked.
"""

from __future__ import annotations

import http.client
import logging
import ssl
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from penstock.core.clock import SYSTEM_CLOCK, Clock
from penstock.core.counted import counted
from penstock.core.redaction import without_secrets
from penstock.core.units import SECOND
from penstock.net.address import join_host_port
from penstock.net.http.client.keep_alive import AnswerTooLongError, KeepAliveConnection, Tls
from penstock.spark.access import why
from penstock.spark.errors import OptionError, SinkError
from penstock.spark.http.http_settings import HttpSettings, require_url
from penstock.spark.sink.idle import Idle

logger = logging.getLogger("penstock.spark")

_ANSWER_MAX: Final = 1 << 20
_PASSING: Final = (408, 425, 429)

PAUSE_FIRST_NS: Final = SECOND // 5
PAUSE_MAX_NS: Final = 30 * SECOND
RETRY_AFTER_MAX_S: Final = 3600
"""The longest that an endpoint is left alone at its word."""
_SAY_AFTER_NS: Final = 5 * SECOND
_SAY_EVERY_NS: Final = 30 * SECOND
_DIGITS_MAX: Final = 9


class Outage:
    """One endpoint's failures of late; for several threads."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = Lock()
        self._pause_ns = 0
        self._until_ns = 0
        self._since_ns: int | None = None
        self._said_ns: int | None = None

    @property
    def wait_s(self) -> float:
        """Seconds until the endpoint may be asked again, 0 if it may be at once."""
        return max(0, self._until_ns - self._clock.monotonic_ns()) / SECOND

    def failed(self, asked_ns: int, retry_after_s: float = 0.0) -> float | None:
        """Note that a request failed, which was sent at this time (monotonic), and for how long the
        endpoint wants to be left alone. Pauses double.

        Returns the seconds that the outage has lasted, when it is time to report it.
        """
        with self._lock:
            now = self._clock.monotonic_ns()
            if self._since_ns is None:
                self._since_ns, self._said_ns = now, None
            # Of requests that were under way together the first to fail makes the pause.
            if asked_ns >= self._until_ns:
                # The endpoint as a whole is out: pauses are its, not those of single requests.
                self._pause_ns = min(max(2 * self._pause_ns, PAUSE_FIRST_NS), PAUSE_MAX_NS)
                self._until_ns = now + self._pause_ns
            self._until_ns = max(self._until_ns, now + int(retry_after_s * SECOND))
            lasted = now - self._since_ns
            due = _SAY_AFTER_NS if self._said_ns is None else self._said_ns + _SAY_EVERY_NS
            if lasted < due:
                return None
            self._said_ns = lasted
            return lasted / SECOND

    def ended(self) -> float | None:
        """Note that a body was taken, or refused for good.

        Returns the seconds that the outage lasted, if it was reported.
        """
        with self._lock:
            said, since = self._said_ns is not None, self._since_ns
            self._pause_ns, self._since_ns, self._said_ns = 0, None, None
            lasted = self._clock.monotonic_ns() - since if said and since is not None else None
            return None if lasted is None else lasted / SECOND


def retry_after_s(given: str, clock: Clock = SYSTEM_CLOCK) -> float:
    """The seconds of a header ``Retry-After``, a number or a date (RFC 9110 10.2.3); 0 without one,
    an hour at most.
    """
    text = given.strip()
    if text.isascii() and text.isdecimal():
        return float(min(int(text[:_DIGITS_MAX]), RETRY_AFTER_MAX_S))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    now = datetime.fromtimestamp(clock.wall_ns() / SECOND, UTC)
    return min(max(0.0, (moment - now).total_seconds()), RETRY_AFTER_MAX_S)


@dataclass(frozen=True, slots=True)
class Refused:
    """A body that is not delivered, and why; ``url`` is without its secrets."""

    url: str
    body: bytes
    reason: str


class Poster:
    """A poster to any endpoints; a context manager. Connections are kept for the next requests."""

    def __init__(self, settings: HttpSettings) -> None:
        self._settings = settings
        self._headers = {"Content-Type": settings.content_type, **settings.headers}
        self._connections = Idle(self._connect)
        self._pool = ThreadPoolExecutor(settings.concurrency, "penstock-post")
        self._outages: dict[str, Outage] = {}
        self._left = 0
        self._ending = threading.Event()

    def __enter__(self) -> Poster:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._pool.shutdown(cancel_futures=True)
        self._connections.close()

    def post_all(self, rows: Iterable[tuple[str, bytes]]) -> Iterator[Refused]:
        """Post each body to its URL; those that were refused, in the order of the rows.

        Raises SinkError when the option ``retries`` does not allow to wait any longer.
        """
        # Rows may name many endpoints; those that are well need no memory.
        self._outages = {each: outage for each, outage in self._outages.items() if outage.wait_s}
        # All are handed over, and answered in order: the pool bounds how many are under way.
        waiting = [self._pool.submit(self._post, url, body) for url, body in rows]
        self._left = len(waiting)
        for future in waiting:
            refused = future.result()
            self._left -= 1
            if refused is not None:
                yield refused

    def _post(self, url: str, body: bytes) -> Refused | None:
        """Post until it is taken or refused."""
        shown = without_secrets(url)
        try:
            endpoint = require_url(url)
        except OptionError as error:
            return Refused(shown, body, str(error))
        origin = f"{endpoint.scheme}://{join_host_port(endpoint.host, endpoint.port)}"
        outage = self._outages.setdefault(origin, Outage())
        tries = 0
        while True:
            self._wait_for(outage)
            asked_ns = SYSTEM_CLOCK.monotonic_ns()
            answer = self._once(url, body)
            if not answer.passes:
                self._log_end(origin, outage.ended())
                return None if answer.taken else Refused(shown, body, answer.said)
            lasted_s = outage.failed(asked_ns, answer.retry_after_s)
            tries += 1
            most = self._settings.retries
            if most is not None and tries > most:
                raise SinkError(
                    f"{shown} takes no body: {answer.said} (tried {counted(tries, 'time')}, option "
                    "retries); the batch comes again when the query is started again"
                )
            if lasted_s is not None:
                logger.warning(
                    "%s has taken no body for %.0f s: %s; %s wait, the next try is in %.0f s",
                    origin,
                    lasted_s,
                    answer.said,
                    counted(self._left, "row"),
                    outage.wait_s,
                )

    def _wait_for(self, outage: Outage) -> None:
        """Return when the endpoint may be asked. Raises SinkError at the end of the task."""
        while True:
            pause_s = outage.wait_s
            if self._ending.wait(pause_s):
                raise SinkError("the task ended")
            if not pause_s:
                return

    def _log_end(self, origin: str, lasted_s: float | None) -> None:
        if lasted_s is not None:
            logger.warning("%s takes bodies again, after %.0f s", origin, lasted_s)

    def _once(self, url: str, body: bytes) -> _Answer:
        parts = urlsplit(url)
        try:
            with self._connections.to(f"{parts.scheme}://{parts.netloc}") as connection:
                # A request is sent again here, also when the answer is 503.
                reply = connection.ask("POST", require_url(url).target, body, tries=1)
                return _Answer(reply.status, "", reply.headers.get("Retry-After", ""))
        except AnswerTooLongError as answer:
            # The body was taken or refused before its answer became too long.
            return _Answer(answer.status)  # which is all that is wanted of it
        except (OSError, http.client.HTTPException) as error:
            return _Answer(0, why(error))

    def _connect(self, origin: str) -> KeepAliveConnection:
        """A connection to what an URL begins with: scheme, user, host and port."""
        scheme, host, port, _, authorization = require_url(origin)
        tls = Tls(ssl.create_default_context()) if scheme == "https" else None
        headers = dict(self._headers)
        if authorization and "authorization" not in map(str.lower, headers):
            headers["Authorization"] = authorization
        return KeepAliveConnection(
            host, port, self._settings.request_s, _ANSWER_MAX, tls=tls, headers=headers
        )


class _Answer(NamedTuple):
    """The answer to a request; ``status`` is 0 if there was none, for a reason."""

    status: int
    reason: str = ""
    retry_after: str = ""

    @property
    def taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def passes(self) -> bool:
        """True if the same request may be answered otherwise later."""
        return self.status == 0 or self.status >= 500 or self.status in _PASSING

    @property
    def said(self) -> str:
        return self.reason or f"status {self.status}"

    @property
    def retry_after_s(self) -> float:
        return retry_after_s(self.retry_after)
