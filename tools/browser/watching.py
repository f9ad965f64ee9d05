"""What goes wrong in a browser without anybody seeing it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakSet

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, Response, WebError

_FAILED_RESPONSE = re.compile(r"^Failed to load resource: the server responded with a status of")
_BROKEN_OFF = ("net::ERR_ABORTED",)
"""How requests end whose page was left; no failure."""
_REPORT_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`Content-Security-Policy: ${event.violatedDirective}, ${event.blockedURI}`);
});
"""


_reporting: WeakSet[BrowserContext] = WeakSet()
"""Those whose pages report violations."""


class Watcher:
    """Collects the problems of all pages of a context, until `close`.

    Problems are: anything in the console at level error, exceptions that nobody caught, violations
    of the Content-Security-Policy, requests to another host than `host` (`127.0.0.1:4171`),
    requests that failed, responses of 400 and above but for those that are expected.
    """

    def __init__(self, context: BrowserContext, host: str) -> None:
        self._host = host
        self._problems: list[str] = []
        self._failed: list[tuple[int, str]] = []
        self._expected: set[int] = set()
        self._may_lose_server = False
        if context not in _reporting:
            context.add_init_script(_REPORT_VIOLATIONS)
            _reporting.add(context)
        self._context = context
        self._listeners: dict[str, Callable[[Any], None]] = {
            "console": self._console,
            "weberror": self._exception,
            "request": self._request,
            "requestfailed": self._request_failed,
            "response": self._response,
        }
        for event, listener in self._listeners.items():
            context.on(event, listener)  # type: ignore[call-overload,unused-ignore]

    def close(self) -> None:
        """From now on nothing is a problem."""
        for event, listener in self._listeners.items():
            self._context.remove_listener(event, listener)

    def expect(self, *statuses: int) -> None:
        """From the beginning on, responses with these statuses are no problem."""
        self._expected.update(statuses)

    def expect_lost_server(self) -> None:
        """Connections may be refused or broken off: the test ends or restarts nsqadmin."""
        self._may_lose_server = True

    @property
    def problems(self) -> list[str]:
        """What went wrong so far, a line each."""
        failed = [
            f"{status}: {url}" for status, url in self._failed if status not in self._expected
        ]
        return self._problems + failed

    def _console(self, message: ConsoleMessage) -> None:
        if message.type != "error" or _FAILED_RESPONSE.match(message.text):
            return  # a failed response is told of with its status, by _response
        if self._may_lose_server and "net::ERR_" in message.text:
            return
        where = message.location
        self._problems.append(f"console: {message.text} ({where['url']}:{where['lineNumber']})")

    def _exception(self, error: WebError) -> None:
        self._problems.append(f"uncaught: {error.error.stack or error.error.message}")

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("data", "blob") and address.netloc != self._host:
            self._problems.append(f"request to another host: {request.url}")

    def _request_failed(self, request: Request) -> None:
        why = request.failure or ""
        if why not in _BROKEN_OFF and not self._may_lose_server:
            self._problems.append(f"{request.method} {request.url}: {why}")

    def _response(self, response: Response) -> None:
        if response.status >= 400:
            self._failed.append((response.status, response.url))
