"""Posting bodies: several requests at a time, again after a failure that may pass.

A body is refused when the endpoint says so (any other answer than 2xx, 408, 429, 5xx), when the
tries are used up, and at once where its URL cannot be asked.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from penstock.core.redaction import without_secrets
from penstock.net.http.client.kept import AnswerTooLongError, KeptConnection, Tls
from penstock.spark.errors import OptionError
from penstock.spark.http.settings import Settings, require_url
from penstock.spark.nodes.access import why
from penstock.spark.sink.idle import Idle

_ANSWER_MAX: Final = 1 << 20
_PAUSE_FIRST_S: Final = 0.2
_PAUSE_MAX_S: Final = 10.0
_PASSING: Final = (408, 429)


@dataclass(frozen=True, slots=True)
class Refused:
    """A body that is not delivered, and why; ``url`` is without its secrets."""

    url: str
    body: bytes
    reason: str


class Poster:
    """A poster to any endpoints; a context manager. Connections are kept for the next requests."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._headers = {"Content-Type": settings.content_type, **settings.headers}
        self._connections = Idle(self._connect)
        self._pool = ThreadPoolExecutor(settings.concurrency, "penstock-post")
        self._ending = False

    def __enter__(self) -> Poster:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._pool.shutdown(cancel_futures=True)
        self._connections.close()

    def post_all(self, rows: Iterable[tuple[str, bytes]]) -> Iterator[Refused]:
        """Post each body to its URL; those that were refused, in the order of the rows."""
        waiting: list[Future[Refused | None]] = []
        for url, body in rows:
            waiting.append(self._pool.submit(self._post, url, body))
        for future in waiting:
            refused = future.result()
            if refused is not None:
                yield refused

    def _post(self, url: str, body: bytes) -> Refused | None:
        """Post until it is taken, refused, or the tries are used up."""
        try:
            require_url(url)
        except OptionError as error:
            return Refused(without_secrets(url), body, str(error))
        pause_s, said = _PAUSE_FIRST_S, "the task ended"
        for tries in range(self._settings.retries + 1):
            if tries:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            if self._ending:
                break
            try:
                status = self._once(url, body)
            except (OSError, http.client.HTTPException) as error:
                said = why(error)
                continue
            if 200 <= status < 300:
                return None
            said = f"status {status}"
            if status < 500 and status not in _PASSING:
                return Refused(without_secrets(url), body, said)
        return Refused(without_secrets(url), body, f"{said} ({self._settings.retries + 1} tries)")

    def _once(self, url: str, body: bytes) -> int:
        parts = urlsplit(url)
        with self._connections.to(f"{parts.scheme}://{parts.netloc}") as connection:
            try:
                # How often a request is sent again is the option's to say, also when it is 503.
                return connection.ask("POST", require_url(url).target, body, tries=1).status
            except AnswerTooLongError as answer:
                return answer.status  # which is all that is wanted of it

    def _connect(self, origin: str) -> KeptConnection:
        """A connection to what an URL begins with: scheme, user, host and port."""
        scheme, host, port, _, authorization = require_url(origin)
        tls = Tls(ssl.create_default_context()) if scheme == "https" else None
        headers = dict(self._headers)
        if authorization and "authorization" not in map(str.lower, headers):
            headers["Authorization"] = authorization
        return KeptConnection(
            host, port, self._settings.request_s, _ANSWER_MAX, tls=tls, headers=headers
        )
