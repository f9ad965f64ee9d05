"""nsqadmin's routes: all of them under the base path, and every answer compressed on demand."""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable
from typing import Any

from penstock.admin.compression import compressed
from penstock.net.http.server.guard import Guard
from penstock.net.http.server.route import Route
from penstock.net.http.server.service import DeferredResponse, Handler, Request, Response
from penstock.net.http.server.v1_api import ApiRouter


class AdminRouter(ApiRouter):
    """Paths are given as without a base path."""

    def __init__(self, base_path: str = "/", guard: Guard | None = None) -> None:
        super().__init__(guard)
        self.base_path = base_path

    def under_base(self, path: str) -> str:
        """The path as clients see it."""
        return posixpath.join(self.base_path, path[1:]) if path != "/" else self.base_path

    def add(self, method: str, path: str, handler: Handler, **details: Any) -> None:
        super().add(method, self.under_base(path), _compressing(handler), **details)

    def _constant(self, response: Response, *, quiet: bool = False) -> Route:
        route = super()._constant(response, quiet=quiet)
        if response.status >= 400:
            route.handler = _compressing(route.handler)
        return route


def _compressing(handler: Handler) -> Handler:
    def answer(request: Request) -> Response | DeferredResponse | Awaitable[Response]:
        answered = handler(request)
        accepted = request.headers.get(b"accept-encoding", b"")
        if not accepted or isinstance(answered, DeferredResponse):
            return answered
        if isinstance(answered, Response):
            return compressed(answered, accepted)
        return _compressed_later(answered, accepted)

    return answer


async def _compressed_later(answer: Awaitable[Response], accepted: bytes) -> Response:
    return compressed(await answer, accepted)
