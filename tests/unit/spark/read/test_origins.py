"""Notes of dead letters, as nsqd writes them."""

from __future__ import annotations

import msgspec
import pytest

from penstock.broker.dead_letters import Origins as Written
from penstock.broker.dead_letters import encode_origins
from penstock.spark.read.origins import Origins, origins_in

IDS = [0, 127, 128, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1]


@pytest.mark.parametrize("name", ["t", "orders." + "x" * 57, "ü" * 20, "x" * 300])
@pytest.mark.parametrize("ids", [IDS, [5], list(range(70_000))])
def test_what_nsqd_writes_is_read(name: str, ids: list[int]) -> None:
    attempts = [min(id, 65_535) for id in ids]
    note = encode_origins(Written(name, "c", ids, attempts))
    assert origins_in(note, len(ids)) == Origins(name, "c", ids, attempts, "max_attempts")


def test_a_note_of_a_version_that_gave_no_reason() -> None:
    note = msgspec.msgpack.encode(["t", "c", [7], [3]])
    assert origins_in(note, 1) == Origins("t", "c", [7], [3], "max_attempts")


@pytest.mark.parametrize(
    "note",
    [
        ["t", "c", [7], [3], "late", 1],
        ["t", "c", [7]],
        ["t", "c", [7, 8], [3, 3]],
        ["t", "c", [7], ["3"]],
        ["t", 5, [7], [3]],
        ["t", "c", [[7]], [3]],
        {"writer": "w", "batch": 3},
        ["w", 3],
        "t",
        None,
    ],
)
def test_notes_of_another_kind_say_nothing(note: object) -> None:
    assert origins_in(msgspec.msgpack.encode(note), 1) is None


def test_damaged_notes_say_nothing() -> None:
    whole = encode_origins(Written("t", "c", [1 << 40], [3]))
    assert origins_in(whole, 1) is not None
    for size in range(len(whole)):
        assert origins_in(whole[:size], 1) is None
    assert origins_in(whole + b"\0", 1) is None
    assert origins_in(b"\xdd\xff\xff\xff\xff" + b"\x01" * 50, 1) is None
    assert origins_in(b"\x91" * 5000, 1) is None
