"""Names of an archive's files, and the ranges that they say are there."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.archive.names import FileName, Holdings

LOG = "0a61b2c3d4e5f607"
NAME = FileName("events", "10.0.0.5:4151", 0, LOG, 0, 250_000, ".parquet")


def name(first: int, last: int, log: str = LOG) -> FileName:
    return NAME._replace(log=log, first=first, last=last)


def test_a_name_says_whose_messages_a_file_has() -> None:
    text = (
        "events@10.0.0.5_4151.0.0a61b2c3d4e5f607.00000000000000000000-00000000000000250000.parquet"
    )
    assert str(NAME) == text
    assert FileName.read(text) == NAME._replace(node="10.0.0.5_4151")
    restored = NAME._replace(
        topic="a.b_c#ephemeral", log=f"{LOG}-5dc.9f3a77c1~7.1", ending=".txt.gz"
    )
    assert FileName.read(str(restored)) == restored._replace(node="10.0.0.5_4151")
    # They sort as their messages do.
    assert str(name(9, 10)) < str(name(10, 11)) < str(name(100, 101))
    assert len(str(NAME._replace(topic="t" * 64, node="h" * 300))) < 255
    assert "/" not in str(NAME._replace(node="[::1]/x:4151"))


@pytest.mark.parametrize("topic", [".events", "_events", "..", "%RETRY%_g"])
def test_no_reader_passes_over_a_name(topic: str) -> None:
    hidden = NAME._replace(topic=topic)
    assert str(hidden)[0] in "~%"
    assert FileName.read(str(hidden)) == hidden._replace(node="10.0.0.5_4151")


@pytest.mark.parametrize(
    "other", ["part-00000-1f.snappy.parquet", "compacted-1.parquet", "", "a@b"]
)
def test_other_files_have_no_such_name(other: str) -> None:
    assert FileName.read(other) is None


RANGES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 10)).map(lambda each: (each[0], sum(each))),
    max_size=8,
)


@given(RANGES, st.integers(0, 50), st.integers(0, 20))
def test_what_is_missing_and_what_is_there_make_the_range(
    ranges: list[tuple[int, int]], first: int, count: int
) -> None:
    holdings = Holdings(name(*each) for each in ranges)
    held = {offset for lower, upper in ranges for offset in range(lower, upper)}
    missing = holdings.missing(LOG, first, first + count)
    found = [offset for lower, upper in missing for offset in range(lower, upper)]
    assert found == sorted({*range(first, first + count)} - held)
    # As few parts as can be: none touches the next.
    assert all(one[1] < other[0] for one, other in pairwise(missing))
    behind = holdings.behind(LOG, first)
    assert {*range(first, behind)} <= held
    assert behind not in held


def test_logs_have_nothing_in_common_but_what_their_lives_share() -> None:
    restored = f"{LOG}-64.9f3a77c1"  # goes on at offset 100
    holdings = Holdings([name(0, 150), name(120, 130, restored)])
    assert holdings.missing("00000000000000aa", 0, 10) == [(0, 10)]
    assert holdings.missing(LOG, 0, 200) == [(150, 200)]
    assert holdings.missing(restored, 0, 200) == [(100, 120), (130, 200)]
    assert holdings.behind(restored, 0) == 100


def test_neighbours_are_of_one_log_and_one_format() -> None:
    assert name(0, 5).goes_on_in(name(5, 9))
    for other in (name(6, 9), name(5, 9, "00000000000000aa"), name(5, 9)._replace(ending=".txt")):
        assert not name(0, 5).goes_on_in(other)
