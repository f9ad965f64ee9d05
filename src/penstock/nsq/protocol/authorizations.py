"""The permissions of a client: the answer of an auth server (NSQ spec 1.10).

The answer's patterns are RE2, as in Go: matching takes linear time whatever the pattern, which is
why Python's ``re`` would not do. They are searched for anywhere in the name, not anchored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from penstock.core.gojson import Kind, loads_struct
from penstock.core.quote import quote
from penstock.core.units import SECOND

_ANSWER: dict[str, Any] = {
    "ttl": Kind.INT,
    "authorizations": [
        {"topic": Kind.STRING, "channels": [Kind.STRING], "permissions": [Kind.STRING]}
    ],
    "identity": Kind.STRING,
    "identity_url": Kind.STRING,
}
_PERMISSIONS = ("subscribe", "publish")
_PATTERN_LENGTH_MAX = 64 * 1024
_COMPILED_BYTES_MAX = 1024 * 1024
"""Memory of one compiled pattern, as RE2 counts it; ``.{0,1000}`` takes a seventh."""
_INSTRUCTIONS_MAX = 200_000
"""Instructions of an answer's compiled patterns; ``^name.*$`` has 15. Bounds time and memory."""
_INSTRUCTIONS_LEAST = 20
"""The least that a pattern counts, which makes 10,000 patterns the most of an answer."""


class Pattern(Protocol):
    """A compiled regular expression."""

    @property
    def programsize(self) -> int:
        """Instructions of its program."""
        ...

    def search(self, text: str, /) -> object | None:
        """A true value when ``text`` contains a match."""
        ...


@dataclass(frozen=True, slots=True)
class Authorization:
    """One entry of an answer."""

    topic: Pattern
    channels: tuple[Pattern, ...]
    permissions: frozenset[str]

    def allows(self, topic: str, channel: str) -> bool:
        """See ``Authorizations.allows``."""
        # nsqd tells them apart by the channel alone, which a publish leaves empty (NSQ spec 1.10).
        permission = "subscribe" if channel else "publish"
        return (
            permission in self.permissions
            and self.topic.search(topic) is not None
            and any(pattern.search(channel) is not None for pattern in self.channels)
        )


@dataclass(frozen=True, slots=True)
class Authorizations:
    """A whole answer. ``ttl_ns`` is for how long it holds."""

    ttl_ns: int
    entries: tuple[Authorization, ...] = ()
    identity: str = ""
    identity_url: str = ""

    @classmethod
    def parse(cls, body: bytes) -> Authorizations:
        """Read the JSON of an answer; no authorizations at all are valid.

        ValueError, with one line for the log, for what is not JSON or of another type, an unknown
        permission, a pattern that RE2 refuses or that is too large, and a TTL that is not positive.
        """
        answer = loads_struct(body, _ANSWER)
        compiler = _Compiler()
        entries = tuple(_entry(each, compiler) for each in answer["authorizations"])
        if answer["ttl"] <= 0:
            raise ValueError(f"invalid TTL {answer['ttl']} (must be >0)")
        return cls(answer["ttl"] * SECOND, entries, answer["identity"], answer["identity_url"])

    def allows(self, topic: str, channel: str = "") -> bool:
        """True if a client may subscribe to the channel or, without one, publish to the topic.

        A publisher's entry needs a channel pattern too: one that is found in the empty string.
        """
        return any(entry.allows(topic, channel) for entry in self.entries)


def _entry(answer: dict[str, Any], compiler: _Compiler) -> Authorization:
    for permission in answer["permissions"]:
        if permission not in _PERMISSIONS:
            raise ValueError(f"unknown permission {quote(permission)}")
    return Authorization(
        compiler.compile("topic", answer["topic"]),
        tuple([compiler.compile("channel", pattern) for pattern in answer["channels"]]),
        frozenset(answer["permissions"]),
    )


class _Compiler:
    """A compiler of one answer's patterns, within its bounds. RE2's Python side keeps the latest
    patterns of the process, so equal ones of other clients and answers cost little.
    """

    def __init__(self) -> None:
        import re2  # only a node with auth pays for it

        self._re2 = re2
        self._options = re2.Options()
        self._options.max_mem = _COMPILED_BYTES_MAX
        self._options.log_errors = False
        self._options.never_capture = True
        self._left = _INSTRUCTIONS_MAX

    def compile(self, what: str, pattern: str) -> Pattern:
        if len(pattern) > _PATTERN_LENGTH_MAX:
            text = f"it is longer than {_PATTERN_LENGTH_MAX}"
            raise ValueError(f"unable to compile {what} {_brief(pattern)} {text}")
        try:
            compiled: Pattern = self._re2.compile(pattern, self._options)
        except self._re2.error as error:
            (reason,) = error.args
            text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
            raise ValueError(f"unable to compile {what} {_brief(pattern)} {_brief(text)}") from None
        self._left -= max(compiled.programsize, _INSTRUCTIONS_LEAST)
        if self._left < 0:
            raise ValueError("the patterns of all authorizations are too large together")
        return compiled


def _brief(text: str) -> str:
    return quote(text if len(text) <= 100 else text[:100] + "...")
