"""The answer of plain HTTP where TLS is required."""

from __future__ import annotations

from collections.abc import Callable

from penstock.net.http.server.route import Route
from penstock.net.http.server.service import Request, Response
from penstock.net.http.server.v1_api import NSQ_HEADER, ApiRouter

_JSON = "application/json; charset=utf-8"


class TlsRequiredRouter(ApiRouter):
    """Whatever is asked for, the answer is that TLS is required, and where (NSQ spec 2.1)."""

    def __init__(self, https_port: Callable[[], int]) -> None:
        super().__init__()
        self._https_port = https_port

    def resolve(self, method: str, path: str, query: bytes) -> tuple[Route, str]:
        # The answer is known before a body is read.
        return Route(self._refuse, 0, self._refusal(), quiet=True), ""

    def _refuse(self, request: Request) -> Response:
        return self._refusal()

    def _refusal(self) -> Response:
        body = f'{{"message": "TLS_REQUIRED", "https_port": {self._https_port()}}}'
        return Response(403, body.encode(), _JSON, (NSQ_HEADER,))
