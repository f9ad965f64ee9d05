"""The ledger counts what was lost, invented and delivered twice."""

from __future__ import annotations

import pytest

from penstock.testing.ledger import Ledger, make_body, read_body


@pytest.mark.parametrize("size", [16, 17, 24, 100, 1000])
@pytest.mark.parametrize("number", [0, 1, 2**40])
def test_body_tells_its_number(number: int, size: int) -> None:
    body = make_body(number, size)
    assert len(body) == size
    assert read_body(body) == number


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"0" * 15,
        b"000000000000000G",
        make_body(5, 40)[:-1] + b"?",
        make_body(5)[:16] + make_body(6, 40)[16:],
    ],
)
def test_damaged_bodies_have_no_number(body: bytes) -> None:
    assert read_body(body) is None


def test_nothing_lost_when_all_acknowledged_are_seen() -> None:
    ledger = Ledger()
    first = ledger.attempt(3)
    ledger.acknowledge(first)
    for number in first:
        assert ledger.see(make_body(number, 50))
    report = ledger.report()
    assert (report.attempted, report.acknowledged, report.seen) == (3, 3, 3)
    assert (report.lost, report.invented, report.duplicates) == (0, 0, 0)


def test_lost_are_the_acknowledged_ones_never_seen() -> None:
    ledger = Ledger()
    ledger.acknowledge(ledger.attempt(4))
    ledger.attempt(2)
    ledger.see(make_body(1))
    assert ledger.outstanding() == 3
    assert ledger.lost() == [0, 2, 3]
    assert ledger.lost(limit=1) == [0]


def test_seen_without_acknowledgement_is_legal() -> None:
    ledger = Ledger()
    ledger.attempt()
    assert ledger.see(make_body(0))
    report = ledger.report()
    assert (report.unacknowledged_seen, report.lost, report.invented) == (1, 0, 0)


def test_duplicates_are_counted_beyond_the_range_of_a_byte() -> None:
    ledger = Ledger()
    ledger.acknowledge(ledger.attempt())
    for _ in range(301):
        ledger.see(make_body(0))
    assert ledger.report().duplicates == 300


def test_invented_are_bodies_nobody_sent() -> None:
    ledger = Ledger()
    ledger.attempt(2)
    assert not ledger.see(make_body(2))
    assert not ledger.see(b"garbage")
    report = ledger.report()
    assert (report.invented, report.duplicates) == (2, 0)


def test_grows_to_any_number() -> None:
    ledger = Ledger()
    numbers = ledger.attempt(5000)
    ledger.acknowledge([numbers[0], numbers[-1]])
    ledger.see(make_body(numbers[-1]))
    assert ledger.lost() == [0]


@pytest.mark.parametrize("numbers", [range(0, 2), [1], range(-1, 1)])
def test_acknowledging_what_was_not_attempted_is_refused(numbers: list[int]) -> None:
    ledger = Ledger()
    ledger.attempt()
    with pytest.raises(ValueError, match="never attempted"):
        ledger.acknowledge(numbers)


def test_report_reads_as_a_sentence() -> None:
    ledger = Ledger()
    ledger.acknowledge(ledger.attempt(2))
    assert "acknowledged 2, seen 0, lost 2" in str(ledger.report())
