"""The texts of errors, in either manner."""

from __future__ import annotations

import pytest

from penstock.cluster.errors import (
    GO,
    PLAIN,
    Asked,
    Manner,
    RefusedError,
    UnexpectedError,
    UnreachableError,
)
from penstock.cluster.exchange import Endpoint
from penstock.cluster.reasons import reason_of

ASKED = Asked("GET", Endpoint.of("h:1"), "/topics")
CODE = b'{"message":"TOPIC_NOT_FOUND"}'


@pytest.mark.parametrize(
    ("manner", "unreachable", "refused", "unexpected"),
    [
        (PLAIN, "h:1 cannot be reached: timed out", "h:1: 404 TOPIC_NOT_FOUND",
         "h:1: no nsqd or nsqlookupd answers there (why)"),
        (GO, 'Get "http://h:1/topics": dial tcp h:1: i/o timeout',
         'got response 404 Not Found "{\\"message\\":\\"TOPIC_NOT_FOUND\\"}"',
         'Get "http://h:1/topics": the answer is not what is expected: why'),
    ],
)  # fmt: skip
def test_texts(manner: Manner, unreachable: str, refused: str, unexpected: str) -> None:
    late = UnreachableError(manner, ASKED, reason_of(TimeoutError(), "h:1", connecting=True))
    assert (str(late), late.short) == (unreachable, "timed out")
    refusal = RefusedError(manner, ASKED, 404, CODE)
    assert (str(refusal), refusal.code, refusal.short) == (refused, "TOPIC_NOT_FOUND", "status 404")
    strange = UnexpectedError(manner, ASKED, "why")
    assert (str(strange), strange.short) == (unexpected, "no nsqd answers there")


def test_a_refusal_without_a_code() -> None:
    assert str(RefusedError(PLAIN, ASKED, 500, b"oops")) == "h:1: 500 Internal Server Error"
    assert not RefusedError(PLAIN, ASKED, 404, b"").is_unknown
    assert RefusedError(PLAIN, ASKED, 404, b'{"message":"NOT_FOUND"}').is_unknown
