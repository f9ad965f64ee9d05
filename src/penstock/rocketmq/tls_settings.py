"""The properties of a server's TLS, under the names that they have in Java.

In Java they are properties of the process or of a separate file; here they stand in the program's
configuration file, and no command changes them.
"""

from __future__ import annotations

from typing import ClassVar

from penstock.core.errors import ConfigError
from penstock.net.tls.tls_layer import ClientAuth, ServerTls
from penstock.rocketmq.java_settings import JavaSettings


class TlsSettings(JavaSettings):
    """Base of the properties of a program whose port speaks TLS."""

    tls_mode: str = "permissive"
    """``disabled``, ``permissive`` (TLS for those who begin with it) or ``enforcing``."""
    tls_cert_path: str = ""
    """The certificate (PEM); without it TLS is off."""
    tls_key_path: str = ""
    """The certificate's key (PEM)."""
    tls_need_client_auth: str = "none"
    """``require``: clients need a certificate; ``none``: they need not."""
    tls_auth_client: bool = False
    """That certificate must be signed by an authority of ``tls.server.trustCertPath``."""
    tls_trust_cert_path: str = ""
    """Authorities of clients' certificates (PEM)."""

    java_names: ClassVar[dict[str, str]] = {
        "tls.server.mode": "tls_mode",
        "tls.server.certPath": "tls_cert_path",
        "tls.server.keyPath": "tls_key_path",
        "tls.server.need.client.auth": "tls_need_client_auth",
        "tls.server.authClient": "tls_auth_client",
        "tls.server.trustCertPath": "tls_trust_cert_path",
    }
    fixed: ClassVar[frozenset[str]] = frozenset(java_names)

    def check_tls(self) -> None:
        """Raise ConfigError when the words do not fit together."""
        if self.tls_mode not in ("disabled", "permissive", "enforcing"):
            raise ConfigError(
                f"tls.server.mode must be disabled, permissive or enforcing, not {self.tls_mode!r}"
            )
        if self.tls_need_client_auth not in ("none", "require"):
            raise ConfigError(
                "tls.server.need.client.auth must be none or require, "
                f"not {self.tls_need_client_auth!r}"
            )
        if self.tls_auth_client and not self.tls_trust_cert_path:
            raise ConfigError("tls.server.authClient needs tls.server.trustCertPath")
        if bool(self.tls_cert_path) != bool(self.tls_key_path) or (
            self.tls_mode == "enforcing" and not self.tls_cert_path
        ):
            raise ConfigError("TLS needs both tls.server.certPath and tls.server.keyPath")

    def server_tls(self) -> ServerTls | None:
        """The server's side of TLS; None when it is off or there is no certificate.

        Raises ConfigError.
        """
        self.check_tls()
        if self.tls_mode == "disabled" or not self.tls_cert_path:
            return None
        client_auth = ClientAuth.NONE
        if self.tls_need_client_auth == "require":
            client_auth = ClientAuth.VERIFIED if self.tls_auth_client else ClientAuth.ANY
        return ServerTls(
            self.tls_cert_path,
            self.tls_key_path,
            client_auth=client_auth,
            ca_file=self.tls_trust_cert_path,
        )
