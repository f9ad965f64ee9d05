"""Why a node does not take rows."""

from __future__ import annotations

import pytest

from penstock.log_api.errors import LogError, NoLog
from penstock.spark.sink.refusals import refusal, too_big
from tests.unit.spark.sink.making import piece


@pytest.mark.parametrize(
    ("status", "reason", "said"),
    [
        (413, "BAD_MESSAGE",
         "rows 4 to 5 of partition 0: 700 bytes are more than node n:1 takes (BAD_MESSAGE): raise "
         "its --max-msg-size, or make the message smaller"),
        (400, "INVALID_DEFER",
         "row 5 of partition 0: defer_ms 9 is more than node n:1 takes: raise its "
         "--max-req-timeout, or delay for less"),
        (400, "TOPIC_IS_EPHEMERAL", "rows 4 to 5 of partition 0: an ephemeral topic remembers no"),
        (403, "FORBIDDEN", "rows 4 to 5 of partition 0: refused by node n:1: 403 FORBIDDEN"),
    ],
)  # fmt: skip
def test_sentences(status: int, reason: str, said: str) -> None:
    error = LogError("n:1", status, reason)
    assert str(refusal(error, piece([b"x" * 700, b"y"], [2, 9], first=4), 0)).startswith(said)
    assert too_big(error) == (status == 413)


def test_no_nsqd() -> None:
    error = refusal(NoLog("n:1", 404, "NOT_FOUND"), piece([b"x"]), 0)
    assert str(error) == "node n:1 is no nsqd: it takes no messages over HTTP"
