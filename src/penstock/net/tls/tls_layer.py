"""TLS as a layer, for servers and clients, on the standard library's ``ssl``.

The texts of failures are Go's where there is one, since NSQ's users know them from their logs.
"""

from __future__ import annotations

import contextlib
import enum
import ssl
import warnings
from functools import partial
from typing import Any, Final

from penstock.core.errors import ConfigError
from penstock.core.reasons import system_words
from penstock.net.tls.layers import PIECE, Bytes, Layer, LayerError
from penstock.net.tls.renewal import Renewed

TLS_1_2: Final = 771
_RECORD: Final = 16 * 1024
_RECORD_HEADER: Final = 5
_ALERT, _HANDSHAKE = 21, 22
_CERTIFICATE: Final = 11
_NO_CHECK_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which ``ssl`` has no name."""
_NO_PACKED_CERTIFICATES: Final = 1 << 33
"""OpenSSL's SSL_OP_NO_RX_CERTIFICATE_COMPRESSION: one that is packed could not be read."""


class TlsError(LayerError):
    """A handshake failed. ``head`` is how the peer began, when that was not TLS at all."""

    def __init__(self, text: str, head: bytes = b"") -> None:
        super().__init__(text)
        self.head = head


class ClientAuth(enum.Enum):
    """The certificate that clients must show (the words of ``--tls-client-auth-policy``)."""

    NONE = ""
    ANY = "require"
    """Some certificate: its owner has its key, but anybody may have signed it."""
    VERIFIED = "require-verify"
    """One that a known authority has signed."""

    @classmethod
    def of(cls, word: str) -> ClientAuth:
        """Parse a word of the policy; as in Go's nsqd, any other word asks for nothing."""
        return cls(word) if word in ("require", "require-verify") else cls.NONE


# --- contexts ------------------------------------------------------------------------------------


class ServerTls:
    """The certificate and the rules of a server; makes the layers of its connections.

    A certificate that was renewed counts for the next connection.
    """

    def __init__(
        self,
        cert_file: str,
        key_file: str,
        *,
        ca_file: str = "",
        client_auth: ClientAuth = ClientAuth.NONE,
        min_version: int = TLS_1_2,
    ) -> None:
        """``min_version`` is the protocol's own number. Raises ConfigError with nsqd's texts."""
        make = partial(_server_context, cert_file, key_file, ca_file, client_auth, min_version)
        self._context = Renewed(make, cert_file, key_file, ca_file)

    def layer(self) -> TlsLayer:
        """The server's side of one connection."""
        return TlsLayer(self._context(), server_side=True)


