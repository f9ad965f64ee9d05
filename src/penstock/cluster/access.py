"""The way daemons are asked: whom to trust over TLS, who we are, and the secret of AUTH."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.net.tls.renewal import Renewed


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Files are those of the machine that asks, PEM.

    With ``tls`` nodes are asked over HTTPS only: at the port that they name, or ``https_port``.
    Without, only those that want it, as those of ``--tls-required`` do.
    """

    tls: bool = False
    root_ca_file: str = ""
    cert: str = ""
    key: str = ""
    server_name: str = ""
    verify: bool = True
    https_port: int = 4152
    auth_secret: str = field(default="", repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {"Authorization": f"Bearer {self.auth_secret}"} if self.auth_secret else {}

    @property
    def concerns_tls(self) -> bool:
        """True if anything is said about TLS."""
        files = self.root_ca_file or self.cert or self.key
        return bool(self.tls or files or self.server_name or not self.verify)

    def new_context(self) -> ssl.SSLContext:
        """The authorities to trust and our certificate, read now.

        Raises ConfigError, which names the file.
        """
        return self.renewed_context()()

    def renewed_context(self) -> Renewed:
        """The context of ``new_context``, whose files are read again when they have changed."""
        from penstock.net.tls.tls_layer import renewed_client_context

        return renewed_client_context(
            self.root_ca_file, cert_file=self.cert, key_file=self.key, verify=self.verify
        )
