from __future__ import annotations

import pytest

from penstock.admin.cluster.asker import Asker, RefusedError, UpstreamError
from penstock.admin.messages.nodes import answered, is_not_offered, refusal, target
from penstock.net.http_answer import Answer
from penstock.nsq.http_api import ApiError


def refused(status: int, body: bytes) -> RefusedError:
    return RefusedError(Answer(status, {}, body))


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (refused(404, b'{"message":"NOT_FOUND"}'), 501, "NOT_OFFERED"),
        (refused(404, b'{"message":"TOPIC_NOT_FOUND"}'), 404, "TOPIC_NOT_FOUND"),
        (refused(400, b'{"message":"INVALID_ARG_LIMIT"}'), 400, "INVALID_ARG_LIMIT"),
        (refused(400, b'{"message":"<b>"}'), 502, "UPSTREAM_ERROR: got response 400"),
        (refused(404, b"no page"), 502, "UPSTREAM_ERROR: got response 404 Not Found"),
        (refused(500, b'{"message":"INTERNAL_ERROR"}'), 502, "UPSTREAM_ERROR: got response 500"),
        (UpstreamError("EOF"), 502, "UPSTREAM_ERROR: EOF"),
    ],
)
def test_refusals(error: UpstreamError, status: int, code: str) -> None:
    found = refusal(error)
    assert (found.status, found.code[: len(code)]) == (status, code)
    assert is_not_offered(error) == (status == 501)


async def test_answered(asker: Asker) -> None:
    with pytest.raises(ApiError, match="UPSTREAM_ERROR: Get "):
        await answered(asker.get("127.0.0.1:9", "/", dict))


def test_targets() -> None:
    assert target("/p", topic="a b#", from_=3, limit=None) == "/p?topic=a+b%23&from=3"
    assert target("/p", topic="%DLQ%g", at="\udcff") == "/p?topic=%25DLQ%25g&at=%FF"
