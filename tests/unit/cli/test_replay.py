"""``penstock replay``: what is wanted of a log, and how its messages become lines."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from penstock.cli.replay.lines import printer
from penstock.cli.replay.selection import BodyFilter, LogRange
from penstock.core.errors import ConfigError
from penstock.log_api.errors import OffsetOutOfRange
from penstock.log_api.log_client import LogClient
from penstock.nsq.stored import Stored

NS = 1_795_294_921_053_775_026


def stored(body: bytes) -> Stored:
    return Stored(7, "4d20c5c6ea0f049a", NS, body)


STRANGE = "é\x1b[2J\t\x00".encode() + b"\xff"


@pytest.mark.parametrize(
    ("form", "terminal", "body", "line"),
    [
        ("text", False, STRANGE, STRANGE),
        ("text", True, STRANGE, "é\\x1b[2J\t\\x00\\xff".encode()),
        ("text", True, "a\u202eb\n".encode(), b"a\\u202eb\n"),
        ("hex", True, b"\x00ab", b"006162"),
    ],
)
def test_text_is_the_body_as_it_is_unless_a_terminal_reads_it(
    form: Any, terminal: bool, body: bytes, line: bytes
) -> None:
    assert printer(form, terminal=terminal)(stored(body)) == line + b"\n"


def test_json_has_where_and_when() -> None:
    line = printer("json", terminal=False)(stored("ä".encode()))
    assert line.endswith(b"\n")
    assert json.loads(line) == {
        "offset": 7, "id": "4d20c5c6ea0f049a", "time": "2026-11-21T21:02:01.053775Z",
        "timestamp_ns": NS, "body": "ä",
    }  # fmt: skip


SECOND = 10**9


class Log(LogClient):
    """Ten messages at offsets 5 to 14, one a second."""

    def offset_at(self, topic: str, timestamp_ns: int, *, queue: int = 0) -> int:
        return min(15, max(5, -(-timestamp_ns // SECOND)))


def bounds(**flags: object) -> tuple[int, int]:
    given = dict.fromkeys(("from_offset", "from_time", "to_offset", "to_time")) | flags
    span = LogRange.parse(**given, now_ns=20 * SECOND)
    return span.bounds(Log("n:1"), "t", 0, 5, 15)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, (5, 15)),
        ({"from_offset": 7, "to_offset": 9}, (7, 9)),
        ({"from_offset": 15}, (15, 15)),
        ({"to_offset": 99}, (5, 15)),
        ({"from_offset": 9, "to_offset": 7}, (9, 9)),
        ({"from_time": "10s"}, (10, 15)),
        ({"from_time": "1d", "to_time": "1970-01-01T00:00:07Z"}, (5, 7)),
        ({"from_time": "1s"}, (15, 15)),
    ],
)
def test_bounds(flags: dict[str, object], expected: tuple[int, int]) -> None:
    assert bounds(**flags) == expected


@pytest.mark.parametrize("offset", [4, 16])
def test_an_offset_that_is_not_there(offset: int) -> None:
    with pytest.raises(OffsetOutOfRange, match=r"is outside 5\.\.15"):
        bounds(from_offset=offset)


@pytest.mark.parametrize(
    "flags",
    [{"from_offset": -1}, {"from_offset": 1, "from_time": "1s"}, {"to_offset": 1, "to_time": "1s"},
     {"to_time": "soon"}],
)  # fmt: skip
def test_what_makes_no_sense(flags: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"--(from|to)-"):
        bounds(**flags)


def test_filters() -> None:
    assert BodyFilter(None).takes_all
    grep = BodyFilter("a+b$")
    assert not grep.takes_all
    assert [grep.takes(body) for body in (b"xaab", b"xb")] == [True, False]
    both = BodyFilter("7", ["id=7", "ok=true"])
    assert both.takes(b'{"id": 7, "ok": true}')
    assert both.takes(b'{"id": "7", "ok": true}')
    deep = b"[7" * 200_000
    for body in (b'{"id": 7}', b'{"id": 70, "ok": true}', b"7", b"no json 7", b"[7]", deep):
        assert not both.takes(body)
    no_text = BodyFilter(os.fsdecode(b"\xff+"))
    assert [no_text.takes(body) for body in (b"a\xff\xff", "\u00ff".encode())] == [True, False]


def test_filters_that_make_no_sense() -> None:
    with pytest.raises(ConfigError, match=r"--grep a{9+}: "):
        BodyFilter(f"a{{{'9' * 20}}}")
    with pytest.raises(ConfigError, match=r"--grep \(:"):
        BodyFilter("(")
    with pytest.raises(ConfigError, match="--filter id: give the name and the value"):
        BodyFilter(None, ["id"])
