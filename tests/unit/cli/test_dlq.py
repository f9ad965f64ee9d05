"""``penstock dlq``: its commands, and how it lists dead letters."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.cli.dlq.dead_topics import LetterChoice
from penstock.core.errors import ConfigError
from penstock.nsq.page import Origin
from penstock.nsq.stored import Stored
from tests.unit.cli.nodes_at_work import Commands


@pytest.mark.parametrize("name", ["list", "show", "resend", "export"])
def test_every_flag_is_explained(command: Commands, name: str) -> None:
    ended = command("dlq", name, "--help")
    assert ended.code == 0
    assert "--nsqd-http-address" in ended.out
    assert "--lookupd-http-address" in ended.out


LETTERS = [
    Stored(offset, f"{offset:016x}", 0, b'{"id":%d}' % offset,
           Origin("orders", "bill" if offset % 2 else "ship", f"{offset + 256:016x}", 5, 0))
    for offset in range(6)
]  # fmt: skip
ORPHAN = Stored(6, f"{6:016x}", 0, b"nobody's")


def taken(**flags: Any) -> list[int]:
    choice = LetterChoice(**flags)
    return [letter.offset for letter in [*LETTERS, ORPHAN] if choice.takes(letter)]


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6]),
        ({"offsets": [1, 6, 9]}, [1, 6]),
        ({"ids": [f"{2:016X}", f"{259:016x}"]}, [2, 3]),
        ({"channels": ["bill"]}, [1, 3, 5]),
        ({"grep": "[34]}"}, [3, 4]),
        ({"fields": ["id=5"]}, [5]),
        ({"channels": ["bill"], "grep": "[34]}"}, [3]),
        ({"ids": ["0" * 16], "offsets": [1]}, []),
    ],
)
def test_choices(flags: dict[str, Any], offsets: list[int]) -> None:
    assert taken(**flags) == offsets
    assert LetterChoice(**flags).takes_all == (not flags)


@pytest.mark.parametrize("text", ["12", "x" * 16, ""])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ConfigError, match=f"--id {text}: an id has 16 hexadecimal digits"):
        LetterChoice(ids=[text])
