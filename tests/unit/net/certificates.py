"""Certificates for tests: one authority, a server, clients that it knows and does not know."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import trustme


class Certificates:
    """Files in a folder. `context` makes the context of a client."""

    def __init__(self, folder: Path) -> None:
        self._ca, stranger = trustme.CA(), trustme.CA()
        self.folder = folder
        self.ca = self._write("ca.pem", self._ca.cert_pem)
        server = self._ca.issue_cert("localhost", "127.0.0.1")
        self.cert = self._write("server.pem", server.cert_chain_pems[0])
        self.key = self._write("server.key", server.private_key_pem)
        self.names = {
            "known": self._ca.issue_cert("a.client", common_name="a client"),
            "unknown": stranger.issue_cert("b.client", common_name="a stranger"),
            "nameless": self._ca.issue_cert("c.client"),
            "expired": stranger.issue_cert(
                "d.client", not_after=datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)
            ),
        }

    def _write(self, name: str, blob: trustme.Blob) -> str:
        path = self.folder / name
        blob.write_to_path(path)
        return str(path)

    def context(self, client: str = "", *, newest: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        """A context that trusts the authority and shows a certificate, if one is named."""
        context = ssl.create_default_context()
        self._ca.configure_trust(context)
        if client:
            self.names[client].configure_cert(context)
        if newest is not None:
            context.maximum_version = newest
        return context
