"""Which files make a queue of Go's nsqd, and what of them is to be read (NSQ spec 3.6)."""

from __future__ import annotations

import pytest

from penstock.nsq.takeover.diskqueue import (
    Meta,
    Piece,
    QueueFiles,
    find_queues,
    missing,
    parse_meta,
    pieces,
)


def found(*names: str) -> list[tuple[str, str | None, list[int], bool]]:
    return [(q.topic, q.channel, q.numbers, q.has_meta) for q in find_queues(names)]


def test_files_are_put_together_by_their_names() -> None:
    names = (
        "t.diskqueue.000010.dat",
        "t.diskqueue.000009.dat",
        "t.diskqueue.meta.dat",
        "t:c.diskqueue.000000.dat",
        "w;d.diskqueue.meta.dat",
        "big.diskqueue.1234567.dat",
    )
    assert found(*names) == [
        ("big", None, [1234567], False),
        ("t", None, [9, 10], True),
        ("t", "c", [0], False),
        ("w", "d", [], True),
    ]
    for files in find_queues(names):
        assert set(files.names()) <= set(names)


@pytest.mark.parametrize(
    ("topic", "channel"), [("a.b", "c.d"), (".", ".."), ("x.diskqueue.000001.dat", "meta")]
)
def test_names_may_hold_dots_and_look_like_files(topic: str, channel: str) -> None:
    name = f"{topic}:{channel}.diskqueue.000002.dat"
    assert found(name) == [(topic, channel, [2], False)]


@pytest.mark.parametrize(
    "name",
    [
        "nsqd.dat",
        "t.diskqueue.000000.dat.bad",
        "t.diskqueue.meta.dat.1234.tmp",
        "t.diskqueue.00000.dat",
        "t.diskqueue.0000001.dat",
        "t b.diskqueue.000000.dat",
        "t:.diskqueue.000000.dat",
        "t:c:d.diskqueue.000000.dat",
        "t\n.diskqueue.meta.dat",
        "x" * 65 + ".diskqueue.meta.dat",
        "t#ephemeral:c.diskqueue.000000.dat",
        "topics",
    ],
)
def test_other_files_are_passed_over(name: str) -> None:
    assert found(name) == []


def test_a_meta_file() -> None:
    assert parse_meta(b"2\n0,0\n0,64\n") == Meta(2, 0, 0, 0, 64)
    assert parse_meta(b"-3\n1,2\n10,20\n") == Meta(-3, 1, 2, 10, 20)


@pytest.mark.parametrize(
    "data", [b"", b"2\n0,0\n", b"x\n0,0\n0,0\n", b"2\n0,-1\n0,0\n", b"1\n5,0\n4,0\n", b"\0" * 12]
)
def test_what_is_no_meta_file(data: bytes) -> None:
    assert parse_meta(data) is None


def files(*numbers: int) -> QueueFiles:
    return QueueFiles("t", None, "t", list(numbers), has_meta=True)


def test_all_behind_the_read_position_is_read() -> None:
    meta = Meta(9, 3, 40, 5, 10)
    assert pieces(files(2, 3, 4, 5, 6), meta) == [Piece(3, 40), Piece(4, 0), Piece(5, 0),
                                                  Piece(6, 0)]  # fmt: skip
    assert pieces(files(0, 7), None) == [Piece(0, 0), Piece(7, 0)]


@pytest.mark.parametrize(
    ("numbers", "meta", "gone"),
    [
        ((0, 1), Meta(1, 0, 0, 1, 5), []),
        ((), Meta(0, 4, 0, 4, 0), []),
        ((), Meta(0, 4, 70, 4, 70), []),
        ((3, 7), Meta(9, 1, 0, 8, 5), [(1, 2), (4, 6), (8, 8)]),
        ((3,), Meta(9, 3, 0, 4, 0), []),
        ((0, 2), None, [(1, 1)]),
        ((1, 5), Meta(0, 5, 3, 5, 9), []),
        ((), Meta(1, 0, 0, 10**18, 5), [(0, 10**18)]),
        ((), None, []),
    ],
)
def test_files_that_are_missing(
    numbers: tuple[int, ...], meta: Meta | None, gone: list[tuple[int, int]]
) -> None:
    assert missing(files(*numbers), meta) == gone
