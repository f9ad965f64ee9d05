"""Compressed answers, as nsqadmin gives them: by the first token that it knows (NSQ spec 5.1)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Final

from penstock.net.http.server.service import Response

_LEVEL: Final = 5


def _deflate(body: bytes) -> bytes:
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return coder.compress(body) + coder.flush()


_CODERS: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    # Without the time, so that equal answers have equal bytes.
    b"gzip": lambda body: gzip.compress(body, _LEVEL, mtime=0),
    b"deflate": _deflate,
}


def coding_of(accepted: bytes) -> bytes:
    """The coding to answer in: the first that ``accepted`` (the header Accept-Encoding) names and
    we have, or empty.

    A token with parameters is not recognised, as in Go's nsqadmin; deflate is without zlib's frame.
    """
    tokens = (token.strip() for token in accepted.split(b","))
    return next((coding for coding in tokens if coding in _CODERS), b"")


def compressed(response: Response, accepted: bytes) -> Response:
    """The response in the coding of ``accepted``, or as it is."""
    body, coding = response.body, coding_of(accepted)
    if not coding or not isinstance(body, bytes) or not body:
        return response
    if any(name == "Content-Encoding" for name, _ in response.headers):
        return response
    headers = (
        *response.headers,
        ("Content-Encoding", coding.decode()),
        # On compressed answers only, as Go's nsqadmin has it (NSQ spec 5.1).
        ("Vary", "Accept-Encoding"),
    )
    return Response(response.status, _CODERS[coding](body), response.content_type, headers)
