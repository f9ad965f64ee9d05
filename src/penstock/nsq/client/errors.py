"""The errors that can occur between a client and a node, as exceptions.

Every error code of the server has its own exception, named for it: ``E_BAD_TOPIC`` is
``BadTopic``. ``server_error`` finds it. All of them are ``ClientError``.
"""

from __future__ import annotations

from penstock.core.errors import ConfigError, PenstockError


class ClientError(PenstockError):
    """Anything a client of NSQ can report."""


class NotConnected(ClientError):
    """The connection is gone. Whether the last command was carried out is not known."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}")


class TimedOut(NotConnected):
    """No answer came in time; the connection was closed."""


class HandshakeFailed(ClientError):
    """A failed handshake: the peer is not a node that this client can, or may, talk to."""

    def __init__(self, address: str, reason: str) -> None:
        self.address = address
        self.reason = reason
        super().__init__(f"{address}: {reason}")


class BadTlsOptions(ClientError, ConfigError):
    """The ``tls_*`` options, or the files that they name, cannot be used."""


class Stopped(ClientError):
    """The producer was closed; what it had not published by then was not, or perhaps not."""

    def __init__(self) -> None:
        super().__init__("stopped")


class LookupFailed(ClientError):
    """No nsqlookupd gave an answer."""


class ServerError(ClientError):
    """An error frame. ``code`` is its first word, ``text`` the whole line."""

    code = ""

    def __init__(self, text: str) -> None:
        self.text = text
        self.code = text.partition(" ")[0]
        super().__init__(text)


class Invalid(ServerError):
    """The command is unknown, malformed, or not allowed now."""


class BadBody(ServerError):
    """The body of IDENTIFY, AUTH or MPUB is not acceptable."""


class BadTopic(ServerError):
    """A topic name that is not valid."""


class BadChannel(ServerError):
    """A channel name that is not valid."""


class BadMessage(ServerError):
    """A message is empty or too big."""


class BadProtocol(ServerError):
    """The server does not know the protocol version."""


class IdentifyFailed(ServerError):
    """The features asked for cannot be had together, or an upgrade failed."""


class SubFailed(ServerError):
    """Subscribing failed, for instance because the channel has enough consumers."""


class PubFailed(ServerError):
    """The message was not stored."""


class MpubFailed(ServerError):
    """The messages were not, or not all, stored."""


class DpubFailed(ServerError):
    """The deferred message was not stored."""


class FinFailed(ServerError):
    """The message is not in flight to this connection any more."""


class ReqFailed(ServerError):
    """The message is not in flight to this connection any more."""


class TouchFailed(ServerError):
    """The message is not in flight to this connection any more."""


class AuthFirst(ServerError):
    """The node wants AUTH before this command."""


class AuthFailed(ServerError):
    """The auth server gave no usable answer."""


class AuthDisabled(ServerError):
    """The node has no auth server."""


class AuthError(ServerError):
    """The node could not answer AUTH."""


class Unauthorized(ServerError):
    """The secret does not allow this."""


def code_of(kind: type[ServerError]) -> str:
    """The server's word for an exception class: BadTopic is E_BAD_TOPIC."""
    spaced = "".join(f"_{char}" if char.isupper() else char for char in kind.__name__)
    return "E" + spaced.upper()


_BY_CODE = {code_of(kind): kind for kind in ServerError.__subclasses__()}


def server_error(text: str) -> ServerError:
    """The exception for an error frame; a plain ServerError when its code is new to us."""
    return _BY_CODE.get(text.partition(" ")[0], ServerError)(text)
