from __future__ import annotations

import json

from penstock.rocketmq.mqadmin.output import Output, Shown, Table

TABLE = Table("queues", "%-6s %4d %6.2f", "broker queue rate", ("#Broker", "#QID", "#Rate"))


def test_a_table_for_people() -> None:
    texts: list[str] = []
    out = Output(texts.append)
    out.head(TABLE)
    out.row(TABLE, "a", 1, 2.5)
    out.fact("unseen", 1)
    out.finish()
    assert "".join(texts) == "#Broker #QID  #Rate\na         1   2.50\n"


def test_the_same_rows_in_json() -> None:
    texts: list[str] = []
    out = Output(texts.append, as_json=True)
    out.head(TABLE)
    out.row(TABLE, Shown("shown", "raw"), 1, 2.5)
    out.say("done\n", broker="a")
    out.text("unseen")
    out.fail("no", 17)
    out.finish()
    assert json.loads("".join(texts)) == {
        "queues": [{"broker": "raw", "queue": 1, "rate": 2.5}],
        "results": [{"text": "done", "broker": "a"}],
        "error": "no",
        "code": 17,
    }


def test_each_round_is_an_object() -> None:
    texts: list[str] = []
    out = Output(texts.append, as_json=True)
    out.fact("round", 1)
    out.finish()
    out.head(TABLE)
    out.finish()
    assert [json.loads(text) for text in texts] == [{"round": 1}, {"queues": []}]
