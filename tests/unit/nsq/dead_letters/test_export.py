"""Dead letters as lines."""

from __future__ import annotations

import json

from penstock.nsq.dead_letters.export import FORMS, described
from penstock.nsq.page import Origin
from penstock.nsq.stored import Stored

LETTER = Stored(7, "4d20c5c6ea0f049a", 10**18, b"a\nb", Origin("t", "c", "0" * 16, 5, 10**18))


def test_lines() -> None:
    assert FORMS["raw"]("n:1", "t.dead", LETTER) == b"a\nb\n"
    line = FORMS["json"]("n:1", "t.dead", LETTER)
    assert line.count(b"\n") == 1
    assert json.loads(line) == described("n:1", "t.dead", LETTER)
    assert json.loads(line)["origin"]["channel"] == "c"
