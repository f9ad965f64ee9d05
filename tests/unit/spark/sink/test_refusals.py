"""Why a node does not take rows."""

from __future__ import annotations

import pytest

from penstock.nsq.client.log import LogError, NoLog
from penstock.spark.sink.refusals import refusal, too_big


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (LogError("n:1", 413, "BAD_MESSAGE"),
         "row 4 of partition 0: 700 bytes are more than node n:1 takes (BAD_MESSAGE): raise its "
         "--max-msg-size, or make the message smaller"),
        (LogError("n:1", 400, "INVALID_DEFER"),
         "row 4 of partition 0: defer_ms 9 is more than node n:1 takes: raise its "
         "--max-req-timeout, or delay for less"),
        (LogError("n:1", 403, "FORBIDDEN"), "row 4 of partition 0: refused by node n:1: 403 FORB"),
        (NoLog("n:1", 404, "NOT_FOUND"), "node n:1 is no nsqd: it takes no messages over HTTP"),
    ],
)  # fmt: skip
def test_sentences(error: LogError, said: str) -> None:
    assert str(refusal(error, "row 4 of partition 0", 700, 9)).startswith(said)
    assert too_big(error) == (error.status == 413)
