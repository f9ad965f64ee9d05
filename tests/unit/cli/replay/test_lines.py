"""How messages are printed."""

from __future__ import annotations

import json

from penstock.cli.replay.lines import printable, printer
from penstock.nsq.stored import Stored

NS = 1_795_294_921_053_775_026


def stored(body: bytes) -> Stored:
    return Stored(7, "4d20c5c6ea0f049a", NS, body)


def test_text_is_the_body_as_it_is_unless_a_terminal_reads_it() -> None:
    body = "é\x1b[2J\t\x00".encode() + b"\xff"
    assert printer("text", terminal=False)(stored(body)) == body + b"\n"
    assert printer("text", terminal=True)(stored(body)) == "é\\x1b[2J\t\\x00\\xff\n".encode()


def test_hex() -> None:
    assert printer("hex", terminal=True)(stored(b"\x00ab")) == b"006162\n"


def test_json_has_where_and_when() -> None:
    line = printer("json", terminal=False)(stored("ä".encode()))
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "offset": 7, "id": "4d20c5c6ea0f049a", "time": "2026-11-21T21:02:01.053775Z",
        "timestamp_ns": NS, "body": "ä",
    }  # fmt: skip


def test_what_is_printable() -> None:
    assert printable("a\u202eb\n".encode()) == "a\\u202eb\n"
