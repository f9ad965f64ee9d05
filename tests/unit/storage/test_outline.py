"""Where the batches of a block start."""

from __future__ import annotations

from penstock.storage.outline import Outline
from tools.harness.small_logs import make


def test_it_tells_where_the_batch_of_an_offset_is() -> None:
    batches = [make(1000, b"a"), make(1001, b"bb", b"c"), make(1003, b"dddd")]
    raw = b"".join(batch.raw for batch in batches)
    outline = Outline(raw, 1000)
    assert len(outline) == 3
    for batch in batches:
        for offset in range(batch.first_offset, batch.next_offset):
            start, end = outline.span(offset)
            assert raw[start:end] == batch.raw


def test_a_gap_leads_to_the_batch_before_it() -> None:
    raw = bytes(make(10, b"a").raw) + bytes(make(20, b"b").raw)
    outline = Outline(raw, 10)
    assert outline.span(15) == outline.span(10)
    assert outline.span(9) == (0, 0)


def test_it_ends_where_headers_make_no_sense() -> None:
    first, second = bytes(make(0, b"a").raw), bytes(make(1, b"b").raw)
    for bad in (b"", second[:40], b"junk" + second[4:], second[:4] + bytes(4) + second[8:], first):
        outline = Outline(first + bad, 0)
        assert len(outline) == 1
        assert outline.span(0) == (0, len(first))
    assert len(Outline(b"", 0)) == 0
    assert Outline(b"", 0).span(3) == (0, 0)


def test_an_offset_too_far_from_the_first_is_left_out() -> None:
    raw = bytes(make(0, b"a").raw) + bytes(make(1 << 33, b"b").raw)
    assert len(Outline(raw, 0)) == 1


def test_the_bytes_are_kept_until_they_are_let_go() -> None:
    raw = b"".join(make(n, b"a").raw for n in range(10))
    outline = Outline(raw, 0)
    assert outline.raw == raw
    with_bytes = outline.nbytes
    outline.let_go()
    assert outline.raw is None
    assert outline.nbytes == with_bytes - len(raw)
    assert outline.span(9) == (len(raw) // 10 * 9, len(raw))


def test_without_them_it_costs_eight_bytes_a_batch() -> None:
    few, many = (
        Outline(b"".join(make(n, b"a").raw for n in range(count)), 0) for count in (10, 110)
    )
    few.let_go()
    many.let_go()
    assert many.nbytes - few.nbytes == 800
