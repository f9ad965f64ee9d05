"""A command: what one frame says, whichever serialisation its header has (RocketMQ spec 1.2).

Requests and responses are the same thing; a response has the bit ``RESPONSE`` in its flag and
echoes the ``opaque`` of its request. Opaque numbers are per sender, so both sides of a connection
may use the same one at once.
"""

from __future__ import annotations

from enum import IntEnum
from reprlib import repr as shortened
from typing import Final

from penstock.rocketmq.protocol.errors import BodyError
from penstock.storage.compiled import Struct

RESPONSE: Final = 1
ONE_WAY: Final = 2

PROTOCOL_VERSION: Final = 409
"""The ordinal of V4_9_8: clients at or above the ordinals of RocketMQ spec 1.6 rely on what it
stands for."""

_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1
_NOT_SUPPORTED: Final = 3  # the table of codes, which names it, is for servers; this is below it
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


class Serialization(IntEnum):
    """The encoding of a header; the top byte of a frame's second word."""

    JSON = 0
    BINARY = 1


class Language(IntEnum):
    """The programming language of a peer (RocketMQ spec 1.5)."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


class Command(Struct):
    """A request or response.

    ``ext`` are the command's own fields, all strings; None if there is no such object at all, which
    some clients do not accept in a response. ``remark`` is text for people, in responses the error.
    """

    code: int
    opaque: int = 0
    ext: dict[str, str] | None = None
    body: bytes = b""
    flag: int = 0
    remark: str | None = None
    language: Language = Language.PYTHON
    version: int = PROTOCOL_VERSION
    serialization: Serialization = Serialization.JSON

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """True if no response may be written, not even to say that the request failed."""
        return bool(self.flag & ONE_WAY)

    def answer(
        self,
        code: int = 0,
        remark: str | None = None,
        *,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
    ) -> Command:
        """The response to this request, in its serialisation: not every client reads both."""
        return Command(
            code, self.opaque, ext, body, RESPONSE, remark, serialization=self.serialization
        )

    def unsupported(self) -> Command:
        """The response to a request whose code nobody serves here (RocketMQ spec 1.7)."""
        # The leading blank is Java's.
        return self.answer(_NOT_SUPPORTED, f" request type {self.code} not supported")

    # --- fields, read as the Java broker reads them ---------------------------------------------

    def text(self, name: str) -> str:
        """A field that must be there and not be empty. Raises BodyError."""
        value = self.ext.get(name) if self.ext else None
        if not value:
            raise BodyError(f"the field {name} is missing")
        return value

    def optional(self, name: str) -> str | None:
        """A field, or None; an empty one is None, as in Java."""
        return (self.ext.get(name) or None) if self.ext else None

    def int32(self, name: str, default: int | None = None) -> int:
        """An integer of 32 bits; BodyError when it is missing without default, or is not one."""
        return self._integer(name, default, _INT_MIN, _INT_MAX)

    def int64(self, name: str, default: int | None = None) -> int:
        """An integer of 64 bits; BodyError when it is missing without default, or is not one."""
        return self._integer(name, default, _LONG_MIN, _LONG_MAX)

    def boolean(self, name: str) -> bool:
        """True only for the word ``true``, in any case: ``1`` is false, as for ``parseBoolean``."""
        value = self.ext.get(name) if self.ext else None
        return value is not None and value.lower() == "true"

    def _integer(self, name: str, default: int | None, least: int, most: int) -> int:
        value = self.ext.get(name) if self.ext else None
        if not value:
            if default is None:
                raise BodyError(f"the field {name} is missing")
            return default
        # Not int() at once: it takes blanks and underscores, which Java refuses.
        digits = value[1:] if value[0] in "+-" else value
        if digits.isascii() and digits.isdigit() and len(digits) < 20:
            number = int(value)
            if least <= number <= most:
                return number
        raise BodyError(
            f"the field {name} is not a number of {most.bit_length() + 1} bits: {shortened(value)}"
        )
