"""Output for people and as JSON, in rounds, and what java_text makes of values.

Its other texts are compared with what upstream's tool printed: tests/conformance/test_mqadmin.py.
"""

from __future__ import annotations

import json
import time

import pytest

from penstock.rocketmq.client.consume.received import Received
from penstock.rocketmq.mqadmin import java_text, rounds
from penstock.rocketmq.mqadmin.admin import Admin
from penstock.rocketmq.mqadmin.errors import CommandFailed
from penstock.rocketmq.mqadmin.output import Output, Shown, Table
from tests.unit.rocketmq.mqadmin.fake_admin import FakeAdmin, stored

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


def test_rounds_go_on_until_they_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(admin: Admin, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    async def work() -> None:
        out.fact("round", len(pauses))

    monkeypatch.setattr(rounds, "pause", pause)
    texts: list[str] = []
    out = Output(texts.append, as_json=True)
    admin = FakeAdmin()
    with pytest.raises(KeyboardInterrupt):
        admin.do(rounds.every(admin, 3, work, out))
    assert pauses == [3, 3]
    assert [json.loads(text) for text in texts] == [{"round": 0}, {"round": 1}]


# --- texts ----------------------------------------------------------------------------------------


def test_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert java_text.to_millisecond(1795414285042) == "2026-11-23 06:11:25,042"
    assert java_text.to_millisecond(1795414285042).raw == 1795414285042
    assert java_text.to_second(1795414285042) == "2026-11-23 06:11:25"
    assert java_text.compact_time(1795414285042) == "20261123061125042"
    assert java_text.parse_time("2026-11-23#06:11:25:042") == 1795414285042
    assert java_text.parse_time("7") == 7
    with pytest.raises(CommandFailed, match="'yesterday' is not a time"):
        java_text.parse_time("yesterday")


def test_bytes_of_a_message_have_signs() -> None:
    text = java_text.message_text(Received(stored("KEYS\x01k\x02", b"h\xff"), "broker-a"))
    assert "properties={KEYS=k}, body=[104, -1], transactionId='null'}]" in text


def test_indented_json() -> None:
    value = {"a": {0: "x"}, "e": {}, "list": [{"n": 1}], "none": None, "words": ["JAVA%V4_9_7"]}
    assert java_text.pretty(value) == (
        '{\n\t"a":{0:"x"\n\t},\n\t"e":{},\n\t"list":[\n\t\t{\n\t\t\t"n":1\n\t\t}\n\t],\n'
        '\t"words":["JAVA%V4_9_7"]\n}'
    )


def test_a_name_is_cut_to_its_column() -> None:
    assert java_text.cut("broker", 3) == "bro"
