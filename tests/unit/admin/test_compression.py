from __future__ import annotations

import gzip
import zlib

import pytest

from penstock.admin.compression import compressed
from penstock.net.http.server.service import Response

BODY = b"abc" * 100
PLAIN = Response(200, BODY, "text/plain", (("X-Nsq-Content-Type", "nsq; version=1.0"),))


def test_gzip() -> None:
    answer = compressed(PLAIN, b"br, gzip, deflate")
    assert isinstance(answer.body, bytes)
    assert gzip.decompress(answer.body) == BODY
    assert answer.headers[1:] == (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
    assert PLAIN.body == BODY  # one that is answered again and again stays as it is


def test_deflate_has_no_frame() -> None:
    answer = compressed(PLAIN, b"deflate, gzip")
    assert isinstance(answer.body, bytes)
    assert zlib.decompress(answer.body, -15) == BODY


@pytest.mark.parametrize("accepted", [b"", b"br", b"gzip;q=0", b"GZIP", b"*", b"identity"])
def test_as_it_is(accepted: bytes) -> None:
    assert compressed(PLAIN, accepted) is PLAIN


def test_nothing_to_compress() -> None:
    empty = Response()
    assert compressed(empty, b"gzip") is empty
    once = compressed(PLAIN, b"gzip")
    assert compressed(once, b"gzip") is once
