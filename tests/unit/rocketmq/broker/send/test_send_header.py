from __future__ import annotations

import pytest

from penstock.rocketmq.broker.send.send_header import SendHeader
from penstock.rocketmq.protocol.command import Command
from penstock.rocketmq.protocol.errors import BodyError

LONG = {
    "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
    "queueId": "2", "sysFlag": "1", "bornTimestamp": "1700000000000", "flag": "7",
    "properties": "KEYS\x01k\x02", "reconsumeTimes": "3", "unitMode": "true",
    "maxReconsumeTimes": "5", "batch": "TRUE",
}  # fmt: skip
SHORT = dict(zip("abcdefghijklm", LONG.values(), strict=True))
ALL = SendHeader(
    "PG", "T", "TBW102", 4, 2, 1, 1700000000000, 7, "KEYS\x01k\x02", 3, 5, True, True
)  # fmt: skip


@pytest.mark.parametrize(
    ("code", "ext"), [(10, LONG), (324, LONG), (310, SHORT), (320, SHORT), (325, SHORT)]
)
def test_long_and_short_names_say_the_same(code: int, ext: dict[str, str]) -> None:
    assert SendHeader.of(Command(code, ext=ext)) == ALL


def test_what_is_not_said_has_javas_defaults() -> None:
    header = SendHeader.of(Command(310, ext={"b": "T", "m": "1", "k": ""}))
    assert header == SendHeader("", "T", "", 0, 0, 0, 0, 0, "", 0, None, False, False)


@pytest.mark.parametrize("ext", [{"e": "x"}, {"d": "1.5"}, {"l": "many"}, {"g": "0x1"}, None])
def test_what_is_no_number_is_refused(ext: dict[str, str] | None) -> None:
    with pytest.raises(BodyError):
        SendHeader.of(Command(310, ext=ext))


@pytest.mark.parametrize(("name", "value"), [("e", 1 << 31), ("f", 1 << 31), ("h", -(1 << 31) - 1),
                                             ("j", 1 << 40), ("g", 1 << 63)])  # fmt: skip
def test_numbers_have_the_room_that_a_stored_message_gives(name: str, value: int) -> None:
    header = SendHeader.of(Command(310, ext={"b": "T", name: str(value)}))
    with pytest.raises(BodyError, match="bits"):
        header.check()
