"""Certificates for one run: a CA, a server's, a client's signed by the CA, and a stranger's."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme

COMMON_NAME = "test.local"
"""Of the client certificate, as auth servers are told it."""


class Certificates:
    """PEM files in a folder: `cert`, `key` and `ca` for nsqd's flags, the others for clients."""

    def __init__(self, folder: Path) -> None:
        ca, stranger = trustme.CA(), trustme.CA()
        server = ca.issue_cert("localhost", "127.0.0.1", "::1", common_name="localhost")
        client = ca.issue_cert(COMMON_NAME, common_name=COMMON_NAME)
        self.cert, self.key = folder / "server.pem", folder / "server.key"
        self.ca = folder / "ca.pem"
        self._client, self._self = folder / "client.pem", folder / "self.pem"
        server.cert_chain_pems[0].write_to_path(self.cert)
        server.private_key_pem.write_to_path(self.key)
        ca.cert_pem.write_to_path(self.ca)
        client.private_key_and_cert_chain_pem.write_to_path(self._client)
        own = stranger.private_key_pem.bytes() + stranger.cert_pem.bytes()
        self._self.write_bytes(own)

    def flags(self) -> list[str]:
        """What makes nsqd offer TLS, and HTTPS on a free port."""
        files = [f"--tls-cert={self.cert}", f"--tls-key={self.key}"]
        return [*files, "--https-address=127.0.0.1:0"]

    def placeholders(self) -> dict[str, str]:
        """What the samples call these files."""
        return {"cert": str(self.cert), "key": str(self.key), "ca": str(self.ca)}

    def context(self, identity: str | None = None, newest: str = "") -> ssl.SSLContext:
        """A client's context, which checks the server's certificate.

        `identity`: None, `client` (signed by the CA) or `self` (self-signed). `newest`: `12` to
        speak no more than TLS 1.2.
        """
        context = ssl.create_default_context(cafile=str(self.ca))
        if newest == "12":
            context.maximum_version = ssl.TLSVersion.TLSv1_2
        if identity is not None:
            context.load_cert_chain(self._client if identity == "client" else self._self)
        return context
