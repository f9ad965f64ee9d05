"""The errors of asking daemons: one family, with one text each in either manner of speaking.

Programs that take the place of NSQ's own speak as those do, in the words of Go's HTTP client
(``GO``); the commands of ``penstock`` in plain ones (``PLAIN``).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from penstock.cluster.exchange import Endpoint, code_of, status_text
from penstock.cluster.reasons import Reason
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.quote import quote

QUOTED_MAX: Final = 1024
"""Bytes of an answer that are repeated in an error."""
UNKNOWN: Final = (404, "NOT_FOUND")
"""The status and code for a path that the daemon does not have."""
_OTHERS: Final = "another program, or an earlier version, answers there"


class SentRequest(NamedTuple):
    """A request, for those who describe what became of it."""

    method: str
    endpoint: Endpoint
    target: str


class ErrorWording:
    """Plain words, which begin with the daemon's address."""

    def unreachable(self, asked: SentRequest, reason: Reason) -> str:
        """The text when no answer came."""
        return f"{asked.endpoint.address} cannot be reached: {reason.plain}{reason.remedy}"

    def refused(self, asked: SentRequest, status: int, body: bytes) -> str:
        """The text for another status than 200."""
        if (status, code_of(body)) == UNKNOWN:
            path = asked.target.partition("?")[0]
            return f"{asked.endpoint.address} does not know {path}: {_OTHERS}"
        code = code_of(body) or status_text(status).partition(" ")[2]
        return f"{asked.endpoint.address}: {status} {code}".rstrip()

    def unexpected(self, asked: SentRequest, words: str) -> str:
        """The text for an answer that makes no sense."""
        return f"{asked.endpoint.address}: no nsqd or nsqlookupd answers there ({words})"


class GoErrorWording(ErrorWording):
    """The words of Go's HTTP client."""

    def unreachable(self, asked: SentRequest, reason: Reason) -> str:
        return f"{self._request(asked)}: {reason.go}"

    def refused(self, asked: SentRequest, status: int, body: bytes) -> str:
        return f"got response {status_text(status)} {quote(body[:QUOTED_MAX])}"

    def unexpected(self, asked: SentRequest, words: str) -> str:
        return f"{self._request(asked)}: the answer is not what is expected: {words}"

    def _request(self, asked: SentRequest) -> str:
        return f"{asked.method.title()} {quote(asked.endpoint.url(asked.target))}"


PLAIN: Final = ErrorWording()
GO: Final = GoErrorWording()


class UpstreamError(PenstockError):
    """A daemon could not be asked, or gave no usable answer.

    ``short`` is for a line that names the daemon already.
    """

    short = "no usable answer"


class UnreachableError(UpstreamError):
    """No answer came; ``reason`` says why."""

    def __init__(self, wording: ErrorWording, asked: SentRequest, reason: Reason) -> None:
        super().__init__(wording.unreachable(asked, reason))
        self.reason = reason
        self.short = reason.plain


class RefusedError(UpstreamError):
    """A daemon answered, with another status than 200; ``code`` is NSQ's, empty when none came."""

    def __init__(self, wording: ErrorWording, asked: SentRequest, status: int, body: bytes) -> None:
        super().__init__(wording.refused(asked, status, body))
        self.status = status
        self.code = code_of(body)
        self.short = _OTHERS if self.is_unknown else f"status {status}"

    @property
    def is_unknown(self) -> bool:
        """True if the daemon does not know the request at all, as Go's has not all of ours."""
        return (self.status, self.code) == UNKNOWN


class UnexpectedError(UpstreamError):
    """The answer is not what was asked for: somebody else's server may listen there."""

    short = "no nsqd answers there"

    def __init__(self, wording: ErrorWording, asked: SentRequest, words: str) -> None:
        super().__init__(wording.unexpected(asked, words))


class AddressError(ConfigError, ValueError):
    """An address that leads nowhere, as it has no port or a name that cannot be asked for."""


class NoAnswerError(PenstockError):
    """None of those that were asked gave an answer, or there was nobody to ask."""
