"""The TLS of an nsqd as its options have it, and what plain HTTP answers where TLS is required."""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.errors import ConfigError
from penstock.net.http.server.api import NSQ_HEADER, ApiRouter
from penstock.net.http.server.route import Route
from penstock.net.http.server.service import Request, Response
from penstock.net.tls.tls_layer import ClientAuth, ServerTls
from penstock.nsq.nsqd.options import NsqdOptions

_JSON = "application/json; charset=utf-8"


def server_tls(options: NsqdOptions) -> ServerTls | None:
    """The TLS of the TCP and the HTTPS port; None without a certificate. Raises ConfigError."""
    if not options.tls_cert and not options.tls_key:
        return None
    if not options.tls_cert or not options.tls_key:
        given, missing = "--tls-cert", "--tls-key"
        if options.tls_key:
            given, missing = missing, given
        # Go's words, which its users look for, name nothing.
        raise ConfigError("failed to build TLS config - open : no such file or directory: "
                          f"{missing} is missing beside {given}")  # fmt: skip
    return ServerTls(
        options.tls_cert,
        options.tls_key,
        ca_file=options.tls_root_ca_file,
        client_auth=ClientAuth.of(options.tls_client_auth_policy),
        min_version=options.tls_min_version,
    )


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
