"""The head of an HTTP/1 request, read as Go's server reads it; no I/O.

A client on a keep-alive connection sends the same head again and again, so `parse_head` is pure:
the server keeps what it made of a head under the head's bytes, and pays for parsing once.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

_REQUEST_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([^ ]+) HTTP/([0-9])\.([0-9])")
_HEADERS = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*\r\n")
_BAD_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")
_ABSOLUTE = re.compile(rb"[a-zA-Z][a-zA-Z0-9+.-]*://[^/?]*")


class BadRequest(Exception):
    """The bytes are no request this server takes; `status` is what follows `HTTP/1.1 `."""

    def __init__(self, status: str = "400 Bad Request") -> None:
        super().__init__(status)
        self.status = status


class Head:
    """What the lines before the body say; shared by all requests with the same bytes."""

    __slots__ = (
        "chunked",
        "expects_continue",
        "headers",
        "is_http10",
        "keep_alive",
        "length",
        "method",
        "path",
        "query",
        "raw_path",
        "target",
    )

    method: str
    target: str
    """The request target as it came, for logs."""
    path: str
    """Decoded; bytes that are not UTF-8 are kept as surrogates."""
    raw_path: str
    query: bytes
    headers: dict[bytes, bytes]
    """Names in lower case; of a repeated header the first stays."""
    length: int
    chunked: bool
    keep_alive: bool
    expects_continue: bool
    is_http10: bool


def check_request_line(line: bytes) -> re.Match[bytes]:
    """The parts of a first line (without its end); BadRequest when it is none."""
    match = _REQUEST_LINE.fullmatch(line)
    if match is None:
        raise BadRequest
    major, minor = match[3], match[4]
    if major != b"1":
        raise BadRequest("505 HTTP Version Not Supported: unsupported protocol version")
    if minor not in b"01":
        raise BadRequest
    return match


def parse_head(raw: bytes) -> Head:
    """The head in `raw`, which ends with its empty line; every line ends with CR LF."""
    line_end = raw.index(b"\r\n")
    match = check_request_line(raw[:line_end])
    block = raw[line_end + 2 :]
    if not _HEADERS.fullmatch(block):
        raise BadRequest
    head = Head()
    head.method = match[1].decode("ascii")
    head.is_http10 = match[4] == b"0"
    _set_target(head, match[2])
    head.headers = _headers(block)
    _set_framing(head)
    return head


def _set_target(head: Head, target: bytes) -> None:
    head.target = target.decode("latin-1")
    if target == b"*" and head.method == "OPTIONS":
        head.path = head.raw_path = "*"
        head.query = b""
        return
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:
        target = target[absolute.end() :] or b"/"
    path, _, query = target.partition(b"?")
    if path[:1] != b"/" or _BAD_ESCAPE.search(path):
        raise BadRequest
    head.raw_path = path.decode("latin-1")
    decoded = unquote_to_bytes(path) if b"%" in path else path
    head.path = decoded.decode("utf-8", "surrogateescape")
    head.query = query


def _headers(block: bytes) -> dict[bytes, bytes]:
    headers: dict[bytes, bytes] = {}
    for line in block.split(b"\r\n")[:-2]:
        name, _, value = line.partition(b":")
        name = name.lower()
        value = value.strip(b" \t")
        earlier = headers.setdefault(name, value)
        # Two lengths or two hosts mean that somebody on the way reads another request than we do.
        if earlier != value and name in (b"content-length", b"host", b"transfer-encoding"):
            raise BadRequest
    return headers


def _set_framing(head: Head) -> None:
    headers = head.headers
    if b"host" not in headers and not head.is_http10:
        raise BadRequest("400 Bad Request: missing required Host header")
    coding = headers.get(b"transfer-encoding")
    head.chunked = coding is not None
    if coding is not None and (coding.lower() != b"chunked" or head.is_http10):
        raise BadRequest("501 Not Implemented: unsupported transfer encoding")
    length = headers.get(b"content-length", b"0")
    # Both together are the classic way to smuggle a request past a proxy.
    if not length.isdigit() or len(length) > 18 or (head.chunked and b"content-length" in headers):
        raise BadRequest
    head.length = int(length)
    connection = headers.get(b"connection", b"").lower()
    head.keep_alive = b"keep-alive" in connection if head.is_http10 else b"close" not in connection
    expect = headers.get(b"expect")
    head.expects_continue = expect is not None and not head.is_http10
    if expect is not None and expect.lower() != b"100-continue":
        raise BadRequest("417 Expectation Failed")
