"""A route of the server: one kind of request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from penstock.core.errors import StorageError
from penstock.net.http.server.deferred_response import DeferredResponse
from penstock.net.http.server.message import Request, Response

Handler = Callable[[Request], "Response | DeferredResponse | Awaitable[Response]"]
Begin = Callable[[Request], object]
"""Called once with a request whose body is still on the way; the result becomes the request's
``begun`` and must be true."""


class Plain(NamedTuple):
    """A route whose requests only publish: compiled code may take them (``penstock.lane``)."""

    topic: Callable[[Request], str | None]
    """The topic to which this request, and any with the same head, publishes its body; None if it
    does more.
    """
    outcome: Callable[[StorageError | None], Response]
    """The answer to a publish that is stored, or met this error."""


class Route:
    """One kind of request: its handler, and the limits that the server applies to it."""

    __slots__ = ("begin", "handler", "is_safe", "max_body", "plain", "quiet", "too_large")

    def __init__(
        self,
        handler: Handler,
        max_body: int,
        too_large: Response,
        *,
        quiet: bool = False,
        begin: Begin | None = None,
        is_safe: bool = True,
        plain: Plain | None = None,
    ) -> None:
        self.handler = handler
        self.max_body = max_body
        """Bytes; a longer body is answered with ``too_large`` before it is read."""
        self.too_large = too_large
        self.quiet = quiet
        """No line in the access log."""
        self.begin = begin
        self.plain = plain
        self.is_safe = is_safe
        """True if a GET has no effect, so pages of other sites may ask for it."""