def _server_context(
    cert_file: str, key_file: str, ca_file: str, client_auth: ClientAuth, min_version: int
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # As Go's crypto/tls, which never renegotiates as a server.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _set_min_version(context, min_version)
    for file in (cert_file, key_file):
        check_readable(file, "failed to build TLS config")
    _load_cert_chain(context, cert_file, key_file)
    if ca_file:
        check_readable(ca_file, "failed to build TLS config")
        _load_ca(context, ca_file)
    if client_auth is not ClientAuth.NONE:
        context.verify_mode = ssl.CERT_REQUIRED
    if client_auth is ClientAuth.ANY:
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
        context.options |= _NO_PACKED_CERTIFICATES
        context._msg_callback = _trust_what_is_shown  # type: ignore[attr-defined]
    return context


def renewed_client_context(
    ca_file: str = "", *, cert_file: str = "", key_file: str = "", verify: bool = True
) -> Renewed:
    """A ``client_context`` that follows its files. Raises ConfigError."""
    make = partial(client_context, ca_file, cert_file=cert_file, key_file=key_file, verify=verify)
    return Renewed(make, ca_file, cert_file, key_file)


def client_context(
    ca_file: str = "",
    *,
    cert_file: str = "",
    key_file: str = "",
    verify: bool = True,
    min_version: int = TLS_1_2,
) -> ssl.SSLContext:
    """A context for clients: the server must have a certificate of ``ca_file``, or of the system's
    authorities, for the name it was called by; any will do unless ``verify``.

    ``cert_file`` is what the client shows, its key in the same file when there is no ``key_file``.
    Raises ConfigError, which names the file.
    """
    what = "client TLS config"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _set_min_version(context, min_version)
    if cert_file:
        key_file = key_file or cert_file
        for file in (cert_file, key_file):
            check_readable(file, f"failed to build {what}")
        _load_cert_chain(context, cert_file, key_file, what)
    if ca_file:
        check_readable(ca_file, f"failed to build {what}")
        _load_ca(context, ca_file, what)
    elif verify:
        context.load_default_certs()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _set_min_version(context: ssl.SSLContext, number: int) -> None:
    """OpenSSL may know better: the oldest versions are off in its newer releases."""
    # 769 is TLS 1.0, the default of nsqd's --tls-min-version (NSQ spec 2.6).
    version = ssl.TLSVersion.MINIMUM_SUPPORTED if number <= 769 else ssl.TLSVersion(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = version


def check_readable(file: str, failed: str) -> None:
    """Raise ConfigError, which begins with what ``failed``, for a file that cannot be read."""
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{failed} - open {file}: {system_words(error)}") from error


def _load_cert_chain(
    context: ssl.SSLContext, cert_file: str, key_file: str, what: str = "TLS config"
) -> None:
    def no_password() -> str:
        raise ConfigError(f"failed to build {what} - {key_file} is encrypted; decrypt it")

    try:
        context.load_cert_chain(cert_file, key_file, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = "tls: private key does not match public key"
        else:
            reason = f" ({error.reason})" if error.reason else ""
            text = f"{cert_file} and {key_file} are not a certificate and a key in PEM{reason}"
        raise ConfigError(f"failed to build {what} - {text}") from error


def _load_ca(context: ssl.SSLContext, file: str, what: str = "TLS config") -> None:
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        text = f"failed to append certificate to pool: no certificate in {file}"
        raise ConfigError(f"failed to build {what} - {text}") from error


def _trust_what_is_shown(
    connection: Any, direction: str, version: Any, content: Any, message: Any, data: bytes
) -> None:
    """OpenSSL's message callback: the certificate that a client shows becomes its own authority.

    ``ssl`` can ask for a certificate only to verify it. So for the moment of the handshake in which
    this is done, the connection gets a context in which nothing but that certificate is trusted.
    If anything here should fail, the client is refused.
    """
    if direction != "read" or content != _HANDSHAKE or message != _CERTIFICATE:
        return
    at = 4  # type and length of the message
    if version == ssl.TLSVersion.TLSv1_3:
        at += 1 + int.from_bytes(data[at : at + 1], "big")  # the request's context
    at += 3  # length of the list
    size = int.from_bytes(data[at : at + 3], "big")
    if size:
        lenient = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with contextlib.suppress(ssl.SSLError, ValueError):  # that is not a certificate
            lenient.load_verify_locations(cadata=bytes(data[at + 3 : at + 3 + size]))
            connection.context = lenient


# --- the layer -----------------------------------------------------------------------------------


class TlsLayer(Layer):
    """One side of a TLS connection. Call ``shake_hands`` after each ``receive_data`` until it is
    done; the other methods are for the time after that.
    """

    def __init__(
        self, context: ssl.SSLContext, *, server_side: bool = False, server_name: str | None = None
    ) -> None:
        self._context = context
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._incoming, self._outgoing, server_side, server_name)
        self._head: bytes | None = b"" if server_side else None
        self._error: LayerError | None = None

    def receive_data(self, data: Bytes) -> None:
        if self._head is None:
            self._incoming.write(data)
        else:
            self._head += bytes(data)

    def shake_hands(self) -> bool:
        """Go on with the handshake; whether it is done. Raises TlsError.

        In every case ``take_output`` has what is to be sent.
        """
        if self._head is not None and not self._begin(self._head):
            return False
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except (ssl.SSLError, ssl.CertificateError) as error:
            raise TlsError(go_words(error)) from error
        # Back from the context that `_trust_what_is_shown` may have lent for the handshake.
        self._ssl.context = self._context
        return True

    def _begin(self, head: bytes) -> bool:
        """A peer that speaks no TLS is not answered in TLS."""
        if len(head) < _RECORD_HEADER:
            return False
        self._head = None
        # The test of Go's crypto/tls for a first record (conn.go, readRecordOrCCS).
        if head[0] not in (_ALERT, _HANDSHAKE) or head[1] >= 0x10:
            raise TlsError("tls: first record does not look like a TLS handshake", head)
        self._incoming.write(head)
        return True

    def cut_short(self) -> TlsError:
        """The error for a peer that ends the connection before the handshake is done."""
        return TlsError("EOF" if self._head == b"" else "unexpected EOF")

    def read(self) -> bytes:
        if self._error is not None:
            raise self._error
        parts, room = [], PIECE
        try:
            while room and (part := self._ssl.read(min(room, _RECORD))):
                parts.append(part)
                room -= len(part)
            self.eof = room > 0
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.eof = True
        except ssl.SSLError as error:
            # What was decrypted before the error is handed over first; the next read raises it.
            self._error = LayerError(go_words(error))
            if not parts:
                raise self._error from error
        return b"".join(parts)

    def send(self, data: Bytes) -> bytes:
        view = memoryview(data)
        with contextlib.suppress(ssl.SSLError):  # the connection is broken, which reading tells
            while view:
                view = view[self._ssl.write(view) :]
        return self._outgoing.read()

    def take_output(self) -> bytes:
        return self._outgoing.read()

    def end(self) -> bytes:
        with contextlib.suppress(ssl.SSLError):  # the peer's own farewell is not waited for
            self._ssl.unwrap()
        return self._outgoing.read()

    # What was agreed upon

    @property
    def version(self) -> str:
        """The version agreed upon, ``TLSv1.3`` for example."""
        return self._ssl.version() or ""

    @property
    def cipher(self) -> tuple[str, int]:
        """OpenSSL's name of the cipher suite, and its registered number (0 if not known)."""
        found = self._ssl.cipher()
        name = found[0] if found else ""
        for each in self._context.get_ciphers():
            if each["name"] == name:
                return name, each["id"] & 0xFFFF
        return name, 0

    @property
    def protocol(self) -> str:
        """The protocol that ALPN has chosen; usually none."""
        return self._ssl.selected_alpn_protocol() or ""

    @property
    def peer_name(self) -> str:
        """The common name in the subject of the peer's certificate; empty without one."""
        try:
            subject: Any = (self._ssl.getpeercert() or {}).get("subject", ())
        except (ssl.SSLError, ValueError):  # anybody may have written it
            return ""
        names = [value for entry in subject for kind, value in entry if kind == "commonName"]
        return names[-1] if names else ""


# --- the words of failures -----------------------------------------------------------------------

_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "tls: client didn't provide a certificate",
    "UNSUPPORTED_PROTOCOL": "tls: client offered only unsupported versions",
    "NO_SHARED_CIPHER": "tls: no cipher suite supported by both client and server",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "local error: tls: bad record MAC",
    "RECORD_LAYER_FAILURE": "local error: tls: bad record MAC",  # OpenSSL 3.6 and newer
    "NO_RENEGOTIATION": "local error: tls: no renegotiation",
    "WRONG_VERSION_NUMBER": "tls: first record does not look like a TLS handshake",
    "CERTIFICATE_VERIFY_FAILED": "tls: failed to verify certificate",
}
_UNKNOWN_AUTHORITY = "x509: certificate signed by unknown authority"
_EXPIRED = "x509: certificate has expired or is not yet valid"
_X509 = {
    9: _EXPIRED,
    10: _EXPIRED,
    18: _UNKNOWN_AUTHORITY,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
}
_ALERTS = {
    "UNEXPECTED_MESSAGE": "unexpected message",
    "BAD_RECORD_MAC": "bad record MAC",
    "RECORD_OVERFLOW": "record overflow",
    "HANDSHAKE_FAILURE": "handshake failure",
    "BAD_CERTIFICATE": "bad certificate",
    "UNSUPPORTED_CERTIFICATE": "unsupported certificate",
    "CERTIFICATE_REVOKED": "revoked certificate",
    "CERTIFICATE_EXPIRED": "expired certificate",
    "CERTIFICATE_UNKNOWN": "unknown certificate",
    "ILLEGAL_PARAMETER": "illegal parameter",
    "UNKNOWN_CA": "unknown certificate authority",
    "ACCESS_DENIED": "access denied",
    "DECODE_ERROR": "error decoding message",
    "DECRYPT_ERROR": "error decrypting message",
    "PROTOCOL_VERSION": "protocol version not supported",
    "INSUFFICIENT_SECURITY": "insufficient security level",
    "INTERNAL_ERROR": "internal error",
    "USER_CANCELLED": "user canceled",
    "CERTIFICATE_REQUIRED": "certificate required",
}


def go_words(error: ssl.SSLError | ssl.CertificateError) -> str:
    """OpenSSL's reason, in Go's words where there are any."""
    reason = getattr(error, "reason", None) or ""
    _, is_alert, alert = reason.partition("_ALERT_")
    if is_alert:
        return f"remote error: tls: {_ALERTS.get(alert, alert.lower().replace('_', ' '))}"
    words = _REASONS.get(reason) or f"tls: {reason.lower().replace('_', ' ') or error}"
    if isinstance(error, ssl.SSLCertVerificationError):
        words += f": {_X509.get(error.verify_code, error.verify_message)}"
    return words
