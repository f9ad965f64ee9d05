"""Posting bodies: several requests at a time, again after a failure that may pass.

A body is refused when the endpoint says so (any other answer than 2xx, 408, 429, 5xx) and when
the tries are used up.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Final

from penstock.net.http.client.kept import KeptConnection, Tls
from penstock.spark.http.settings import Settings, require_url
from penstock.spark.nodes.access import why

_ANSWER_MAX: Final = 1 << 20
_PAUSE_FIRST_S: Final = 0.2
_PAUSE_MAX_S: Final = 10.0
_PASSING: Final = (408, 429)


@dataclass(frozen=True, slots=True)
class Refused:
    """A body that is not delivered, and why."""

    url: str
    body: bytes
    reason: str


class Poster:
    """A poster to any endpoints; a context manager. Connections are kept, one for each request."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._headers = {"Content-Type": settings.content_type, **settings.headers}
        self._idle: dict[tuple[str, str, int], SimpleQueue[KeptConnection]] = {}
        self._pool = ThreadPoolExecutor(settings.concurrency, "penstock-post")
        self._ending = False

    def __enter__(self) -> Poster:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._pool.shutdown(cancel_futures=True)
        for idle in self._idle.values():
            while not idle.empty():
                idle.get().close()

    def post_all(self, rows: Iterable[tuple[str, bytes]]) -> Iterator[Refused]:
        """Post each body to its URL; those that were refused, in the order of the rows.

        Raises OptionError for an invalid URL.
        """
        waiting: list[Future[Refused | None]] = []
        for url, body in rows:
            require_url(url)
            waiting.append(self._pool.submit(self._post, url, body))
        for future in waiting:
            refused = future.result()
            if refused is not None:
                yield refused

    def _post(self, url: str, body: bytes) -> Refused | None:
        """Post until it is taken, refused, or the tries are used up."""
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
                return Refused(url, body, said)
        return Refused(url, body, f"{said} ({self._settings.retries + 1} tries)")

    def _once(self, url: str, body: bytes) -> int:
        scheme, host, port, target = require_url(url)
        idle = self._idle.setdefault((scheme, host, port), SimpleQueue())
        connection = self._connect(scheme, host, port) if idle.empty() else idle.get()
        try:
            # How often a request is sent again is the option's to say, also when the answer is 503.
            return connection.ask("POST", target, body, tries=1).status
        finally:
            idle.put(connection)

    def _connect(self, scheme: str, host: str, port: int) -> KeptConnection:
        tls = Tls(ssl.create_default_context()) if scheme == "https" else None
        return KeptConnection(
            host, port, self._settings.request_s, _ANSWER_MAX, tls=tls, headers=self._headers
        )
