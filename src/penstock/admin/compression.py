"""Compressed answers, as nsqadmin gives them: by the first token that it knows (reference 5.1)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from typing import Final

from penstock.net.http import Response

_LEVEL: Final = 5


def _deflate(body: bytes) -> bytes:
    coder = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return coder.compress(body) + coder.flush()


_CODERS: Final[dict[bytes, Callable[[bytes], bytes]]] = {
    b"gzip": lambda body: gzip.compress(body, _LEVEL, mtime=0),
    b"deflate": _deflate,
}


def compressed(response: Response, accepted: bytes) -> Response:
    """The response in a coding that `accepted` (the header Accept-Encoding) names, or as it is.

    A token with parameters is not recognised, as in Go's nsqadmin; deflate is without zlib's frame.
    """
    body = response.body
    if not accepted or not isinstance(body, bytes) or not body:
        return response
    if any(name == "Content-Encoding" for name, _ in response.headers):
        return response
    for token in accepted.split(b","):
        coding = token.strip()
        coder = _CODERS.get(coding)
        if coder is not None:
            headers = (*response.headers, ("Content-Encoding", coding.decode()),
                       ("Vary", "Accept-Encoding"))  # fmt: skip
            return Response(response.status, coder(body), response.content_type, headers)
    return response
