"""The secret that nodes of one history share, from the file of ``--replication-secret-file``.

Without one, whoever reaches the HTTP port may copy the node, as it may delete its topics; TLS and
client certificates guard both.
"""

from __future__ import annotations

import hmac
from typing import Final

from penstock.core.errors import ConfigError
from penstock.net.http.server.service import Request
from penstock.net.http.server.v1_api import ApiError

SECRET_MIN: Final = 16


class Secret:
    """A secret, or none, on both sides of a request."""

    def __init__(self, secret: bytes = b"") -> None:
        self._secret = secret

    @classmethod
    def of(cls, path: str) -> Secret:
        """The secret in a file, without blanks around it. Raises ConfigError."""
        if not path:
            return cls()
        try:
            with open(path, "rb") as file:
                secret = file.read().strip()
        except OSError as error:
            raise ConfigError(f"--replication-secret-file={path}: {error.strerror}") from error
        # It is sent in a header, behind `Bearer`.
        if len(secret) < SECRET_MIN or not secret.isascii() or len(secret.split()) != 1:
            raise ConfigError(
                f"--replication-secret-file={path}: a secret is one word of "
                f"{SECRET_MIN} ASCII characters or more"
            )
        return cls(secret)

    @property
    def headers(self) -> dict[str, str]:
        """The header of requests to other nodes."""
        return {"Authorization": f"Bearer {self._secret.decode()}"} if self._secret else {}

    def check(self, request: Request) -> None:
        """ApiError 403 unless the request has the secret."""
        given = request.headers.get(b"authorization", b"")
        if self._secret and not hmac.compare_digest(given, b"Bearer " + self._secret):
            raise ApiError(403, "REPLICATION_SECRET_REQUIRED")
