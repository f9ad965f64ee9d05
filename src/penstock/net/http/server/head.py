"""The head of an HTTP/1 request: ``httptools`` reads it, this adds what Go's server insists on.

``httptools`` (llhttp) judges methods, versions, header lines and the framing of the body. It does
not look into the target, ask for a Host, or know which expectations and codings its user can serve.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_to_bytes

import httptools

_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_ABSOLUTE = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?]*")
_SINGLE: Final = frozenset((b"host", b"authorization", b"origin", b"sec-fetch-site"))
"""Headers by which a request is let in. Of several, a proxy may have judged another one than this
server; Go's refuses a second Host, and takes the first of the others.
"""


class BadRequestError(Exception):
    """The bytes are not a request this server takes; ``status`` is what follows ``HTTP/1.1 ``."""

    def __init__(self, status: str = "400 Bad Request") -> None:
        super().__init__(status)
        self.status = status


def bad_line(version: str) -> BadRequestError:
    """Go's answer to a bad first line, in which the parser found this version."""
    if version[0] > "1":
        return BadRequestError("505 HTTP Version Not Supported: unsupported protocol version")
    return BadRequestError()


class Head:
    """The lines before the body: method, target, version and headers."""

    __slots__ = (
        "_target",
        "headers",
        "is_http10",
        "keep_alive",
        "method",
        "path",
        "query",
        "repeated",
    )

    def __init__(
        self,
        method: str,
        target: bytes,
        headers: dict[bytes, bytes],
        version: str,
        keep_alive: bool,
        repeated: frozenset[bytes] = frozenset(),
    ) -> None:
        """BadRequestError when Go would refuse it."""
        self.method = method
        self._target = target
        self.headers = headers
        """Names in lower case; of a repeated header the last stays."""
        self.repeated = repeated
        """The names of headers that came more than once."""
        self.is_http10 = version == "1.0"
        self.keep_alive = keep_alive
        path, _, self.query = target.partition(b"?")
        if path[:1] != b"/" or b"%" in path:
            path, self.query = _path_and_query(target)
        self.path = path.decode("utf-8", "surrogateescape")
        """Decoded; bytes that are not UTF-8 are kept as surrogates."""
        if version[0] != "1":
            raise bad_line(version)
        # As Go's net/http: only HTTP/1.1 needs a Host; the status line says so (NSQ spec 2.1).
        if b"host" not in headers and not self.is_http10:
            raise BadRequestError("400 Bad Request: missing required Host header")
        for name in repeated & _SINGLE if repeated else ():
            raise BadRequestError(f"400 Bad Request: too many {name.decode().title()} headers")

    @property
    def target(self) -> str:
        """The request target as it came, for logs."""
        return self._target.decode("latin-1")

    @property
    def raw_path(self) -> str:
        """The path before decoding."""
        return _origin_form(self._target).partition(b"?")[0].decode("latin-1")

    def without_upgrade(self) -> bytes:
        """The head's bytes again, but for the wish to speak another protocol."""
        lines = [b"%s: %s\r\n" % each for each in self.headers.items() if each[0] != b"upgrade"]
        start = f"{self.method} {self.target} HTTP/{'1.0' if self.is_http10 else '1.1'}\r\n"
        return b"".join([start.encode("latin-1"), *lines, b"\r\n"])


def _origin_form(target: bytes) -> bytes:
    """A target without scheme and host; BadRequestError when it has no path then."""
    if target[:1] == b"/" or target == b"*":
        return target
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise BadRequestError
    rest = target[absolute.end() :]
    return rest if rest[:1] == b"/" else b"/" + rest


def _path_and_query(target: bytes) -> tuple[bytes, bytes]:
    path, _, query = _origin_form(target).partition(b"?")
    if _BAD_ESCAPE.search(path):
        raise BadRequestError
    return unquote_to_bytes(path), query


class HeadReader:
    """The callbacks of an ``httptools`` parser that gather a head."""

    __slots__ = ("_headers", "_parser", "_repeated", "_target", "head")

    def __init__(self) -> None:
        self.head: Head
        self._target: bytes | bytearray = b""
        self._headers: dict[bytes, bytes] = {}
        self._repeated: set[bytes] = set()
        self._parser = httptools.HttpRequestParser(self)

    def on_url(self, part: bytes) -> None:
        if not self._target:
            self._target = part
            return
        if isinstance(self._target, bytes):
            self._target = bytearray(self._target)  # grows in place, piece by piece
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in self._headers:
            self._repeated.add(name)
        self._headers[name] = value

    def on_headers_complete(self) -> None:
        parser, headers = self._parser, self._headers
        keep_alive = parser.should_keep_alive()
        # Only an HTTP/1.1 connection stays without a word about it; asking for the version costs.
        is_plain = keep_alive and b"connection" not in headers
        version = "1.1" if is_plain else parser.get_http_version()
        self.head = Head(
            parser.get_method().decode(),
            bytes(self._target),
            headers,
            version,
            keep_alive,
            frozenset(self._repeated),
        )
