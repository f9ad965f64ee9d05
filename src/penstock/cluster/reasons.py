"""Reasons why a daemon gave no answer: in plain words, and in those of Go's HTTP client."""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import Final, NamedTuple

from penstock.core.reasons import lookup_words, reason, system_words
from penstock.net.http.client.not_http import NotHttpError
from penstock.net.outgoing import connect_error_text

LATE: Final = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
"""Go's words for a request that took too long."""
_CUT_SHORT: Final = "the connection ended before the answer did"


class Reason(NamedTuple):
    """A reason twice: for a line that names the daemon already, and as Go has it.

    ``remedy`` continues the plain one with the flags that help, where some do.
    """

    plain: str
    go: str
    remedy: str = ""


def tls_remedy(error: BaseException, trust: str, show: str) -> str:
    """The remedy for a failure of TLS, by the names of the options; empty for other errors."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"; {trust} say whom to trust"
    words = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    return f"; {show} present one" if "CERTIFICATE" in words else ""


def reason_of(error: BaseException, address: str, *, connecting: bool = False) -> Reason:
    """The reason of a request that failed with this error, perhaps before it was sent."""
    go = go_reason(error, address, connecting=connecting)
    remedy = tls_remedy(
        error, "--tls-root-ca-file and --tls-server-name", "--tls-cert and --tls-key"
    )
    return Reason(plain_reason(error), go, remedy)


def plain_reason(error: BaseException) -> str:
    """One short clause, such as ``connection refused``."""
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        from penstock.net.tls.tls_layer import go_words

        return go_words(error).rstrip(".")
    if isinstance(error, socket.gaierror):
        return lookup_words(error)
    if isinstance(error, EOFError | http.client.RemoteDisconnected | http.client.IncompleteRead):
        return _CUT_SHORT
    if isinstance(error, http.client.BadStatusLine):
        return str(NotHttpError(str(error).encode("latin-1", "replace")))
    if isinstance(error, TimeoutError):
        return "timed out"
    return system_words(error) or reason(error)


def go_reason(error: BaseException, address: str, *, connecting: bool = False) -> str:
    """The words of Go's HTTP client, which NSQ's users know."""
    if isinstance(error, ssl.SSLError | ssl.CertificateError):
        from penstock.net.tls.tls_layer import go_words

        return go_words(error)
    if isinstance(error, OSError) and connecting:
        return connect_error_text(address, error)
    if isinstance(error, TimeoutError):
        return LATE
    if isinstance(error, EOFError):
        return "EOF"
    if isinstance(error, OSError):
        return f"read tcp {address}: {(error.strerror or str(error)).lower()}"
    return str(error)
