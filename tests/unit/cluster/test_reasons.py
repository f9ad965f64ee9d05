"""Reasons for people, in plain words and in Go's."""

from __future__ import annotations

import errno
import http.client
import socket
import ssl

import pytest

from penstock.cluster.reasons import LATE, reason_of, tls_remedy

REFUSED = ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('127.0.0.1', 1)")
MANY = OSError(
    "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
    "[Errno 111] Connect call failed ('127.0.0.1', 1)"
)
UNKNOWN = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
GONE = http.client.RemoteDisconnected("Remote end closed connection without response")


@pytest.mark.parametrize(
    ("error", "plain", "go"),
    [
        (REFUSED, "connection refused", "dial tcp h:1: connect: connection refused"),
        (MANY, "connection refused", "dial tcp h:1: connect: connection refused"),
        (UNKNOWN, "no such host", "dial tcp: lookup h: no such host"),
        (TimeoutError(), "timed out", "dial tcp h:1: i/o timeout"),
        (OSError(errno.ENETUNREACH, "x"), "network is unreachable",
         "dial tcp h:1: connect: network is unreachable"),
    ],
)  # fmt: skip
def test_no_connection(error: OSError, plain: str, go: str) -> None:
    assert reason_of(error, "h:1", connecting=True) == (plain, go, "")


@pytest.mark.parametrize(
    ("error", "plain", "go"),
    [
        (TimeoutError(), "timed out", LATE),
        (EOFError(), "the connection ended before the answer did", "EOF"),
        (ConnectionResetError(errno.ECONNRESET, "x"), "connection reset by peer",
         "read tcp h:1: x"),
        (ValueError("no size"), "no size", "no size"),
    ],
)  # fmt: skip
def test_no_answer(error: Exception, plain: str, go: str) -> None:
    assert reason_of(error, "h:1") == (plain, go, "")


@pytest.mark.parametrize(
    ("error", "plain"),
    [
        (GONE, "the connection ended before the answer did"),
        (http.client.IncompleteRead(b"", 5), "the connection ended before the answer did"),
        (http.client.BadStatusLine("220 mail"), "what answers there does not speak HTTP"),
        (
            http.client.BadStatusLine("\0\0\0\x12\0\0\0\1E_BAD_PROTOCOL"),
            "that is the TCP port of nsqd "
            "or nsqlookupd; HTTP is at another, by default 4151 or 4161",
        ),
        (TimeoutError("The read operation timed out"), "timed out"),
    ],
)
def test_what_the_standard_librarys_client_raises(error: Exception, plain: str) -> None:
    assert reason_of(error, "h:1").plain == plain


def test_tls_comes_with_a_remedy() -> None:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code, error.verify_message = 19, "self-signed certificate"
    error.reason = "CERTIFICATE_VERIFY_FAILED"
    found = reason_of(error, "h:1", connecting=True)
    assert found.plain == found.go
    assert found.plain.endswith("x509: certificate signed by unknown authority")
    assert found.remedy == "; --tls-root-ca-file and --tls-server-name say whom to trust"
    wanted = ssl.SSLError(1, "x")
    wanted.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert tls_remedy(wanted, "a", "b") == "; b present one"
    assert tls_remedy(OSError(), "a", "b") == ""
